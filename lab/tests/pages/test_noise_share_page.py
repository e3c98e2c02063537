"""The figures on the page of the share of wrong labels are those of the records, which keep what is promised."""

import json

import pytest

from mgce_lab.studies import noise_share


@pytest.fixture(scope="module")
def records():
    return [json.loads(line) for line in noise_share.RESULTS.read_text().splitlines()]


def test_the_page_has_the_table_of_the_records(records):
    assert f"{noise_share.BEGIN}{noise_share.render(records)}{noise_share.END}" in noise_share.PAGE.read_text()


def test_the_records_are_whole_and_hold_0_on_right_labels(records):
    cells = {(record["table"], record["noise"], record["rate"], record["seed"]) for record in records}
    assert len(cells) == len(records)
    for name in noise_share.CHOSEN_ON | noise_share.READ_ONCE:
        assert {(name, "none", 0.0, seed) for seed in range(2)} <= cells
    right = [record for record in records if record["noise"] == "none"]
    assert all(record["low"] == 0 for record in right)


def test_intervals_hold_where_noise_is_as_assumed(records):
    as_assumed = [r for r in records if r["noise"] in ("symmetric", "pair") and r["form"] == "interval"]
    assert sum(r["low"] <= r["true"] <= r["high"] for r in as_assumed) >= 0.9 * len(as_assumed)
    assert sum(r["high"] - r["low"] for r in as_assumed) <= 0.1 * len(as_assumed)
