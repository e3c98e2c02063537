"""Peak memory of forward and backward, beyond the tensors that are there before, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

# The first call, on few rows, takes everything that is loaded once out of the difference.
PROGRAM = """
import resource, sys, torch
from torch.nn import functional as F
from mgce import functional as M
n, k, d, name = 512, 32000, 256, sys.argv[1]
torch.manual_seed(0)
x, w = torch.randn(n, d), (torch.randn(k, d) * 3 / d ** 0.5).requires_grad_()
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
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
calls[name](x, w, y).backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
NAMES = ("cross_entropy, unfused", "F.linear_cross_entropy", "mgce_loss, unfused", "linear_mgce_loss")


def run() -> dict[str, Any]:
    """Measure and print the growth of the resident memory at n = 512, d = 256, k = 32000."""
    print("\nPeak memory of a head with 32000 classes and its loss, 512 rows of 256 features, MiB beyond the inputs")
    mebibytes = {}
    for name in NAMES:
        command = [sys.executable, "-c", PROGRAM, name]
        mebibytes[name] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"{name:>24} {mebibytes[name]:8.1f}", flush=True)
    return {"mebibytes": mebibytes}
