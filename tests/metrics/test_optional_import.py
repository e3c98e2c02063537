"""The functions work without torchmetrics, and the classes say what is missing."""

import subprocess
import sys

import pytest

import mgce.metrics


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_without_torchmetrics():
    result = run(
        "import sys; sys.modules['torchmetrics'] = None\n"
        "import torch, mgce.metrics\n"
        "print(mgce.metrics.expected_calibration_error(torch.eye(2), torch.tensor([0, 0])).item())\n"
        "mgce.metrics.ExpectedCalibrationError()"
    )
    assert result.stdout == "0.5\n"
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ExpectedCalibrationError needs torchmetrics")
    assert "pip install -c constraints.txt '.[lightning]'" in last


def test_every_public_name_exists_and_others_do_not():
    for name in mgce.metrics.__all__:
        assert getattr(mgce.metrics, name).__name__ == name
        assert name in dir(mgce.metrics)
    with pytest.raises(AttributeError, match=r"'mgce\.metrics' has no attribute 'accuracy'"):
        mgce.metrics.accuracy  # noqa: B018
