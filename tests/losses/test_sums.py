import math

import mpmath
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce import ForwardCorrection, GCELoss, MGCELoss
from mgce.functional import nce_loss, rce_loss
from mgce.losses import LogitScale, NCELoss, RCELoss, SumLoss
from mgce.noise import symmetric

CE = nn.CrossEntropyLoss
LOGITS, TARGET = torch.randn(9, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), torch.arange(9) % K


class TestSumOfNCEAndRCE(RobustLossContract):
    most = 1 + 10 * -math.log(1e-4)
    symmetric = True

    @staticmethod
    def loss(input, target, **keywords):
        return SumLoss([NCELoss(**keywords), RCELoss(**keywords)], [1.0, 10.0])(input, target)

    @staticmethod
    def formula(logits, y):
        p = softmax(logits)
        return mpmath.log(p[y]) / sum(mpmath.log(u) for u in p) - 10 * mpmath.log(1e-4) * (1 - p[y])


class Poly1(RobustLossContract):
    @classmethod
    def loss(cls, input, target, **keywords):
        parts = [GCELoss(**keywords, beta=math.inf), GCELoss(**keywords, beta=1.0)]
        return SumLoss(parts, [1.0, cls.epsilon])(input, target)

    @classmethod
    def formula(cls, logits, y):
        p = softmax(logits)[y]
        return -mpmath.log(p) + cls.epsilon * (1 - p)


class TestPoly1(Poly1):
    named = "poly-1"
    epsilon = 1.0


class TestPoly1Negative(Poly1):
    epsilon = -1.0
    convex = True


class TestPoly1Large(Poly1):
    epsilon = 4.0


def test_sums():
    value = SumLoss([NCELoss(reduction="none"), RCELoss(reduction="none")], [2.0, 3.0])(LOGITS, TARGET)
    want = 2 * nce_loss(LOGITS, TARGET, reduction="none") + 3 * rce_loss(LOGITS, TARGET, reduction="none")
    torch.testing.assert_close(value, want)
    # 0 * inf would be NaN: a loss of weight 0 is not there.
    masked = torch.tensor([[0.0, -math.inf, 1.0]])
    assert SumLoss([CE(), RCELoss()], [0.0, 1.0])(masked, torch.tensor([1])).isfinite()
    assert "weights=(2.0, 3.0)" in repr(SumLoss([NCELoss(), CE()], (2.0, 3.0)))


def test_the_link_of_a_sum_is_that_of_a_loss_that_counts():
    criterion = SumLoss([MGCELoss(), NCELoss()], [0, 1])
    torch.testing.assert_close(criterion.link(LOGITS), LOGITS.softmax(-1))
    got = ForwardCorrection(criterion, symmetric(K, 0.2))(LOGITS, TARGET)
    torch.testing.assert_close(got, ForwardCorrection(NCELoss(), symmetric(K, 0.2))(LOGITS, TARGET))


class Focal(nn.Module):
    """A loss as users write them: another inside, class weights of its own, a reduction that is nobody's business."""

    def __init__(self, weight=None):
        super().__init__()
        self.ce = CE(reduction="none")
        self.register_buffer("class_weight", weight)

    def forward(self, input, target):
        losses = F.cross_entropy(input, target, self.class_weight, reduction="none")
        return ((1 - (-self.ce(input, target)).exp()) * losses).mean()


def test_losses_of_users_are_losses():
    criterion = SumLoss([Focal(), MGCELoss()], [1, 1])
    torch.testing.assert_close(criterion(LOGITS, TARGET), Focal()(LOGITS, TARGET) + MGCELoss()(LOGITS, TARGET))
    SumLoss([CE(reduction="none"), NCELoss()], [0, 1])(LOGITS, TARGET)  # what is not computed may differ
    own = Focal()
    own.reduction, own.ignore_index, own.dim = None, None, torch.zeros(2)  # names that mean something else there
    SumLoss([own, NCELoss()], [1, 1])(LOGITS, TARGET)
    half = LOGITS.half()
    for loss in (Focal(), Focal(torch.ones(K).half())):
        torch.testing.assert_close(LogitScale(loss, 2.0)(half, TARGET), loss(2 * half, TARGET), rtol=2e-3, atol=0)


def test_mappings_and_sets_are_no_sequences():
    """Keys would be taken for weights, or weights in an order of chance."""
    with pytest.raises(TypeError, match="Expected `weights` to be a sequence, but got"):
        SumLoss([NCELoss(), CE()], {1.0: 2.0, 3.0: 4.0})
    with pytest.raises(TypeError, match="Expected `weights` to be a sequence, but got"):
        SumLoss([NCELoss(), CE()], {2.0, 1.0})


def test_weights_that_are_all_0_are_refused():
    with pytest.raises(ValueError, match="Expected `weights` to be not all 0, but got"):
        SumLoss([RCELoss(), NCELoss()], [0.0, 0])
