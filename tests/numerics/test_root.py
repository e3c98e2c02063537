import math

import mpmath
import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import oracle
from grids import grid, pairs
from hard_rows import hard_rows
from mgce import _validation
from mgce.numerics import root
from mgce_lab.soak import families

BETAS = [1.0, 1.02, 1.05, 1.18, 1.4, 1.5, 2.0, 3.0, 4.0, 5.0, 11.0, 20.0, 100.0, 1e4, 1e6, 1e9, 1e18]
inf = math.inf


def shifted(logits):
    return logits - logits.amax(-1, keepdim=True)


def log_power_sum(x, t, beta):
    """Return log sum_y (1 + (x_y + t)/beta)_+^beta in extended precision: its sign is the side of the root."""
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


@pairs("beta, k, dtype", BETAS, [1, 2, 3, 10, 100, 129, 1024, 4096], [torch.float32, torch.float64])
def test_newton_is_within_8_eps_of_the_root(beta, k, dtype):
    x = shifted(hard_rows(k, beta, dtype))
    check_within(x, root.newton(x, beta), beta)


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "beta, k",
    [*((beta, 32_000) for beta in BETAS), *((b, 128_000) for b in (1.0, 1.4, 2.0, 4.0, 20.0, 100.0, 1e4, 1e9))],
)
def test_newton_is_within_8_eps_of_the_root_in_a_vocabulary(beta, k, dtype):
    x = shifted(hard_rows(k, beta, dtype))
    check_within(x, root.newton(x, beta), beta)


@pytest.mark.slow
@grid(
    "beta, k, dtype",
    [1.0, 1.05, 1.4, 1.5, 2.0, 4.0, 11.0, 1e6],
    [2, 10, 100, 1024, 32_000],
    [torch.float32, torch.float64],
    keep=lambda beta, k, dtype: k < 32_000 or (beta, dtype) in ((1.4, torch.float32), (1e6, torch.float64)),
)
def test_newton_with_a_fixed_number_of_steps_is_as_near(beta, k, dtype):
    """Under a transform no value can be read."""
    x = shifted(hard_rows(k, beta, dtype))
    check_within(x, torch.func.vmap(lambda row: root.newton(row, beta))(x), beta)


@pytest.mark.slow
@pairs("dtype, beta, fixed", [torch.float32, torch.float64], [1.0, 1.0625, 1.4], [False, True])  # betas of float32
def test_newton_is_as_near_where_most_classes_are_tied_near_the_edge(beta, dtype, fixed):
    """A small step may leave most of the support, and so of the slope, behind: it is not the last one then."""
    x = shifted(torch.cat([families.rows("tied_near_edge", 100, 1025, beta, dtype, seed)[0] for seed in range(4)]))
    t = torch.func.vmap(lambda row: root.newton(row, beta))(x) if fixed else root.newton(x, beta)
    check_within(x, t, beta)


@pytest.mark.parametrize(
    "dtype, second, tied",
    [
        (torch.float32, -1.028103232383728, -1.0479416847229004),
        (torch.float64, -1.028103196917168, -1.0479378405955482),
    ],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_a_step_of_less_than_a_digit_is_not_the_last_where_it_leaves_most_classes_behind(dtype, second, tied, fixed):
    """These rows of the same family were 32 eps off without the second condition of `_moves`."""
    x = torch.tensor([[0.0, second, tied]], dtype=dtype).repeat_interleave(torch.tensor([1, 1, 8191]), 1)
    t = torch.func.vmap(lambda row: root.newton(row, 1.0625))(x) if fixed else root.newton(x, 1.0625)
    check_within(x, t, 1.0625)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [2, 100, 32_000])
def test_infinite_beta_is_log_sum_exp(k, dtype):
    x = shifted(hard_rows(k, inf, dtype))
    truth = -np.log(np.exp(x.double().numpy().astype(np.longdouble)).sum(-1))
    t = root.newton(x, inf).double().numpy()
    assert (np.abs(t - truth) <= 4 * torch.finfo(dtype).eps * np.maximum(1, np.abs(truth))).all()


