"""Peak memory of forward and backward beyond the tensors that are there before, for each loss in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from mgce_lab.studies.head import D, K, N

# The first call, on 2 rows and 64 classes, loads and compiles all that is needed, which then is no part of the
# difference. Writing 5 to clear_refs resets VmHWM, the peak of the resident memory, to its present size.
PROGRAM = """
import re, sys, torch
from torch.nn import functional as F
from mgce import functional as M
name, scale = sys.argv[1], float(sys.argv[2])
n, d, k = map(int, sys.argv[3:])
torch.manual_seed(0)
x, w = torch.randn(n, d), (torch.randn(k, d) * scale / d ** 0.5).requires_grad_()
x.requires_grad_()
y = torch.randint(k, (n,))
calls = {
    "cross_entropy, unfused": lambda x, w, y: F.cross_entropy(F.linear(x, w), y),
    "F.linear_cross_entropy": lambda x, w, y: F.linear_cross_entropy(x, w, y),
    "mgce_loss, unfused": lambda x, w, y: M.mgce_loss(F.linear(x, w), y, beta=1.4),
    "linear_mgce_loss": lambda x, w, y: M.linear_mgce_loss(x, w, y, beta=1.4),
}
calls[name](x[:2], w[:64], y[:2] % 64).backward()
w.grad = x.grad = None

def kibibytes(field):
    return int(re.search(field + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = kibibytes("VmRSS")
calls[name](x, w, y).backward()
print((kibibytes("VmHWM") - before) / 1024)
"""
NAMES = ("cross_entropy, unfused", "F.linear_cross_entropy", "mgce_loss, unfused", "linear_mgce_loss")
SCALES = (0.3, 3.0)  # dense rows and sparse ones


def run() -> dict[str, Any]:
    """Measure and print the growth of the resident memory, for dense and sparse rows."""
    gradients = 4 * D * (N + K) / 2**20
    print(f"\nPeak resident memory of a head and its loss, n = {N}, d = {D}, k = {K}: MiB beyond the inputs")
    mebibytes: dict[str, dict[str, float]] = {}
    for name in NAMES:
        mebibytes[name] = {str(scale): _measure(name, scale) for scale in SCALES}
        print(f"{name:>24}", *(f"margins N(0, {s}^2) {value:.1f};" for s, value in mebibytes[name].items()), flush=True)
    print(f"the gradients that are returned take {gradients:.1f} once every page of them was written to")
    return {"mebibytes": mebibytes, "gradients": gradients}


def _measure(name: str, scale: float) -> float:
    command = [sys.executable, "-c", PROGRAM, name, *map(str, (scale, N, D, K))]
    # glibc then gives every tensor of 64 KiB or more pages of its own, and takes them back with the tensor. Otherwise
    # it raises that threshold by itself, and a tensor might lie in memory that an earlier one left. The smallest
    # argument but the labels, x, has 512 KiB.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(result.stdout)
