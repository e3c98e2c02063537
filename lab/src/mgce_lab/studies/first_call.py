"""How long the first forward and backward in a new process take, with all that is loaded or compiled only then."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

PROGRAM = """
import sys, time, torch
from torch.nn import functional as F
from mgce.functional import mgce_loss
logits, target = torch.randn(128, 10, requires_grad=True), torch.zeros(128, dtype=torch.int64)
loss = {"mgce_loss": mgce_loss, "cross_entropy": F.cross_entropy}[sys.argv[1]]
start = time.perf_counter()
loss(logits, target).backward()
print(time.perf_counter() - start)
"""
TURNS = 5


def run() -> dict[str, Any]:
    """Measure and print the median time of the first call in `TURNS` new processes for each loss, in turns."""
    taken: dict[str, list[float]] = {"mgce_loss": [], "cross_entropy": []}
    for _ in range(TURNS):
        for name, times in taken.items():
            times.append(_first_call(name))
    seconds = {name: statistics.median(times) for name, times in taken.items()}
    print("\nFirst call in a process:", *(f"{name} {1e3 * s:.1f} ms" for name, s in seconds.items()))
    return {"seconds": seconds}


def _first_call(name: str) -> float:
    command = [sys.executable, "-c", PROGRAM, name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
