"""Right labels estimated from predictions of given ones, against Bayes' rule and the noise that was drawn."""

import numpy as np
import pytest
from scipy.stats import chi2

from mgce.labels import correction
from mgce.labels.correction import correct
from mgce.labels.mixture import even_noise


def drawn(transition, n, seed=0):
    """Draw n rows that show their right label: return p = q T, the right labels, and the given ones."""
    rng = np.random.default_rng(seed)
    right = rng.integers(len(transition), size=n)
    given = (rng.random(n)[:, None] > transition.cumsum(1)[right, :-1]).sum(1)
    return transition[right], right, given


def brute_force(q, transition, target):
    """Return the probability of each right class c given x and its label y, by Bayes' rule row by row."""
    found = []
    for row, label in zip(q, target, strict=True):
        joint = [row[c] * transition[c][label] for c in range(len(row))]
        found.append([each / sum(joint) for each in joint])
    return np.array(found)


BY_CLASS = {
    "two classes": np.array([[0.95, 0.05], [0.35, 0.65]]),
    "pairs": np.array([[0.7, 0.3, 0.0], [0.0, 0.9, 0.1], [0.05, 0.0, 0.95]]),
    "many classes": even_noise(12, 0.1) @ (0.7 * np.eye(12) + 0.3 * np.roll(np.eye(12), 1, axis=1)),
}


@pytest.mark.parametrize("name", BY_CLASS)
def test_noise_that_depends_on_the_class_is_recovered(name):
    transition, n = BY_CLASS[name], 12_000
    k = len(transition)
    probs, right, given = drawn(transition, n)
    found = correct(probs, given)
    assert found.by_class
    # Five standard errors of a share of the rows of a class, and what the rows that are given beforehand shift it by.
    error = 5 * np.sqrt(transition * (1 - transition) / (n / k)) + correction.PRIOR_ROWS / (n / k)
    assert (np.abs(found.transition - transition) <= error).all()
    np.testing.assert_allclose(found.transition.sum(1), 1)
    assert (found.of_row.argmax(1) == right).all()
    assert (found.probs.argmax(1) == right).mean() >= (given == right).mean()
    np.testing.assert_allclose(found.probs, brute_force(found.of_row, found.transition, given), atol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 12])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_noise_is_symmetric_where_nothing_refutes_it(k, rate):
    n = 6_000
    transition = even_noise(k, rate)
    for seed in range(5):
        probs, _, given = drawn(transition, n, seed)
        found = correct(probs, given)
        assert not found.by_class
        assert abs(1 - found.transition[0, 0] - rate) <= 5 * np.sqrt(rate * (1 - rate) / n) + 1 / n
        np.testing.assert_allclose(found.transition, even_noise(k, 1 - found.transition[0, 0]))


def test_the_test_of_symmetry_errs_as_rarely_as_it_says(monkeypatch):
    """At a level of 0.1, as many of 400 draws as a binomial distribution allows within five standard deviations."""
    monkeypatch.setattr(correction, "LEVEL", 0.1)
    for k in (2, 4):
        refuted = sum(correct(*drawn(even_noise(k, 0.3), 800, seed)[::2]).by_class for seed in range(400))
        assert abs(refuted - 40) <= 5 * np.sqrt(400 * 0.1 * 0.9)


def test_the_likelihood_ratio_by_hand(monkeypatch):
    """Of two classes: 30 and 10 of 100 labels each are wrong; under symmetry 20 would be."""
    counts = np.array([[70.0, 30.0], [10.0, 90.0]])
    ratio = 2 * (70 * np.log(70 / 80) + 30 * np.log(30 / 20) + 10 * np.log(10 / 20) + 90 * np.log(90 / 80))
    for level, refuted in ((chi2.sf(ratio, 1) * 1.001, True), (chi2.sf(ratio, 1) * 0.999, False)):
        monkeypatch.setattr(correction, "LEVEL", level)
        assert correction._depends(counts, even_noise(2, 0.2)) == refuted


def test_a_class_that_no_row_is_predicted_as_counts_in_no_degree_of_freedom(monkeypatch):
    """Of three classes, rows are predicted as two: the test is that of 2 x 3 counts, of 2 * 2 - 1 = 3 degrees."""
    asked = []
    monkeypatch.setattr(correction.chi2, "sf", lambda ratio, degrees: asked.append(degrees) or 1.0)
    correction._depends(np.array([[5.0, 1.0, 1.0], [1.0, 5.0, 2.0], [0.0, 0.0, 0.0]]), even_noise(3, 0.3))
    correction._depends(np.array([[5.0, 1.0, 1.0], [1.0, 5.0, 2.0], [1.0, 1.0, 4.0]]), even_noise(3, 0.3))
    assert asked == [3, 5]


