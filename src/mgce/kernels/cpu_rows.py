"""Loss and gradient of MGCE, row by row: find the few classes that matter, solve on them, write the result.

Only a class with f_y > max f - (beta + t) can have p_y > 0, where t = phi + max f <= 0. So a row is read to find its
maximum and a bound of t, then the candidates above the bound are packed together, Newton's method runs on those alone,
and a last pass writes the gradient. A group of rows, one for each lane of a vector, goes through every phase together:
the scalar part of a Newton step is then one vector operation for the group, and its latency is hidden.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.core.registry import cpu_target

from mgce.kernels.cpu_math import BLOCK, exp2_minus_1, log2_1p, weights_and_sums
from mgce.kernels.cpu_problem import FINISH, NEXT_ROW, NEXT_SCRATCH, PER_ROW, PREPARE, SOLVE, VECTOR_BYTES, Problem
from mgce.kernels.cpu_simd import (
    any_lane,
    atomic_add,
    count,
    first_lanes,
    lane_maximum,
    lane_sum,
    lanes_of,
    load,
    load_first,
    load_unpacked,
    maximum,
    pointer,
    splat,
    store,
    store_first,
    store_packed,
    where,
)

MAX_STEPS = 40
WORTH_PACKING = 4  # vectors
# Without such instructions it pays to look first whether there is anything to pack; with them the branch costs more.
PACKS_IN_ONE_INSTRUCTION = "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[-1]
PROBLEM = np.dtype(Problem)

# Pointers to the working memory of a group: x and w hold the candidates of each row, less its peak, and their weights,
# a row `stride` behind the one before; of all others each row has one number.
Group = namedtuple("Group", "stride x w peak floor t size total excess w_sum error support")


def _compiled(function: Callable[..., Any]) -> Any:
    return njit(error_model="numpy")(function)


@_compiled
def group_at(address: int, dtype: Any, problem: Any) -> Any:
    """Lay out the working memory of a group."""
    x = address + PER_ROW * VECTOR_BYTES
    w = x + problem.group * problem.stride * (VECTOR_BYTES // lanes_of(dtype))
    return Group(
        problem.stride,
        pointer(x, dtype),
        pointer(w, dtype),
        pointer(address, dtype),
        pointer(address + VECTOR_BYTES, dtype),
        pointer(address + 2 * VECTOR_BYTES, dtype),
        pointer(address + 3 * VECTOR_BYTES, dtype),
        pointer(address + 4 * VECTOR_BYTES, dtype),
        pointer(address + 5 * VECTOR_BYTES, dtype),
        pointer(address + 6 * VECTOR_BYTES, dtype),
        pointer(address + 7 * VECTOR_BYTES, dtype),
        pointer(address + 8 * VECTOR_BYTES, dtype),
    )


@_compiled
def scan(f: Any, base: int, k: int, beta: float) -> Any:
    """Give the maximum of a row (NaN if it has one), and the size and sum of a set of classes near it."""
    lanes = lanes_of(f)
    a, b = splat(f, -np.inf), splat(f, -np.inf)
    i = 0
    while i + 2 * lanes <= k:
        a, b = maximum(a, load(f, base + i)), maximum(b, load(f, base + i + lanes))
        i += 2 * lanes
    a = maximum(a, load_first(f, base + i, k - i, -np.inf))
    if i + lanes < k:
        b = maximum(b, load_first(f, base + i + lanes, k - i - lanes, -np.inf))
    peak = lane_maximum(maximum(a, b))
    size_a, total_a = near_peak(a - peak, beta)
    size_b, total_b = near_peak(b - peak, beta)
    return peak, size_a + size_b, lane_sum(total_a + total_b)


@_compiled
def near_peak(x: Any, beta: float) -> Any:
    """Count the lanes above -beta, and leave those alone."""
    near = x > -beta
    return count(near), where(near, x, 0.0)


@_compiled
def jensen_bound(group: Any, beta: float) -> Any:
    """Give an upper bound of t from a set of classes of each row: exact if they are equal and the others off."""
    size = load(group.size, 0)
    return beta * exp2_minus_1(log2_1p(size - 1.0) * (-1.0 / beta)) - load(group.total, 0) / size


@_compiled
def bound_candidates(group: Any, beta: float, eps: float) -> None:
    """Set t to an upper bound, and the floor below which no class can have weight."""
    bound = jensen_bound(group, beta)
    bound = bound + 16.0 * eps * (1.0 + maximum(bound, -1.0 * bound))
    bound = where(bound > 0.0, splat(bound, 0.0), bound)
    store(group.t, 0, bound)
    store(group.floor, 0, -1.0 * bound - beta)


@_compiled
def pack(f: Any, base: int, k: int, group: Any, r: int, beta: float) -> None:
    """Pack the candidates of a row, and give their number and sum to the group."""
    lanes = lanes_of(f)
    start, peak, floor = r * group.stride, group.peak[r], group.floor[r]
    end = start
    total = splat(f, 0.0)
    for i in range(0, k, lanes):
        x = (load(f, base + i) if i + lanes <= k else load_first(f, base + i, k - i, -np.inf)) - peak
        candidate = x > floor
        if PACKS_IN_ONE_INSTRUCTION or any_lane(candidate):
            store_packed(group.x, end, x, candidate)
            total = total + where(candidate, x, 0.0)
            end += count(candidate)
    store(group.x, end, splat(f, -2.0 * beta))  # fills the last vector up, without weight
    group.size[r] = end - start
    group.total[r] = lane_sum(total)


@_compiled
def pack_again(group: Any, r: int, beta: float, eps: float) -> None:
    """Drop the candidates that have no weight at t, which the root is never above once a step was made."""
    lanes = lanes_of(group.x)
    start = r * group.stride
    floor = -beta - group.t[r] - 16.0 * eps * (1.0 - group.t[r])
    group.floor[r] = floor
    floor = group.floor[r]
    end = start
    for i in range(start, start + int(group.size[r]), lanes):
        x = load(group.x, i)
        candidate = x > floor
        store_packed(group.x, end, x, candidate)
        end += count(candidate)
    store(group.x, end, splat(group.x, -2.0 * beta))
    group.size[r] = end - start


@_compiled
def newton_step(group: Any, beta: float, eps: float, first: bool) -> None:
    """Move t by a Newton step on the beta-norm, and tell by how much more than rounding it moved."""
    t, excess = load(group.t, 0), load(group.excess, 0)
    norm_excess = -beta * exp2_minus_1(log2_1p(excess) * (-1.0 / beta))
    moved = t - norm_excess * (1.0 + excess) / load(group.w_sum, 0)
    moved = where(moved > 0.0, splat(t, 0.0), moved)
    if not first:
        # Only this guard keeps float32 from cycling where the support collapses.
        moved = where(moved > t, t, moved)
    change = t - moved
    store(group.t, 0, moved)
    store(group.error, 0, maximum(change, -1.0 * change) - eps * (1.0 - moved))


@_compiled
def solve(group: Any, rows: int, beta: float, eps: float, products: bool) -> None:
    """Run Newton's method on the candidates of each row until t stops changing; leave the weights in w."""
    lanes = lanes_of(group.x)
    for r in range(lanes):
        # A row without candidates is one that is skipped; a step of zero leaves it alone.
        group.error[r] = 1.0 if r < rows and group.size[r] > 0 else 0.0
        group.excess[r], group.w_sum[r] = 0.0, 1.0
    for step in range(MAX_STEPS):
        moving = 0
        for r in range(rows):
            if group.error[r] > 0:
                moving += 1
                start, t = r * group.stride, group.t[r]
                if step > 0 and group.size[r] > WORTH_PACKING * lanes and group.support[r] < 0.75 * group.size[r]:
                    pack_again(group, r, beta, eps)
                vectors = (int(group.size[r]) + lanes - 1) // lanes
                h_sum, w_sum, support = weights_and_sums(group.x, group.w, start, vectors, t, beta, products)
                group.excess[r], group.w_sum[r], group.support[r] = h_sum - 1.0, w_sum, support
            else:
                group.excess[r] = 0.0
        if moving == 0:
            break
        newton_step(group, beta, eps, step == 0)


