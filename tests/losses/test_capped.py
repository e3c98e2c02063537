import math

import torch

from contracts.robust_loss_contract import RobustLossContract
from mgce import CappedMGCELoss
from mgce.functional import alpha_loss, capped_mgce_loss, mgce_loss, minimax_probs
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
