"""The figures on the page of several labels a row are those of the records."""

import pytest
from benchmarks import annotators, made_annotators


@pytest.fixture(scope="module")
def records():
    return annotators.records()


def test_the_page_has_the_tables_of_the_records(records):
    text = annotators.PAGE.read_text()
    assert annotators.page(text, records) == text


def test_our_consensus_is_ahead_in_every_record(records):
    consensus = [cell["right"] for cell in records if cell["part"] == "consensus"]
    assert len(consensus) >= 9
    for right in consensus:
        assert right[annotators.OURS] == max(right.values())


def test_rows_that_are_asked_for_are_worth_more_than_random_ones(records):
    asking = [cell["right"] for cell in records if cell["part"] == "asking"]
    assert asking
    for right in asking:
        assert right["ours, 1,000"] > right["random, 1,500"] > right["none"]


def test_made_tables_are_as_they_say():
    features, right, labels, accuracy = made_annotators.made_table(0)
    assert features.shape == (1000, 20) and ((labels >= 0).sum(1) == 3).all()
    assert (accuracy[:4] > 0.75).all() and (accuracy[4:6] < 0.6).all()
    both = (labels[:, 6] >= 0) & (labels[:, 7] >= 0)
    assert (labels[both, 6] == labels[both, 7]).mean() > 0.93
    given = labels[:, 0] >= 0
    assert abs((labels[given, 0] == right[given]).mean() - accuracy[0]) < 0.1
