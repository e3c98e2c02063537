"""Small files whose tables would fill the memory, or never end, are refused in one sentence: each in a process."""

import os
from importlib.util import find_spec

import pytest

pytest.importorskip("skops")
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


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in bombs.BOMBS]
)
def test_a_bomb_is_refused_in_a_sentence_below_two_gigabytes(name):
    if name.startswith("Excel") and not find_spec("openpyxl"):
        pytest.skip("needs openpyxl, of the extra cli")
    found = attacks.run([name])[name]
    # Above what the process has before, which is less than half a gigabyte in a process of its own.
    assert found["outcome"] == "sentence" and found["megabytes"] < 1500, found
