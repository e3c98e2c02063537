"""Small files whose tables would fill the memory, or never end, are refused in one sentence: each in a process."""

import os
from importlib.util import find_spec

import pytest

if not hasattr(os, "fork"):
    pytest.skip("needs fork", allow_module_level=True)

from mgce_lab.soak import attacks, bombs

QUICK = (
    "Excel: a row 10^12",
    "Parquet: a text of 50 MB in 1,500 rows",
    "Arrow: a run of 200,000,000 rows",
    "JSON lines: a new key in each",
    "CSV: 2,000,000 columns",
)
# Each takes 2.5 to 66 seconds. Smaller bombs of the same formats run in CI.
NIGHTLY = (
    *("Excel: 10^8 tags", "JSON lines: 30,000,000", "Parquet: a list of 250,000,000 numbers"),
    *("Excel: 100,000 merged ranges over all cells", "CSV: a cell of 500 MB", "CSV: 400,000,000 commas"),
    *("CSV: 500,000,000 blank lines", "CSV: 120,000,000 lines", "Parquet: the same without categories"),
)


def marked(name):
    marks = [] if name in QUICK else pytest.mark.nightly if name in NIGHTLY else pytest.mark.slow
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [*map(marked, bombs.BOMBS)])
def test_a_bomb_is_refused_in_a_sentence_below_two_gigabytes(name):
    if name.startswith("Excel") and not find_spec("openpyxl"):
        pytest.skip("needs openpyxl, of the extra cli")
    found = attacks.run([name])[name]
    # Above what the process has before, which is less than half a gigabyte in a process of its own.
    assert found["outcome"] == "sentence" and found["megabytes"] < 1500, found
