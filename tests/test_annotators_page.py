"""The figures on the page of several labels a row are those of the records."""

import re

import numpy as np
import pytest
import torch
from benchmarks import annotators, consensus_calibration, made_annotators


@pytest.fixture(scope="module")
def records():
    return annotators.records()


def test_the_page_has_the_tables_of_the_records(records):
    text = annotators.PAGE.read_text()
    assert annotators.page(text, records) == text


def test_the_table_of_calibration_is_that_of_its_records():
    text, cells = annotators.PAGE.read_text(), consensus_calibration.records()
    assert consensus_calibration.page(text, cells) == text
    people = [cell for cell in cells if cell["data"].startswith("CIFAR-10N")]
    assert len(people) >= 6
    for cell in people:
        assert cell["after"]["error"] < cell["before"]["error"] / 2
        assert sum(cell["after"]["inside"]) >= sum(cell["before"]["inside"])


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


def test_the_snippets_of_the_page_run_and_the_network_learns_the_right_classes():
    names = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```", annotators.PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, "block", "exec"), names)
    targets = names["rows"].targets
    assert targets.dtype == torch.float32 and not targets[450:].any() and (targets[:450].sum(1) - 1).abs().max() < 1e-5
    majority = np.array([np.bincount(row[row >= 0], minlength=5).argmax() for row in names["labels"][:450]])
    assert (names["found"] == names["y"][500:]).mean() > 0.93 > (majority == names["y"][:450]).mean() + 0.02
    assert not names["criterion"].targets[450:].any()
