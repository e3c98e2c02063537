"""Stage 1: the tests of the kernels on the device, and NVIDIA's sanitizer on a call of each way through a row."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mgce_lab.studies.gpu.stages import Cells, Progress

ROOT = Path(__file__).parents[5]
# Each in a process of its own: a fault of one spoils the device for whatever its process does after it.
TESTS = {
    "linear heads": ["tests/kernels/test_linear_two_passes.py"],
    "long rows": ["tests/kernels/test_cuda_long.py"],
    "hard rows": ["tests/kernels/test_cuda.py", "-k", "hard_rows or margins"],
    "calls of every kind": ["tests/kernels/test_cuda.py", "-k", "not hard_rows and not margins"],
    "losses in networks": ["tests/kernels/test_losses_on_device.py", "tests/kernels/test_comparison.py"],
    "metrics, noise, tables": [
        "tests/metrics/test_streaming.py",
        "tests/noise/test_corruption.py",
        "lab/tests/training/test_ensemble.py",
        "-k",
        "gpu or accelerator",
    ],
}
CUDA = "/usr/local/cuda/bin"  # where NVIDIA's installer puts its programs, on no search path
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Rows held in registers, with lists that hold them and that do not, and read in chunks.
CALLS = """
import torch
from mgce.kernels import cuda
from mgce.kernels.options import LossArguments, LossOptions
for beta in (1.4, 11.0):
    arguments = LossArguments(torch.arange(3, device="cuda"), None, LossOptions(), beta)
    for k in (10, 1000, 5000, 20000):
        for dtype in (torch.float32, torch.bfloat16):
            x = 5 * torch.randn(3, k, device="cuda").to(dtype)
            x[1] /= 1000
            cuda.loss_and_grad(x, arguments)
            cuda.loss_and_grad(x, arguments, inplace=True)
torch.cuda.synchronize()
"""


def cells() -> Cells:
    """Return a cell for each group of tests, and for each tool of the sanitizer."""
    tests = {name: functools.partial(run_tests, chosen) for name, chosen in TESTS.items()}
    return {**tests, **{f"compute-sanitizer {tool}": functools.partial(sanitize, tool) for tool in TOOLS}}


def run_tests(chosen: list[str], progress: Progress) -> dict[str, Any]:
    """Run tests, and count what passed, failed and was skipped; `failures` says which and why."""
    report = ROOT / "build" / "gpu-tests.xml"
    report.parent.mkdir(exist_ok=True)
    # Warnings are no errors here: the device's software may be of other versions, which warn of other things.
    # On a device every tier is quick: what takes long is Triton's interpreter, and here compilation, on every core.
    options = ["-q", "-p", "no:cacheprovider", "-W", "default", "-m", "", "-n", "auto", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *options, *chosen]
    code, said = _run(command, progress.left)
    return {"returned": code, **(counts(report.read_text()) if code in (0, 1) else {"output": said})}


def counts(report: str) -> dict[str, Any]:
    """Read pytest's report."""
    suite = ElementTree.fromstring(report).find("testsuite")
    assert suite is not None
    cases = {case.get("name", ""): case for case in suite.iter("testcase")}
    failures = {
        name: fault.get("message", "")[:500]
        for name, case in cases.items()
        for fault in (*case.iter("failure"), *case.iter("error"))
    }
    skipped = int(suite.get("skipped", 0))
    passed = int(suite.get("tests", 0)) - skipped - len(failures)
    return {"passed": passed, "failed": len(failures), "skipped": skipped, "failures": failures}


def sanitize(tool: str, progress: Progress) -> dict[str, Any]:
    """Run a call of each way under a tool of the sanitizer, if it is installed."""
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=CUDA)
    if program is None:
        return {"missing": "compute-sanitizer is not installed"}
    code, said = _run([program, "--tool", tool, "--error-exitcode", "9", sys.executable, "-c", CALLS], progress.left)
    return {"returned": code, "output": said}


def _run(command: list[str], seconds: float) -> tuple[int, str]:
    """Return how a command ended, and the end of what it said; where its time is over, `TimeoutExpired`."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        finally:
            # Of the sanitizer the program that it watches goes on, on the device, unless the whole group is stopped.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said[-2000:]
