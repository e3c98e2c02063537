"""The figures on the page are those that were measured and saved."""

import copy
import json
from pathlib import Path

from mgce_lab.soak import page

ROOT = Path(__file__).parents[3]
RESULTS = json.loads((ROOT / page.RESULTS).read_text())


def test_page_is_the_rendering_of_the_saved_results():
    assert (ROOT / page.PAGE).read_text() == page.render(RESULTS)


def test_a_changed_result_changes_the_page():
    results = copy.deepcopy(RESULTS)
    next(iter(results["worst"].values()))["error"] = 77.0
    assert page.render(results) != page.render(RESULTS)


def test_a_run_that_was_stopped_does_not_pass_for_a_whole_one():
    results = copy.deepcopy(RESULTS)
    results["rows"] = results["planned"] = 1000
    assert "stopped before its last row" not in page.render(results)
    results["rows"] = 999
    assert "999 rows of difficult" in page.render(results) and "stopped before its last row" in page.render(results)


def test_what_is_beyond_its_limit_is_said_first():
    results = {**copy.deepcopy(RESULTS), "failures": ["cpu/float32/edge/t"]}
    assert "**Beyond their limits: cpu/float32/edge/t.**" in page.render(results).split("###")[0]
    assert "**No error was above its limit.**" in page.render({**results, "failures": []})


def test_a_family_that_was_not_in_the_run_is_said_to_be_new():
    results = copy.deepcopy(RESULTS)
    results["families"] = {where: worst for where, worst in results["families"].items() if "ladders/" not in where}
    assert "Added after the run, and not tried by it: `ladders`" in page.render(results)
