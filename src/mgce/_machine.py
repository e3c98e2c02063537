"""Describe the machine and the versions of packages on which results depend."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("torch", "numpy", "scikit-learn", "pandas", "matplotlib", "torchmetrics", "lightning", "triton")


def describe() -> dict[str, str]:
    """Return the versions of installed packages and the names of processor and GPU, as a dict."""
    import torch

    import mgce
    from mgce.kernels import cpu_library

    facts = {"mgce": mgce.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    facts["processor"] = _processor()
    facts["kernel"] = (
        "none" if cpu_library.obstacle() else cpu_library.variant()
    )  # the obstacle may name a path of this machine
    facts["threads"] = str(torch.get_num_threads())
    facts["accelerator"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return facts


def gpu_kernels() -> dict[str, str]:
    """Return for each device and type of logits whether the GPU kernels have passed their check there."""
    from mgce.kernels import proof

    return proof.report()


def _processor() -> str:
    """Return the model of the processor, from Linux if possible, else from Python."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
