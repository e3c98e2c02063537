"""The commands whose faults are tried, on a few rows, each in a process of its own that has all modules already."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SMALL = ("--methods", "mgce", "--betas", "1.4", "--seeds", "1", "--jobs", "1", "--out", "out")
# A run of one command: its arguments in a folder that holds `people.csv`, and the files whose bytes differ by the time
# that a run takes.
COMMANDS: dict[str, tuple[str, ...]] = {
    # One model: what is tried is the writing of files, and all models take twenty times as long.
    "fit": ("fit", "people.csv", "--target", "y", "--model", "linear"),
    "predict": ("predict", "people.mgce", "people.csv"),
    "compare": (
        *("compare", "people.csv", "--target", "y", "--methods", "ce,mae", "--seeds", "1", "--epochs", "1"),
        *("--hidden", "4", "--out", "out"),
    ),
    "sweep": ("reproduce", "table3", "--smoke", "--dataset", "wine", *SMALL),
    "images": ("reproduce", "figure4", "--smoke", *SMALL),
    "report": ("report", "runs", "--out", "out"),
}
VARIES = ("machines.jsonl", "machine.json", "checks.json", "runs.json", "report.html", ".html")


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, negative for a signal; what it said; and the calls that changed files."""

    code: int
    said: str
    calls: int


def preload(library: Path) -> None:
    """Restart this program with the shim, which counts calls that change files, loaded before all other libraries."""
    if os.environ.get("LD_PRELOAD") != str(library):
        os.environ["LD_PRELOAD"] = str(library)
        os.execv(sys.executable, [sys.executable, "-m", "mgce_lab.soak", *sys.argv[1:]])


def build(folder: Path) -> Path:
    """Compile the shim: the library that counts the calls which change files, and lets one of them fail."""
    library = folder.absolute() / "faults.so"
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_name("faults.c")
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def import_all() -> None:
    """Import what the commands need, once for all processes."""
    for name in (
        "mgce.desk.cli.main",
        "mgce.desk.cli.fit",
        "mgce_lab.cli.compare",
        "mgce_lab.cli.reproduce",
        "mgce_lab.cli.report",
    ):
        importlib.import_module(name)
    for name in ("mgce.desk.cli.predict", "mgce.desk.tables.fit", "matplotlib.backends.backend_agg", "joblib"):
        importlib.import_module(name)


def people(folder: Path) -> None:
    """Write the table that `fit` and `compare` read."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=48).round(2)
    rows = [f"{value},{kind},{'yes' if value > 0 else 'no'}" for value, kind in zip(x, "abc" * 16, strict=True)]
    (folder / "people.csv").write_text("\n".join(["x,kind,y", *rows]) + "\n")


def run(arguments: Sequence[str], folder: Path, *, at: int = 0, full: bool = False, user: int | None = None) -> Outcome:
    """Run a command in a folder; let its call number `at` kill it, or find the disk full."""
    with tempfile.TemporaryFile() as said:
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            _child(arguments, folder, at, full, user, said.fileno(), send)
        os.close(send)
        calls = os.read(receive, 32)
        os.close(receive)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return Outcome(code, said.read().decode(errors="replace"), int(calls or b"0"))


def _child(arguments: Sequence[str], folder: Path, at: int, full: bool, user: int | None, said: int, send: int) -> None:
    code = 99
    try:
        from mgce.desk.cli.main import main

        os.chdir(folder)
        os.dup2(said, 1)
        os.dup2(said, 2)
        signal.alarm(300)
        if user is not None:
            os.setgid(user)
            os.setuid(user)
        sys.argv = ["mgce", *arguments]
        shim = ctypes.CDLL(None)
        shim.fault_count.restype = ctypes.c_long
        shim.fault_arm(str(folder).encode(), ctypes.c_long(at), int(full))
        try:
            main()
            code = 0
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 0 if stopped.code is None else 1
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(send, str(shim.fault_count()).encode())
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        code = 98
    finally:
        os._exit(code)
