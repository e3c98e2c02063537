"""The table of claims that opens docs/paper.md: its tests exist, and the counts are those of the committed records."""

import re
from pathlib import Path

import pytest

from mgce_lab.studies import paper_claims

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \*\*(.+?)\*\*.* \| (.+?) \|$", PAGE, re.MULTILINE)
TESTS = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


@pytest.fixture(scope="module")
def file():
    return paper_claims.OUT.read_text(encoding="utf-8")


def test_the_file_is_that_of_the_records(file):
    assert paper_claims.text() == file


def test_there_is_a_verdict_on_each_claim():
    names = ["Convexity", "Bound", "Calibrated", "Faster convergence", "Accuracy", "Calibration error", "Tightness"]
    assert [name for name, _ in ROWS] == names
    for name, verdict in ROWS:
        assert re.match(r"\*\*(agrees|differs|not tested)\*\*", verdict), name


@pytest.mark.parametrize(("path", "function"), TESTS, ids=[function for _, function in TESTS])
def test_each_test_that_is_named_exists(path, function):
    assert re.search(rf"^ *def {function}\(", (ROOT / "tests" / path).read_text(encoding="utf-8"), re.MULTILINE)
