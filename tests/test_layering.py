"""Data flows one way: a module imports from the layers above its own, never from below or beside."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "mgce"
LAYERS = [
    {"_validation", "_files", "_threads"},
    {"numerics"},
    {"kernels"},
    {"losses"},
    {"functional"},
    {"linear"},
    {"metrics", "noise", "risk", "datasets", "pages"},
    {"training"},
    {"estimators"},
    {"tables"},
    {"experiments"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported(path):
    """Give every name under mgce that a file imports, with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from ((name.split(".")[1], node.lineno) for name in names if name.startswith("mgce."))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_upwards(path):
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert layer in RANK, f"{layer} stands in no layer"
    for name, line in imported(path):
        if name == layer or name == "__version__":
            continue
        assert name in RANK, f"line {line}: {name} stands in no layer"
        assert RANK[name] < RANK[layer], f"line {line}: {layer} may not import {name}"
