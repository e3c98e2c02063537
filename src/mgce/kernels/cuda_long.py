r"""Define the Triton kernel of loss and gradient for rows that do not fit in registers.

A class whose logit is beta or more below the largest has no probability, and its gradient is minus its target. All
other classes are candidates. A row is read from memory once. Meanwhile the gradient is written as if no class had a
probability. Logits above a *cut*, which rises with the largest logit so far, are appended to a list with their
positions. Newton's method runs on the list, and the gradients of the list are written over the others.

If the list overflows, the normalizer of the list is computed. It is an upper bound of the normalizer of the row. So a
class without probability in the list has none in the row, and is removed. If too many classes remain, the row is read
in chunks (`chunked_row`), once for each step of Newton's method. A row without a solution, which gives NaN, is read in
chunks too. For a large beta most classes are candidates, and no list is made.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mgce.kernels.cuda_chunks import chunked_row, solve_chunks
from mgce.kernels.cuda_math import EPS, first_guess, powers
from mgce.kernels.cuda_rows import keep_root, row_target, spread_target

_compiled = triton.jit(do_not_specialize=["ignore_index", "n"])
_inlined = triton.jit


@_inlined  # type: ignore[untyped-decorator]
def solve_list(
    values: tl.tensor,  # pointer to the logits of the list
    count: tl.tensor,
    peak: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    steps: tl.tensor,
    HALVES: tl.constexpr,
    LIST: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Find the root for a list of candidates, as `solve_chunks` does; compute the first guess from the list."""
    col = tl.arange(0, LIST)[None, :]
    sizes = tl.zeros((1, LIST), tl.float32)
    totals = tl.zeros((1, LIST), tl.float32)
    for start in range(0, count, LIST):
        slot = start + col
        x = tl.load(values + slot, mask=slot < count, other=-float("inf")).to(tl.float32) - peak
        near = x > -beta
        sizes += near.to(tl.float32)
        totals += tl.where(near, x, 0)
    t = first_guess(tl.sum(sizes, 1, keep_dims=True), tl.sum(totals, 1, keep_dims=True), beta, inv_beta)
    t, at, w_sum = solve_chunks(values, count, peak, t, beta, beta_less_1, inv_beta, steps, HALVES, LIST)
    return t, at, w_sum


@_inlined  # type: ignore[untyped-decorator]
def shorten_list(
    values: tl.tensor,
    places: tl.tensor,
    count: tl.tensor,
    origin: tl.tensor,
    cut: tl.tensor,
    LIST: tl.constexpr,
) -> tl.tensor:
    """Remove the candidates that are not above the cut, keep the order of the rest, and return their number."""
    col = tl.arange(0, LIST)[None, :]
    left = 0
    for start in range(0, count, LIST):
        slot = start + col
        value = tl.load(values + slot, mask=slot < count, other=-float("inf"))
        place = tl.load(places + slot, mask=slot < count, other=0)
        stays = value.to(tl.float32) - origin > cut
        tl.debug_barrier()  # every thread has read this part; nothing moves into a part that comes later
        moved = left + tl.cumsum(stays.to(tl.int32), 1) - 1
        tl.store(values + moved, value, mask=stays)
        tl.store(places + moved, place, mask=stays)
        left += tl.sum(stays.to(tl.int32))
    return left


@_inlined  # type: ignore[untyped-decorator]
def list_bound(
    values: tl.tensor,
    count: tl.tensor,
    peak: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    steps: tl.tensor,
    HALVES: tl.constexpr,
    LIST: tl.constexpr,
) -> tl.tensor:
    """Return a bound: no class whose logit minus `peak`, the largest logit, is below it can have a probability.

    The bound follows from the normalizer of the list of candidates.
    """
    root, _, _ = solve_list(values, count, peak, beta, beta_less_1, inv_beta, steps, HALVES, LIST)
    t = tl.sum(root)
    t = tl.where(t == t, t, 0)  # the peak is so far above the list that no class of it counts
    # t is off by at most 8 eps of max(1, -t), and each difference by a few more; 32 are clear of both.
    return (t - 1) * (32 * EPS) - t - beta


