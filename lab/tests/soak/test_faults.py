"""A short form of the soak of faults: a few kills and full disks of `mgce fit`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the shim is for Linux"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


@pytest.mark.nightly
def test_a_killed_fit_leaves_all_or_nothing(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mgce_lab.soak",
        "faults",
        "--faults",
        "2",
        "--commands",
        "predict",
        "--work",
        str(tmp_path),
    ]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'kills': 2, 'full disks': 2" in done.stdout