@_compiled
def load_row(memory: Any, base: int, i: int, k: int, fill: float) -> Any:
    """Read the vector at class i of a row, filled up behind its last class."""
    if i + lanes_of(memory) <= k:
        return load(memory, base + i)
    return load_first(memory, base + i, k - i, fill)


@_compiled
def soft_target(f: Any, problem: Any, row: int, i: int) -> Any:
    """Give q = weight * (target_share * target + uniform_share) of the vector at class i, zero behind the last."""
    k = problem.classes
    q = splat(f, problem.uniform_share / problem.denominator)
    if problem.target_probs:
        target = load_row(pointer(problem.target_probs, f), row * k, i, k, 0.0)
        q = q + (problem.target_share / problem.denominator) * target
    if problem.class_weight:
        q = q * load_row(pointer(problem.class_weight, f), 0, i, k, 0.0)
    return where(first_lanes(q, k - i), q, 0.0)


@_compiled
def soft_sums(f: Any, problem: Any, row: int, peak: float) -> Any:
    """Give sum q and sum q (peak - f) over the classes."""
    k, base, lanes = problem.classes, row * problem.classes, lanes_of(f)
    mass, cost = 0.0, 0.0
    for block in range(0, k, BLOCK * lanes):
        q_sum, cost_sum = splat(f, 0.0), splat(f, 0.0)
        for i in range(block, min(block + BLOCK * lanes, k), lanes):
            q = soft_target(f, problem, row, i)
            q_sum = q_sum + q
            # A masked class that the target gives nothing costs nothing, not 0 * inf.
            cost_sum = cost_sum + where(q == 0.0, q, q * (peak - load_row(f, base, i, k, peak)))
        mass += lane_sum(q_sum)
        cost += lane_sum(cost_sum)
    return mass, cost


