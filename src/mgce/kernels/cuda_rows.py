"""Define the Triton kernel of loss and gradient for rows that fit in registers, and what all kernels share."""

from __future__ import annotations

import triton
import triton.language as tl

from mgce.kernels.cuda_math import first_guess, powers, solve_tile

_compiled = triton.jit(do_not_specialize=["ignore_index", "n", "first"])
_inlined = triton.jit


@_inlined  # type: ignore[untyped-decorator]
def row_target(
    target: tl.tensor,
    weight: tl.tensor,
    row: tl.tensor,
    real: tl.tensor,  # where row < n
    k: tl.tensor,
    ignore_index: tl.tensor,
    target_share: tl.tensor,
    PROBS: tl.constexpr,
    WEIGHTED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return the label of each row, the weight of the label in the target, and whether the row is not ignored.

    The weight is NaN if the label is not a class.
    """
    if PROBS:
        return tl.full(row.shape, -1, tl.int64), tl.zeros(row.shape, tl.float32), real
    label = tl.load(target + row, mask=real, other=0).to(tl.int64)
    kept = real & (label != ignore_index)
    inside = (label >= 0) & (label < k)
    share = tl.full(row.shape, 1.0, tl.float32) * target_share
    if WEIGHTED:
        share *= tl.load(weight + label, mask=kept & inside, other=0).to(tl.float32)
    return label, tl.where(inside, share, float("nan")), kept


@_inlined  # type: ignore[untyped-decorator]
def spread_target(
    target_row: tl.tensor,  # pointer to the row's probabilities
    weight: tl.tensor,
    col: tl.tensor,
    inside: tl.tensor,  # where a row of the batch has such a class
    k: tl.tensor,
    target_share: tl.tensor,
    uniform_share: tl.tensor,
    PROBS: tl.constexpr,
    WEIGHTED: tl.constexpr,
) -> tl.tensor:
    """Return the given probabilities plus label smoothing, times class weights: the target without the hard label.

    The result is zero outside of the mask `inside`.
    """
    q = tl.where(inside, uniform_share, 0.0)
    if PROBS:
        q += target_share * tl.load(target_row + col, mask=inside, other=0).to(tl.float32)
    if WEIGHTED:
        q *= tl.load(weight + col, mask=col < k, other=0).to(tl.float32)
    return q


@_inlined  # type: ignore[untyped-decorator]
def keep_root(
    root: tl.tensor,  # pointer to the three numbers of each row
    kept: tl.tensor,
    peak: tl.tensor,
    at: tl.tensor,
    scale: tl.tensor,
) -> None:
    """Store three numbers of each row that is not ignored, from which `block_kernel` computes the gradient.

    The numbers are the largest logit, the point at which w was last evaluated, and the factor of w in the gradient.
    """
    tl.store(root, peak, mask=kept)
    tl.store(root + 1, at, mask=kept)
    tl.store(root + 2, scale, mask=kept)


@_compiled  # type: ignore[untyped-decorator]
def row_kernel(
    logits: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    losses: tl.tensor,
    grad: tl.tensor,  # may be logits
    roots: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    logits_stride: tl.tensor,
    target_stride: tl.tensor,
    grad_stride: tl.tensor,
    ignore_index: tl.tensor,
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
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Compute the loss and the gradient of ROWS rows, held in registers; k, the number of classes, is at most BLOCK."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    real = row < n
    inside = real & (col < k)
    f = tl.load(logits + row * logits_stride + col, mask=inside, other=-float("inf"))
    peak = tl.max(f.to(tl.float32), 1, keep_dims=True)
    x = f.to(tl.float32) - peak
    near = (x > -beta) | (x != x)  # NaN counts, so that it reaches t
    size = tl.sum(near.to(tl.float32), 1, keep_dims=True)
    t = first_guess(size, tl.sum(tl.where(near, x, 0), 1, keep_dims=True), beta, inv_beta)
    t, at, w_sum = solve_tile(x, t, beta, beta_less_1, inv_beta, steps, HALVES)

    label, share, kept = row_target(target, weight, row, real, k, ignore_index, target_share, PROBS, WEIGHTED)
    chosen = col == label
    cost = share * tl.sum(tl.where(chosen, -x, 0), 1, keep_dims=True)
    mass = share
    if PROBS or SMOOTH:
        target_row = target + row * target_stride
        q = spread_target(target_row, weight, col, inside, k, target_share, uniform_share, PROBS, WEIGHTED)
        cost += tl.sum(tl.where(q == 0, 0, q * -x), 1, keep_dims=True)
        mass += tl.sum(q, 1, keep_dims=True)
    tl.store(losses + row, tl.where(kept, cost - mass * t, 0), mask=real)

    if KEEP:
        keep_root(roots + row * 3, kept, peak, at, mass / w_sum)
    if GRAD:
        w, _ = powers(x, at, beta, beta_less_1, inv_beta, HALVES)
        slope = w * (mass / w_sum) - tl.where(chosen, share, 0)
        if PROBS or SMOOTH:
            slope -= q
        if MEAN:
            slope /= tl.load(denominator)
        tl.store(grad + row * grad_stride + col, tl.where(kept, slope, 0), mask=inside)


@_compiled  # type: ignore[untyped-decorator]
def block_kernel(
    logits: tl.tensor,  # of the classes first, ..., first + width - 1; the gradient is written over them
    target: tl.tensor,
    weight: tl.tensor,
    roots: tl.tensor,
    factor: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    first: tl.tensor,
    width: tl.tensor,
    logits_stride: tl.tensor,
    target_stride: tl.tensor,
    factor_stride: tl.tensor,
    ignore_index: tl.tensor,
    target_share: tl.tensor,
    uniform_share: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    HALVES: tl.constexpr,
    PROBS: tl.constexpr,
    SMOOTH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Overwrite the logits of some classes with the gradient, times a factor for each row, from the rows' roots."""
    row = tl.full((1, 1), tl.program_id(0), tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = col < width
    at_col = first + col
    label, share, kept = row_target(target, weight, row, row < n, k, ignore_index, target_share, PROBS, WEIGHTED)
    root = roots + row * 3
    peak, at, scale = tl.load(root), tl.load(root + 1), tl.load(root + 2)  # unwritten where the row is ignored
    f = tl.load(logits + row * logits_stride + col, mask=inside, other=-float("inf")).to(tl.float32)
    w, _ = powers(f - peak, at, beta, beta_less_1, inv_beta, HALVES)
    slope = w * scale - tl.where(at_col == label, share, 0)
    if PROBS or SMOOTH:
        target_row = target + row * target_stride
        slope -= spread_target(target_row, weight, at_col, inside, k, target_share, uniform_share, PROBS, WEIGHTED)
    slope *= tl.load(factor + row * factor_stride)
    tl.store(logits + row * logits_stride + col, tl.where(kept, slope, 0), mask=inside)


@_compiled  # type: ignore[untyped-decorator]
def scale_kernel(
    grad: tl.tensor,
    factor: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    grad_stride: tl.tensor,
    factor_stride: tl.tensor,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Multiply row i of the gradient by factor i, unless this is 1; a program processes `ROWS` rows in blocks."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    by = tl.load(factor + row * factor_stride, mask=row < n, other=1).to(tl.float32)
    scaled = by != 1
    if tl.max(scaled.to(tl.int32), 0) > 0:
        for start in range(0, k, BLOCK):
            col = start + tl.arange(0, BLOCK)
            at = grad + row[:, None] * grad_stride + col[None, :]
            inside = scaled[:, None] & (col < k)[None, :]
            tl.store(at, tl.load(at, mask=inside, other=0).to(tl.float32) * by[:, None], mask=inside)
