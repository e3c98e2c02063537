"""Coefficients of agreement: those of Krippendorff's page, scikit-learn, statsmodels, and their intervals' coverage."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from mgce.labels import agreement

# The data of “Computing Krippendorff's alpha-reliability” (2011), parts A and C: alpha is 0.095 and 0.743.
BINARY = np.array([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]).T
NOMINAL = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, -1, -1, -1],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, -1, 3],
        [-1, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, -1],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, -1],
    ]
).T


def made(n, m, k, right=0.7, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    return np.where(rng.random((n, m)) < right, truth[:, None], rng.integers(k, size=(n, m)))


@pytest.mark.parametrize("labels, alpha, rows", [(BINARY, 0.095, 10), (NOMINAL, 0.743, 11)])
def test_alpha_is_that_of_krippendorffs_page(labels, alpha, rows):
    found = agreement(labels)
    assert round(found.krippendorff_alpha.value, 3) == alpha and found.n_rows == rows
    assert found.krippendorff_alpha.lower <= found.krippendorff_alpha.value <= found.krippendorff_alpha.upper


def test_alpha_is_one_minus_the_ratio_of_disagreements_of_all_pairs():
    labels = NOMINAL
    pairs = [
        (row[a], row[b], 1 / ((row >= 0).sum() - 1))
        for row in labels
        for a in range(4)
        for b in range(4)
        if a != b and row[a] >= 0 and row[b] >= 0
    ]
    values = np.concatenate([row[row >= 0] for row in labels if (row >= 0).sum() > 1])
    observed = sum(weight * (a != b) for a, b, weight in pairs) / len(values)
    chance = (values[:, None] != values).sum() / (len(values) * (len(values) - 1))
    assert agreement(labels).krippendorff_alpha.value == pytest.approx(1 - observed / chance, rel=1e-12)


def test_cohens_kappa_of_each_pair_is_that_of_scikit_learn():
    labels = made(200, 3, 4)
    labels[::7, 1] = -1
    found = agreement(labels)
    assert len(found.pairs) == 3 and [one.kappa.value for one in found.pairs] == sorted(
        one.kappa.value for one in found.pairs
    )
    for one in found.pairs:
        a, b = labels[:, int(one.first)], labels[:, int(one.second)]
        both = (a >= 0) & (b >= 0)
        assert one.n_rows == both.sum() and one.share == (a == b)[both].mean()
        assert one.kappa.value == pytest.approx(cohen_kappa_score(a[both], b[both]), rel=1e-12)


def test_fleiss_kappa_is_that_of_statsmodels():
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater", reason="needs statsmodels")
    labels = made(150, 5, 3)
    expected = inter_rater.fleiss_kappa(inter_rater.aggregate_raters(labels)[0])
    assert agreement(labels).fleiss_kappa.value == pytest.approx(expected, rel=1e-12)


def test_fleiss_kappa_of_the_paper_and_of_rows_with_other_numbers_of_labels():
    # The table of Fleiss (1971) as it is often quoted: 10 subjects, 14 raters, 5 classes, kappa 0.210.
    table = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    labels = np.array([np.repeat(np.arange(5), row) for row in table])
    assert round(agreement(labels).fleiss_kappa.value, 3) == 0.210
    labels[0, 0] = -1
    assert agreement(labels).fleiss_kappa is None


def test_each_class_is_a_question_of_its_own():
    labels = made(120, 3, 3)
    found = agreement(labels)
    for c in range(3):
        assert found.by_class[c].value == pytest.approx(
            agreement((labels == c).astype(int)).krippendorff_alpha.value, rel=1e-12
        )


def test_intervals_are_of_the_values_without_each_row():
    labels = made(12, 3, 3)
    for name in ("krippendorff_alpha", "fleiss_kappa"):
        found = getattr(agreement(labels, delta=0.2), name)
        without = [getattr(agreement(np.delete(labels, row, 0)), name).value for row in range(12)]
        width = stats.t.ppf(0.9, 11) * np.sqrt(11 * np.var(without))
        assert found.upper - found.value == pytest.approx(width) == found.value - found.lower


@pytest.mark.slow
def test_intervals_cover_the_coefficient_of_all_rows_there_are():
    # A label is right with a probability of 0.8, and each of the two others with 0.1: so two are equal with 0.66.
    truth = (0.66 - 1 / 3) / (1 - 1 / 3)
    found = [agreement(made(80, 3, 3, seed=seed)) for seed in range(120)]
    for name in ("krippendorff_alpha", "fleiss_kappa"):
        covered = np.mean([getattr(one, name).lower <= truth <= getattr(one, name).upper for one in found])
        assert covered > 0.88  # 0.95 is wanted; 105 of 120 or fewer come with a probability of 0.001


def test_equal_labels_and_labels_without_chance():
    labels = made(50, 1, 3)
    found = agreement(np.hstack([labels, labels]))
    assert found.krippendorff_alpha == found.fleiss_kappa == found.pairs[0].kappa == (1, 1, 1)
    lonely = agreement([["a", None], [None, "b"], ["a", "a"]])
    assert np.isnan(lonely.krippendorff_alpha.value) and lonely.n_rows == 1
    assert lonely.krippendorff_alpha[1:] == (-1, 1)
    with pytest.raises(ValueError, match="Expected `delta`"):
        agreement(labels, delta=1.5)
