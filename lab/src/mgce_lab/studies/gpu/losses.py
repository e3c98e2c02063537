"""Stage 2: time of the fused loss, forward and backward, beside every cross-entropy that is installed.

Two clocks: `device` is the time between CUDA events before and after the call, behind a pause of the device and a
kernel that empties its cache: it leaves out the time that the host takes to launch kernels, if that is shorter than the
pause. `wall` is the host's time for each of many calls one after the other. `copy` is the share of the bytes per second
of a plain copy that the kernel reaches, if only the bytes count that it cannot avoid: the logits, read once, and their
gradient, written once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mgce.functional import mgce_loss
from mgce.kernels import cuda
from mgce.kernels.options import LossArguments, LossOptions
from mgce_lab.studies.gpu.device import DEVICE, copy_bandwidth, device_seconds, wall_seconds
from mgce_lab.studies.gpu.stages import Cells
from mgce_lab.studies.grid import BETAS

# Long rows first: for them the time of a loss counts most.
SHAPES = (
    (4096, 32000),
    (1024, 128000),
    (512, 256000),
    (512, 32000),
    (64, 128000),
    (2048, 1000),
    (512, 1000),
    (128, 100),
    (128, 10),
)
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
SCALES = (10.0, 1.0, 0.01)
# Beta and scale at which few, some and most of many classes have a probability.
SUPPORTS = {"few classes": (1.4, 10.0), "some classes": (1.4, 1.0), "most classes": (5.0, 0.01)}
Loss = Callable[[Tensor], Tensor]


def cells() -> Cells:
    """Return a cell for the speed of a copy, and one for each size, type and scale."""
    grid = {
        f"{n} x {k}, {dtype}, s = {scale:g}": functools.partial(alone, measure, n, k, dtype, scale)
        for dtype, (n, k), scale in itertools.product(DTYPES, SHAPES, SCALES)
    }
    return {
        "copy": lambda progress: {"bytes_per_second": copy_bandwidth()},
        **grid,
    }


def measure(n: int, k: int, dtype: str, scale: float) -> dict[str, Any]:
    """Measure every cross-entropy and ours at every beta, for one size."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    logits = torch.randn(n, k, generator=generator, device=DEVICE) * scale
    logits = logits.to(DTYPES[dtype]).requires_grad_()
    target = torch.randint(0, k, (n,), generator=generator, device=DEVICE)
    working, failed = try_each(cross_entropies(target), lambda loss: step(logits, loss))
    losses = {**working, **ours(target)}
    steps = [functools.partial(step, logits, loss) for loss in losses.values()]
    times = zip(losses, device_seconds(steps), wall_seconds(steps), strict=True)
    return {
        "n": n,
        "k": k,
        "dtype": dtype,
        "scale": scale,
        "seconds": {name: {"device": device, "wall": wall} for name, device, wall in times},
        "bytes_per_second": kernel_speed(logits.detach(), target),
        "failed": failed,
    }


def cross_entropies(target: Tensor) -> dict[str, Loss]:
    """Return PyTorch's cross-entropy, eager and compiled, and those of other packages that are installed."""
    losses: dict[str, Loss] = {
        "cross_entropy": functools.partial(F.cross_entropy, target=target),
        "cross_entropy, compiled": functools.partial(torch.compile(F.cross_entropy, dynamic=False), target=target),
    }
    try:
        from liger_kernel.transformers.functional import liger_cross_entropy

        # It writes the gradient over the logits, so each call gets a copy of them, and copying is part of its time.
        losses["liger_cross_entropy"] = lambda logits: liger_cross_entropy(logits.clone(), target)
    except Exception:  # not installed, or not for these versions
        pass
    try:
        from quack import cross_entropy as quack_cross_entropy

        losses["quack.cross_entropy"] = lambda logits: quack_cross_entropy(logits, target).mean()
    except Exception:  # not installed, or not for these versions
        pass
    return losses


def ours(target: Tensor) -> dict[str, Loss]:
    """Return our loss at every beta."""
    return {str(beta): functools.partial(mgce_loss, target=target, beta=beta, backend="cuda") for beta in BETAS}


def kernel_speed(logits: Tensor, target: Tensor) -> float:
    """Return the bytes a second of the kernel alone at beta = 1.4; only bytes count that have to move."""
    arguments = LossArguments(target, None, LossOptions(reduction="none"), 1.4)
    (seconds,) = device_seconds([functools.partial(cuda.loss_and_grad, logits, arguments, grad_dtype=logits.dtype)])
    return 2 * logits.numel() * logits.element_size() / seconds


def alone(measured: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Make a measurement start with empty memory of the GPU, and ignore the progress of the stage."""
    torch.cuda.empty_cache()
    torch.compiler.reset()  # a function is compiled for eight shapes, and for more it is called as it is
    return measured(*arguments[:-1])


def try_each(contestants: Mapping[str, Any], step: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Run each once, so that it is compiled; give those that work, and what the others said, by name."""
    working, failed = {}, {}
    for name, contestant in contestants.items():
        try:
            step(contestant)
            torch.cuda.synchronize()
            working[name] = contestant
        except Exception as error:  # other packages raise whatever they meet; what they cannot do, they cannot do
            failed[name] = f"{type(error).__name__}: {error}"[:300]
    return working, failed


def step(logits: Tensor, loss: Loss) -> None:
    """Compute a loss and its gradient."""
    logits.grad = None
    loss(logits).backward()
