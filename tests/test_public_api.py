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
