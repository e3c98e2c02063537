from pathlib import Path

import pandas as pd
import pytest

from mgce.experiments.benchmark.report import write_benchmark

COMMITTED = Path(__file__).parents[3] / "results"


@pytest.mark.parametrize(
    ("folder", "protocol"), [("losses", "rates"), ("losses-reduced", "reduced"), ("losses-p1", "p1")]
)
def test_the_tables_are_the_rendering_of_the_committed_records(tmp_path, folder, protocol):
    results = write_benchmark(COMMITTED / folder, tmp_path)
    assert list(results) == [protocol]
    for name in (f"{protocol}.txt", f"{protocol}.tex"):
        assert (tmp_path / name).read_bytes() == (COMMITTED / folder / name).read_bytes()
    # Numbers in full, whose last digits are those of NumPy and of the machine.
    here, there = (pd.read_csv(of / f"{protocol}.csv") for of in (tmp_path, COMMITTED / folder))
    pd.testing.assert_frame_equal(here, there, rtol=1e-9, atol=1e-14)