@_compiled
def write_gradient(f: Any, grad: Any, problem: Any, group: Any, r: int, row: int, mass: float, soft: bool) -> None:
    """Write mass * p - q for one row, q the part of the target that is spread over the classes."""
    k, base, at = problem.classes, row * problem.classes, r * group.stride
    peak, floor, scale = group.peak[r], group.floor[r], mass / group.w_sum[r]
    blank = splat(f, np.nan if np.isnan(peak) else 0.0)
    for i in range(0, k, lanes_of(f)):
        candidate = load_row(f, base, i, k, -np.inf) - peak > floor
        p = blank
        if PACKS_IN_ONE_INSTRUCTION or any_lane(candidate):
            p = p + load_unpacked(group.w, at, candidate) * scale
            at += count(candidate)
        if soft:
            p = p - soft_target(f, problem, row, i)
        if i + lanes_of(f) <= k:
            store(grad, base + i, p)
        else:
            store_first(grad, base + i, k - i, p)


@_compiled
def finish_row(f: Any, problem: Any, group: Any, r: int, row: int) -> None:
    """Write the loss of a row, and its gradient if wanted."""
    soft = problem.target_probs != 0 or problem.uniform_share != 0
    peak, t = group.peak[r], group.t[r]
    mass, loss = 0.0, 0.0
    hard, label = 0.0, 0
    if not np.isinf(peak):
        if problem.target:
            label = pointer(problem.target, np.int64)[row]
            hard = problem.target_share / problem.denominator
            if problem.class_weight:
                hard *= pointer(problem.class_weight, f)[label]
            mass, loss = hard, hard * ((peak - f[row * problem.classes + label]) - t)
        if soft:
            soft_mass, soft_cost = soft_sums(f, problem, row, peak)
            mass += soft_mass
            loss += soft_cost - soft_mass * t
    pointer(problem.losses, f)[row] = loss
    if problem.grad:
        grad = pointer(problem.grad, f)
        write_gradient(f, grad, problem, group, r, row, mass, soft and not np.isinf(peak))
        if hard != 0:
            grad[row * problem.classes + label] -= hard


