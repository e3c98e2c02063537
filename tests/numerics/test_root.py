import math

import mpmath
import numpy as np
import pytest
import torch

import oracle
from hard_rows import hard_rows
from mgce import _validation
from mgce.numerics import root

BETAS = [1.0, 1.02, 1.05, 1.18, 1.4, 1.5, 2.0, 3.0, 4.0, 5.0, 11.0, 20.0, 100.0, 1e4, 1e6, 1e9, 1e18]
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


def check_within(x, t, beta, units=8):
    """Require that the power sum passes 1 between t - 8 eps and t + 8 eps, relative to max(1, |t|)."""
    t = t.double().numpy().astype(np.longdouble)
    floor = units * torch.finfo(x.dtype).eps * np.maximum(1, np.abs(t))
    below, above = log_power_sum(x, t - floor, beta), log_power_sum(x, t + floor, beta)
    rounding = 1e-18 * x.shape[-1]  # of the extended sum itself
    assert (below <= rounding).all(), f"rows {np.flatnonzero(below > rounding)} are right of the root"
    assert (above >= -rounding).all(), f"rows {np.flatnonzero(above < -rounding)} are left of the root"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 10, 100, 129, 1024, 32_000])
@pytest.mark.parametrize("beta", BETAS)
def test_newton_is_within_8_eps_of_the_root(beta, k, dtype):
    x = shifted(hard_rows(k, beta, dtype))
    check_within(x, root.newton(x, beta), beta)
