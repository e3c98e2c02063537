from pathlib import Path

from mgce.experiments.benchmark.report import write_benchmark

COMMITTED = Path(__file__).parents[3] / "results" / "losses"


def test_the_tables_are_the_rendering_of_the_committed_records(tmp_path):
    results = write_benchmark(COMMITTED, tmp_path)
    assert list(results) == ["rates"]
    for suffix in ("txt", "csv", "tex"):
        assert (tmp_path / f"rates.{suffix}").read_bytes() == (COMMITTED / f"rates.{suffix}").read_bytes()
