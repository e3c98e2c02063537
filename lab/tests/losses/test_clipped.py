import math

import mpmath
import pytest
import torch
from torch.nn import functional as F

from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce import GCELoss, MGCELoss
from mgce.functional import mgce_loss
from mgce_lab.losses import LogitClip, clip_logits, unhinged_loss


class TestLogitClip(RobustLossContract):
    most = math.log(1 + 4 * math.exp(math.sqrt(2) / 0.5))

    @staticmethod
    def loss(input, target, **keywords):
        return LogitClip(GCELoss(**keywords, beta=math.inf), inverse_norm=0.5)(input, target)

    @staticmethod
    def formula(logits, y):
        f = [mpmath.mpf(v) for v in logits]
        length = mpmath.sqrt(sum(v * v for v in f))
        return -mpmath.log(softmax([v * min(1, 1 / (mpmath.mpf("0.5") * length)) for v in f])[y])

    def test_the_bounds_are_reached(self):
        """By no class of more than two: the bound lets one logit gain on all others what it can gain on one."""
        wrong = self.loss(torch.tensor([-9.0, 9.0], dtype=torch.float64), torch.tensor(0))
        assert wrong == pytest.approx(math.log(1 + math.exp(math.sqrt(2) / 0.5)))

    def test_there_is_one_class(self):
        assert self.loss(torch.tensor([[3.0], [-5.0]]), torch.tensor([0, 0])) == 0


def two_levels(k, radius):
    """Return rows of length `radius` and mean 0 whose first m logits are equal and above the others, for each m < k."""
    m = torch.arange(1, k, dtype=torch.float64)[:, None]
    rows = torch.where(torch.arange(k) < m, 1 / m, -1 / (k - m))
    return radius * rows / rows.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("k", [2, 3, 10, 26])
def test_in_a_small_ball_mgce_is_symmetric_at_beta_one(k):
    criterion = LogitClip(MGCELoss(beta=1.0, reduction="none"), inverse_norm=float(k))
    rows = 3 * torch.randn(200, k, dtype=torch.float64)
    sums = sum(criterion(rows, torch.full((200,), label)) for label in range(k))
    torch.testing.assert_close(sums, torch.full_like(sums, k - 1))


@pytest.mark.parametrize("k", [2, 3, 10, 26])
@pytest.mark.parametrize("radius", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_in_a_ball_mgce_is_symmetric_up_to_a_known_number(k, radius):
    """At beta = 1: the spread of the mean over all labels is max_m x_m (radius - x_m), x_m^2 = 1 / m - 1 / k."""
    criterion = LogitClip(MGCELoss(beta=1.0, reduction="none"), inverse_norm=1 / radius)

    def mean_over_labels(rows):
        each = criterion(rows.repeat_interleave(k, 0), torch.arange(k).repeat(len(rows)))
        return each.view(-1, k).mean(1)

    least = (k - 1) / k  # at f = 0
    x = (1 / torch.arange(1, k, dtype=torch.float64) - 1 / k).sqrt()
    most = least + (x * (radius - x)).clamp(min=0).max()
    inside = mean_over_labels(torch.randn(500, k, dtype=torch.float64) * 3 * torch.rand(500, 1, dtype=torch.float64))
    assert inside.min() >= least - 1e-13 and inside.max() <= most + 1e-13
    torch.testing.assert_close(mean_over_labels(two_levels(k, radius)).max(), most)


@pytest.mark.parametrize("k", [2, 3, 10, 26])
def test_in_a_small_ball_mgce_is_the_unhinged_loss(k):
    rows, target = two_levels(k, 1 / math.sqrt(k * (k - 1))), torch.arange(k - 1)
    want = unhinged_loss(rows, target, reduction="none") - 1 / k
    torch.testing.assert_close(mgce_loss(rows, target, beta=1.0, reduction="none"), want)
    beyond = mgce_loss(1.1 * rows, target, beta=1.0, reduction="none") - unhinged_loss(
        1.1 * rows, target, reduction="none"
    )
    assert (beyond + 1 / k).max() > 1e-3 / k


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 4.0, math.inf])
def test_the_mean_over_labels_bends_at_equal_logits_as_the_theory_says(k, beta):
    def mean_over_labels(row):
        return mgce_loss(row.expand(k, k), torch.arange(k), beta=beta)

    hessian = torch.autograd.functional.hessian(mean_over_labels, torch.zeros(k, dtype=torch.float64))
    bend = 1 / k if math.isinf(beta) else (1 - 1 / beta) * k ** (1 / beta) / k
    want = bend * (torch.eye(k, dtype=torch.float64) - 1 / k)
    torch.testing.assert_close(hessian, want, rtol=1e-9, atol=1e-12)


