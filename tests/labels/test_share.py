"""The share of wrong labels: Bayes' rule by enumeration, calibration, what each form holds, and reasons for a range."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from mgce.labels import share
from mgce.labels.share import noise_share

CLEAR, OVERLAPPING = 6.0, 1.0  # how fast two classes part along a normal score


def table(rng, n, rate, steepness):
    """Return given labels, right labels and exact probabilities of right labels."""
    score = steepness * rng.normal(size=n)
    right = (rng.random(n) < expit(score)).astype(int)
    return np.where(rng.random(n) < rate, 1 - right, right), right, np.stack([expit(-score), expit(score)], 1)


def test_the_posterior_is_that_of_bayes_rule_by_enumeration(monkeypatch):
    monkeypatch.setattr(share, "RATES", 4)
    monkeypatch.setattr(share, "STEPS", 3)
    rng, k = np.random.default_rng(0), 3
    differs, confidence = rng.random(30) < 0.3, rng.random(30)
    got = share._fitted(differs, confidence, k)
    ordered = differs[np.argsort(confidence)]
    weight, mean = np.empty((4, 3, 3)), np.empty((4, 3, 3))
    for i, rate in enumerate(np.linspace(0, min(0.95 * 2 / 3, differs.mean() + 5 / 2 / math.sqrt(30)), 4)):
        for j, a in enumerate((-2.5, 0, 2.5)):
            for m, b in enumerate((-2.5, 0, 2.5)):
                density, wrong = stats.norm.pdf(a) * stats.norm.pdf(b), 0.0
                for row, differ in enumerate(ordered):
                    u = (10 * (row // 10) + 5) / 30
                    e = 1 / (1 + math.exp(math.exp(1.4 + 0.6 * a) * (u - (0.03 + 0.12 * b))))
                    # The predicted class is 0. Right labels: 0, or 1 with probability e; a wrong one is any other.
                    joint = {
                        (y, z): (e if y else 1 - e) * (1 - rate if y == z else rate / 2)
                        for y in (0, 1)
                        for z in range(3)
                    }
                    alike = {yz: p for yz, p in joint.items() if (yz[1] != 0) == differ}
                    density *= sum(alike.values())
                    wrong += sum(p for (y, z), p in alike.items() if y != z) / sum(alike.values()) / 30
                weight[i, j, m], mean[i, j, m] = density, wrong
    np.testing.assert_allclose(got.weight, weight / weight.sum(), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(got.mean, mean, rtol=1e-6)


def test_its_quantiles_are_calibrated_where_curves_are_drawn_from_the_prior():
    rng, missed, n = np.random.default_rng(0), {"share": 0, "rate": 0}, 300
    for _ in range(30):
        slope, middle = math.exp(rng.normal(*share.LOG_SLOPE)), rng.normal(*share.MIDDLE)
        rate, u = rng.uniform(0, 0.95 / 2), (np.arange(n) + 0.5) / n
        errs, wrong = rng.random(n) < expit(-slope * (u - middle)), rng.random(n) < rate
        fit = share._fitted(errs != wrong, u, 2)  # of two classes, a wrong label of an error agrees
        low, _, high = fit.quantiles(0.2)
        missed["share"] += not low <= wrong.mean() <= high
        low, high = fit.rate_quantiles(0.2)
        missed["rate"] += not low <= rate <= high
    for count in missed.values():
        assert stats.binom.ppf(0.005, 30, 0.2) <= count <= stats.binom.ppf(0.995, 30, 0.2)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_classes_that_part_get_an_interval_that_holds_the_share(rate):
    given, right, probs = table(np.random.default_rng(1), 1000, rate, CLEAR)
    found = noise_share(given, probs)
    assert found.supported and found.reason == "" and len(found.assumptions) == 2
    assert found.lower <= (given != right).mean() <= found.upper and found.lower <= found.share <= found.upper
    assert found.upper - found.lower < 0.15 and found.rate_lower < rate < found.rate_upper


@pytest.mark.parametrize("steepness", [CLEAR, OVERLAPPING])
def test_right_labels_get_a_range_from_0(steepness):
    given, _, probs = table(np.random.default_rng(2), 1000, 0.0, steepness)
    found = noise_share(given, probs)
    assert not found.supported and found.share is None and found.lower == found.rate_lower == 0
    assert "hard rows look like wrong labels" in found.reason
    differ = (probs.argmax(1) != given).sum()
    assert found.upper == pytest.approx(stats.binomtest(differ, 1000, alternative="less").proportion_ci(0.95).high)


def test_labels_wrong_on_hard_rows_alone_get_a_range_that_holds_their_share():
    given, right, probs = table(np.random.default_rng(3), 1000, 0.0, CLEAR)
    hard = np.argsort(probs.max(1))[:500]
    given[hard] = np.where(np.random.default_rng(4).random(500) < 0.4, 1 - right[hard], right[hard])
    found = noise_share(given, probs)
    assert not found.supported and 0 < (given != right).mean() <= found.upper


def test_other_reasons_for_a_range():
    given, _, probs = table(np.random.default_rng(5), 99, 0.2, CLEAR)
    assert noise_share(given, probs).reason == "there are fewer than 100 rows"
    rng = np.random.default_rng(6)
    given, _, probs = table(rng, 1000, 0.3, OVERLAPPING)
    assert noise_share(given, probs).reason == "the model seems to err on its surest rows too"


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_wine, load_iris])
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(random_state=0),
        DecisionTreeClassifier(max_depth=3, random_state=0),
        KNeighborsClassifier(1),
        KNeighborsClassifier(3),
    ],
    ids=["tree", "short tree", "1 neighbour", "3 neighbours"],
)
def test_a_model_that_is_equally_sure_of_many_rows_finds_no_wrong_labels_among_right_ones(load, model):
    X, y = load(return_X_y=True)
    probs = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    for found in (noise_share(y, probs), noise_share(y, np.eye(y.max() + 1)[probs.argmax(1)])):
        assert not found.supported and found.lower == found.rate_lower == 0 and found.share is None
    assert found.reason == share.UNORDERED
    differ = int((probs.argmax(1) != y).sum())
    assert found.upper == pytest.approx(stats.binomtest(differ, len(y), alternative="less").proportion_ci(0.95).high)


@pytest.mark.parametrize(("group", "is_ordered"), [(50, True), (51, False)])
def test_groups_of_tied_rows_need_as_many_places_as_the_limit(group, is_ordered):
    """A thousand rows in 20 groups of 50 are in an order; 19 groups of 51 and one of 31 are not."""
    given, _, _ = table(np.random.default_rng(1), 1000, 0.2, CLEAR)
    differs = np.random.default_rng(0).random(1000) < 0.2
    found = share.share_of_predictions(given, np.where(differs, 1 - given, given), np.arange(1000.0) // group, 2)
    assert (found.reason != share.UNORDERED) == is_ordered


def test_classes_that_differ_get_a_range():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, 2000)
    given = np.where(rng.random(2000) < np.where(right == 1, 0.3, 0.15), 1 - right, right)
    top = np.where(right == 0, 0.8, 0.6) + 0.1 * rng.random(2000)  # surer of the class that is wrong less often
    found = noise_share(given, np.where(right[:, None] == [0, 1], top[:, None], 1 - top[:, None]))
    assert found.reason == "labels seem to be wrong more often in some classes than in others"
    assert (given != right).mean() <= found.upper


def test_the_order_of_rows_does_not_matter_even_where_confidences_tie():
    given, _, probs = table(np.random.default_rng(7), 500, 0.2, CLEAR)
    probs = probs.round(1)
    order = np.argsort(given, kind="stable")
    assert noise_share(given, probs) == noise_share(given[order], probs[order])


def test_more_rows_than_were_measured_make_no_narrower_rate():
    given, _, probs = table(np.random.default_rng(8), 2000, 0.2, CLEAR)
    once, often = noise_share(given, probs), noise_share(np.tile(given, 10), np.tile(probs, (10, 1)))
    assert (often.rate_lower, often.rate_upper) == pytest.approx((once.rate_lower, once.rate_upper), abs=0.002)


def test_the_width_after_checked_rows_is_that_of_clopper_and_pearson():
    given, _, probs = table(np.random.default_rng(9), 1000, 0.0, OVERLAPPING)
    found = noise_share(given, probs)
    wrong = round(50 * found.upper)
    expected = stats.beta.ppf(0.975, wrong + 1, 50 - wrong) - stats.beta.ppf(0.025, wrong, 51 - wrong)
    assert found.width_after(50) == pytest.approx(expected)


def test_errors():
    with pytest.raises(ValueError, match="Expected `delta`"):
        noise_share([0, 1], [[0.5, 0.5]] * 2, delta=0)
    with pytest.raises(ValueError, match=r"Expected `probs` to be of shape \(n, k\) with k of at least 2"):
        noise_share([0], [[1.0]])
    with pytest.raises(ValueError, match=r"Expected `target` to be of shape \(2,\)"):
        noise_share([0], [[0.5, 0.5]] * 2)


@pytest.mark.parametrize(("n", "differing"), [(10, 0), (10, 10), (400, 37)])
def test_the_range_of_suspects_ends_at_clopper_and_pearsons_bound(n, differing):
    target, predicted = np.zeros(n, int), (np.arange(n) < differing).astype(int)
    found = share.share_range(target, predicted, delta=0.1)
    end = stats.binomtest(differing, n, alternative="less").proportion_ci(0.9, method="exact").high
    assert (found.lower, found.share, found.supported) == (0.0, None, False)
    assert found.upper == found.rate_upper == pytest.approx(end) and found.disagreement == differing / n
    assert found.assumptions == (share.UPPER_ASSUMPTION,)