@_inlined  # type: ignore[untyped-decorator]
def slope_without_probability(
    target_row: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    at: tl.tensor,
    inside: tl.tensor,
    k: tl.tensor,
    label: tl.tensor,
    at_label: tl.tensor,
    elsewhere: tl.tensor,
    target_share: tl.tensor,
    uniform_share: tl.tensor,
    PROBS: tl.constexpr,
    SMOOTH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the gradient of classes that have no probability, and their target without the hard label."""
    slope = tl.where(at == label, at_label, elsewhere)
    q = tl.zeros(at.shape, tl.float32)
    if PROBS or SMOOTH:
        q = spread_target(target_row, weight, at, inside, k, target_share, uniform_share, PROBS, WEIGHTED)
        slope -= tl.where(inside, q / tl.load(denominator), 0) if MEAN else q  # no class is inside an ignored row
    return slope, q


@_inlined  # type: ignore[untyped-decorator]
def read_once(
    f_row: tl.tensor,  # pointer to the row
    target_row: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    grad_row: tl.tensor,
    values: tl.tensor,  # pointers to room for CAPACITY logits and their places
    places: tl.tensor,
    k: tl.tensor,
    label: tl.tensor,
    kept: tl.tensor,
    at_label: tl.tensor,  # gradient of the hard label if it has no probability, without the rest of the target
    elsewhere: tl.tensor,  # likewise of other classes: zero, or NaN if the label is not a class
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
    WRITE: tl.constexpr,
    BLOCK: tl.constexpr,
    LIST: tl.constexpr,
    CAPACITY: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """List the candidates of a row, and sum q (peak - f) and q, with f the logits, q the target without the label.

    A logit f is a candidate if f - origin > cut, with `origin` the largest logit so far. A logit that is left out then
    would also be left out with the largest logit of the row, since rounding preserves the order of numbers.

    Return the largest logit, `peak`, the number of candidates, the two sums, and whether the row must be read in
    chunks.
    """
    col = tl.arange(0, BLOCK)[None, :]
    costs = tl.zeros((1, BLOCK), tl.float32)
    masses = tl.zeros((1, BLOCK), tl.float32)
    peak = tl.full((), -float("inf"), tl.float32)
    origin = tl.full((), -float("inf"), tl.float32)
    cut = -beta
    count = 0
    crowded = 0
    start = 0
    ahead = tl.load(f_row + col, mask=kept & (col < k), other=-float("inf"))
    while (start < k) & (crowded == 0):
        start = tl.multiple_of(start, BLOCK)
        at = start + col
        f = ahead
        following = at + BLOCK  # on its way while this part is looked at
        ahead = tl.load(f_row + following, mask=kept & (following < k), other=-float("inf"))
        x = f.to(tl.float32)
        top = tl.max(tl.where(x == x, x, float("inf")))
        higher_peak = tl.maximum(peak, top)
        slope, q = slope_without_probability(
            target_row, weight, denominator, at, kept & (at < k), k, label, at_label, elsewhere,
            target_share, uniform_share, PROBS, SMOOTH, WEIGHTED, MEAN,
        )  # fmt: skip
        if PROBS or SMOOTH:
            # While all logits are -inf, a target is either zero or its loss inf.
            rise = tl.where(peak == -float("inf"), 0, higher_peak - peak)
            base = tl.where(higher_peak == -float("inf"), 0, higher_peak)
            costs += tl.where(masses == 0, 0, masses * rise) + tl.where(q == 0, 0, q * (base - x))
            masses += q
        if WRITE:
            tl.store(grad_row + at, slope, mask=at < k)
        peak = higher_peak
        higher = top - beta > origin + cut
        origin = tl.where(higher, top, origin)
        cut = tl.where(higher, -beta, cut)
        crowded = (peak == float("inf")).to(tl.int32)
        if top - origin > cut:
            found = tl.sum((x - origin > cut).to(tl.int32))
            if count + found > CAPACITY:
                tl.debug_barrier()  # every thread has written its part of the list
                cut = list_bound(values, count, peak, beta, beta_less_1, inv_beta, steps, HALVES, LIST)
                origin = peak
                tl.debug_barrier()
                count = shorten_list(values, places, count, origin, cut, LIST)
                tl.debug_barrier()
                # Shortened lists that stay long would be solved again and again. Half of the room holds a block.
                crowded = (count > CAPACITY // 2).to(tl.int32)
                cut = tl.where(crowded == 0, cut, float("inf"))  # there may be no room for more
                found = tl.sum((x - origin > cut).to(tl.int32))
            chosen = x - origin > cut
            slot = count + tl.cumsum(chosen.to(tl.int32), 1) - 1
            tl.store(values + slot, f, mask=chosen)
            tl.store(places + slot, at, mask=chosen)
            count += found
        start += BLOCK
    mass = tl.sum(masses)
    unanswered = (peak == -float("inf")) & (tl.max(kept.to(tl.int32)) > 0)
    in_chunks = (crowded != 0) | unanswered | (mass != mass)
    return peak, count, tl.sum(costs), mass, in_chunks.to(tl.int32)


@_inlined  # type: ignore[untyped-decorator]
def write_without_probability(
    target_row: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    grad_row: tl.tensor,
    k: tl.tensor,
    label: tl.tensor,
    kept: tl.tensor,
    at_label: tl.tensor,
    elsewhere: tl.tensor,
    target_share: tl.tensor,
    uniform_share: tl.tensor,
    PROBS: tl.constexpr,
    SMOOTH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the gradient of a row as if no class had a probability."""
    col = tl.arange(0, BLOCK)[None, :]
    for start in range(0, k, BLOCK):
        at = start + col
        slope, _ = slope_without_probability(
            target_row, weight, denominator, at, kept & (at < k), k, label, at_label, elsewhere,
            target_share, uniform_share, PROBS, SMOOTH, WEIGHTED, MEAN,
        )  # fmt: skip
        tl.store(grad_row + at, slope, mask=at < k)


@_inlined  # type: ignore[untyped-decorator]
def write_list(
    target_row: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    grad_row: tl.tensor,
    values: tl.tensor,
    places: tl.tensor,
    k: tl.tensor,
    count: tl.tensor,
    t: tl.tensor,
    peak: tl.tensor,
    scale: tl.tensor,  # of w
    label: tl.tensor,
    share: tl.tensor,
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
    LIST: tl.constexpr,
) -> None:
    """Write the gradient of the candidates to their positions in the row."""
    col = tl.arange(0, LIST)[None, :]
    for start in range(0, count, LIST):
        slot = start + col
        inside = slot < count
        f = tl.load(values + slot, mask=inside, other=-float("inf")).to(tl.float32)
        place = tl.load(places + slot, mask=inside, other=0)
        w, _ = powers(f - peak, t, beta, beta_less_1, inv_beta, HALVES)
        slope = w * scale - tl.where(place == label, share, 0)
        if PROBS or SMOOTH:
            slope -= spread_target(target_row, weight, place, inside, k, target_share, uniform_share, PROBS, WEIGHTED)
        if MEAN:
            slope /= tl.load(denominator)
        tl.store(grad_row + place, slope, mask=inside)


@_compiled  # type: ignore[untyped-decorator]
def long_kernel(
    logits: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    losses: tl.tensor,
    grad: tl.tensor,  # logits, if INPLACE
    roots: tl.tensor,
    values: tl.tensor,
    places: tl.tensor,
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
    INPLACE: tl.constexpr,
    BLOCK: tl.constexpr,
    LIST: tl.constexpr,
    CAPACITY: tl.constexpr,  # of the list; 0 for none
) -> None:
    """Compute the loss and, with GRAD, the gradient of every num_programs-th row of k classes.

    `values` and `places` are memory of each program for the candidates of one row.
    """
    values += tl.program_id(0).to(tl.int64) * CAPACITY
    places += tl.program_id(0).to(tl.int64) * CAPACITY
    for index in range(tl.program_id(0), n, tl.num_programs(0)):
        row = tl.full((1, 1), index, tl.int64)
        f_row = logits + row * logits_stride
        target_row = target + row * target_stride
        grad_row = grad + row * grad_stride
        label, share, kept = row_target(target, weight, row, row < n, k, ignore_index, target_share, PROBS, WEIGHTED)
        in_chunks = tl.full((), 1, tl.int32)
        if CAPACITY > 0:
            f_label = tl.load(f_row + label, mask=kept & (label >= 0) & (label < k), other=0).to(tl.float32)
            # NaN where the label is not a class, and in a mean over rows without weight.
            elsewhere, at_label = share * 0, -share
            if MEAN:
                elsewhere /= tl.load(denominator)
                at_label /= tl.load(denominator)
            elsewhere, at_label = tl.where(kept, elsewhere, 0), tl.where(kept, at_label, 0)
            tl.debug_barrier()  # the list of the row before has been read
            peak, count, cost, mass, in_chunks = read_once(
                f_row, target_row, weight, denominator, grad_row, values, places, k, label, kept, at_label, elsewhere,
                target_share, uniform_share, beta, beta_less_1, inv_beta, steps,
                HALVES, PROBS, SMOOTH, WEIGHTED, MEAN, GRAD and not INPLACE, BLOCK, LIST, CAPACITY,
            )  # fmt: skip
            tl.debug_barrier()  # the list and the gradients have been written
            if in_chunks == 0:
                t, at, w_sum = solve_list(values, count, peak, beta, beta_less_1, inv_beta, steps, HALVES, LIST)
                loss = cost + share * (peak - f_label) - (share + mass) * t
                tl.store(losses + row, tl.where(kept, loss, 0))
                if KEEP:
                    keep_root(roots + row * 3, kept, peak, at, (share + mass) / w_sum)
                if GRAD:
                    if INPLACE:
                        write_without_probability(
                            target_row, weight, denominator, grad_row, k, label, kept, at_label, elsewhere,
                            target_share, uniform_share, PROBS, SMOOTH, WEIGHTED, MEAN, BLOCK,
                        )  # fmt: skip
                        tl.debug_barrier()
                    write_list(
                        target_row, weight, denominator, grad_row, values, places, k, count, at, peak,
                        (share + mass) / w_sum, label, share, target_share, uniform_share, beta, beta_less_1, inv_beta,
                        HALVES, PROBS, SMOOTH, WEIGHTED, MEAN, LIST,
                    )  # fmt: skip
        if in_chunks != 0:
            tl.debug_barrier()  # no thread still writes to the gradient
            chunked_row(
                f_row, target_row, weight, denominator, losses + row, grad_row, roots + row * 3, k, label, share, kept,
                target_share, uniform_share, beta, beta_less_1, inv_beta, steps,
                HALVES, PROBS, SMOOTH, WEIGHTED, MEAN, GRAD, KEEP, BLOCK,
            )  # fmt: skip
