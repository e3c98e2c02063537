"""Time of the fused CUDA loss, forward and backward, as a ratio to `F.cross_entropy`; needs a GPU.

Two clocks: `device` is the time between CUDA events before and after the call, behind a kernel that empties the cache:
it leaves out the time that the host takes to launch kernels. `wall` is the host's time for each of many calls one after
the other. `copy` is the share of the bytes per second of a plain copy that the kernel reaches, if only the bytes count
that it cannot avoid: the logits, read once, and their gradient, written once.
"""

from __future__ import annotations

import functools
import importlib.metadata
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.grid import BETAS
from benchmarks.timing import geometric_mean
from mgce.functional import mgce_loss
from mgce.kernels import cuda

DEVICE = "cuda"
SHAPES = ((128, 10), (128, 100), (512, 1000), (2048, 1000), (512, 32000), (64, 128000), (4096, 32000))
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SCALES = (1.0, 10.0)
# Calls of each contestant on the device that are timed; those before them, in which kernels are compiled; and calls
# between two readings of the wall clock, so many that waiting for the device at their end counts little.
TURNS, WARM_UP, REPEATS = 60, 3, 20
CACHE_BYTES = 2**28  # more than any device's last cache holds
CLOCKS = ("device", "wall")


def run() -> dict[str, Any]:
    """Measure and print every shape, dtype and scale."""
    bandwidth = copy_bandwidth()
    machine = describe()
    print(f"\nGPU {machine['gpu']}, copies at {bandwidth / 1e9:.0f} GB/s; time over that of F.cross_entropy")
    rows = [measure(n, k, dtype, scale, bandwidth) for n, k in SHAPES for dtype in DTYPES for scale in SCALES]
    summary = {
        f"{clock}, beta = {beta:g}, geometric mean": geometric_mean(
            [row["seconds"][str(beta)][clock] / row["seconds"]["cross_entropy"][clock] for row in rows]
        )
        for clock in CLOCKS
        for beta in BETAS
    }
    for name, value in summary.items():
        print(f"{name}: {value:.2f}")
    return {"machine": machine, "copy_bytes_per_second": bandwidth, "rows": rows, "summary": summary}


def describe() -> dict[str, str]:
    """Name what the ratios were measured on."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "triton": importlib.metadata.version("triton"),
    }


def copy_bandwidth() -> float:
    """Measure the bytes that a copy reads and writes in a second, of 1 GiB, which no cache holds."""
    source = torch.empty(2**30, dtype=torch.uint8, device=DEVICE).zero_()
    target = torch.empty_like(source)
    (seconds,) = device_seconds([lambda: target.copy_(source)])
    return 2 * source.numel() / seconds


def measure(n: int, k: int, dtype: str, scale: float, bandwidth: float) -> dict[str, Any]:
    """Measure and print cross-entropy, ours at every beta, and the peers that are installed, for one size."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    logits = torch.randn(n, k, generator=generator, device=DEVICE) * scale
    logits = logits.to(DTYPES[dtype]).requires_grad_()
    target = torch.randint(0, k, (n,), generator=generator, device=DEVICE)
    losses = {
        "cross_entropy": functools.partial(F.cross_entropy, target=target),
        **{str(beta): functools.partial(mgce_loss, target=target, beta=beta, backend="cuda") for beta in BETAS},
        **_peers(target),
    }
    steps = [functools.partial(_step, logits, loss) for loss in losses.values()]
    seconds = {
        name: {"device": device, "wall": wall}
        for name, device, wall in zip(losses, device_seconds(steps), wall_seconds(steps), strict=True)
    }
    data = logits.detach()
    kernels = [functools.partial(cuda.loss_and_grad, data, target, reduction="none", beta=beta) for beta in BETAS]
    moved = 2 * data.numel() * data.element_size()
    copy = [moved / taken / bandwidth for taken in device_seconds(kernels)]
    base = seconds["cross_entropy"]
    ratios = [
        f"{name} {t['device'] / base['device']:.2f} ({t['wall'] / base['wall']:.2f})" for name, t in seconds.items()
    ]
    print(
        f"{n} x {k} {dtype} scale {scale:g}:", *ratios, "; of a copy", *(f"{share:.0%}" for share in copy), flush=True
    )
    return {"n": n, "k": k, "dtype": dtype, "scale": scale, "seconds": seconds, "copy": copy}


def _peers(target: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    try:
        from liger_kernel.transformers.functional import liger_cross_entropy
    except ImportError:
        return {}
    # It writes the gradient over the logits, so each call gets a copy of them, and the copying is part of its time.
    return {"liger_cross_entropy": lambda logits: liger_cross_entropy(logits.clone(), target)}


def _step(logits: Tensor, loss: Callable[[Tensor], Tensor]) -> None:
    logits.grad = None
    loss(logits).backward()


def device_seconds(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Give the median time of each call on the device with an empty cache, the calls taking turns."""
    cache = torch.empty(CACHE_BYTES, dtype=torch.uint8, device=DEVICE)
    spans: list[list[tuple[Any, Any]]] = [[] for _ in calls]
    for turn in range(WARM_UP + TURNS):
        for call, events in zip(calls, spans, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            cache.zero_()
            start.record()
            call()
            end.record()
            if turn >= WARM_UP:
                events.append((start, end))
        torch.cuda.synchronize()
    return [statistics.median(start.elapsed_time(end) for start, end in events) / 1e3 for events in spans]


def wall_seconds(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Give the median time of each call on the host's clock: the mean of `REPEATS` calls of it is one turn."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(max(3, TURNS // REPEATS)):
        for call, times in zip(calls, taken, strict=True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(REPEATS):
                call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / REPEATS)
    return [statistics.median(times) for times in taken]
