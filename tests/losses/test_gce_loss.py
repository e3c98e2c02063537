import math

import pytest
import torch
from torch.nn import functional as F

from contracts.loss_contract import LossContract
from mgce.functional import alpha_loss, gce_loss, mgce_loss


class TestGCELoss(LossContract):
    @staticmethod
    def loss(input, target, **keywords):
        return gce_loss(input, target, beta=1 / 0.7, **keywords)


class TestSoftmaxMAE(LossContract):
    compiler = "aot_eager"  # the function is GCE's

    @staticmethod
    def loss(input, target, **keywords):
        return gce_loss(input, target, beta=1.0, **keywords)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.7, 1.0])
def test_it_is_the_loss_of_zhang_and_sabuncu(q):
    logits, target = torch.randn(30, 6, dtype=torch.float64), torch.randint(6, (30,))
    probs = torch.softmax(logits, -1).gather(1, target[:, None])[:, 0]
    torch.testing.assert_close(gce_loss(logits, target, beta=1 / q, reduction="none"), (1 - probs**q) / q)


def test_at_infinity_it_is_cross_entropy():
    logits, target = torch.randn(30, 6), torch.randint(6, (30,))
    torch.testing.assert_close(gce_loss(logits, target, beta=math.inf), F.cross_entropy(logits, target))
    torch.testing.assert_close(
        gce_loss(logits.double(), target, beta=1e9), F.cross_entropy(logits.double(), target), rtol=1e-7, atol=0
    )


def test_gradient_lives_where_a_clamped_probability_would_kill_it():
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)  # softmax_1 = 1e-87 underflows
    gce_loss(logits, torch.tensor([1]), beta=5.0).backward()
    exact = math.exp(-200 / 5)
    assert abs(logits.grad[0, 1].item() + exact) < 1e-6 * exact


def test_one_beta_for_each_row():
    logits, target = torch.randn(4, 7, dtype=torch.float64), torch.tensor([0, 1, 2, 3])
    betas = torch.tensor([1.0, 1.4, 11.0, math.inf])
    together = gce_loss(logits, target, beta=betas, reduction="none")
    alone = [gce_loss(f, y, beta=b) for f, y, b in zip(logits, target, betas.tolist(), strict=True)]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-6, atol=1e-7)


def test_gce_is_not_convex_and_mgce_is():
    y = torch.tensor(0)
    f, g = torch.tensor([-20.0, 0.0]), torch.tensor([0.0, 0.0])
    for loss, convex in ((gce_loss, False), (mgce_loss, True)):
        chord = (loss(f, y, beta=1.4) + loss(g, y, beta=1.4)) / 2
        assert (loss((f + g) / 2, y, beta=1.4) <= chord) == convex


@pytest.mark.parametrize("beta", [1.0, 1.4, 2.0, 100.0, 1e6, math.inf])
def test_alpha_loss_of_probabilities(beta):
    probs = torch.softmax(torch.randn(8, 5, dtype=torch.float64), -1)
    target = torch.randint(5, (8,))
    p_y = probs.gather(1, target[:, None])[:, 0]
    exact = -p_y.log() if math.isinf(beta) else beta * (1 - p_y ** (1 / beta))
    tolerance = 1e-14 * (1 if math.isinf(beta) else beta)  # of the formula written here
    torch.testing.assert_close(alpha_loss(probs, target, beta=beta, reduction="none"), exact, rtol=0, atol=tolerance)
    torch.testing.assert_close(alpha_loss(probs.T, target, beta=beta, dim=0), exact.mean(), rtol=0, atol=tolerance)
    q = torch.softmax(torch.randn(8, 5, dtype=torch.float64), -1)
    table = torch.stack([alpha_loss(probs, torch.full((8,), y), beta=beta, reduction="none") for y in range(5)], 1)
    torch.testing.assert_close(alpha_loss(probs, q, beta=beta, reduction="none"), (q * table).sum(-1))


def test_alpha_loss_of_a_zero_probability():
    probs = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    for beta in (1.0, 1.4, 10.0):
        loss = alpha_loss(probs, torch.tensor(1), beta=beta)
        assert loss == beta
        (gradient,) = torch.autograd.grad(loss, probs)
        assert gradient[1] == (-1 if beta == 1 else -math.inf)
    assert alpha_loss(probs, torch.tensor(1), beta=math.inf) == math.inf


def test_alpha_loss_shapes():
    probs = torch.softmax(torch.randn(2, 3, 4, 5), 1)
    target = torch.randint(3, (2, 4, 5))
    each = alpha_loss(probs, target, beta=2.0, dim=1, reduction="none")
    assert each.shape == (2, 4, 5)
    torch.testing.assert_close(each.mean(), alpha_loss(probs, target, beta=2.0, dim=1))
    with pytest.raises(ValueError, match="Expected `target` to be class indices of shape"):
        alpha_loss(probs, target[:1], beta=2.0, dim=1)
