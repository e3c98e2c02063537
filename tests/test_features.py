"""The list of features: each is linked to a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^- (.+?): `([^`]+::[^`]+)`", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs/features.md").read_text())


def functions_in(path):
    """Return the names of the tests of a file, those of its classes too."""
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_row_names_a_test():
    assert len(ROWS) == (ROOT / "docs/features.md").read_text().count("\n- ") >= 20


@pytest.mark.parametrize("name, test", ROWS, ids=[name for name, _ in ROWS])
def test_what_is_there_is_tested(name, test):
    path, function = test.split("::")
    assert function in functions_in(ROOT / path if path.startswith("lab/") else ROOT / "tests" / path), test


def test_the_licence_is_permissive():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
