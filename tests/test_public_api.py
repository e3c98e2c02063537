"""Every public name is importable, documented, shown in a doctest, and has a page; importing costs little."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mgce
import mgce.desk.files
import mgce.estimators
import mgce.labels
import mgce.loop
import mgce.losses
import mgce.metrics
import mgce.noise
import mgce.risk
import mgce.sets
from public_names import RECORD, described, listed, unnamed

ROOT = Path(__file__).parents[1]
INTEGRATIONS = sorted(path for path in (ROOT / "src/mgce/integrations").iterdir() if path.stem[0] != "_")
MODULES = [
    mgce,
    *(mgce.desk.files, mgce.estimators, mgce.functional, mgce.labels, mgce.loop, mgce.losses, mgce.metrics),
    *(mgce.noise, mgce.risk, mgce.sets),
]
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


def test_the_top_has_few_names():
    """What the README, the page on choosing and those of the commands send people to; the rest is in its room."""
    assert len(mgce.__all__) <= 30


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_dir_has_every_public_name(module):
    assert set(module.__all__) <= set(dir(module))


def test_type_checkers_import_a_name_from_where_python_does():
    nodes = [node for node in ast.walk(ast.parse(Path(mgce.__file__).read_text())) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in nodes for alias in node.names if node.module.startswith("mgce")}
    assert seen == {**dict.fromkeys(mgce._ROOMS, "mgce"), **mgce._HOMES}


@pytest.mark.nightly
def test_type_checkers_see_every_public_name_and_submodule(tmp_path):
    lines = ["import mgce", *(f"reveal_type(mgce.{name})" for name in mgce.__all__)]
    lines += ["reveal_type(mgce.metrics.ExpectedCalibrationError)", "reveal_type(mgce.noise.symmetric)"]
    (tmp_path / "names.py").write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", tmp_path / "names.py"]
    output = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout
    revealed = [line for line in output.splitlines() if "Revealed type" in line]
    assert len(revealed) == len(lines) - 1, output
    assert not [line for line in revealed if '"Any"' in line] and ": error" not in output, output


def test_unknown_names_raise_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mgce.nothing  # noqa: B018


@pytest.mark.slow
def test_import_brings_no_optional_or_heavy_module():
    code = """
import sys, torch
before = set(sys.modules)
import mgce, mgce.desk.files, mgce.kernels.cuda
print(*set(sys.modules) - before)
import mgce.metrics, mgce_lab.training.ensemble, mgce_lab.images.image_data, mgce_lab.images.resnet
print(*sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, later = (set(line.split()) for line in result.stdout.splitlines())
    of_images = {"lightning", "torchmetrics", "torchvision"}
    heavy = {"PIL", "matplotlib", "pandas", "rich", "scipy", "sklearn", "triton", "typer"}
    assert not (heavy | of_images) & first and not of_images & later


LISTED = listed()


OBJECTS = [pair for pair in NAMES if not isinstance(getattr(*pair), ModuleType)]


@pytest.mark.parametrize("module, name", OBJECTS, ids=lambda v: getattr(v, "__name__", v))
def test_a_public_name_has_a_page(module, name):
    # Some are public under two names; one page is enough.
    at_the_top = name in mgce.__all__ and getattr(mgce, name) is getattr(module, name)
    assert f"{module.__name__}.{name}" in LISTED or (at_the_top and f"mgce.{name}" in LISTED)


@pytest.mark.parametrize("path", INTEGRATIONS, ids=lambda path: path.stem)
def test_the_public_names_of_an_integration_have_pages(path):
    body = ast.parse((path / "__init__.py" if path.is_dir() else path).read_text()).body
    defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    passed_on = [
        alias.name for node in body if path.is_dir() and isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    names = [name for name in defined + passed_on if not name.startswith(("_", "Linked"))]  # made by `pipeline`
    if path.stem != "boosting":  # what both boosting libraries share
        assert names and {f"mgce.integrations.{path.stem}.{name}" for name in names} <= LISTED


def test_what_is_listed_is_there():
    public = {f"{module.__name__}.{name}" for module, name in NAMES}
    others = {"mgce.estimators.load", "mgce.estimators.save"}
    others.add("mgce.desk.files.images.ImageFiles")
    assert not {name for name in LISTED - public - others if not name.startswith("mgce.integrations.")}


def test_public_names_and_arguments_change_only_with_a_line_in_the_changelog():
    newest = (ROOT / "CHANGELOG.md").read_text().partition("\n## ")[2].partition("\n## ")[0]
    assert not unnamed(RECORD.read_text().splitlines(), described(), newest)


SAME = ["mgce.A(x)", "mgce.A.fit(X)", "mgce.B(x)", "mgce.B.fit(X)", "mgce.find(a, *, b=1)"]


@pytest.mark.parametrize(
    "line, now, section, expected",
    [
        (4, "mgce.find(a, *, b=2)", "- `find` is faster.", ["mgce.find"]),  # which argument?
        (4, "mgce.find(a, *, b=2)", "- `b` is 2.\n- `find` is faster.", ["mgce.find"]),  # in two lines
        (4, "mgce.find(a, *, b=2)", "- The default of `find(b=)` is 2.", []),
        (4, "mgce.find(a, *, c=1)", "- `find` takes `c`.", ["mgce.find"]),  # b went too
        (4, "mgce.find(a, *, c=1)", "- `find` takes `c`,\n  and `b` no more.", []),
        (4, "mgce.find(a, *, c=1)", "- `find` takes `c`.\n- `find.b` is gone.", []),
        (4, "mgce.find(*, b=1, a)", "- `find` takes `a` by its name alone.", []),
        (4, "mgce.find(*, b=1, a)", "- `find` is another.", ["mgce.find"]),
        (4, "mgce.seek(a, *, b=1)", "- `finding` is `seek`.", ["mgce.find"]),
        (4, "mgce.seek(a, *, b=1)", "- `mgce.find` is `seek`.", []),
        (1, "mgce.A.fit(X, y)", "- `fit` takes `y`.", ["mgce.A.fit"]),  # of which class? that of B does not
        (1, "mgce.A.fit(X, y)", "- `A.fit` takes `y`.", []),
        (2, "mgce.C(x)", "- `B` is `C`.", []),
    ],
)
def test_a_change_is_named_with_its_class_and_its_arguments(line, now, section, expected):
    new = [*SAME[:line], now, *SAME[line + 1 :]]
    assert unnamed(SAME, new, section) == expected


def test_a_class_that_goes_needs_no_line_for_its_methods():
    assert unnamed(SAME, SAME[2:], "- `A` is gone.") == []
    assert unnamed(SAME, SAME[2:], "- `a` is gone.") == ["mgce.A"]
