"""The table of features: each that is said to be there is linked to a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (yes|partly|no) \| (?:`([^`]+)`)? *\|", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs/features.md").read_text())


def functions_in(path):
    """Return the names of the tests of a file, those of its classes too."""
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_there_are_63_and_60_of_them_are_there():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 64))
    assert sum(answer == "yes" for _, _, answer, _ in ROWS) >= 60


@pytest.mark.parametrize("number, name, answer, test", ROWS, ids=[row[0] for row in ROWS])
def test_what_is_there_is_tested(number, name, answer, test):
    assert test or answer != "yes", f"{name}: no test"
    if test:
        path, function = test.split("::")
        assert function in functions_in(ROOT / path if path.startswith("lab/") else ROOT / "tests" / path), test


def test_the_licence_is_permissive():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