@_compiled
def is_skipped(problem: Any, row: int) -> Any:
    """Tell whether a row has no part in the loss; labels that are out of range were counted before."""
    if problem.target == 0:
        return False
    label = pointer(problem.target, np.int64)[row]
    return label == problem.ignore_index or label < 0 or label >= problem.classes


@_compiled
def solve_group(f: Any, problem: Any, group: Any, first: int, rows: int) -> None:
    """Take a group of rows through all phases."""
    k, beta, eps = problem.classes, problem.beta, problem.eps
    for r in range(rows):
        group.peak[r], group.size[r], group.total[r] = np.inf, 1, 0
        if not is_skipped(problem, first + r):
            peak, size, total = scan(f, (first + r) * k, k, beta)
            if np.isfinite(peak):
                group.peak[r], group.size[r], group.total[r] = peak, size, total
            else:
                group.peak[r] = np.nan
    bound_candidates(group, beta, eps)
    for r in range(rows):
        group.size[r] = 0
        if np.isfinite(group.peak[r]):
            pack(f, (first + r) * k, k, group, r, beta)
        elif np.isnan(group.peak[r]):
            group.t[r] = np.nan
    better_start = jensen_bound(group, beta)
    t = load(group.t, 0)
    store(group.t, 0, where(t > better_start, better_start, t))
    solve(group, rows, beta, eps, problem.products != 0)
    for r in range(rows):
        finish_row(f, problem, group, r, first + r)


@_compiled
def prepare(f: Any, problem: Any) -> None:
    """Count the labels that are out of range, and find what a mean is divided by."""
    problem.denominator = 1.0
    if problem.target == 0:
        if problem.mean:
            problem.denominator = problem.rows
        return
    total = 0.0
    target = pointer(problem.target, np.int64)
    for row in range(problem.rows):
        label = target[row]
        if label != problem.ignore_index:
            if label < 0 or label >= problem.classes:
                problem.bad_targets += 1
                problem.bad_target = label
            else:
                total += pointer(problem.class_weight, f)[label] if problem.class_weight else 1.0
    if problem.mean:
        problem.denominator = total


@_compiled
def sum_losses(f: Any, problem: Any) -> None:
    """Add up the losses, in an order that does not depend on the threads; the mean over no row is NaN."""
    losses = pointer(problem.losses, f)
    total = np.nan if problem.mean and problem.denominator == 0 else 0.0
    for row in range(problem.rows):
        total += losses[row]
    pointer(problem.total, f)[0] = total


def compile_kernel(dtype: torch.dtype, sources: str) -> Any:
    """Compile, or load from numba's cache, the kernel for float32 or float64.

    `sources` stands for the text of every module that the kernel is made of: the cache is keyed by it, where numba
    alone would watch this file only.
    """
    element = np.float32 if dtype == torch.float32 else np.float64

    def run(address: Any) -> None:
        _ = sources
        problems = carray(address, 1, PROBLEM)
        problem = problems[0]
        f = pointer(problem.logits, element)
        if problem.stages & PREPARE:
            prepare(f, problem)
        if problem.stages & SOLVE:
            shared = pointer(problem.self, np.int64)
            part = atomic_add(shared, NEXT_SCRATCH, 1)
            group = group_at(problem.scratch + part * problem.scratch_size, element, problem)
            while True:
                first = atomic_add(shared, NEXT_ROW, problem.group)
                if first >= problem.rows:
                    break
                solve_group(f, problem, group, first, min(problem.group, problem.rows - first))
        if problem.stages & FINISH and problem.total:
            sum_losses(f, problem)

    signature = types.void(types.voidptr)
    try:
        return cfunc(signature, cache=True, error_model="numpy")(run)
    except (RuntimeError, OSError):  # no folder that numba could keep it in
        return cfunc(signature, error_model="numpy")(run)
