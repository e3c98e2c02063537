import numpy as np
import pandas as pd
import pytest

from mgce import find_suspects
from mgce.desk.tables.fit import FitPlan, run
from mgce.estimators import LabelCorrectionClassifier, suspects
from mgce.labels import correction, doubtful, find_consensus
from mgce.labels.correction import correct
from mgce.labels.doubtful import doubtful_labels
from mgce.labels.share import share_of_predictions


def test_by_hand(monkeypatch):
    # With steps to the end, q solves p = q T, or is zero where that is negative.
    monkeypatch.setattr(correction, "EM_STEPS", 10_000)
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7], [0.88, 0.12]])
    target = np.array([0, 0, 1, 1, 1])
    found = doubtful_labels(probs, target)
    assert found.suggested.tolist() == [0, 0, 1, 1, 0]
    # Of the surer rows, 0 and 4 of class 0, 2 and 3 of class 1, one of four labels is wrong. So T is 3/4 and 1/4, and
    # q_0 = 2 p_0 - 1/2, which is 1/10 for row 3. Its label is wrong with probability .1/4 / (.1/4 + .9 3/4) = 1/28.
    np.testing.assert_allclose(found.wrong, np.array([0, 0, 0, 1 / 28, 1]) * 5 / 105, atol=1e-6)
    assert not found.is_issue.any()  # of so few rows nothing is more probable than not
    assert found.order[0] == 4 and found.suspects(9).tolist() == [4]


def noisy(transition, n):
    rng = np.random.default_rng(0)
    right = rng.integers(len(transition), size=n)
    given = (rng.random(n)[:, None] > np.cumsum(transition, 1)[right, :-1]).sum(1)
    return np.asarray(transition)[right], given, right


@pytest.mark.parametrize(
    ("transition", "by_class"), [([[0.8, 0.2], [0.2, 0.8]], False), ([[0.98, 0.02], [0.4, 0.6]], True)]
)
def test_few_rows_and_noise_of_classes_make_probabilities_smaller(transition, by_class):
    """They change no order, and decide which labels are said to be wrong."""
    probs, given, right = noisy(transition, 900)
    found, alone = doubtful_labels(probs, given), correct(probs, given)
    assert alone.by_class == by_class
    plain = 1 - alone.probs[np.arange(900), given]
    np.testing.assert_allclose(found.wrong, plain * 0.9 * (0.8 if by_class else 1), rtol=0, atol=1e-12)
    assert (np.diff(plain[found.order]) <= 2e-12).all()
    np.testing.assert_array_equal(found.suggestion, alone.of_row.argmax(1))
    np.testing.assert_array_equal(found.is_issue, (found.wrong > 0.5) & (found.suggestion != given))
    assert found.is_issue.any() and (given != right)[found.is_issue].all()


def test_the_share_is_a_range_from_0_that_counts_distinct_rows():
    probs, given, right = noisy([[0.8, 0.2], [0.2, 0.8]], 300)
    copies = np.r_[np.arange(300), np.zeros(200, int)]
    found = doubtful_labels(probs[copies], given[copies], first=copies)
    assert found.share == doubtful_labels(probs, given).share == share_of_predictions(given, right)
    assert found.share.upper > (given != right).mean() == found.share.disagreement


def test_ties_do_not_depend_on_the_order_of_the_rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    target = np.r_[np.zeros(40, int), np.ones(20, int)]
    probs = np.where(np.arange(60)[:, None] % 3 == 0, [[0.2, 0.8]], [[0.7, 0.3]])  # two kinds of rows, many ties
    listed = X[doubtful_labels(probs, target, X=X).suspects(10)]
    assert len(np.unique(listed, axis=0)) == 10
    for order in (np.arange(60)[::-1], generator.permutation(60)):
        found = doubtful_labels(probs[order], target[order], X=X[order])
        np.testing.assert_array_equal(X[order][found.suspects(10)], listed)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_equal_rows_stand_side_by_side_wherever_they_stood(k):
    """Products of matrices differ in the last digit with the place of a row, and classes that tie differ with it."""
    rng = np.random.default_rng(k)
    probs = rng.dirichlet(np.ones(k), size=50)
    probs[:10, :2] = probs[:10, :2].mean(1, keepdims=True)  # two classes that tie
    kind = rng.integers(50, size=1003)
    target = rng.integers(k, size=50)[kind]
    there = doubtful_labels(probs[kind], target)
    for order in (np.argsort(kind, kind="stable"), rng.permutation(1003)):
        here = doubtful_labels(probs[kind[order]], target[order])
        np.testing.assert_array_equal(probs[kind[order]][here.order], probs[kind][there.order])
        np.testing.assert_array_equal(here.suggestion, there.suggestion[order])


def test_labels_have_their_names_and_decided_rows_come_last():
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.88, 0.12]])
    found = doubtful_labels(probs, np.array([0, 1, 1, 1]), classes=np.array(["ant", "bee"]), source="features")
    assert found.given.tolist() == ["ant", "bee", "bee", "bee"] and found.source == "features"
    assert found.suggested.tolist() == ["ant", "bee", "bee", "ant"]
    np.testing.assert_allclose(found.share_by_label, [found.wrong[0], found.wrong[1:].mean()])
    settled = found.settled(np.array([3]))
    assert found.order[0] == 3 == settled.order[-1] and settled.suspects(4).size == 0
    assert settled.wrong[3] == 0 and settled.given[3] == settled.suggested[3] == "bee"


