"""The tables of training loops are those of the records, in which no column or seed is missing."""

from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from mgce_lab.studies import loop, loop_page

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def runs():
    return loop.records("runs")


def test_the_pages_have_the_tables_of_the_records(runs):
    others = [loop.records(part) for part in ("development", "unseen")]
    assert (ROOT / loop.PAGE).read_text() == loop_page.page(runs, *others)
    short, begin, end = loop_page.summary(runs), *loop.MARK
    of_confused = loop_page.confused(runs, loop.records("development"))
    for name, content in (("loops", short), ("confused", of_confused)):
        assert f"{begin.format(name)}\n{content}\n\n{end.format(name)}" in (ROOT / loop.CHOOSING).read_text()


def test_the_records_are_whole(runs):
    recipes = [*loop.RECIPES, loop.ESTIMATED]
    assert sorted((one["column"], one["recipe"], one["seed"]) for one in runs) == sorted(
        (column, recipe, seed) for column in loop.COLUMNS for recipe in recipes for seed in range(3)
    )


def mean_of(results, recipe):
    return sum(results.mean(column, recipe, "kept") for column in results.columns)


def test_the_page_says_where_the_default_stands_on_the_development_columns():
    records = loop.records("development")
    results = loop_page.Results(records)
    assert set(results.columns) == set(loop.DEVELOPMENT)
    untold = sorted((one for one in results.recipes if "told" not in one), key=lambda one: -mean_of(results, one))
    rank = untold.index(loop_page.DEFAULT)
    said = "the first" if rank == 0 else f"number {rank + 1} of {len(untold)}"
    sentence = f"To train only once, take {loop_page.DEFAULT}, which is {said} on the development columns."
    assert sentence in (ROOT / loop.PAGE).read_text()


@pytest.mark.parametrize(("lost", "said"), [(0, "the first"), (60, "number 2 of 2")])
def test_a_record_in_which_the_default_loses_can_be_committed(lost, said):
    """The page then says so: two recipes on one column, of which the default is better by 10 points, or worse by 50."""
    records = [
        {"column": "a", "seed": 0, "recipe": "other", "kept": 70.0},
        {"column": "a", "seed": 0, "recipe": "an oracle, told", "kept": 99.0},
        {"column": "a", "seed": 0, "recipe": loop_page.DEFAULT, "kept": 80.0 - lost},
    ]
    assert loop_page.place_of_default(loop_page.Results(records)) == said


def test_the_records_that_nothing_was_chosen_on_are_whole():
    found = sorted((one["column"], one["recipe"], one["seed"]) for one in loop.records("unseen"))
    assert found == sorted((column, recipe, 0) for column in loop.UNSEEN for recipe in loop.UNTOLD)


def test_readme_states_the_differences_on_columns_that_nothing_was_chosen_on():
    said = " ".join((ROOT / "README.md").read_text().split())
    assert loop_page.lead(loop.records("unseen")) in said


def test_an_interval_over_columns_is_that_of_scipy():
    results = loop_page.Results(loop.records("unseen"))
    ours, others = (
        [results.mean(one, recipe, "kept") for one in results.columns if one.endswith("pair 40 %")]
        for recipe in ("learned correction", "GCE")
    )
    want = ttest_rel(ours, others).confidence_interval(0.95)
    _, lower, upper, n = loop_page.gap(results, "pair 40 %", "GCE")
    assert (lower, upper, n) == (pytest.approx(want.low), pytest.approx(want.high), len(ours))
