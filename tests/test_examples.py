"""The examples run as printed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# What an example needs that the dev extra may lack.
NEEDS = {
    "boosted_trees": ["xgboost"],
    "cleanlab_ties": ["cleanlab"],
    "export_onnx": ["onnxruntime", "onnxscript", "skl2onnx"],
    "hugging_face": ["accelerate", "transformers"],
    "lightning_callback": ["lightning"],
    "skorch_search": ["skorch"],
}
SLOW = ("export_onnx", "hugging_face")  # to import, and PyTorch's exporter


def _marks(name):
    marks = [pytest.mark.integration] if name in NEEDS else []
    return [*marks, pytest.mark.slow] if name in SLOW else marks


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=_marks(path.stem)) for path in EXAMPLES])
def test_example_runs(path, tmp_path):
    for name in NEEDS.get(path.stem, []):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    result = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout and not list(tmp_path.iterdir())


def test_there_are_examples():
    assert set(NEEDS) <= {path.stem for path in EXAMPLES}
