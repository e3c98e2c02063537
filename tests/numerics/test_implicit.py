"""The root, the probabilities and their derivatives against mpmath and finite differences."""

import math

import mpmath
import pytest
import torch

import oracle
from mgce.numerics import implicit

BETAS = [1.0, 1.4, 2.0, 5.0, 100.0, math.inf]
LOGITS = 2 * torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LOGITS[0, 1:3] = -math.inf
INSIDE = [1.3, 2.0, 6.0]  # betas at which derivatives are finite everywhere


def truth(rows, beta):
    """Return t, h and p of rows."""
    values = [(oracle.normalizer(row, beta) + max(row), *oracle.probabilities(row, beta)) for row in rows.tolist()]
    return [torch.tensor([list(map(float, v[i])) if i else float(v[0]) for v in values]).double() for i in range(3)]


@pytest.fixture(autouse=True)
def double():
    """Lists of numbers become float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("beta", BETAS)
def test_the_root_and_both_probabilities(beta):
    x, t, same = implicit.solve(LOGITS, beta, -1)
    assert same == beta and torch.equal(x, LOGITS - LOGITS.amax(1, keepdim=True))
    for ours, true in zip(
        (t, implicit.minimax(x, t, beta), implicit.worst_case(x, t, beta)), truth(LOGITS, beta), strict=True
    ):
        torch.testing.assert_close(ours, true, rtol=0, atol=4e-15 * max(1, min(beta, 4)))


def test_one_beta_for_each_row_along_any_dim():
    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    betas = torch.tensor([[1.0, 1.4, math.inf]])  # for each of the last dimension
    x, t, each = implicit.solve(logits, betas, 1)
    assert x.shape == (2, 3, 5) and t.shape == each.shape == (2, 3)
    for i, beta in enumerate(betas[0].tolist()):
        alone, root, _ = implicit.solve(logits[..., i], beta, 1)
        for output in (implicit.minimax, implicit.worst_case):
            together = output(x, t, each)[:, i]
            torch.testing.assert_close(together, output(alone, root, beta), rtol=0, atol=1e-14)
    assert implicit.solve(logits, torch.tensor([0.9, 1.4, 2.0]), 1)[1].isnan().any(0).tolist() == [True, False, False]


def test_half_types_are_solved_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        x, t, beta = implicit.solve(LOGITS.to(dtype), torch.tensor(1.4), -1)
        assert x.dtype == t.dtype == beta.dtype == torch.float32
        torch.testing.assert_close(t, implicit.solve(LOGITS.to(dtype).float(), 1.4, -1)[1])


@pytest.mark.parametrize("k", [1000, 30_000])
def test_minimax_probabilities_sum_to_one_where_a_rounded_root_does_not_make_them(k):
    """The slope of their sum is the number of classes."""
    logits = 1e-3 * torch.randn(k, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    x, t, _ = implicit.solve(logits, 1.0, -1)
    h, rounded = implicit.minimax(x, t, 1.0), (1 + x.double() + t.double()).clamp(min=0)
    assert (h >= 0).all() and 10 * abs(h.double().sum() - 1) < abs(rounded.sum() - 1)


@pytest.mark.parametrize("method", ["newton", "bisection"])
@pytest.mark.parametrize("beta", INSIDE)
def test_derivatives_come_from_the_equation_whatever_found_the_root(beta, method):
    logits, b = LOGITS[3:].clone().requires_grad_(), torch.full((3,), beta, requires_grad=True)
    _, t, _ = implicit.solve(logits, b, -1, method, 1e-13)
    (slope,) = torch.autograd.grad(t.sum(), logits, retain_graph=True)
    torch.testing.assert_close(slope, -truth(LOGITS[3:], beta)[2])  # of the logits, of which the maximum is a constant
    step = 1e-4
    up, down = (truth(LOGITS[3:], beta + s)[0] for s in (step, -step))
    torch.testing.assert_close(torch.autograd.grad(t.sum(), b)[0], (up - down) / (2 * step), rtol=1e-6, atol=1e-7)


def test_exact_solutions_keep_the_digits_that_a_square_root_loses():
    """Of one class and a thousand others near the edge of its support the spread is near 1."""
    row = torch.cat([torch.zeros(1), torch.full((1000,), -1.999)])
    edge = mpmath.mpf(row[1].item()) / 2
    mean, spread = edge * 1000 / 1001, edge**2 * 1000 / 1001  # of the halves of the logits
    want = 2 * (mpmath.sqrt((1 - spread) / 1001) - mean - 1)
    assert abs(implicit.solve(row, 2.0, -1, "exact")[1] - float(want)) < 4e-16
    torch.testing.assert_close(implicit.solve(LOGITS, 1.0, -1, "exact")[1], truth(LOGITS, 1.0)[0], rtol=0, atol=1e-15)
    for beta in (1.4, torch.tensor(2.0)):
        with pytest.raises(ValueError, match="Expected `beta` to be 1 or 2 for method 'exact'"):
            implicit.solve(LOGITS, beta, -1, "exact")
