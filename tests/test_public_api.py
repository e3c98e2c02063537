"""Every public name is importable, documented, and shown in a doctest; importing costs little."""

import inspect
import subprocess
import sys

import pytest

import mgce
import mgce.datasets
import mgce.estimators
import mgce.metrics
import mgce.noise
import mgce.risk
import mgce.sets

MODULES = [mgce, mgce.datasets, mgce.estimators, mgce.functional, mgce.metrics, mgce.noise, mgce.risk, mgce.sets]
NAMES = [(module, name) for module in MODULES for name in module.__all__]


@pytest.mark.parametrize("module, name", NAMES, ids=lambda v: getattr(v, "__name__", v))
def test_public_names_are_documented(module, name):
    value = getattr(module, name)
    assert value.__doc__, f"{name} has no docstring"
    if inspect.isfunction(value) and module is not mgce:
        for part in ("Args:", "Raises:", "Example:"):
            assert part in value.__doc__, f"{name}: {part}"
        assert ">>>" in value.__doc__


def test_all_is_sorted_and_private_names_stay_out():
    for module in MODULES:
        assert list(module.__all__) == sorted(module.__all__)
        assert not any(name.startswith("_") for name in module.__all__)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_dir_has_every_public_name(module):
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.slow
def test_type_checkers_see_every_public_name_and_submodule(tmp_path):
    lines = ["import mgce", *(f"reveal_type(mgce.{name})" for name in mgce.__all__)]
    lines += ["reveal_type(mgce.metrics.ExpectedCalibrationError)", "reveal_type(mgce.datasets.load)"]
    (tmp_path / "names.py").write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", tmp_path / "names.py"]
    output = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout
    revealed = [line for line in output.splitlines() if "Revealed type" in line]
    assert len(revealed) == len(lines) - 1, output
    assert not [line for line in revealed if '"Any"' in line] and ": error" not in output, output


def test_unknown_names_raise_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mgce.nothing  # noqa: B018


def test_import_brings_no_optional_or_heavy_module():
    code = "import torch, sys; before = set(sys.modules); import mgce; print(*set(sys.modules) - before)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "sklearn",
        "scipy",
        "pandas",
        "matplotlib",
        "torchmetrics",
        "lightning",
        "typer",
        "rich",
        "triton",
    }
    assert not heavy & set(result.stdout.split())
