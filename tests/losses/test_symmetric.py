import math

import pytest
import torch

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce.functional import gce_loss, rce_loss
from mgce.losses import RCELoss


class TestRCE(RobustLossContract):
    named = "rce"
    most = -math.log(1e-4)
    loss = staticmethod(rce_loss)

    @staticmethod
    def formula(logits, y):
        zeros = [0 if j == y else math.log(1e-4) for j in range(K)]
        return -sum(p * zero for p, zero in zip(softmax(logits), zeros, strict=True))


def test_rce_is_mae_times_the_log_of_zero():
    logits, target = torch.randn(9, K), torch.randint(K, (9,))
    torch.testing.assert_close(rce_loss(logits, target, log_zero=-4), 4 * gce_loss(logits, target, beta=1.0))


def test_the_module_calls_the_function():
    logits, target = torch.randn(9, K), torch.randint(K, (9,))
    assert RCELoss(log_zero=-4, reduction="sum")(logits, target) == rce_loss(
        logits, target, log_zero=-4, reduction="sum"
    )


@pytest.mark.parametrize("log_zero", [0, 1.0, -math.inf, math.nan])
def test_bad_hyperparameters(log_zero):
    with pytest.raises(ValueError, match="Expected `log_zero` to be (a finite number|below 0)"):
        RCELoss(log_zero=log_zero)
