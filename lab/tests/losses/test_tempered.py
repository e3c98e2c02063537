import itertools
import math

import mpmath
import pytest
import torch
from torch.nn import functional as F

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract
from hard_rows import hard_rows
from mgce.functional import gce_loss
from mgce_lab.losses import BiTemperedLoss, TemperedSoftmax, bi_tempered_loss


def log_t(u, t):
    return mpmath.log(u) if t == 1 else (u ** (1 - t) - 1) / (1 - t)


def tempered(logits, t):
    """Solve sum_j exp_t(f_j - c) = 1 by bisection, in 50 digits."""
    f, t = [mpmath.mpf(v) for v in logits], mpmath.mpf(t)

    def probabilities(c):
        return [(1 + (1 - t) * (v - c)) ** (1 / (1 - t)) for v in f]

    low, high = max(f), max(f) + (len(f) ** (t - 1) - 1) / (t - 1)  # one class has it all, or all have as much
    for _ in range(170):
        middle = (low + high) / 2
        low, high = (middle, high) if mpmath.fsum(probabilities(middle)) > 1 else (low, middle)
    return probabilities(low)


class BiTempered(RobustLossContract):
    @classmethod
    def loss(cls, input, target, **keywords):
        return bi_tempered_loss(input, target, t1=cls.t1, t2=cls.t2, **keywords)

    @classmethod
    def formula(cls, logits, y):
        """Write the Bregman divergence of the paper, with 0 log_t 0 = 0, term by term."""
        t1, total = mpmath.mpf(cls.t1), mpmath.mpf(0)
        for j, p in enumerate(tempered(logits, cls.t2)):
            label = mpmath.mpf(j == y)
            total -= label * log_t(p, t1) + (label - p ** (2 - t1)) / (2 - t1)
        return total


class TestBiTempered(BiTempered):
    named = "bi-tempered"
    t1, t2 = 0.8, 1.2
    most = 1 / (1 - 0.8)


class TestBiTemperedOfHeavyTail(BiTempered):
    t1, t2 = 0.2, 4.0
    most = 1 / (1 - 0.2)

    def test_the_bounds_are_reached(self):
        """Not below logits of 1e11: p falls as their root of order 3."""
        wrong = self.loss(torch.tensor([1e14, 0, 0, 0, 0], dtype=torch.float64), torch.tensor(1))
        assert 0.99 * self.most < wrong < self.most
        assert self.loss(torch.tensor([1e14, 0, 0, 0, 0], dtype=torch.float64), torch.tensor(0)) < 1e-3


def test_its_ends_are_cross_entropy_and_gce():
    logits, target = torch.randn(9, K, dtype=torch.float64), torch.randint(K, (9,))
    torch.testing.assert_close(bi_tempered_loss(logits, target, t1=1, t2=1), F.cross_entropy(logits, target))
    near = bi_tempered_loss(logits, target, t1=1 - 1e-9, t2=1 + 1e-9)
    torch.testing.assert_close(near, F.cross_entropy(logits, target), rtol=1e-7, atol=0)
    # With softmax and t1 = 1 - q it is GCE, and a correction that is that of no label.
    p = logits.softmax(-1)
    value = bi_tempered_loss(logits, target, t1=0.3, t2=1) + (1 - (p**1.7).sum(-1).mean()) / 1.7
    torch.testing.assert_close(value, gce_loss(logits, target, beta=1 / 0.7))


@pytest.mark.parametrize("k", [1, 2, 10, 1000, 10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("t", [1 + 1e-6, 1.05, 1.2, 2.0, 4.0, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_sum_to_one_on_hard_rows(k, t, dtype):
    rows = hard_rows(k, 2.0, dtype)
    p = TemperedSoftmax(t, dim=-1)(rows)
    eps = torch.finfo(dtype).eps
    # Rounding of the logits, and of the sum of k numbers, is all there is.
    torch.testing.assert_close(p.sum(-1), torch.ones_like(p[:, 0]), rtol=0, atol=64 * eps * max(1, math.sqrt(k)))
    assert (p >= 0).all()


def test_the_link_is_the_tempered_softmax():
    logits = torch.randn(4, K, 3, dtype=torch.float64)
    link = BiTemperedLoss(t1=0.5, t2=3.0).link
    want = torch.tensor([float(p) for p in tempered(logits[1, :, 2].tolist(), 3)], dtype=torch.float64)
    torch.testing.assert_close(link(logits)[1, :, 2], want)
    torch.testing.assert_close(link(logits[0, :, 0]), TemperedSoftmax(3.0)(logits[0, :, 0]))
    assert repr(link) == "TemperedSoftmax(t=3, dim=None)"


@pytest.mark.parametrize("keywords", [{"t1": 1.1}, {"t1": -0.1}, {"t2": 0.9}, {"t2": math.inf}])
def test_bad_hyperparameters(keywords):
    with pytest.raises(ValueError, match="Expected `t[12]` to be a finite number"):
        BiTemperedLoss(**keywords)
    if "t2" in keywords:
        with pytest.raises(ValueError, match="Expected `t`"):
            TemperedSoftmax(keywords["t2"])


def test_a_temperature_at_which_powers_overflow_is_refused():
    logits, target = torch.zeros(1, 100), torch.tensor([0])
    with pytest.raises(
        ValueError, match=r"Expected `t2` to be such that k\^\(3 \(t2 - 1\)\) is at most 3.4e\+38 in torch.float32"
    ):
        bi_tempered_loss(logits, target, t2=7.5)
    assert bi_tempered_loss(logits, target, t2=7.4).isfinite()
    assert bi_tempered_loss(logits.double(), target, t2=7.5).isfinite()
    with pytest.raises(ValueError, match=r"Expected `t` to be such that k\^\(t - 1\) is at most"):
        TemperedSoftmax(t=21.0)(logits)
    assert TemperedSoftmax(t=20.0)(logits).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [2, 10, 1000, 32000])
def test_derivatives_are_finite_up_to_the_largest_temperature(k, dtype):
    largest = 1 + math.log(torch.finfo(dtype).max) / (3 * math.log(k))
    for t1, size in itertools.product((0.0, 0.8, 1.0), (0.1, 1.0, 1e4)):
        logits = (size * torch.randn(2, k, dtype=dtype)).requires_grad_()
        value = bi_tempered_loss(logits, torch.tensor([0, 1]), t1=t1, t2=0.9999 * largest)
        (first,) = torch.autograd.grad(value, logits, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), logits)
        assert value.isfinite() and first.isfinite().all() and second.isfinite().all()
