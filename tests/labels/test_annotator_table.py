"""Estimated accuracies of annotators with ranges, against SciPy and over made tables."""

import numpy as np
import pytest
from scipy import stats

from crowds import K, made, prior
from mgce.labels.annotators import Annotations, annotator_model, annotator_table, estimated_range


def test_range_of_known_labels_is_that_of_jeffreys():
    right = np.repeat([1.0, 0.0], [70, 30])
    assert estimated_range(right) == pytest.approx(stats.beta(70.5, 30.5).interval(0.95))


def test_doubt_widens_the_range():
    sure, doubtful = np.repeat([1.0, 0.0], [70, 30]), np.repeat([0.9, 0.233], [70, 30])
    width = [np.diff(estimated_range(each))[0] for each in (sure, doubtful)]
    assert width[1] > 1.2 * width[0]


def test_no_label_says_nothing():
    assert estimated_range(np.empty(0)) == (0.0, 1.0)


def test_ranges_hold_where_annotators_err_independently_as_is_assumed():
    rates, inside = (0.1, 0.2, 0.3, 0.5), []
    for seed in range(12):
        right, labels = made(400, rates, seed=seed, asked=3)
        model = annotator_model(Annotations.of(labels, K), prior(right, 0.7, seed=seed + 1000))
        table = annotator_table(model, list("abcd"), np.arange(K))
        inside += [
            one.estimated_range[0] <= 1 - rate <= one.estimated_range[1] for one, rate in zip(table, rates, strict=True)
        ]
    assert stats.binomtest(sum(inside), len(inside), 0.95, alternative="less").pvalue > 0.01


def test_sentences_name_who_errs_and_who_copies():
    right, labels = made(2500, (0.1, 0.15, 0.2, 0.2, 0.4), copies=4, asked=3)
    confuses = (right == 1) & (labels[:, 0] >= 0)
    labels[confuses, 0] = 2  # the first annotator takes a class for the next
    model = annotator_model(Annotations.of(labels, K), prior(right, 0.7))
    table = annotator_table(model, ["ann", "bob", "cy", "dan", "eve", "flo"], np.array(["w", "x", "y", "z"]))
    assert table[0].confused[0][:2] == ("x", "y") and table[0].confused[0][2] > 0.6
    assert [name for name, _ in table[4].together] == ["flo"] and not table[1].together
    n = f"{(labels[:, 0] >= 0).sum():,}"
    assert str(table[0]).startswith(f"ann: {n} labels, ") and "x as y" in str(table[0])
    assert "beyond chance with flo" in str(table[4])
