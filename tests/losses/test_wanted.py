"""Against class indices a loss computes with the label's score alone: the numbers are those of all classes' scores."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from contracts.robust_loss_contract import told
from grids import pairs
from mgce_lab.losses import LOSSES, robust_loss

K = 200  # classes beyond 127 and the 156 that -100 is in uint8
UNTRIMMED = [name for name, loss in LOSSES.items() if "trim" not in loss.told]


def make(name, **keywords):
    return robust_loss(name, **told(name, K, rate=0.4), **keywords)


def value_and_gradient(loss, logits, target):
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, target)
    return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]


@pytest.mark.parametrize("name", UNTRIMMED)
def test_every_class_of_uint8_targets_counts(name):
    logits, target = 3 * torch.randn(4, K, dtype=torch.float64), torch.tensor([156, 3, 199, 0])
    of_bytes = value_and_gradient(make(name), logits, target.byte())
    torch.testing.assert_close(of_bytes, value_and_gradient(make(name), logits, target))


@pairs("name, weighted, reduction", list(UNTRIMMED), [False, True], ["none", "mean", "sum"])
def test_labels_have_the_loss_and_gradient_of_one_hot_targets(name, weighted, reduction):
    """Images, some pixels ignored, against the same by class probabilities, where all classes have their score."""
    logits = 3 * torch.randn(2, K, 2, 3, dtype=torch.float64)
    target = torch.randint(K, (2, 2, 3))
    target[0, 0, 0] = target[1, 1, 2] = 7
    weight = torch.rand(K, dtype=torch.float64) if weighted else None
    value, gradient = value_and_gradient(make(name, weight=weight, ignore_index=7, reduction=reduction), logits, target)
    each, of_each = value_and_gradient(
        make(name, weight=weight, reduction="none"), logits, F.one_hot(target, K).movedim(-1, 1).double()
    )
    kept = target != 7
    count = (kept if weight is None else weight[target] * kept).sum() if reduction == "mean" else 1
    want = each * kept if reduction == "none" else (each * kept).sum() / count
    torch.testing.assert_close(value, want)
    torch.testing.assert_close(gradient, of_each * kept[:, None] / count)


@pytest.mark.parametrize("name", UNTRIMMED)
def test_a_row_that_is_ignored_may_hold_nan(name):
    logits, target = torch.randn(4, K), torch.tensor([156, -100, 3, 0])
    removed = make(name)(logits[target >= 0], target[target >= 0])
    logits[1] = torch.nan
    torch.testing.assert_close(make(name)(logits, target), removed)


@pytest.mark.parametrize("name", LOSSES)
def test_the_target_of_one_row_may_have_a_dimension(name):
    row = torch.randn(K)
    for reduction, label in itertools.product(("none", "mean", "sum"), (3, -100)):
        got = make(name, reduction=reduction)(row, torch.tensor([label]))
        assert got.shape == F.cross_entropy(row, torch.tensor([label]), reduction=reduction).shape == ()
        torch.testing.assert_close(got, make(name, reduction=reduction)(row, torch.tensor(label)), equal_nan=True)
