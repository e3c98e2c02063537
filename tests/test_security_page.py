"""SECURITY.md says of every kind of file that a command reads whether it may come from a stranger."""

import re
from pathlib import Path

import pytest

from mgce.desk.files import table_files
from mgce.features import feature_files

ROOT = Path(__file__).parents[1]
ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| (\*\*.+) \|$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE
)
NAMED = {suffix for files, *_ in ROWS for suffix in re.findall(r"`(\.[\w.]+)`", files)}


def test_every_row_has_a_verdict():
    assert len(ROWS) >= 10
    for files, _, verdict in ROWS:
        assert re.match(r"\*\*(Yes|No|With care|Only to look at)[.*]", verdict), files


@pytest.mark.parametrize("suffix", sorted({*table_files.SUFFIXES, *feature_files.READERS, ".mgce", ".ckpt"}))
def test_every_format_that_is_read_is_named(suffix):
    assert suffix in NAMED


@pytest.mark.parametrize("what", [".suspects.csv", ".decisions.csv", "annotations", "in folders", "an encoder"])
def test_files_of_a_review_pictures_and_encoders_are_named(what):
    assert any(what in files for files, *_ in ROWS)
