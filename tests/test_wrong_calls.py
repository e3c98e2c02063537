"""A type checker refuses wrong keywords in calls of every public name, and takes the right call."""

import inspect
import subprocess
import sys

import pytest
from sklearn.dummy import DummyClassifier

import mgce
import mgce.desk.files
import mgce.estimators
import mgce.labels
import mgce.loop
import mgce.metrics
import mgce.noise
import mgce.risk
import mgce.sets

MODULES = (
    mgce,
    mgce.functional,
    mgce.desk.files,
    mgce.estimators,
    mgce.labels,
    mgce.loop,
    mgce.metrics,
    mgce.noise,
    mgce.risk,
    mgce.sets,
)
PUBLIC = {f"{module.__name__}.{name}": getattr(module, name) for module in MODULES for name in module.__all__}
CALLABLE = {path: value for path, value in PUBLIC.items() if callable(value)}
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# What hands keywords on, to a loss that is named at the call, to `certify` or to torchmetrics, with the arguments of a
# right call. Unknown keywords are refused at the call.
OPEN = {
    "mgce.robust_loss": {"name": "ce"},
    "mgce.risk.certify_model": {"model": DummyClassifier().fit([[0], [1]], [0, 1]), "X": [[0], [1]], "y": [0, 1]},
    "mgce.metrics.AdaptiveCalibrationError": {},
    "mgce.metrics.ExpectedCalibrationError": {},
    "mgce.metrics.MaximumCalibrationError": {},
    "mgce.metrics.StaticCalibrationError": {"num_classes": 3},
}
# Other libraries are read as `Any`: to read theirs too would take a minute, and our signatures are asked for alone.
SETTINGS = f"""[mypy]
strict = True
[mypy-{",".join(f"{name}.*" for name in ("lightning", "numpy", "pandas", "scipy", "sklearn", "torch", "torchmetrics"))}]
follow_imports = skip
ignore_missing_imports = True
"""


def calls(path, value):
    """Return a right call, and wrong ones: with a keyword too many, and with each optional one misspelt."""
    parameters = [p for p in inspect.signature(value).parameters.values() if p.kind not in VARIADIC]
    given = "".join(f"{p.name}=anything, " for p in parameters if p.default is p.empty)
    misspelt = [p.name + p.name[-1] for p in parameters if p.default is not p.empty]
    return f"{path}({given})", [f"{path}({given}{name}=anything)" for name in ("wrong_keyword_", *misspelt)]


@pytest.mark.slow
def test_a_type_checker_refuses_wrong_keywords_of_every_public_name(tmp_path):
    """One run on one file, a call a line."""
    both = [calls(path, value) for path, value in CALLABLE.items() if path not in OPEN]
    right, wrong = [one for one, _ in both], [call for _, many in both for call in many]
    header = ["from typing import Any", *(f"import {module.__name__}" for module in MODULES), "anything: Any"]
    (tmp_path / "calls.py").write_text("\n".join([*header, *right, *wrong]))
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "calls.py"]
    output = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout
    errors = [line.split(":", 2) for line in output.splitlines() if ": error: " in line]
    refused = {int(line) for _, line, sentence in errors if "Unexpected keyword argument" in sentence}
    first = len(header) + len(right) + 1
    missed = [call for line, call in enumerate(wrong, first) if line not in refused]
    assert not missed, f"{len(missed)} of {len(wrong)} wrong calls are taken for right: {missed}"
    assert {int(line) for _, line, _ in errors} == set(range(first, first + len(wrong))), output


@pytest.mark.parametrize("path", OPEN)
def test_a_wrong_keyword_that_is_handed_on_is_refused_at_the_call(path):
    CALLABLE[path](**OPEN[path])
    with pytest.raises((TypeError, ValueError), match="wrong_keyword_"):
        CALLABLE[path](**OPEN[path], wrong_keyword_=1)
