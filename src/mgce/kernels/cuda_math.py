r"""Compute powers of v = (1 + (x + t)/beta)_+ and Newton steps, as Triton functions on tiles of float32.

x are the logits minus the largest logit of the row, and t is the iterate of the root of the normalizer's equation. A
tile has the shape (rows, classes). Numbers for each row have the shape (rows, 1). The logarithm is computed here, not
by the device's library: `log(1 + z)` loses digits for arguments near 1, and a correction would cost twice as much. The
polynomials interpolate log2(1 + f)/f on [-1/3, 1/3] and expm1(y)/y on [-1/2, 1/2] at the Chebyshev nodes; their
relative errors are below 5e-8.
"""

from __future__ import annotations

import triton
import triton.language as tl

EPS = tl.constexpr(2.0**-23)  # of float32
LOWEST = tl.constexpr(-3.0e38)  # below every t, and finite
STILL = tl.constexpr(2.0**-25)  # p is taken at the last point but one, so more than the digits of t is asked for
CLEAR_RISE = tl.constexpr(2.0**-21)  # 4 eps, half of what t may be off by: as in `mgce.numerics.root`
TWO_THIRDS = tl.constexpr(0x3F2AAAAB)  # bits of float32 2/3, of its exponent, and of 1
EXPONENT = tl.constexpr(-0x800000)
ONE = tl.constexpr(0x3F800000)

# Of log2(1 + f) / f for f in [-1/3, 1/3], the lowest power first: its relative error is below 3e-8.
L0 = tl.constexpr(1.4426950408889634)
L1 = tl.constexpr(-0.7213465601474585)
L2 = tl.constexpr(0.4808974710506983)
L3 = tl.constexpr(-0.36078819064274303)
L4 = tl.constexpr(0.28864337251945227)
L5 = tl.constexpr(-0.23681147191020913)
L6 = tl.constexpr(0.20278251210339818)
L7 = tl.constexpr(-0.22209239516365326)
L8 = tl.constexpr(0.19834617416212144)

# Of (exp(y) - 1 - y) / y^2 for y in [-1/2, 1/2], likewise: that of exp(y) - 1 is below 3.7e-9.
E1 = tl.constexpr(0.5000000425920544)
E2 = tl.constexpr(0.16666667139493802)
E3 = tl.constexpr(0.041665304193438314)
E4 = tl.constexpr(0.008333182071584195)
E5 = tl.constexpr(0.0013997773379590332)
E6 = tl.constexpr(0.000199621762266955)

_compiled = triton.jit


@_compiled  # type: ignore[untyped-decorator]
def log2(v: tl.tensor, lost: tl.tensor) -> tl.tensor:
    """Compute the binary logarithm of v + lost, to a few units in its last place.

    v is in (0, 1], and `lost` is the rounding error of v, which the result corrects.
    """
    bits = v.to(tl.int32, bitcast=True)
    exponent = (bits - TWO_THIRDS) & EXPONENT
    f = (bits - exponent).to(tl.float32, bitcast=True) - 1  # v = 2^e (1 + f), f in [-1/3, 1/3]
    f += lost * (-exponent + ONE).to(tl.float32, bitcast=True)
    series = f * L8 + L7
    series = f * series + L6
    series = f * series + L5
    series = f * series + L4
    series = f * series + L3
    series = f * series + L2
    series = f * series + L1
    series = f * series + L0
    return f * series + (exponent >> 23).to(tl.float32)


@_compiled  # type: ignore[untyped-decorator]
def expm1(y: tl.tensor) -> tl.tensor:
    """Return exp(y) - 1 with a small relative error, also near zero."""
    series = y * E6 + E5
    series = y * series + E4
    series = y * series + E3
    series = y * series + E2
    series = y * series + E1
    return tl.where(tl.abs(y) <= 0.5, y + y * y * series, tl.exp(y) - 1)


