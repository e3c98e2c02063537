"""Stage 2: a linear head and its loss in bfloat16, and the time that the host takes for a call of a loss."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mgce.functional import linear_mgce_loss, mgce_loss
from mgce_lab.studies.gpu.device import DEVICE, device_seconds, peak_bytes, wall_seconds
from mgce_lab.studies.gpu.losses import alone, step, try_each
from mgce_lab.studies.gpu.stages import Cells

HEADS = ((8192, 2048, 128000), (8192, 4096, 32000))  # tokens, features and classes of a language model's head
SCALES = (3.0, 0.3, 10.0)  # standard deviations of the logits
SAMPLE = 256  # classes whose gradient is compared with float64: half of them labels, half any
EXACT_ROWS = 512  # of which float64 logits and what plain operations make of them fit in memory
BETA = 1.4
SMALL = (128, 10)  # the paper's batch and classes: nothing is to be computed, so that all there is is launching
Head = Callable[[Tensor, Tensor], Tensor]


def cells() -> Cells:
    """Return a cell for the host's time, and one for each head and scale of its logits."""
    of_heads = {
        f"head {n} x {d} x {k}, s = {scale:g}": functools.partial(alone, measure, n, d, k, scale)
        for scale, (n, d, k) in itertools.product(SCALES, HEADS)
    }
    return {"launch": functools.partial(alone, measure_launch), **of_heads}


def measure(n: int, d: int, k: int, scale: float) -> dict[str, Any]:
    """Measure heads whose logits have a standard deviation of `scale`, computed with their loss and one by one.

    The error is that of the gradient for the weights, relative to the gradient in float64 of the same bfloat16 inputs.
    `rounded` is the error of that gradient in bfloat16, below which none can be.
    """
    generator = torch.Generator(DEVICE).manual_seed(0)
    x = torch.randn(n, d, generator=generator, device=DEVICE).bfloat16().requires_grad_()
    # A logit is a sum of d products.
    w = (torch.randn(k, d, generator=generator, device=DEVICE) * scale / d**0.5).bfloat16().requires_grad_()
    y = torch.randint(k, (n,), generator=generator, device=DEVICE)
    working, failed = try_each(heads(y), lambda head: _step(x, w, head))
    steps = [functools.partial(_step, x, w, head) for head in working.values()]
    classes = torch.cat([y[: SAMPLE // 2], torch.randint(k, (SAMPLE // 2,), generator=generator, device=DEVICE)])
    exact = {beta: exact_gradient(x, w, y, classes, beta) for beta in (BETA, math.inf)}
    peaks, errors = [], []
    for name, call in zip(working, steps, strict=True):
        x.grad = w.grad = None  # what the step before has left is not to be freed during this one
        peaks.append(peak_bytes(call))
        assert w.grad is not None
        errors.append(relative_error(w.grad[classes], exact[BETA if "mgce" in name else math.inf]))
    found = zip(working, device_seconds(steps), peaks, errors, strict=True)
    return {
        "n": n,
        "d": d,
        "k": k,
        "scale": scale,
        "rounded": {str(beta): relative_error(gradient.bfloat16(), gradient) for beta, gradient in exact.items()},
        "contestants": {name: {"device": s, "peak_bytes": peak, "error": error} for name, s, peak, error in found},
        "failed": failed,
    }


def heads(y: Tensor) -> dict[str, Head]:
    """Return heads with their loss: PyTorch's, ours, and those of other packages that are installed."""
    found: dict[str, Head] = {
        "cross_entropy, unfused": lambda x, w: F.cross_entropy(F.linear(x, w), y),
        "mgce_loss, unfused": lambda x, w: mgce_loss(F.linear(x, w), y, beta=BETA),
        "linear_mgce_loss": lambda x, w: linear_mgce_loss(x, w, y, beta=BETA),
    }
    if hasattr(F, "linear_cross_entropy"):
        found["F.linear_cross_entropy"] = lambda x, w: F.linear_cross_entropy(x, w, y)
    try:
        from cut_cross_entropy import linear_cross_entropy

        found["cut_cross_entropy"] = lambda x, w: linear_cross_entropy(x, w, y)
    except Exception:  # not installed, or not for these versions
        pass
    try:
        from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

        found["liger_fused_linear_cross_entropy"] = lambda x, w: liger_fused_linear_cross_entropy(x, w, y)
    except Exception:  # not installed, or not for these versions
        pass
    return found


def exact_gradient(x: Tensor, w: Tensor, y: Tensor, classes: Tensor, beta: float) -> Tensor:
    """Return the gradient of the mean for the weights of some classes, in float64 by plain operations."""
    total = torch.zeros(len(classes), x.shape[1], dtype=torch.float64, device=DEVICE)
    for rows, labels in zip(x.detach().split(EXACT_ROWS), y.split(EXACT_ROWS), strict=True):
        logits = (rows.double() @ w.detach().double().T).requires_grad_()
        mgce_loss(logits, labels, reduction="sum", beta=beta, backend="torch").backward()
        assert logits.grad is not None
        total += logits.grad[:, classes].T @ rows.double()
    return total / len(x)


def relative_error(found: Tensor, exact: Tensor) -> float:
    """Return the norm of the difference over the norm of the exact values."""
    return ((found.double() - exact).norm() / exact.norm()).item()


def measure_launch() -> dict[str, Any]:
    """Measure the host's time for a loss with next to nothing to compute, forward alone and with backward."""
    n, k = SMALL
    logits = torch.randn(n, k, device=DEVICE, requires_grad=True)
    target = torch.randint(0, k, (n,), device=DEVICE)
    losses: dict[str, Callable[[Tensor], Tensor]] = {
        "cross_entropy": functools.partial(F.cross_entropy, target=target),
        "mgce_loss": functools.partial(mgce_loss, target=target, beta=1.4),
    }
    forward = wall_seconds([functools.partial(loss, logits) for loss in losses.values()])
    both = wall_seconds([functools.partial(step, logits, loss) for loss in losses.values()])
    seconds = {name: {"forward": f, "both": b} for name, f, b in zip(losses, forward, both, strict=True)}
    return {"n": n, "k": k, "seconds": seconds}


def _step(x: Tensor, w: Tensor, head: Head) -> None:
    x.grad = w.grad = None
    head(x, w).backward()
