import math

import mpmath
import pytest
import torch

from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce.functional import alpha_loss, mgce_loss, minimax_probs
from mgce_lab.losses import CappedMGCELoss, capped_mgce_loss
from oracle import probabilities

LOGITS = 3 * torch.randn(9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TARGET = torch.arange(9) % 5


class TestCappedMGCE(RobustLossContract):
    most = 2.0

    @staticmethod
    def loss(input, target, **keywords):
        return capped_mgce_loss(input, target, **keywords, beta=2.0)

    @staticmethod
    def formula(logits, y):
        h, _ = probabilities(logits, 2)
        return 2 * (1 - h[y] ** (1 / 2))


class TestCappedAtBetaOne(RobustLossContract):
    symmetric = True
    most = 1.0

    @staticmethod
    def loss(input, target, **keywords):
        return capped_mgce_loss(input, target, **keywords, beta=1.0)

    @staticmethod
    def formula(logits, y):
        h, _ = probabilities(logits, 1)
        return 1 - h[y]


class TestTruncatedMGCE(RobustLossContract):
    most = 2.0 * (1 - math.sqrt(0.1))

    @staticmethod
    def loss(input, target, **keywords):
        return capped_mgce_loss(input, target, **keywords, beta=2.0, threshold=0.1)

    @staticmethod
    def formula(logits, y):
        h, _ = probabilities(logits, 2)
        return 2 * (1 - max(h[y], mpmath.mpf("0.1")) ** (1 / mpmath.mpf(2)))


class TestTruncatedCrossEntropy(RobustLossContract):
    most = -math.log(0.1)

    @staticmethod
    def loss(input, target, **keywords):
        return capped_mgce_loss(input, target, **keywords, beta=math.inf, threshold=0.1)

    @staticmethod
    def formula(logits, y):
        return -mpmath.log(max(softmax(logits)[y], mpmath.mpf("0.1")))


@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 11.0, math.inf])
def test_only_rows_whose_label_has_the_majority_of_h_count_at_a_half(beta):
    f = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(capped_mgce_loss(f, TARGET, reduction="sum", beta=beta, threshold=0.5), f)
    majority = minimax_probs(LOGITS, beta=beta)[torch.arange(9), TARGET] > 0.5
    assert majority.any() and not majority.all()
    (free,) = torch.autograd.grad(mgce_loss(f, TARGET, reduction="sum", beta=beta), f)
    torch.testing.assert_close(gradient, torch.where(majority[:, None], free, 0))


def test_a_threshold_is_a_probability():
    assert capped_mgce_loss(LOGITS, TARGET, threshold=1.0) == 0
    with pytest.raises(ValueError, match=r"Expected `threshold` to be a finite number in \[0, 1\], but got 1.5"):
        CappedMGCELoss(threshold=1.5)


def test_it_is_the_alpha_loss_of_h_and_cross_entropy_at_infinity():
    for beta in (1.0, 1.05, 1.4, 11.0):
        value = capped_mgce_loss(LOGITS, TARGET, beta=beta)
        torch.testing.assert_close(value, alpha_loss(minimax_probs(LOGITS, beta=beta), TARGET, beta=beta))
    torch.testing.assert_close(
        capped_mgce_loss(LOGITS, TARGET, beta=math.inf), torch.nn.functional.cross_entropy(LOGITS, TARGET)
    )


def test_gradient_is_that_of_mgce_or_none():
    f = LOGITS.clone().requires_grad_()
    (capped,) = torch.autograd.grad(capped_mgce_loss(f, TARGET, reduction="sum", beta=1.4), f)
    rows = mgce_loss(f, TARGET, reduction="none", beta=1.4)
    (free,) = torch.autograd.grad(rows.sum(), f)
    below = rows.detach() < 1.4
    assert below.any() and not below.all()
    torch.testing.assert_close(capped, torch.where(below[:, None], free, 0))


def test_module_has_the_link_of_mgce():
    criterion = CappedMGCELoss(beta=1.05)
    torch.testing.assert_close(criterion.link(LOGITS), minimax_probs(LOGITS, beta=1.05))
    assert criterion(LOGITS, TARGET) <= 1.05


def test_one_beta_for_all_rows():
    for beta in (torch.tensor([1.4, 2.0]), torch.nn.Parameter(torch.tensor(1.4))):  # its cap would not be learnt
        with pytest.raises(TypeError, match=r"Expected `beta` to be one number for all rows, but got .* shape \("):
            CappedMGCELoss(beta=beta)


@pytest.mark.parametrize("beta", [1e39, 1e300, 10**400])
def test_a_beta_beyond_the_type_is_infinite(beta):
    torch.testing.assert_close(
        capped_mgce_loss(LOGITS.float(), TARGET, beta=beta), torch.nn.functional.cross_entropy(LOGITS.float(), TARGET)
    )