@_compiled  # type: ignore[untyped-decorator]
def powers(
    x: tl.tensor,
    t: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    HALVES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return w = v^(beta - 1) and v = (1 + (x + t)/beta)_+; HALVES is 2 (beta - 1), or -1 if w takes a logarithm.

    For v below 1/2, x + t is added to beta as (beta + x) + t, because there the first sum is exact. So v is accurate
    near 0 as well as near 1.
    """
    edge = x < -0.5 * beta
    z = tl.where(edge, (beta + x) + t, x + t) * inv_beta
    v = tl.where(edge, z, 1 + z)
    on = v > 0
    lost = tl.where(on & (x >= -0.5 * beta), z - (v - 1), 0)
    v = tl.where(on, v, 0)
    if HALVES < 0:
        w = tl.where(on, tl.exp2(beta_less_1 * log2(tl.where(on, v, 1), lost)), 0)
    else:
        w = tl.where(on, 1.0, 0.0)
        if HALVES & 1:
            w = tl.sqrt(v)
        if HALVES & 2:
            w *= v
        if HALVES >= 4:
            v2 = v * v
            if HALVES & 4:
                w *= v2
            if HALVES >= 8:
                v4 = v2 * v2
                if HALVES & 8:
                    w *= v4
                if HALVES & 16:
                    w *= v4 * v4
    return w, v


@_compiled  # type: ignore[untyped-decorator]
def first_guess(size: tl.tensor, total: tl.tensor, beta: tl.tensor, inv_beta: tl.tensor) -> tl.tensor:
    """Return an upper bound of the root, by Jensen's inequality for `size` classes whose x sum to `total`; keep NaN."""
    bound = beta * expm1(-tl.log(size) * inv_beta) - total / size
    return tl.where(bound > 0, 0, bound)


@_compiled  # type: ignore[untyped-decorator]
def newton_step(
    t: tl.tensor,
    low: tl.tensor,  # the highest point from which t rose; LOWEST at first
    h_sum: tl.tensor,
    w_sum: tl.tensor,
    beta: tl.tensor,
    inv_beta: tl.tensor,
    step: tl.tensor,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return t after a Newton step, its next lower bound `low`, and a mask of the rows that need more steps.

    A row needs more steps if t changed by more than rounding error. It also needs more steps if the step was short only
    because the slope is large: at the next point the slope may be smaller, though never below 1.
    """
    excess = -beta * expm1(-tl.log(h_sum) * inv_beta)
    moved = t - excess * h_sum / w_sum
    moved = tl.where(moved > 0, 0, moved)
    # On the right of the root t falls. The guess may be left of it by rounding, so the first step is free. After it t
    # may rise only clearly, from a point that is left of the root by more than the rounding of the sums. It never falls
    # back to such a point: float32 would cycle where the support collapses.
    rises = moved - t > (1 - t) * CLEAR_RISE
    least = low + (1 - low) * (EPS / 2)
    fallen = tl.where(moved < least, least, moved)
    moved = tl.where((step == 0) | rises, moved, tl.where(fallen > t, t, fallen))
    low = tl.where((step > 0) & rises, t, low)
    far = (tl.abs(moved - t) > (1 - moved) * STILL) | ((t - moved) * w_sum > (1 - moved) * CLEAR_RISE)
    return moved, low, far


@_compiled  # type: ignore[untyped-decorator]
def solve_tile(
    x: tl.tensor,  # logits less their row maximum
    t: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    steps: tl.tensor,
    HALVES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return for each row the root t, the point `at` at which w was last evaluated, and the sum of w there.

    The worst-case probabilities are p = w(x + at) / w_sum. A row that has converged is not changed any more, so its
    result does not depend on the other rows. The loop stops once all rows have converged.
    """
    at = t
    low = tl.zeros_like(t) + LOWEST
    w_sum = tl.zeros_like(t)
    moving = t == t
    step = 0
    while (step <= steps) & (tl.max(moving.to(tl.int32)) > 0):
        w, v = powers(x, t, beta, beta_less_1, inv_beta, HALVES)
        new_sum = tl.sum(w, 1, keep_dims=True)
        moved, low, far = newton_step(t, low, tl.sum(w * v, 1, keep_dims=True), new_sum, beta, inv_beta, step)
        at = tl.where(moving, t, at)
        w_sum = tl.where(moving, new_sum, w_sum)
        t = tl.where(moving & (step < steps), moved, t)
        moving = moving & far
        step += 1
    return t, at, w_sum
