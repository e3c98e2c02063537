import math

import mpmath
import numpy as np
import pytest
import torch

import oracle
from hard_rows import hard_rows
from mgce.numerics import root

BETAS = [1.0, 1.02, 1.05, 1.18, 1.4, 1.5, 2.0, 3.0, 5.0, 11.0, 100.0, 1e4, 1e6, 1e9]
inf = math.inf


def shifted(logits):
    return logits - logits.amax(-1, keepdim=True)


def log_power_sum(x, t, beta):
    """Give log sum_y (1 + (x_y + t)/beta)_+^beta in extended precision: its sign is the side of the root."""
    z = (x.double().numpy().astype(np.longdouble) + t[:, None]) / np.longdouble(beta)
    on = z > -1
    terms = np.where(on, np.exp(np.longdouble(beta) * np.log1p(np.where(on, z, 0))), 0)
    with np.errstate(divide="ignore"):
        return np.log(terms.sum(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 10, 100, 1000, 1025, 50_000])
@pytest.mark.parametrize("beta", BETAS)
def test_newton_reaches_the_rounding_floor(beta, k, dtype):
    """The root lies within 8 eps of t on hard rows: the power sum passes 1 between t - 8 eps and t + 8 eps."""
    x = shifted(hard_rows(k, beta, dtype))
    t = root.newton(x, beta).double().numpy().astype(np.longdouble)
    floor = 8 * torch.finfo(dtype).eps * np.maximum(1, np.abs(t))
    below, above = log_power_sum(x, t - floor, beta), log_power_sum(x, t + floor, beta)
    rounding = 1e-18 * k  # of the extended sum itself
    assert (below <= rounding).all(), f"rows {np.flatnonzero(below > rounding)} are right of the root"
    assert (above >= -rounding).all(), f"rows {np.flatnonzero(above < -rounding)} are left of the root"


@pytest.mark.parametrize("beta", [*BETAS, inf])
def test_newton_equals_mpmath(beta):
    x = shifted(hard_rows(7, beta, torch.float64))
    t = root.newton(x, beta)
    for row, value in zip(x.tolist(), t.tolist(), strict=True):
        assert abs(float(oracle.normalizer(row, beta) - mpmath.mpf(value))) < 2e-14


def test_newton_in_float32_is_near_float64():
    for beta in BETAS:
        x = shifted(hard_rows(257, beta, torch.float32))
        assert (root.newton(x, beta).double() - root.newton(x.double(), beta)).abs().max() < 2e-6


@pytest.mark.parametrize("method", [root.newton, root.bisection])
def test_one_beta_for_each_row(method):
    betas = torch.tensor([*BETAS, inf], dtype=torch.float64)
    x = shifted(torch.randn(len(betas), 9, dtype=torch.float64))
    together = method(x, betas)
    alone = torch.stack([method(x[i : i + 1], beta.item())[0] for i, beta in enumerate(betas)])
    torch.testing.assert_close(together, alone, rtol=0, atol=0 if method is root.bisection else 1e-15)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_bisection_is_within_half_its_tolerance(beta, tol):
    x = shifted(hard_rows(100, beta, torch.float64))
    difference = root.bisection(x, beta, tol) - root.newton(x, beta)
    assert difference.abs().max() <= tol / 2 + 1e-12


def test_bisection_takes_logits_that_are_not_shifted():
    logits = torch.tensor([[7.5, 7.0, 6.5, -20.0, 0.0]], dtype=torch.float64)  # phi = -8 at beta = 3
    assert abs(root.bisection(logits, 3.0, 1e-9).item() + 8) < 1e-9


@pytest.mark.parametrize("bad", [[math.nan, 0.0, 1.0], [inf, 0.0, 1.0], [-inf, -inf, -inf]])
@pytest.mark.parametrize("beta", [1.0, 1.4, 2.0, 100.0, inf])
def test_a_bad_row_is_nan_and_spoils_no_other(bad, beta):
    x = shifted(torch.tensor([bad, [0.5, 0.0, 0.25]]))
    t = root.newton(x, beta)
    assert math.isnan(t[0]) and not math.isnan(t[1])


def test_masked_class_is_dropped_class():
    for beta in [*BETAS, inf]:
        masked = root.newton(torch.tensor([[0.0, -inf, -0.5, -inf, -0.25]], dtype=torch.float64), beta)
        dropped = root.newton(torch.tensor([[0.0, -0.5, -0.25]], dtype=torch.float64), beta)
        assert abs((masked - dropped).item()) < 2e-15


def test_fewer_steps_would_not_do():
    """The budget is not idle: with half of it the hardest rows are off."""
    x = shifted(hard_rows(1000, 1.02, torch.float64))
    t = torch.zeros(len(x), dtype=torch.float64)
    for _ in range(root.newton_steps(1000, 1.02, torch.float64) // 2):
        excess, slope = root.norm_excess(x, t, 1.02)
        t = torch.clamp(t - excess / slope, max=0)
    assert (t - root.newton(x, 1.02)).abs().max() > 1e-12
