r"""Define the Triton kernel of loss and gradient that reads each row once, for rows with few candidates.

A class whose logit is beta or more below the largest has a gradient of exactly zero. All other classes are candidates.
While a row is read, zeros are written for its whole gradient. Logits above a *cut*, which rises with the largest logit
so far, are appended to a list with their positions. Newton's method runs on the list, and the gradient of the list is
written over the zeros.

If the list overflows, the normalizer of the list is computed. It is an upper bound of the normalizer of the row. So a
class without probability in the list has none in the row, and is removed. If too many classes remain, the row is marked
for the kernel that reads rows in chunks. A row without a solution is marked too; that kernel returns NaN for it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mgce.kernels.cuda_chunks import solve_chunks
from mgce.kernels.cuda_math import EPS, first_guess, powers
from mgce.kernels.cuda_rows import row_target

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
    """Return a logit, relative to the largest, `peak`, below which no class can have a probability.

    It follows from the normalizer of the list of candidates.
    """
    root, _, _ = solve_list(values, count, peak, beta, beta_less_1, inv_beta, steps, HALVES, LIST)
    t = tl.sum(root)
    t = tl.where(t == t, t, 0)  # the peak is so far above the list that no class of it counts
    # t is off by at most 8 eps of max(1, -t), and each difference by a few more; 32 are clear of both.
    return (t - 1) * (32 * EPS) - t - beta


@_inlined  # type: ignore[untyped-decorator]
def read_once(
    f_row: tl.tensor,  # pointer to the row
    grad_row: tl.tensor,
    values: tl.tensor,  # pointers to room for CAPACITY logits and their places
    places: tl.tensor,
    k: tl.tensor,
    label: tl.tensor,
    kept: tl.tensor,
    at_label: tl.tensor,  # gradient of the label where it is no candidate
    elsewhere: tl.tensor,  # and of all other classes
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    steps: tl.tensor,
    HALVES: tl.constexpr,
    WRITE: tl.constexpr,
    BLOCK: tl.constexpr,
    LIST: tl.constexpr,
    CAPACITY: tl.constexpr,  # 2 BLOCK: half of it is left after a list was shortened
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """List the candidates of a row; return its largest logit, their number, and whether another kernel must compute it.

    A logit f is a candidate if f - origin > cut, with `origin` the largest logit so far. A logit that is left out then
    would also be left out with the largest logit of the row, since rounding preserves the order of numbers.
    """
    col = tl.arange(0, BLOCK)[None, :]
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
        if WRITE:
            tl.store(grad_row + at, tl.where(at == label, at_label, elsewhere), mask=at < k)
        x = f.to(tl.float32)
        top = tl.max(tl.where(x == x, x, float("inf")))
        peak = tl.maximum(peak, top)
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
                crowded = (count > BLOCK).to(tl.int32)
                cut = tl.where(crowded == 0, cut, float("inf"))  # there may be no room for more
            chosen = x - origin > cut
            slot = count + tl.cumsum(chosen.to(tl.int32), 1) - 1
            tl.store(values + slot, f, mask=chosen)
            tl.store(places + slot, at, mask=chosen)
            count += tl.sum(chosen.to(tl.int32))
        start += BLOCK
    unanswered = (peak == -float("inf")) & (tl.max(kept.to(tl.int32)) > 0)
    return peak, count, (crowded != 0) | unanswered


@_inlined  # type: ignore[untyped-decorator]
def fill_row(
    grad_row: tl.tensor,
    k: tl.tensor,
    label: tl.tensor,
    at_label: tl.tensor,
    elsewhere: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Fill a row of the gradient with `elsewhere`, and with `at_label` at the label: no class is a candidate."""
    col = tl.arange(0, BLOCK)[None, :]
    for start in range(0, k, BLOCK):
        at = start + col
        tl.store(grad_row + at, tl.where(at == label, at_label, elsewhere), mask=at < k)


