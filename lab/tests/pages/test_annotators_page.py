"""The figures on the page of several labels a row are those of the records."""

import json
import re

import numpy as np
import pytest
import torch
from scipy import stats

from mgce.labels.annotators import CAUTION
from mgce_lab.studies import annotator_worlds, annotators, consensus_calibration, made_annotators


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
        assert cell["after"]["said"] < cell["before"]["said"]  # the last step weakens the evidence


def test_the_page_says_who_is_ahead_as_the_records_do(records):
    """The answer at the top of the page is on the vote; the table has the difference to CROWDLAB, of either sign."""
    text = annotators.PAGE.read_text()
    consensus = [cell for cell in records if cell["part"] == "consensus" and cell["data"] == "CIFAR-10N"]
    assert {(cell["number"], cell["keep"]) for cell in consensus} == {
        (number, keep) for number in range(1, annotators.SETS + 1) for keep in annotators.KEEPS
    }
    for keep in annotators.KEEPS:
        own = [cell["right"] for cell in consensus if cell["keep"] == keep]
        ahead = 100 * np.mean([right[annotators.OURS] - right["CROWDLAB"] for right in own])
        assert f" {ahead:+.2f} |" in next(
            line for line in text.splitlines() if line.startswith(f"| {keep:g} | {len(own)} |")
        )
    every = [cell["right"] for cell in records if cell["part"] == "consensus"]
    above = all(right[annotators.OURS] > right["majority"] for right in every)
    assert ("The consensus is right more often than a vote of the annotators." in text) == above


@pytest.fixture(scope="module")
def worlds():
    return json.loads(annotator_worlds.RESULTS.read_text())


def test_the_page_and_the_output_have_the_figures_of_made_worlds(worlds):
    assert annotator_worlds.render(worlds) in annotators.PAGE.read_text()
    assert set(worlds) == set(annotator_worlds.WORLDS)
    assert "every range missed the truth" in CAUTION
    assert all(worlds[name]["missed"] == worlds[name]["ranges"] for name in annotator_worlds.MISLED)


def test_the_bound_from_looked_up_rows_holds_in_all_made_worlds(worlds):
    for name, cell in worlds.items():
        assert cell["bounds"] == cell["draws"] >= 100
        assert cell["false"] <= stats.binom.ppf(1 - 1e-3, cell["bounds"], 0.05), name


def test_the_worlds_are_drawn_as_recorded(worlds):
    for name in annotator_worlds.MISLED:
        drawn, cell = annotator_worlds.measured(name, 4), worlds[name]
        assert drawn["ranges"] * cell["draws"] == cell["ranges"] * 4
        assert drawn["missed"] == drawn["ranges"] and all(error > 0.1 for error in drawn["errors"])
        assert drawn["errors"] == cell["errors"][: len(drawn["errors"])]


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
    text = (annotators.ROOT / "docs" / "annotators.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, "block", "exec"), names)
    targets = names["rows"].targets
    assert targets.dtype == torch.float32 and not targets[450:].any() and (targets[:450].sum(1) - 1).abs().max() < 1e-5
    majority = np.array([np.bincount(row[row >= 0], minlength=5).argmax() for row in names["labels"][:450]])
    assert (names["found"] == names["y"][500:]).mean() > 0.93 > (majority == names["y"][:450]).mean() + 0.02
    assert not names["criterion"].targets[450:].any()