def test_clipped_rows_have_the_length_and_short_ones_stay():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [-math.inf, 5.0]], dtype=torch.float64, requires_grad=True)
    clipped = clip_logits(rows, inverse_norm=0.5)
    want = torch.tensor([[1.2, 1.6], [0.3, 0.4], [0.0, 0.0], [-math.inf, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(clipped, want)
    torch.testing.assert_close(clip_logits(rows.T, inverse_norm=0.5, dim=0), want.T)
    (gradient,) = torch.autograd.grad(clipped[:, 1].sum(), rows)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_logits_of_any_size_are_clipped_to_the_length(dtype):
    """Also where the square of a logit, or its product with delta, is beyond the type."""
    for size in (1.0, 1e18, 1e20, 1e30, *((1e200, 1e300) if dtype == torch.float64 else ())):
        for delta in (1.0, 1e-3, 1e20):
            rows = torch.tensor([[0.75 * size, size, 0.0, -math.inf]], dtype=torch.float64).to(dtype)
            if delta * size * 1.25 <= 1:
                continue
            got = clip_logits(rows, inverse_norm=delta).double() * delta
            want = torch.tensor([[0.6, 0.8, 0.0, -math.inf]], dtype=torch.float64)
            torch.testing.assert_close(got, want, rtol=4 * torch.finfo(dtype).eps, atol=0)
    assert clip_logits(torch.tensor([[1.0, math.nan]])).isnan().all()
    for delta in (1e-13, 1e-20, 1e-30):  # far too long for any row to be clipped
        row = torch.tensor([[1.0, 2.0]], requires_grad=True)
        (grad,) = torch.autograd.grad(clip_logits(row, inverse_norm=delta).square().sum(), row, create_graph=True)
        assert torch.equal(grad, 2 * row) and torch.equal(
            torch.autograd.grad(grad.sum(), row)[0], torch.full((1, 2), 2.0)
        )
    zero = torch.zeros(2, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(clip_logits(zero).sum(), zero)
    assert torch.equal(grad, torch.ones(2, 3))


def test_clipping_has_the_derivatives_of_its_formula():
    rows = torch.tensor([[3.0, -4.0, 1.0], [0.1, 0.2, -0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(clip_logits, rows) and torch.autograd.gradgradcheck(clip_logits, rows)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e7, 2e7, 1e9, 1e12, 1e15, 1e18, 1e20, 1e25])
def test_derivatives_of_rows_of_any_size_are_those_in_float64(size):
    found = []
    for dtype in (torch.float32, torch.float64):
        unit = torch.tensor([[3.0, 1.0, 2.0]], dtype=dtype, requires_grad=True)
        loss = F.cross_entropy(clip_logits(size * unit), torch.tensor([1]))
        (first,) = torch.autograd.grad(loss, unit, create_graph=True)
        found.append((first, *torch.autograd.grad(first[0, 1], unit)))
    for low, high in zip(*found, strict=True):
        torch.testing.assert_close(low.double(), high, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 1.0, 1e3, 1e9])
def test_where_no_value_may_be_read_rows_are_clipped_alike(delta):
    """Under a transform, which takes the way of rows of any size; around the length, far from it, and at zero."""
    unit = torch.tensor([[0.6, -0.7, 0.0], [0.3, 0.1, -0.2], [1.01, 0.0, 0.0], [40.0, -9.0, 1.0], [0.0, 0.0, 0.0]])
    for dtype in (torch.float32, torch.float64):
        rows = unit.to(dtype).requires_grad_()
        here = delta * clip_logits(rows / delta, inverse_norm=delta)
        there = delta * torch.func.vmap(lambda row: clip_logits(row, inverse_norm=delta))(rows / delta)
        torch.testing.assert_close(here, there)
        firsts = [torch.autograd.grad(f.sin().sum(), rows, create_graph=True)[0] for f in (here, there)]
        torch.testing.assert_close(*firsts)
        torch.testing.assert_close(*(torch.autograd.grad(first.square().sum(), rows)[0] for first in firsts))