@_inlined  # type: ignore[untyped-decorator]
def write_list(
    grad_row: tl.tensor,
    values: tl.tensor,
    places: tl.tensor,
    denominator: tl.tensor,
    count: tl.tensor,
    t: tl.tensor,
    peak: tl.tensor,
    scale: tl.tensor,  # of w
    label: tl.tensor,
    share: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    HALVES: tl.constexpr,
    MEAN: tl.constexpr,
    LIST: tl.constexpr,
) -> None:
    """Write the gradient of the candidates to their positions in the row."""
    col = tl.arange(0, LIST)[None, :]
    for start in range(0, count, LIST):
        slot = start + col
        f = tl.load(values + slot, mask=slot < count, other=-float("inf")).to(tl.float32)
        place = tl.load(places + slot, mask=slot < count, other=0)
        w, _ = powers(f - peak, t, beta, beta_less_1, inv_beta, HALVES)
        slope = w * scale - tl.where(place == label, share, 0)
        if MEAN:
            slope /= tl.load(denominator)
        tl.store(grad_row + place, slope, mask=slot < count)


@_compiled  # type: ignore[untyped-decorator]
def stream_kernel(
    logits: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    denominator: tl.tensor,
    losses: tl.tensor,
    grad: tl.tensor,  # logits, if INPLACE
    values: tl.tensor,
    places: tl.tensor,
    marks: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    logits_stride: tl.tensor,
    grad_stride: tl.tensor,
    ignore_index: tl.tensor,
    beta: tl.tensor,
    beta_less_1: tl.tensor,
    inv_beta: tl.tensor,
    steps: tl.tensor,
    HALVES: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
    GRAD: tl.constexpr,
    INPLACE: tl.constexpr,
    BLOCK: tl.constexpr,
    LIST: tl.constexpr,
    CAPACITY: tl.constexpr,
) -> None:
    """Write the losses of rows and, with GRAD, their gradients, reading each row once.

    A program computes every num_programs-th row. A row with more than CAPACITY candidates, the classes that may have a
    nonzero probability, is left out and marked: the kernel that reads chunks computes it afterwards. `values` and
    `places` are memory for the candidates of one row.
    """
    values += tl.program_id(0).to(tl.int64) * CAPACITY
    places += tl.program_id(0).to(tl.int64) * CAPACITY
    for index in range(tl.program_id(0), n, tl.num_programs(0)):
        row = tl.full((1, 1), index, tl.int64)
        f_row = logits + row * logits_stride
        grad_row = grad + row * grad_stride
        label, share, kept = row_target(target, weight, row, row < n, k, ignore_index, 1.0, False, WEIGHTED)
        f_label = tl.load(f_row + label, mask=kept & (label >= 0) & (label < k), other=0).to(tl.float32)
        # Zero or, where the label is none or the row has no weight in a mean over no weight, NaN.
        elsewhere, at_label = share * 0, -share
        if MEAN:
            elsewhere /= tl.load(denominator)
            at_label /= tl.load(denominator)
        elsewhere, at_label = tl.where(kept, elsewhere, 0), tl.where(kept, at_label, 0)
        tl.debug_barrier()  # the list of the row before has been read
        peak, count, marked = read_once(
            f_row, grad_row, values, places, k, label, kept, at_label, elsewhere, beta, beta_less_1, inv_beta, steps,
            HALVES, GRAD and not INPLACE, BLOCK, LIST, CAPACITY,
        )  # fmt: skip
        tl.debug_barrier()  # the list and the zeros have been written
        tl.store(marks + index, marked.to(tl.int8))
        if marked == 0:
            t, at, w_sum = solve_list(values, count, peak, beta, beta_less_1, inv_beta, steps, HALVES, LIST)
            tl.store(losses + row, tl.where(kept, share * (peak - f_label) - share * t, 0))
            if GRAD:
                if INPLACE:
                    fill_row(grad_row, k, label, at_label, elsewhere, BLOCK)
                    tl.debug_barrier()
                write_list(
                    grad_row, values, places, denominator, count, at, peak, share / w_sum, label, share,
                    beta, beta_less_1, inv_beta, HALVES, MEAN, LIST,
                )  # fmt: skip
