"""The device: what it is, how fast it copies, and how long it takes for a call."""

from __future__ import annotations

import importlib.metadata
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mgce._machine import build

# Calls of each contestant on the device that are timed, and those before them, in which kernels are compiled.
TURNS, WARM_UP = 60, 3
# Readings of the wall clock, and calls between two of them: so many that waiting for the device counts little.
HOST_TURNS, REPEATS = 9, 20
# Clock ticks that the device waits before a call, a millisecond: so long the host has to launch all of it.
LEAD = 2_000_000
CACHE_BYTES = 2**28  # more than any device's last cache holds
COPIED_BYTES = 2**30  # likewise
PACKAGES = ("torch", "triton", "lightning", "liger-kernel", "quack-kernels", "cut-cross-entropy")
DEVICE = "cuda"


def describe() -> dict[str, str]:
    """Name the device, its driver and its clocks now, and the versions of what is measured.

    Raises:
        RuntimeError: if a fault has spoiled the device for this process.
    """
    torch.cuda.synchronize()
    facts = {"python": platform.python_version(), "mgce": build(), "cuda": str(torch.version.cuda)}
    for package in PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "none"
    properties = torch.cuda.get_device_properties(DEVICE)
    facts["gpu"] = properties.name
    facts["compute capability"] = f"{properties.major}.{properties.minor}"
    facts["multiprocessors"] = str(properties.multi_processor_count)
    facts["memory"] = f"{properties.total_memory / 2**30:.0f} GiB"
    facts["last cache"] = f"{properties.L2_cache_size / 2**20:.0f} MiB"
    driver, _, clocks = _nvidia_smi("driver_version,clocks.sm,clocks.mem,power.draw").partition(", ")
    return {**facts, "driver": driver, "clocks": clocks}


def _nvidia_smi(fields: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def copy_bandwidth() -> float:
    """Measure the bytes that a copy reads and writes in a second, of more than a cache holds."""
    source = torch.empty(COPIED_BYTES, dtype=torch.uint8, device=DEVICE).zero_()
    target = torch.empty_like(source)
    (seconds,) = device_seconds([lambda: target.copy_(source)])
    return 2 * source.numel() / seconds


def device_seconds(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the median time of each call on the device with an empty cache, the calls taking turns."""
    cache = torch.empty(CACHE_BYTES, dtype=torch.uint8, device=DEVICE)
    spans: list[list[tuple[Any, Any]]] = [[] for _ in calls]
    for turn in range(WARM_UP + TURNS):
        for call, events in zip(calls, spans, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(LEAD)
            cache.zero_()
            start.record()
            call()
            end.record()
            if turn >= WARM_UP:
                events.append((start, end))
        torch.cuda.synchronize()
    return [statistics.median(start.elapsed_time(end) for start, end in events) / 1e3 for events in spans]


def wall_seconds(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the median time of each call on the host's clock: the mean of `REPEATS` calls of it is one turn."""
    taken: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # which may compile
    for _ in range(HOST_TURNS):
        for call, times in zip(calls, taken, strict=True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(REPEATS):
                call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / REPEATS)
    return [statistics.median(times) for times in taken]


def peak_bytes(call: Callable[[], Any]) -> int:
    """Return the most memory that is taken during a call beyond what is taken before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
