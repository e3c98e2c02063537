"""Describe the machine and the versions of packages on which results depend."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = ("torch", "numpy", "scikit-learn", "pandas", "matplotlib", "torchmetrics", "lightning", "triton")


@functools.cache
def build() -> str:
    """Return the version of `mgce` with the date and commit of the build, such as `0.3.0 (20261127.f650f242ab)`.

    A wheel holds them in a file that the build wrote. A checkout asks git.
    """
    import mgce

    package = Path(__file__).parent
    written, checkout = package / "_build.txt", package.parents[1]
    known = written.read_text().strip() if written.exists() else ""
    if not known and (checkout / "hatch_build.py").exists():
        command = ["git", "-C", str(checkout), "log", "-1", "--format=%cd.%H", "--date=format:%Y%m%d"]
        try:
            found = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return mgce.__version__
        known = f"{found.stdout[: len('20260101.') + 10]}, checkout"
    return f"{mgce.__version__} ({known})" if known else mgce.__version__


def describe() -> dict[str, str]:
    """Return the versions of installed packages and the names of processor and GPU, as a dict."""
    import torch

    from mgce.kernels import cpu

    facts = {"mgce": build(), "python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    facts["processor"] = _processor()
    facts["kernel"] = "none" if cpu.obstacle() else cpu.variant()  # the obstacle may name a path of this machine
    facts["threads"] = str(torch.get_num_threads())
    facts["accelerator"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return facts


def _processor() -> str:
    """Return the model of the processor, from Linux if possible, else from Python."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
