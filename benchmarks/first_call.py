"""What the first call of the loss costs in a new process: compiled anew, and from the cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

PROGRAM = """
import time, torch
from mgce.functional import mgce_loss
logits, target = torch.randn(128, 10, requires_grad=True), torch.zeros(128, dtype=torch.int64)
start = time.perf_counter()
mgce_loss(logits, target, backend="cpu").backward()
print(time.perf_counter() - start)
"""


def run() -> dict[str, Any]:
    """Measure and print the first call with an empty cache, and then with the one that it left."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        seconds = {name: _first_call(environment) for name in ("empty cache", "filled cache")}
    print("\nFirst call in a process:", *(f"{name} {s:.2f} s" for name, s in seconds.items()))
    return {"seconds": seconds}


def _first_call(environment: dict[str, str]) -> float:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return float(result.stdout)