@pytest.mark.slow
@grid(
    "beta, dtype",
    [2.0**62, 2.0**64, 1e30, 1e39, 1e300],
    [torch.float32, torch.float64],
    keep=lambda beta, dtype: (beta, dtype) in ((2.0**62, torch.float32), (1e39, torch.float32), (1e300, torch.float64)),
)
def test_a_huge_beta_is_infinite_to_rounding(beta, dtype):
    for k in (2, 1000, 20_000):
        x = shifted(hard_rows(k, inf, dtype))
        x = torch.cat([x, -torch.arange(13, dtype=dtype)[:, None] * (torch.arange(k) > 0)])
        limit = root.newton(x, inf)
        floor = 8 * torch.finfo(dtype).eps * limit.abs().clamp(min=1)
        assert ((root.newton(x, beta) - limit).abs() <= floor).all()
        of_rows = torch.tensor([beta], dtype=torch.float64).to(dtype).expand(len(x))  # 1e39 is inf in float32
        assert ((root.newton(x, of_rows) - limit).abs() <= floor).all()
        for power, e in zip(root.powers(x, limit, beta), root.powers(x, limit, inf), strict=True):
            torch.testing.assert_close(power, e, rtol=0, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.slow
@grid("beta", [*BETAS, inf], keep=lambda beta: beta in (1.0, 1.05, 1.4, 20.0, 1e6, inf))
def test_newton_equals_mpmath(beta):
    x = shifted(hard_rows(7, beta, torch.float64))
    t = root.newton(x, beta)
    for row, value in zip(x.tolist(), t.tolist(), strict=True):
        assert abs(float(oracle.normalizer(row, beta) - mpmath.mpf(value))) < 4 * 2.0**-52 * max(1, abs(value))


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
@pytest.mark.parametrize("method", [root.newton, root.bisection])
def test_a_bad_row_is_nan_and_spoils_no_other(method, bad, beta):
    rows = torch.tensor([bad, [0.5, 0.0, 0.25]])
    t = method(shifted(rows), beta)
    assert math.isnan(t[0]) and torch.equal(t[1:], method(shifted(rows[1:]), beta))
    w, h = root.powers(shifted(rows), t, beta)
    assert w[0].isnan().all() and h[0].isnan().all() and w[1].isfinite().all() and h[1].isfinite().all()


def test_masked_class_is_dropped_class():
    for beta in [*BETAS, inf]:
        masked = root.newton(torch.tensor([[0.0, -inf, -0.5, -inf, -0.25]], dtype=torch.float64), beta)
        dropped = root.newton(torch.tensor([[0.0, -0.5, -0.25]], dtype=torch.float64), beta)
        assert abs((masked - dropped).item()) < 2e-15


def test_it_ends_when_no_row_falls(monkeypatch):
    evaluations = []
    powers = root.powers
    monkeypatch.setattr(root, "powers", lambda *arguments: evaluations.append(1) or powers(*arguments))
    led = torch.randn(50, 1000).clamp(-2, 2)
    led[:, 0] = 10  # by more than beta: t = 0 from the start
    assert (root.newton(shifted(led), 1.4) == 0).all() and len(evaluations) == 1
    assert root.newton(torch.full((2, 3), math.nan), 1.4).isnan().all() and len(evaluations) == 2
    root.newton(shifted(torch.randn(50, 1000)), 1.4)
    assert len(evaluations) < 2 + 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 5.0, 1e4])
def test_a_step_that_rounding_took_beyond_the_root_is_taken_back(beta, dtype, monkeypatch):
    """A slope that is too small by a thousandth takes the second step to the left of the root."""
    x = shifted(torch.randn(50, 100, dtype=dtype, generator=torch.Generator().manual_seed(0)) * min(beta, 3))
    exact, norm, calls = root.newton(x, beta), root._norm, 0

    def rounded(support, mass, beta):
        nonlocal calls
        calls += 1
        return norm(support * 0.999 if calls == 2 else support, mass, beta)

    monkeypatch.setattr(root, "_norm", rounded)
    t = root.newton(x, beta)
    assert calls > 3
    assert ((t - exact).abs() <= 8 * torch.finfo(dtype).eps * (1 - exact)).all()


class Solve(torch.nn.Module):
    def forward(self, x):
        return root.newton(x, 1.4)


def traced_by(tracer, x):
    if tracer == "make_fx":
        return make_fx(Solve(), tracing_mode="real")(x)
    if tracer == "fake":
        return make_fx(Solve(), tracing_mode="fake")(x)
    if tracer == "jit":
        return torch.jit.trace(Solve(), (x,), check_trace=False)
    return torch.export.export(Solve(), (x,)).module()


@pytest.mark.slow
@pytest.mark.parametrize("tracer", ["make_fx", "fake", "jit", pytest.param("export", marks=pytest.mark.nightly)])
def test_a_trace_makes_enough_steps_for_any_row(tracer):
    """The number of steps that one batch needed must not be written into the graph."""
    hard = shifted(hard_rows(1024, 1.4, torch.float64))
    easy = torch.zeros_like(hard)
    check_within(hard, traced_by(tracer, easy)(hard), 1.4)


@pytest.mark.parametrize("value", [1.4, 2.0, inf])
def test_values_are_not_read_where_they_may_not_be(value):
    with torch.device("meta"):
        assert root.newton(torch.zeros(3, 5), value).device.type == "meta"
    with FakeTensorMode():
        assert root.newton(torch.zeros(3, 5), value).shape == (3,)
    assert not _validation.is_concrete(torch.zeros(3, device="meta"))