def test_a_consensus_ranks_rows_alike_whatever_a_model_says_of_them():
    """Rows of equal probability stood in one order in the file of the consensus, and in another among the suspects."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=(4, 3))[rng.integers(4, size=80)]  # four kinds of rows, so many ties
    consensus = find_consensus(labels)
    model = rng.dirichlet(np.ones(3), size=80)
    target = np.searchsorted(consensus.classes, consensus.labels)
    judged = doubtful_labels(model, target).as_consensus(consensus.probs, consensus.doubtful.rank)
    np.testing.assert_array_equal(judged.order, consensus.order)
    np.testing.assert_allclose(judged.wrong, 1 - consensus.quality, atol=1e-12)
    assert (np.diff(consensus.quality[consensus.order]) >= -1e-9).all()
    others = consensus.doubtful
    sure = others.wrong < doubtful.CERTAIN
    assert ((others.suggestion == others.target) == sure).all()
    assert others.source == "annotators" and others.share is None


def by_features(P, X, given, monkeypatch):
    monkeypatch.setattr(suspects, "MGCEEmbeddingClassifier", lambda random_state: Said(P))
    return find_suspects(X, given)


def by_a_loop(P, X, given, monkeypatch):
    return find_suspects(lambda train, rows: P[rows], given, random_state=0)


def by_a_table(kind):
    """Judge a table of numbers, of text, or of features of pictures, whose models say P out of fold."""

    def judged(P, X, given, monkeypatch):
        words = [
            f"{'high' if row[0] > 1 else 'low'} {'wide' if row[1] > 1 else 'narrow'} w{i}" for i, row in enumerate(X)
        ]
        columns = {
            "numbers": {f"x{i}": X[:, i] for i in range(4)},
            "text": {"text": words},
            "pictures": {"v": X.tolist()},
        }
        monkeypatch.setattr("mgce.desk.tables.learning.completed", lambda known, rows, n, predict: P)
        for name, few in {"n_estimators": 5, "n_components": 20}.items():
            monkeypatch.setitem(LabelCorrectionClassifier.__init__.__kwdefaults__, name, few)
        frame = pd.DataFrame(columns[kind]).assign(label=np.array([*"pqr"])[given])
        fit = run(frame, FitPlan("label", text=("text",) if kind == "text" else ()))
        assert fit.judgement.source == ("head" if kind == "pictures" else "correction") and not fit.n_copies
        return fit.judgement

    return judged


class Said:
    """A classifier of which the probabilities out of fold are given."""

    def __init__(self, probs):
        self.oof_proba_ = probs

    def fit(self, X, y):
        return self


WAYS = {
    "probabilities": lambda P, X, given, monkeypatch: find_suspects(P, given, given="probs"),
    "features": by_features,
    "a loop": by_a_loop,
    **{kind: by_a_table(kind) for kind in ("numbers", "text", "pictures")},
}


@pytest.fixture(scope="module")
def unlearnt():
    """Probabilities out of fold of three classes, rows that they are of, and their given labels."""
    rng = np.random.default_rng(0)
    right = rng.integers(3, size=200)
    given = np.where(rng.random(200) < 0.25, (right + rng.integers(1, 3, 200)) % 3, right)
    P = 0.6 * np.eye(3)[right] + 0.4 * rng.dirichlet(np.ones(3), 200)
    return P, rng.normal(size=(200, 4)) + 2 * np.eye(4)[right], given


@pytest.mark.parametrize("way", WAYS)
def test_all_that_ranks_labels_says_the_same_of_the_same_probabilities(way, unlearnt, monkeypatch):
    P, X, given = unlearnt
    found, wanted = WAYS[way](P, X, given, monkeypatch), doubtful_labels(P, given, X=X)
    np.testing.assert_allclose(found.wrong, wanted.wrong, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(found.order, wanted.order)
    np.testing.assert_array_equal(found.suggestion, wanted.suggestion)
    assert found.is_issue.sum() == wanted.is_issue.sum() > 10 and found.share == wanted.share


def test_several_labels_a_row_are_ranked_in_the_same_order(unlearnt):
    """A consensus states the probability itself, without the factor for few rows."""
    P, X, given = unlearnt
    wanted, posterior = doubtful_labels(P, given, X=X), correct(P, given)
    found = wanted.as_consensus(posterior.probs, wanted.rank)
    np.testing.assert_array_equal(found.order, wanted.order)
    np.testing.assert_allclose(found.wrong * 200 / 300, wanted.wrong, atol=1e-9)
    assert not posterior.by_class
    np.testing.assert_array_equal(found.suggestion[found.is_issue], wanted.suggestion[found.is_issue])


def test_the_class_of_a_consensus_is_in_doubt_where_it_is_more_probably_wrong_than_right():
    probs = np.array([[0.9, 0.05, 0.05], [0.4, 0.35, 0.25], [0.3, 0.3, 0.4]])
    found = doubtful.DoubtfulLabels.of_consensus(np.array(["a", "b", "c"]), probs, np.arange(3))
    np.testing.assert_allclose(found.wrong, 1 - probs.max(1))
    assert found.is_issue.tolist() == [False, True, True]
