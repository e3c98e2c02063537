import math

import pytest
import torch

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract
from mgce_lab.losses import UnhingedLoss, unhinged_loss


class TestUnhinged(RobustLossContract):
    named = "unhinged"
    nonnegative = False
    least = -math.inf
    loss = staticmethod(unhinged_loss)

    @staticmethod
    def formula(logits, y):
        return 1 - logits[y] + sum(logits) / len(logits)


def test_unhinged_is_that_of_two_classes():
    """1 - y v of van Rooyen et al., with the logits (v, -v)."""
    v = torch.randn(9, dtype=torch.float64)
    for y, sign in ((0, 1), (1, -1)):
        value = unhinged_loss(torch.stack([v, -v], 1), torch.full((9,), y), reduction="none")
        torch.testing.assert_close(value, 1 - sign * v)


@pytest.mark.parametrize("offset", [1e4, -1e4, 3e8])
def test_unhinged_keeps_the_digits_of_differences(offset):
    logits, target = torch.randint(-512, 512, (9, K)) * 32.0, torch.randint(K, (9,))  # exact with any of the offsets
    value = unhinged_loss(logits + offset, target)
    torch.testing.assert_close(value, unhinged_loss((logits + offset - offset).double(), target).float())
    assert unhinged_loss(torch.tensor([[math.inf, 0.0]]), torch.tensor([1])) == math.inf


def test_the_module_calls_the_function():
    logits, target = torch.randn(9, K), torch.randint(K, (9,))
    assert UnhingedLoss()(logits, target) == unhinged_loss(logits, target)
