"""MultiLabelLoss against PyTorch's binary cross-entropy, and against a loss of two classes, one answer at a time."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mgce import ForwardCorrection, GCELoss, LinearMGCELoss, MGCELoss, MultiLabelLoss, TrimmedLoss, robust_loss
from mgce.functional import mgce_loss
from mgce.losses import MinimaxLink
from mgce.losses.protocol import both_probs, link_of, with_reduction
from mgce_lab.losses import LogitClip

CE = nn.CrossEntropyLoss
SHAPES = [(), (6,), (6, 1), (6, 4), (2, 3, 5, 5)]


def answers(shape):
    return torch.randn(shape, dtype=torch.float64), (torch.rand(shape) < 0.4).long()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", SHAPES)
def test_around_cross_entropy_it_is_binary_cross_entropy(shape, reduction):
    logits, target = answers(shape)
    probable = torch.rand(shape, dtype=torch.float64)
    criterion = MultiLabelLoss(CE(reduction=reduction))
    for given in (target, target.bool(), target.byte(), target.double(), probable):
        leaf = (30 * logits).requires_grad_()
        value = criterion(leaf, given)
        want = F.binary_cross_entropy_with_logits(leaf, given.double(), reduction=reduction)
        torch.testing.assert_close(value, want)
        gradients = [torch.autograd.grad(loss.sum(), leaf)[0] for loss in (value, want)]
        torch.testing.assert_close(*gradients)
    torch.testing.assert_close(criterion.link(logits), logits.sigmoid())


def test_class_weights_are_those_of_no_and_yes():
    logits, target = answers((6, 4))
    criterion = MultiLabelLoss(CE(weight=torch.tensor([1.0, 3.0], dtype=torch.float64), reduction="sum"))
    for given in (target, target.double()):
        want = F.binary_cross_entropy_with_logits(
            logits, target.double(), pos_weight=torch.tensor(3.0), reduction="sum"
        )
        torch.testing.assert_close(criterion(logits, given), want)


@pytest.mark.parametrize("beta", [1.0, 1.4, 3.0, math.inf])
def test_mgce_is_that_of_each_answer_alone(beta):
    logits, target = answers((6, 4))
    criterion = MultiLabelLoss(MGCELoss(beta=beta, reduction="none"))
    each = criterion(logits, target)
    h, p = both_probs(criterion, logits)
    for place in ((0, 0), (3, 2), (5, 3)):
        two = torch.stack([torch.zeros((), dtype=torch.float64), logits[place]])
        torch.testing.assert_close(each[place], mgce_loss(two, target[place], beta=beta))
        torch.testing.assert_close(h[place], MinimaxLink(beta)(two)[1])
        torch.testing.assert_close(p[place], MinimaxLink(beta, output="worst_case")(two)[1])
    torch.testing.assert_close(link_of(criterion)(logits), h)
    if beta == 1:  # sparsemax of two classes
        torch.testing.assert_close(h, ((1 + logits) / 2).clamp(0, 1))


def test_labels_do_not_compete_as_they_would_without_it():
    """A row with all labels, each sure: no loss, where class probabilities would ask for equal logits."""
    logits, target = torch.full((1, 4), 9.0), torch.ones(1, 4)
    assert MultiLabelLoss(MGCELoss())(logits, target) == 0
    with pytest.warns(UserWarning, match="wrap the loss: `mgce.MultiLabelLoss"):
        assert MGCELoss()(logits, target) > 1


def test_answers_that_are_not_known_are_left_out():
    logits, target = answers((6, 4))
    target[1:3, 2:] = -100
    known = target >= 0
    leaf = logits.clone().requires_grad_()
    value = MultiLabelLoss(MGCELoss())(leaf, target)
    torch.testing.assert_close(value, MultiLabelLoss(MGCELoss())(logits[known], target[known]))
    assert (torch.autograd.grad(value, leaf)[0][~known] == 0).all()


@pytest.mark.parametrize(
    "loss",
    [
        GCELoss(reduction="none"),
        robust_loss("sce", reduction="none"),
        LogitClip(MGCELoss(reduction="none")),
        ForwardCorrection(MGCELoss(reduction="none"), torch.tensor([[0.9, 0.1], [0.3, 0.7]])),
        TrimmedLoss(MGCELoss(reduction="none"), 0.4, 2, reduction="none"),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_any_loss_of_two_classes_works(loss):
    logits, target = answers((6, 4))
    logits = logits.float()
    two = torch.stack([torch.zeros_like(logits), logits], 1)
    criterion = MultiLabelLoss(loss).eval()
    torch.testing.assert_close(criterion(logits, target), loss(two, target))
    torch.testing.assert_close(criterion.link(logits), link_of(loss)(two)[:, 1])
    assert with_reduction(criterion, "mean")(logits, target).shape == ()


def test_transforms_half_types_and_compilation():
    logits, target = answers((6, 4))
    criterion = MultiLabelLoss(MGCELoss())
    rows = torch.vmap(criterion)(logits, target)
    torch.testing.assert_close(rows.mean(), criterion(logits, target))
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, target), criterion(logits, target))
    assert criterion(logits.bfloat16(), target).dtype == torch.bfloat16
    assert torch.autograd.gradcheck(lambda z: criterion(z, target), (0.3 * logits).requires_grad_())


def test_bad_input():
    criterion, logits = MultiLabelLoss(MGCELoss()), torch.zeros(6, 1)
    with pytest.raises(
        ValueError, match=r"Expected `target` to be of shape \(6, 1\), one answer for each logit of `inp"
    ):
        criterion(logits, torch.zeros(6))
    with pytest.raises(IndexError, match=r"Expected `target` to be class indices in \[0, 2\)"):
        criterion(logits, torch.full((6, 1), 2))
    with pytest.raises(RuntimeError, match="Expected `input` to be a floating-point tensor"):
        criterion(logits.long(), logits)
    with pytest.raises(TypeError, match="Expected `target` to be a torch.Tensor"):
        criterion(logits, [0.0] * 6)
    with pytest.raises(
        TypeError, match="Expected `target` to be 0 or 1, or probabilities of 1, but got torch.complex64"
    ):
        criterion(logits, logits.cfloat())
    with pytest.raises(ValueError, match="Expected `loss` to be without `dim`"):
        MultiLabelLoss(LogitClip(MGCELoss(dim=-1)))
    with pytest.raises(TypeError, match="without a linear head"):
        MultiLabelLoss(LinearMGCELoss(3, 2))
    with pytest.raises(AttributeError, match="Expected `reduction` to be set on the losses inside MultiLabelLoss"):
        criterion.reduction = "sum"


MANY = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: MGCELoss()(torch.zeros(2, 3), MANY),
        lambda: GCELoss()(torch.zeros(2, 3), torch.zeros(2, 3)),
        lambda: MGCELoss(dim=0)(torch.zeros(3, 2), MANY.T),
        lambda: robust_loss("nce+agce")(torch.zeros(2, 3, 4), MANY[:, :, None].expand(2, 3, 4)),
        lambda: MGCELoss()(torch.zeros(3), torch.tensor([1.0, 0.0, 1.0])),  # as for binary cross-entropy
        lambda: LinearMGCELoss(5, 3)(torch.zeros(2, 5), MANY),
    ],
)
def test_zeros_and_ones_that_do_not_sum_to_one_are_warned_of(call):
    with pytest.warns(
        UserWarning, match=r"`target` is all zeros and ones, .* wrap the loss: `mgce.MultiLabelLoss\(loss\)`"
    ):
        call()


@pytest.mark.parametrize(
    "target",
    [
        torch.eye(3)[:2],
        torch.eye(3)[:2].bfloat16(),
        torch.tensor([[0.3, 0.3, 0.4], [1.0, 1.0, 0.0]]),  # not of zeros and ones alone
        torch.rand(2, 3),
        torch.zeros(0, 3),
    ],
)
def test_other_probabilities_are_not(target):
    MGCELoss()(torch.zeros(target.shape), target)  # a warning is an error in these tests


def test_where_values_cannot_be_read_there_is_no_warning():
    logits = torch.zeros(2, 3)
    torch.vmap(MGCELoss())(logits, MANY)
    torch.compile(GCELoss(), backend="eager", fullgraph=True)(logits, MANY)
    GCELoss()(logits.to("meta"), MANY.to("meta"))
