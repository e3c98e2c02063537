import math

import mpmath
import pytest
import torch
from torch.nn import functional as F

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce.functional import gce_loss
from mgce_lab.losses import (
    EpsilonSoftmaxLoss,
    FocalLoss,
    TaylorCELoss,
    epsilon_softmax_loss,
    focal_loss,
    taylor_ce_loss,
)


class Focal(RobustLossContract):
    @classmethod
    def loss(cls, input, target, **keywords):
        return focal_loss(input, target, gamma=cls.gamma, **keywords)

    @classmethod
    def formula(cls, logits, y):
        p = softmax(logits)[y]
        return -((1 - p) ** cls.gamma) * mpmath.log(p)


class TestFocal(Focal):
    named = "focal"
    gamma = 0.5


class TestFocalOfItsAuthors(Focal):
    gamma = 2.0


class TestFocalAtZero(Focal):
    gamma = 0.0
    convex = True


class TestTaylorCE(RobustLossContract):
    most = 1 + 1 / 2 + 1 / 3

    @staticmethod
    def loss(input, target, **keywords):
        return taylor_ce_loss(input, target, order=3, **keywords)

    @staticmethod
    def formula(logits, y):
        p = softmax(logits)[y]
        return sum((1 - p) ** i / i for i in (1, 2, 3))


class TestEpsilonSoftmax(RobustLossContract):
    named = "ce_eps"
    most = -math.log(1e-8)
    loss = staticmethod(epsilon_softmax_loss)

    @staticmethod
    def formula(logits, y):
        m = mpmath.mpf(1e5)
        return -mpmath.log(max((softmax(logits)[y] + m * (logits[y] == max(logits))) / (m + 1), mpmath.mpf(1e-8)))


def test_the_ends_of_the_families():
    logits, target = torch.randn(9, K, dtype=torch.float64), torch.randint(K, (9,))
    ce, mae = F.cross_entropy(logits, target), gce_loss(logits, target, beta=1.0)
    torch.testing.assert_close(focal_loss(logits, target, gamma=0), ce)
    torch.testing.assert_close(taylor_ce_loss(logits, target, order=1), mae)
    torch.testing.assert_close(taylor_ce_loss(logits, target, order=2000), ce)
    torch.testing.assert_close(epsilon_softmax_loss(logits, target, m=0), ce)


def test_focal_is_smooth_where_its_factor_is_not():
    """(1 - p)^.5 has an infinite derivative at p = 1; the loss has derivative 0 there, as its formula nearby shows."""
    logits = torch.tensor([[40.0, 0.0]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(focal_loss(logits, torch.tensor([0]), gamma=0.5), logits)
    near = torch.tensor([[20.0, 0.0]], dtype=torch.float64, requires_grad=True)
    (other,) = torch.autograd.grad(focal_loss(near, torch.tensor([0]), gamma=0.5), near)
    assert (gradient == 0).all()
    assert abs(other[0, 0].item() + 1.5 * math.exp(-30)) < 1e-6 * math.exp(-30)


def test_of_leading_classes_that_tie_one_leads():
    each = epsilon_softmax_loss(torch.zeros(3, 3), torch.arange(3), m=9.0, reduction="none")
    assert sorted((-each).exp().tolist()) == pytest.approx([1 / 30, 1 / 30, 28 / 30])


def test_the_leading_class_is_that_of_the_logits():
    """However small its lead, of which the logarithms of softmax keep nothing."""
    each = epsilon_softmax_loss(torch.tensor([[0.0, 1e-8, -1.0]]), torch.tensor([1]))
    assert each == pytest.approx(epsilon_softmax_loss(torch.tensor([[0.0, 1e-8, -1.0]]).double(), torch.tensor([1])))
    logits = 1e-3 * torch.randn(1000, 1000, generator=torch.Generator().manual_seed(0))
    assert (epsilon_softmax_loss(logits, logits.argmax(1), reduction="none") < 1).all()


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: FocalLoss(gamma=-1), ValueError, "Expected `gamma`"),
        (lambda: TaylorCELoss(order=0), ValueError, "Expected `order` to be an integer of at least 1, but got 0."),
        (lambda: TaylorCELoss(order=1.5), TypeError, "Expected `order`"),
        (lambda: EpsilonSoftmaxLoss(m=-1), ValueError, "Expected `m`"),
        (lambda: EpsilonSoftmaxLoss(floor=0), ValueError, "Expected `floor`"),
        (lambda: FocalLoss(reduction="avg"), ValueError, "Expected `reduction`"),
        (lambda: FocalLoss(label_smoothing=2), RuntimeError, "Expected `label_smoothing`"),
    ],
)
def test_bad_hyperparameters(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_what_is_no_hyperparameter_is_named():
    with pytest.raises(TypeError, match="FocalLoss.* got an unexpected keyword argument 'alpha'"):
        FocalLoss(alpha=0.5)
    with pytest.raises(ValueError, match="Expected `order` to be at most 10000, but got 10001"):
        TaylorCELoss(order=10001)
