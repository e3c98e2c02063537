"""Compare the GPU kernel with plain operations on a few hard rows: the loss, the gradient, and the scaled gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgce.kernels import cuda, cuda_plan
from mgce.kernels.options import LossArguments, LossOptions
from mgce.numerics import root

# Twice what the kernels promise, in eps of float32, so that no device is refused for its rounding.
ALLOWED = 32 * torch.finfo(torch.float32).eps


class Call(NamedTuple):
    """The arguments of one call with which a kernel is tested: k classes, beta, and the kind of targets."""

    k: int
    beta: float
    soft: bool = False  # probabilities, weights and smoothing, the gradient over the logits; else labels and their mean
    want_grad: bool = True


class Batch(NamedTuple):
    """A batch on the CPU, and its targets in float64 as probabilities, with class weights and smoothing applied."""

    logits: Tensor
    target: Tensor
    weight: Tensor | None
    options: LossOptions
    share: Tensor


class Bounds(NamedTuple):
    """The least and the largest result that rounding errors can explain."""

    low: Tensor
    high: Tensor


@torch.no_grad()
def compare(device: torch.device, dtype: torch.dtype, way: str) -> str | None:
    """Run the kernel on hard rows; return what is wrong with its results or what it raised, None if it is right."""
    for call in calls(way):
        try:
            # The first launch of a kind goes through Triton, and all later ones do not.
            found = _compare(call, device, dtype) or _compare(call, device, dtype)
        except Exception as error:  # whatever a compiler or a driver raises
            found = f"raised {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if found is not None:
            return f"it {found} ({call.k} classes, beta {call.beta:g})"
    return None


def calls(way: str) -> tuple[Call, ...]:
    """Return calls that test one method of reading rows, `way`, in the compiled variants that differ most."""
    longest, largest = cuda_plan.LONGEST_TILE, cuda_plan.LARGEST_LISTED_BETA
    if way == "tiles":  # one row to a program, and several
        return Call(max(40, longest - 3), 1.4), Call(min(300, longest), 2.0, soft=True), Call(40, 5.0, want_grad=False)
    # More blocks than one, the last of them not full.
    several = longest + 2 * cuda_plan.LONG_BLOCK + 5
    if way == "chunks":
        return Call(several, largest), Call(several, largest + 3, soft=True), Call(several, 100.0, want_grad=False)
    # Some of the hard rows overflow their list, and some of these have too many candidates for any.
    overflowing = max(longest, cuda_plan.CAPACITY) + several
    return Call(overflowing, 1.4), Call(overflowing, 2.0, soft=True), Call(several, 5.0, want_grad=False)


def hard_rows(k: int, beta: float) -> Tensor:
    """Return ten rows of k logits in float64 that are hard to solve, within the range of every floating-point type.

    In most rows the root of the normalizer's equation is far from the first guess. A gradient computed at the first
    guess would have a large error.
    """
    j = torch.arange(k, dtype=torch.float64, device="cpu")
    noise = torch.sin(j * (j + 1) * 0.7)  # between -1 and 1, without order
    others = (j != k // 2).double()
    rows = [0.1 * noise, noise, 3 * noise, 30 * noise]  # from most classes in the support to few
    rows += [torch.round(3 * noise), -j / 8, torch.full_like(j, -3.3)]  # ties, a ladder, all alike
    rows += [-beta * others, -0.9 * beta * others]  # all others at the edge of the support, and within it
    rows += [torch.where(j % 2 == 1, -torch.inf, noise)]  # masked
    return torch.stack(rows)


def _batch(call: Call, dtype: torch.dtype) -> Batch:
    if call.soft:
        f = hard_rows(call.k, call.beta)[:-1].to(dtype)  # a masked class that is given a share has an infinite loss
        q = f.double().softmax(-1).flip(1).to(dtype)  # not what the rows say
        weight = 0.5 + torch.arange(call.k, dtype=torch.float32, device="cpu") % 3
        share = (0.9 * q.double() + 0.1 / call.k) * weight
        return Batch(f, q, weight, LossOptions(reduction="none", label_smoothing=0.1), share)
    f = hard_rows(call.k, call.beta).to(dtype)
    steps = torch.arange(len(f), device="cpu")
    label = steps * (call.k - 1) // (len(f) - 1) // 2 * 2  # from the first class to the last, none of them masked
    share = torch.nn.functional.one_hot(label, call.k).double() * (steps != 1).unsqueeze(1)
    return Batch(f, label.where(steps != 1, -100), None, LossOptions(), share)  # the second row is ignored


def _compare(call: Call, device: torch.device, dtype: torch.dtype) -> str | None:
    logits, target, weight, options, share = _batch(call, dtype)
    losses, grads = _bounds(logits.double(), share, call.beta)
    if options.reduction == "mean":
        kept = len(logits) - 1
        losses = Bounds(losses.low.sum() / kept, losses.high.sum() / kept)
        grads = Bounds(grads.low / kept, grads.high / kept)
    weight = None if weight is None else weight.to(device)
    arguments = LossArguments(target.to(device), weight, options, call.beta)
    inplace = call.soft and call.want_grad
    grad_dtype = torch.float32 if dtype == torch.float16 and not inplace else None
    loss, grad = cuda.loss_and_grad(
        logits.to(device, copy=True), arguments, want_grad=call.want_grad, inplace=inplace, grad_dtype=grad_dtype
    )
    if (error := _outside(loss.cpu(), losses)) > 0:
        return f"gave a loss that is off by {error:.2g}"
    if grad is None:
        return None
    before = grad.to("cpu", copy=True)
    if (error := _outside(before, grads)) > 0:
        return f"gave a gradient that is off by {error:.2g}"
    half = before.double() / 2
    if (error := _outside(cuda.scale_(grad, torch.full((), 0.5, device=device)).cpu(), Bounds(half, half))) > 0:
        return f"multiplied a gradient, and is off by {error:.2g}"
    return None


def _bounds(f: Tensor, q: Tensor, beta: float) -> tuple[Bounds, Bounds]:
    """Return bounds on the losses and gradients of rows of logits f, given rounding errors in float32.

    q are the targets as probabilities. The worst-case probabilities p are bounded by evaluating them at logits shifted
    by the largest rounding error. The interval is wide only for classes whose p is nearly zero.
    """
    x = f - f.amax(-1, keepdim=True)
    t = root.newton(x, beta)
    mass, size = q.sum(-1), (-t).clamp(min=1)
    costs = torch.where(q == 0, 0, q * -x)
    loss, slack = costs.sum(-1) - mass * t, ALLOWED * (costs.sum(-1) + mass * size)
    moved = ALLOWED * torch.maximum(size.unsqueeze(-1), x.abs().clamp(max=2 * beta))  # no class beyond has any
    below, above = (root.powers(x + by, t, beta)[0] for by in (-moved, moved))
    low = mass.unsqueeze(-1) * (1 - ALLOWED) * below / above.sum(-1, keepdim=True) - q * (1 + ALLOWED)
    high = mass.unsqueeze(-1) * (1 + ALLOWED) * above / below.sum(-1, keepdim=True) - q * (1 - ALLOWED)
    return Bounds(loss - slack, loss + slack), Bounds(low, high)


def _outside(got: Tensor, bounds: Bounds) -> float:
    """Return by how much a result exceeds its bounds and the rounding error of its dtype; NaN gives infinity."""
    limits = torch.finfo(got.dtype)
    exact = got.double()
    error = torch.maximum(bounds.low - exact, exact - bounds.high) - limits.eps * (exact.abs() + limits.tiny)
    return float(error.nan_to_num(nan=torch.inf).max())
