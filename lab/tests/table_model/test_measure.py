"""The comparison on real tables: its page and its intervals."""

import numpy as np
import pytest

pytest.importorskip("cleanlab")  # benchmarks needs it

from mgce_lab.table_model import measure


def results(gain):
    generator = np.random.default_rng(0)
    records = []
    for table in ("a", "b", "c"):
        accuracy = generator.random()
        cell = [table, "symmetric", 0.2, 300, 0]
        for method, more in (("forest", 0.0), ("transformer x", gain)):
            scores = {
                "accuracy": accuracy + more,
                "log_loss": 1 - more,
                "ap": 0.5 + more,
                "corrected": 0.5,
                "seconds": 1,
            }
            records.append({"cell": cell, "method": method, **scores})
    return records


def test_the_page_tells_the_difference_and_the_rank():
    lines = measure.render(results(0.1)).splitlines()
    first, second = ([cell.strip() for cell in line.strip("| ").split("|")] for line in lines[2:])
    assert first[0] == "transformer x" and first[2] == "1.00" and second[2] == "2.00"
    assert second[-2:] == ["+10.0 (+10.0 to +10.0)"] * 2


def test_a_cell_counts_only_when_every_method_has_it():
    records = results(0.1)
    assert "2 tables, 2 cells" in measure.render(records[:-1])


def test_an_interval_of_equal_differences_has_no_width():
    assert measure.interval(np.array([0.2, 0.2, 0.2])) == pytest.approx((0.2, 0.2, 0.2))


@pytest.mark.parametrize("name", ["digits", "wine"])
def test_rows_of_the_two_views_are_the_same(name, tmp_path):
    data = measure.split_of(name, 60, 0, tmp_path)
    assert len(data.codes) == len(data.right) + len(data.test)
    assert data.codes.shape[1] == len(data.is_categorical)
    assert len(data.X) == len(data.right) == 60
