"""The figures on the page are those that were measured and saved."""

import json
from pathlib import Path

import pytest
from benchmarks import page
from benchmarks.gpu import SHAPES

ROOT = Path(__file__).parents[1]
RESULTS = json.loads((ROOT / page.CPU).read_text())
ON_GPU = json.loads((ROOT / page.GPU).read_text()) if (ROOT / page.GPU).exists() else None


def test_page_is_the_rendering_of_the_saved_results():
    assert (ROOT / page.PAGE).read_text() == page.render(RESULTS, ON_GPU)


def test_a_changed_result_changes_the_page():
    results = json.loads(json.dumps(RESULTS))
    results["grid"]["cells"][0]["seconds"]["1.4"] *= 2
    assert page.render(results, ON_GPU) != page.render(RESULTS, ON_GPU)
    del results["bandwidth"]
    with pytest.raises(KeyError):
        page.render(results, ON_GPU)


def test_what_was_not_measured_stays_empty():
    text = page.render(RESULTS, None)
    for n, k in SHAPES:
        assert f"| {n} x {k} |" + "  |" * 8 in text
