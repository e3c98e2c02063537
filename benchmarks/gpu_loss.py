"""Time of the fused CUDA loss, forward and backward, as a ratio to `torch.nn.functional.cross_entropy`.

Two clocks: `device` is between CUDA events, behind a kernel that empties the cache, so it leaves out what the host
takes to launch; `wall` is the time of one call in a long row of them. `copy` is the share of the bandwidth of a plain
copy that the kernel reaches, counting its logits read once and its gradient written once.
The contestants take turns, and a cell is the ratio of their medians. Run `python benchmarks/gpu_loss.py --json
gpu.json`; with `--set CHUNK=4096` it runs on another layout of `mgce.kernels.cuda`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mgce.functional import mgce_loss
from mgce.kernels import cuda

DEVICE = "cuda"
SHAPES = ((128, 10), (128, 100), (512, 1000), (2048, 1000), (512, 32000), (64, 128000), (4096, 32000))
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SCALES = (1.0, 10.0)
BETAS = (1.0, 1.05, 1.4, 2.0, 5.0, 11.0)
WARM_UP = 3
CACHE_BYTES = 2**28  # more than any device's last cache holds


def machine() -> dict[str, Any]:
    """Describe what the ratios were measured on."""
    import triton

    properties = torch.cuda.get_device_properties(DEVICE)
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }


def device_seconds(calls: Sequence[Callable[[], Any]], turns: int) -> list[float]:
    """Give the median time of each call on the device, with a cold cache, the calls in turn."""
    cache = torch.empty(CACHE_BYTES, dtype=torch.uint8, device=DEVICE)
    spans: list[list[tuple[Any, Any]]] = [[] for _ in calls]
    for turn in range(WARM_UP + turns):
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


def wall_seconds(calls: Sequence[Callable[[], Any]], turns: int, repeats: int = 20) -> list[float]:
    """Give the median time of each call in a row of `repeats`, the rows in turn."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(max(3, turns // repeats)):
        for call, times in zip(calls, taken, strict=True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / repeats)
    return [statistics.median(times) for times in taken]


def copy_bandwidth(turns: int) -> float:
    """Measure the bytes that a copy reads and writes in a second."""
    source = torch.empty(2**30, dtype=torch.uint8, device=DEVICE).zero_()
    target = torch.empty_like(source)
    (seconds,) = device_seconds([lambda: target.copy_(source)], turns)
    return 2 * source.numel() / seconds


def step(logits: Tensor, loss: Callable[[Tensor], Tensor]) -> None:
    """Do forward and backward."""
    logits.grad = None
    loss(logits).backward()


def measure(n: int, k: int, dtype: str, scale: float, turns: int, bandwidth: float) -> dict[str, Any]:
    """Measure one row of the tables."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    logits = torch.randn(n, k, generator=generator, device=DEVICE) * scale
    logits = logits.to(DTYPES[dtype]).requires_grad_()
    target = torch.randint(0, k, (n,), generator=generator, device=DEVICE)
    losses = [functools.partial(F.cross_entropy, target=target)]
    losses += [functools.partial(mgce_loss, target=target, beta=beta, backend="cuda") for beta in BETAS]
    steps = [functools.partial(step, logits, loss) for loss in losses]
    data = logits.detach()
    kernels = [functools.partial(cuda.loss_and_grad, data, target, reduction="none", beta=beta) for beta in BETAS]
    device, wall = device_seconds(steps, turns), wall_seconds(steps, turns)
    alone = device_seconds(kernels, turns)
    moved = 2 * data.numel() * data.element_size()
    return {
        "n": n,
        "k": k,
        "dtype": dtype,
        "scale": scale,
        "cross_entropy": {"device": device[0], "wall": wall[0]},
        "ours": {
            beta: {"device": device[1 + i], "wall": wall[1 + i], "kernel": alone[i]} for i, beta in enumerate(BETAS)
        },
        "cells": {
            "device": [seconds / device[0] for seconds in device[1:]],
            "wall": [seconds / wall[0] for seconds in wall[1:]],
            "copy": [moved / seconds / bandwidth for seconds in alone],
        },
    }


def show(rows: Sequence[dict[str, Any]], cell: str) -> None:
    """Print one table."""
    heading = {
        "device": "time / cross-entropy, device",
        "wall": "time / cross-entropy, wall",
        "copy": "share of a copy",
    }
    print(f"\n{heading[cell]:<32}", *(f"{beta:>6}" for beta in BETAS))
    for row in rows:
        shape = f"{row['n']} x {row['k']}"
        print(f"{shape:>13} {row['dtype']:>9} {row['scale']:>6}  ", *(f"{value:>6.2f}" for value in row["cells"][cell]))
    means = [math.exp(statistics.fmean(math.log(row["cells"][cell][i]) for row in rows)) for i in range(len(BETAS))]
    print(f"{'geometric mean':<32}", *(f"{mean:>6.2f}" for mean in means))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=60, help="how often each contestant is timed")
    parser.add_argument("--largest", type=int, default=math.prod(SHAPES[-1]), help="leave out larger n * k")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=INTEGER", help="a constant of the kernel")
    parser.add_argument("--json", type=Path, help="write the times and the machine's description here")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a CUDA device, and PyTorch finds none here.")
    if reason := cuda.obstacle():
        raise SystemExit(f"The CUDA kernel cannot run here: {reason}.")
    layout = dict(item.split("=") for item in options.set)
    for name, value in layout.items():
        getattr(cuda, name)  # an error where there is no such constant
        setattr(cuda, name, int(value))
    bandwidth = copy_bandwidth(options.turns)
    description = {**machine(), "copy_bandwidth": bandwidth, **layout}
    print(*(f"{name} {value}" for name, value in description.items()), sep=", ")
    rows = [
        measure(n, k, dtype, scale, options.turns, bandwidth)
        for n, k in SHAPES
        if n * k <= options.largest
        for dtype in DTYPES
        for scale in SCALES
    ]
    for cell in ("device", "wall", "copy"):
        show(rows, cell)
    if options.json:
        options.json.write_text(json.dumps({"machine": description, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