@pytest.mark.parametrize("k", [2, 3, 12])
def test_it_is_bayes_rule_where_q_t_is_p(k, monkeypatch):
    """With steps to the end, q solves p = q T exactly where such a q exists, whatever the matrix T."""
    monkeypatch.setattr(correction, "EM_STEPS", 20_000)
    rng = np.random.default_rng(k)
    for transition in (even_noise(k, 0.3), 0.6 * np.eye(k) + 0.4 * rng.dirichlet(np.ones(k), size=k)):
        q = rng.dirichlet(np.ones(k), size=40) * 0.9 + 0.1 / k
        target = rng.integers(k, size=40)
        monkeypatch.setattr(correction, "_surer_counts", lambda *_, counts=1e6 * transition: counts)
        found = correct(q @ transition, target)
        np.testing.assert_allclose(found.transition, transition, atol=1e-5)
        np.testing.assert_allclose(found.of_row, q, atol=1e-3)
        np.testing.assert_allclose(found.probs, brute_force(q, transition, target), atol=2e-3)


def test_each_step_makes_the_probabilities_likelier(monkeypatch):
    rng = np.random.default_rng(0)
    probs, noise = rng.dirichlet(np.ones(4), size=30), 0.5 * np.eye(4) + 0.5 * rng.dirichlet(np.ones(4), size=4)
    losses = []
    for steps in (0, 1, 2, 5, 100, 20_000):
        monkeypatch.setattr(correction, "EM_STEPS", steps)
        right = correction._right(probs, noise)
        np.testing.assert_allclose(right.sum(1), 1)
        losses.append(-(probs * np.log(right @ noise)).sum(1))
    assert (np.diff(losses, axis=0) <= 1e-12).all()
    # At the least, no class gains by more weight: the derivatives by weights that sum to 1 are at most 1.
    assert ((probs / (right @ noise)) @ noise.T).max() <= 1 + 1e-3


def test_the_surer_half_of_each_predicted_class_is_counted_and_all_that_tie():
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8], [0.2, 0.8], [0.2, 0.8]])
    # Of class 0 the first two rows, and the third, which is the middle one from below; of class 1 all three tie.
    counts = correction._surer_counts(probs, np.array([0, 1, 0, 1, 1, 0, 1]))
    sure = np.sort(probs[:4, 0])[::-1] >= np.quantile(probs[:4, 0], 0.5, method="lower")
    assert counts[0].sum() == sure.sum() and counts[1].tolist() == [1, 2]
    assert counts.tolist() == [[2, 1], [1, 2]]


@pytest.mark.parametrize("k", [2, 3, 11])
def test_the_order_of_the_rows_does_not_matter(k):
    rng = np.random.default_rng(k)
    n = 1003  # whatever the blocks of the processor's instructions
    transition = 0.6 * np.eye(k) + 0.4 * rng.dirichlet(np.ones(k), size=k)
    probs, _, given = drawn(transition, n)
    probs = np.round(0.7 * probs + 0.3 * rng.dirichlet(np.ones(k), size=n), 1) + 1e-3  # with many ties
    probs /= probs.sum(1, keepdims=True)
    there = correct(probs, given)
    for order in (np.arange(n)[::-1], np.argsort(given, kind="stable"), rng.permutation(n)):
        here = correct(probs[order], given[order])
        assert here.by_class == there.by_class
        np.testing.assert_array_equal(here.transition, there.transition)
        np.testing.assert_allclose(here.probs, there.probs[order], rtol=0, atol=1e-12)
        np.testing.assert_allclose(here.of_row, there.of_row[order], rtol=0, atol=1e-12)


SURE = np.eye(3)[np.arange(30) % 3]
RARE = {
    "a class that no row is predicted as": (
        np.repeat([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]], 15, axis=0),
        np.arange(30) % 3,
    ),
    "a class that no row is given": (np.repeat([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0]], 15, axis=0), np.arange(30) % 2),
    "all rows predicted as one class": (np.full((30, 3), [0.5, 0.3, 0.2]), np.arange(30) % 3),
    "all rows given one class": (SURE, np.zeros(30, int)),
    "certain and right": (SURE, np.arange(30) % 3),
    "certain and wrong": (SURE, (np.arange(30) + 1) % 3),
    "two classes, one predicted": (np.full((30, 2), [0.8, 0.2]), (np.arange(30) % 5 == 0).astype(int)),
    "two classes, all of one wrong": (np.eye(2)[np.arange(30) % 2], np.zeros(30, int)),
    "one row": (np.array([[0.2, 0.8]]), np.array([1])),
    "as many classes as rows": (np.full((30, 30), 1 / 30), np.arange(30)),
}


@pytest.mark.parametrize("name", RARE)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("error")
def test_rare_cases_give_probabilities(name, dtype):
    probs, target = RARE[name]
    found = correct(probs.astype(dtype), target)
    for values in (found.probs, found.of_row, found.transition):
        assert np.isfinite(values).all() and (values >= 0).all() and values.dtype == np.float64
        np.testing.assert_allclose(values.sum(1), 1)
    assert (found.transition > 0).all()  # no label is certain to be right


def test_a_class_that_no_row_is_predicted_as_has_even_noise():
    transition = BY_CLASS["two classes"]
    probs, _, given = drawn(transition, 4000)
    found = correct(np.column_stack([probs * 0.99, np.full(4000, 0.01)]), given)
    assert found.by_class
    rest = found.transition[2]
    assert rest[0] == pytest.approx(rest[1]) and rest[2] > 0.5
    np.testing.assert_allclose(found.transition[:2, :2], transition, atol=0.05)
