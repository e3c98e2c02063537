"""The physical limit: the bytes that the loss must read and write, over the speed at which memory is copied."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from mgce.functional import mgce_loss
from mgce_lab.studies.grid import rows
from mgce_lab.studies.timing import medians

SHAPE = (512, 32000)  # 66 MB of logits, more than the caches of most CPUs hold


def copy_bytes_per_second(numel: int) -> float:
    """Return the bytes read and written each second by a copy of that many floats, the median of ten."""
    source, copy = torch.randn(numel), torch.empty(numel)
    taken = []  # of twelve copies; the first two do not count, as they also wait for pages of memory
    for _ in range(12):
        start = time.perf_counter()
        copy.copy_(source)
        taken.append(time.perf_counter() - start)
    # Each float has 4 bytes, which are read once and written once.
    return 2 * 4 * numel / statistics.median(taken[2:])


def run(seconds: float) -> dict[str, Any]:
    """Measure and print what share of a copy's bytes per second the loss reaches, by the bytes that it cannot avoid.

    These are the logits, read once, and their gradient, written once.
    """
    n, k = SHAPE
    limit = copy_bytes_per_second(n * k)
    print(f"\nCopy bandwidth {limit / 1e9:.1f} GB/s; the loss at {n} x {k}, beta = 1.4, reads and writes at")
    shares = {}
    for scale in (0.01, 1.0, 3.0, 10.0):
        logits, target = rows(n, k, scale)
        contestants = {"ours": lambda f=logits, y=target: mgce_loss(f, y, beta=1.4, backend="cpu")}
        seconds_taken = medians(contestants, [logits], seconds=seconds)["ours"]
        shares[scale] = 2 * 4 * n * k / seconds_taken / limit
        print(f"margins N(0, {scale:g}^2): {shares[scale]:.0%} of it", flush=True)
    return {"copy_bytes_per_second": limit, "share": shares}
