"""The figures on the page of `mgce review` are those of the records."""

import json

import pytest

from mgce_lab.studies import review


@pytest.fixture(scope="module")
def records():
    return [json.loads(line) for line in review.RESULTS.read_text().splitlines()]


def test_the_page_has_the_table_of_the_records(records):
    assert f"{review.BEGIN}{review.render(records)}{review.END}" in review.PAGE.read_text()


def test_the_records_are_whole_and_their_bounds_hold(records):
    cells = {(record["table"], record["seed"], record["checked"]) for record in records}
    assert cells == {(table, seed, n) for table in review.TABLES for seed in range(3) for n in review.CHECKED}
    checked = [record for record in records if record["checked"]]
    # Each bound may fail with probability 0.05: of 27, four or more fail with probability 0.045.
    assert sum(record["wrong_left_at_most"] < record["wrong_left"] for record in checked) < 4
    assert sum(record["width"] < 0 for record in checked) < 4
