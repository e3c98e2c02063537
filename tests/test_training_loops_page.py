"""The tables of training loops are those of the records, in which no column or seed is missing."""

from pathlib import Path

import pytest
from benchmarks import loop, loop_page

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def runs():
    return loop.records("runs")


def test_the_pages_have_the_tables_of_the_records(runs):
    assert (ROOT / loop.PAGE).read_text() == loop_page.page(runs, loop.records("development"), loop.records("unseen"))
    short, begin, end = loop_page.summary(runs), *loop.MARK
    of_confused = loop_page.confused(runs, loop.records("development"))
    for name, content in (("loops", short), ("confused", of_confused)):
        assert f"{begin.format(name)}\n{content}\n\n{end.format(name)}" in (ROOT / loop.CHOOSING).read_text()
    of_readme = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| ")]
    assert sum(line in short.splitlines() for line in of_readme) >= 5  # the heading, three losses and the chooser


def test_the_records_are_whole(runs):
    recipes = [*loop.RECIPES, loop.ESTIMATED]
    assert sorted((one["column"], one["recipe"], one["seed"]) for one in runs) == sorted(
        (column, recipe, seed) for column in loop.COLUMNS for recipe in recipes for seed in range(3)
    )
