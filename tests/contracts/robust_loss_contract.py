"""What is claimed of a loss of label noise: its equation, its bounds, whether it is symmetric and whether convex."""

import math

import mpmath
import pytest
import torch

from contracts.loss_contract import K, LossContract
from mgce import robust_loss
from mgce.noise import symmetric
from mgce_lab.losses import LOSSES


def told(name, k, *, rate=0.0, trim=0.0):
    """Return what a loss has to be told about the noise: by default that there is none."""
    every = {"transition": symmetric(k, rate).float(), "trim": trim, "num_classes": k}
    return {hyperparameter: every[hyperparameter] for hyperparameter in LOSSES[name].told}


def softmax(logits):
    """Return the softmax of a row in 50 digits."""
    powers = [mpmath.exp(mpmath.mpf(f)) for f in logits]
    return [power / mpmath.fsum(powers) for power in powers]


class RobustLossContract(LossContract):
    """Inherit, and give `formula`, the bounds and its name, whose record claims the rest; or `loss` and the claims."""

    named = None
    compiler = "eager"  # the same trace; differentiating it takes seconds, and code from PyTorch's compiler ten
    least = 0.0  # and the most, for K classes
    most = math.inf
    symmetric = False
    convex = False

    @classmethod
    def loss(cls, input, target, **keywords):
        return robust_loss(cls.named, **told(cls.named, K), **keywords)(input, target)

    def claimed(self, what):
        return getattr(self if self.named is None else LOSSES[self.named], what)

    @staticmethod
    def formula(logits, y):
        """Write the loss of a row by its paper's equation, in mpmath."""
        raise NotImplementedError

    @pytest.mark.parametrize("scale", [0.1, 5.0, *(pytest.param(s, marks=pytest.mark.nightly) for s in (1.0, 20.0))])
    def test_it_is_the_equation_of_its_paper(self, scale):
        logits = scale * torch.randn(6, K, dtype=torch.float64)
        want = [[float(self.formula(f.tolist(), y)) for y in range(K)] for f in logits]
        want = torch.tensor(want, dtype=torch.float64)
        # The scale of the largest loss counts, and where it is a difference of large numbers, the smallest too.
        atol = 1e-14 * max(1, want.abs().max().item())
        torch.testing.assert_close(self.table(logits), want, rtol=1e-12, atol=atol)

    def test_its_name_is_that_of_this_loss(self):
        if self.named is not None:
            logits, target = torch.randn(6, K, dtype=torch.float64), torch.arange(6) % K
            by_name = robust_loss(self.named, **told(self.named, K))(logits, target)
            torch.testing.assert_close(by_name, self.loss(logits, target))
            assert math.isfinite(self.most) == LOSSES[self.named].bounded

    def extremes(self, dtype):
        f = torch.tensor([0.0, -1.0, 2.0, 0.5, 1.0], dtype=dtype)
        rows = [
            f,
            100 * f,
            1e4 * f,
            -1e4 * f,
            0 * f,
            0 * f + 1e4,
            *(1e4 * torch.eye(K, dtype=dtype)[:2]),
            *(-1e4 * torch.eye(K, dtype=dtype)[:2]),
        ]
        return torch.stack(rows)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_bounds_hold_and_nothing_is_nan_where_p_is_0_or_1(self, dtype):
        slack = 4 * torch.finfo(dtype).eps
        for y in range(K):
            logits = self.extremes(dtype).requires_grad_()
            each = self.loss(logits, torch.full((len(logits),), y), reduction="none")
            assert each.isfinite().all()
            assert (each >= self.least - slack * abs(self.least)).all()
            assert (each <= self.most * (1 + slack)).all()
            (gradient,) = torch.autograd.grad(each.sum(), logits, create_graph=True)
            assert gradient.isfinite().all()
            (second,) = torch.autograd.grad(gradient.square().sum(), logits)
            assert second.isfinite().all()

    def test_the_bounds_are_reached(self):
        logits = torch.cat([self.extremes(torch.float64), 30 * torch.randn(300, K, dtype=torch.float64)])
        table = self.table(logits)
        if math.isfinite(self.most):
            assert table.max() > 0.9 * self.most
        else:
            assert table.max() > 1e3
        if math.isfinite(self.least):
            assert table.min() < self.least + 1e-6 * max(1, abs(self.least))
        else:
            assert table.min() < -1e3

    @pytest.mark.parametrize("others_too", [False, True])
    def test_a_masked_label_has_no_nan_in_its_gradient(self, others_too):
        logits = torch.tensor([0.5, -math.inf, 2.0, 0.5, 1.0], dtype=torch.float64)
        if others_too:
            logits[[2, 3, 4]] = -math.inf
        for label_smoothing in (0.0, 0.1):
            for y in range(K):
                leaf = logits.clone().requires_grad_()
                value = self.loss(leaf, torch.tensor(y), label_smoothing=label_smoothing)
                (gradient,) = torch.autograd.grad(value, leaf)
                assert not value.isnan() and not gradient.isnan().any()

    def test_symmetric_as_claimed(self):
        sums = self.table(30 * torch.randn(20, K, dtype=torch.float64)).sum(1)
        spread = sums.max() - sums.min()
        assert spread < 1e-13 * sums.abs().max() if self.claimed("symmetric") else spread > 0.01

    def test_convex_as_claimed(self):
        """Along segments: no value above the chord, or one that is, clearly."""
        ends = 6 * torch.randn(2, 400, K, dtype=torch.float64)
        target = torch.randint(K, (400,))
        first, middle, last = (self.loss(f, target, reduction="none") for f in (ends[0], ends.mean(0), ends[1]))
        excess = middle - (first + last) / 2
        scale = max(1, first.abs().max())
        assert (excess.max() < 1e-13 * scale) if self.claimed("convex") else (excess.max() > 1e-3)

    def test_there_is_one_class(self):
        """The loss of the only class is the least: that of a row that is sure and right."""
        logits = torch.tensor([[3.0], [-5.0]], dtype=torch.float64).requires_grad_()
        value = self.loss(logits, torch.tensor([0, 0]))
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.isfinite() and (gradient == 0).all()
