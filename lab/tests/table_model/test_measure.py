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
    page = measure.page(results(0.1))
    assert "transformer x minus forest: accuracy +0.100 [+0.100, +0.100], log_loss -0.100" in page
    assert "'transformer x': 1.0" in page


def test_a_cell_counts_only_when_every_method_has_it():
    records = results(0.1)
    page = measure.page(records[:-1])
    assert "2 tables, 2 cells" in page


def test_an_interval_of_equal_differences_has_no_width():
    assert measure.interval(np.array([0.2, 0.2, 0.2])) == pytest.approx((0.2, 0.2, 0.2))


@pytest.mark.parametrize("name", ["digits", "wine"])
def test_rows_of_the_two_views_are_the_same(name, tmp_path):
    data = measure.split_of(name, 60, 0, tmp_path)
    assert len(data.codes) == len(data.right) + len(data.test)
    assert data.codes.shape[1] == len(data.is_categorical)
    assert len(data.X) == len(data.right) == 60
