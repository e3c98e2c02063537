"""Define Triton functions that compute loss and gradient of a row in chunks, reading it once for each step.

A row is read to find its maximum, for the first guess, for each step of Newton's method, and to write its gradient.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mgce.kernels.cuda_math import LOWEST, first_guess, newton_step, powers
from mgce.kernels.cuda_rows import keep_root, spread_target

_inlined = triton.jit


@_inlined  # type: ignore[untyped-decorator]
def scan_peak(f_row: tl.tensor, k: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """Return the largest logit of a row, shape (1, 1)."""
    col = tl.arange(0, BLOCK)[None, :]
    peaks = tl.full((1, BLOCK), -float("inf"), tl.float32)
    for start in range(0, k, BLOCK):
        at = start + col
        peaks = tl.maximum(peaks, tl.load(f_row + at, mask=at < k, other=-float("inf")).to(tl.float32))
    return tl.max(peaks, 1, keep_dims=True)


@_inlined  # type: ignore[untyped-decorator]
def solve_chunks(
    f_row: tl.tensor,  # pointer to logits, all or the candidates
    count: tl.tensor,
    peak: tl.tensor,
    t: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    steps: tl.tensor,
    HALVES: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Find the root of the normalizer's equation, as `solve_tile` does, for one row that is read in chunks."""
    col = tl.arange(0, BLOCK)[None, :]
    # Not `at = t`: what bears the name of another value before a loop and gets it again inside, Triton takes for
    # unchanged. After the loop `at` would be the first guess.
    at = t + 0
    low = tl.zeros_like(t) + LOWEST
    w_sum = tl.zeros_like(t)
    moving = t == t
    step = 0
    while (step <= steps) & (tl.max(moving.to(tl.int32)) > 0):
        w_sums = tl.zeros((1, BLOCK), tl.float32)
        h_sums = tl.zeros((1, BLOCK), tl.float32)
        for start in range(0, count, BLOCK):
            place = start + col
            f = tl.load(f_row + place, mask=place < count, other=-float("inf")).to(tl.float32)
            w, v = powers(f - peak, t, beta, beta_less_1, inv_beta, HALVES)
            w_sums += w
            h_sums += w * v
        at = t
        w_sum = tl.sum(w_sums, 1, keep_dims=True)
        h_sum = tl.sum(h_sums, 1, keep_dims=True)
        moved, low, moving = newton_step(t, low, h_sum, w_sum, beta, inv_beta, step)
        t = tl.where(step < steps, moved, t)
        step += 1
    return t, at, w_sum


@_inlined  # type: ignore[untyped-decorator]
def read_row(
    f_row: tl.tensor,  # pointer to the row
    target_row: tl.tensor,
    weight: tl.tensor,
    k: tl.tensor,
    peak: tl.tensor,
    label: tl.tensor,
    share: tl.tensor,
    target_share: tl.tensor,
    uniform_share: tl.tensor,
    beta: tl.tensor,
    PROBS: tl.constexpr,
    SMOOTH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Return sums over a row, with f the logits, q the target and `peak` the largest logit.

    The first two results are the number of classes with f less than beta below the peak, and the sum of f - peak over
    these classes. The other two are the sums of q (peak - f) and of q over all classes.
    """
    col = tl.arange(0, BLOCK)[None, :]
    sizes = tl.zeros((1, BLOCK), tl.float32)
    totals = tl.zeros((1, BLOCK), tl.float32)
    costs = tl.zeros((1, BLOCK), tl.float32)
    masses = tl.zeros((1, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        at_col = start + col
        inside = at_col < k
        x = tl.load(f_row + at_col, mask=inside, other=-float("inf")).to(tl.float32) - peak
        near = inside & ((x > -beta) | (x != x))  # NaN counts, so that it reaches t
        sizes += near.to(tl.float32)
        totals += tl.where(near, x, 0)
        costs += tl.where(at_col == label, share * -x, 0)
        if PROBS or SMOOTH:
            q = spread_target(target_row, weight, at_col, inside, k, target_share, uniform_share, PROBS, WEIGHTED)
            costs += tl.where(q == 0, 0, q * -x)
            masses += q
    size = tl.sum(sizes, 1, keep_dims=True)
    total = tl.sum(totals, 1, keep_dims=True)
    return size, total, tl.sum(costs, 1, keep_dims=True), share + tl.sum(masses, 1, keep_dims=True)


@_inlined  # type: ignore[untyped-decorator]
def write_row(
    grad_row: tl.tensor,
    f_row: tl.tensor,
    target_row: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    k: tl.tensor,
    t: tl.tensor,
    peak: tl.tensor,
    scale: tl.tensor,  # of w
    label: tl.tensor,
    share: tl.tensor,
    kept: tl.tensor,
    target_share: tl.tensor,
    uniform_share: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    HALVES: tl.constexpr,
    PROBS: tl.constexpr,
    SMOOTH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the gradient of one row, which is read in chunks."""
    col = tl.arange(0, BLOCK)[None, :]
    for start in range(0, k, BLOCK):
        at_col = start + col
        inside = at_col < k
        f = tl.load(f_row + at_col, mask=inside, other=-float("inf")).to(tl.float32)
        w, _ = powers(f - peak, t, beta, beta_less_1, inv_beta, HALVES)
        slope = w * scale - tl.where(at_col == label, share, 0)
        if PROBS or SMOOTH:
            slope -= spread_target(target_row, weight, at_col, inside, k, target_share, uniform_share, PROBS, WEIGHTED)
        if MEAN:
            slope /= tl.load(denominator)
        tl.store(grad_row + at_col, tl.where(kept, slope, 0), mask=inside)


@_inlined  # type: ignore[untyped-decorator]
def chunked_row(
    f_row: tl.tensor,
    target_row: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    loss: tl.tensor,  # pointer to the loss of the row
    grad_row: tl.tensor,
    root: tl.tensor,  # pointer to what `keep_root` stores of the row
    k: tl.tensor,
    label: tl.tensor,
    share: tl.tensor,
    kept: tl.tensor,
    target_share: tl.tensor,
    uniform_share: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    steps: tl.tensor,
    HALVES: tl.constexpr,
    PROBS: tl.constexpr,
    SMOOTH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
    GRAD: tl.constexpr,
    KEEP: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Compute the loss and the gradient of one row, which is read in chunks: first from memory, then from the cache."""
    peak = scan_peak(f_row, k, BLOCK)
    size, total, cost, mass = read_row(
        f_row, target_row, weight, k, peak, label, share, target_share, uniform_share, beta,
        PROBS, SMOOTH, WEIGHTED, BLOCK,
    )  # fmt: skip
    t = first_guess(size, total, beta, inv_beta)
    t, at, w_sum = solve_chunks(f_row, k, peak, t, beta, beta_less_1, inv_beta, steps, HALVES, BLOCK)
    tl.store(loss, tl.where(kept, cost - mass * t, 0))
    if KEEP:
        keep_root(root, kept, peak, at, mass / w_sum)
    if GRAD:
        tl.debug_barrier()  # grad may be logits: every thread has read them
        write_row(
            grad_row, f_row, target_row, weight, denominator, k, at, peak, mass / w_sum,
            label, share, kept, target_share, uniform_share, beta, beta_less_1, inv_beta,
            HALVES, PROBS, SMOOTH, WEIGHTED, MEAN, BLOCK,
        )  # fmt: skip
