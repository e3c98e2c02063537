from pathlib import Path

import pytest

from mgce.experiments.benchmark.report import write_benchmark

COMMITTED = Path(__file__).parents[3] / "results"


@pytest.mark.parametrize(("folder", "protocol"), [("losses", "rates"), ("losses-reduced", "reduced")])
def test_the_tables_are_the_rendering_of_the_committed_records(tmp_path, folder, protocol):
    results = write_benchmark(COMMITTED / folder, tmp_path)
    assert list(results) == [protocol]
    for suffix in ("txt", "csv", "tex"):
        assert (tmp_path / f"{protocol}.{suffix}").read_bytes() == (
            COMMITTED / folder / f"{protocol}.{suffix}"
        ).read_bytes()
