import math

import mpmath
import pytest
import torch

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce.functional import nce_loss
from mgce_lab.losses import AMSELoss, NNCELoss, amse_loss, nnce_loss


class TestNNCE(RobustLossContract):
    most = 1.0
    symmetric = True
    loss = staticmethod(nnce_loss)

    @staticmethod
    def formula(logits, y):
        floor = mpmath.mpf(1e-7)
        lifted = [mpmath.log(max(p, floor)) - mpmath.log(floor) for p in softmax(logits)]
        return 1 - lifted[y] / mpmath.fsum(lifted)


class AMSE(RobustLossContract):
    @classmethod
    def loss(cls, input, target, **keywords):
        return amse_loss(input, target, c=cls.c, **keywords)

    @classmethod
    def formula(cls, logits, y):
        return sum((p - cls.c * (j == y)) ** 2 for j, p in enumerate(softmax(logits))) / K


class TestAMSE(AMSE):
    c = 30.0
    least, most = 29.0**2 / K, (30.0**2 + 1) / K


class TestMeanSquareError(AMSE):
    c = 1.0
    most = 2 / K


def test_a_masked_label_has_the_loss_that_it_tends_to():
    far = torch.tensor([0.5, -1e9, 2.0], dtype=torch.float64)
    masked = torch.tensor([0.5, -math.inf, 2.0], dtype=torch.float64)
    for loss in (nce_loss, nnce_loss):
        assert loss(masked, torch.tensor(1)) == 1
        torch.testing.assert_close(loss(far, torch.tensor(1)), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize("floor", [0, 1.0, -1e-7])
def test_bad_hyperparameters(floor):
    with pytest.raises(ValueError, match=r"Expected `floor` to be a finite number in \(0, 0.5\]"):
        NNCELoss(floor=floor)


def test_a_floor_that_all_classes_may_be_below_is_refused():
    with pytest.raises(ValueError, match="Expected `floor` to be below 1 / 4, for so many classes, but got 0.25"):
        nnce_loss(torch.zeros(1, 4), torch.tensor([0]), floor=0.25)
    assert nnce_loss(torch.zeros(1, 3), torch.tensor([0]), floor=0.25) == pytest.approx(2 / 3)


def test_bad_hyperparameters_of_amse():
    with pytest.raises(ValueError, match=r"Expected `c` to be a finite number in \[1, 1e\+18\], but got 0.5."):
        AMSELoss(c=0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        AMSELoss(a=1)
