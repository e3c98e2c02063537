import numpy as np
from scipy.optimize import minimize

from mgce.labels import doubtful, find_consensus
from mgce.labels.confident import confident_labels
from mgce.labels.doubtful import doubtful_labels


def test_by_hand(monkeypatch):
    # Without rows given beforehand, and with steps to the end, q solves p = q T, or is zero where that is negative.
    monkeypatch.setattr(doubtful, "PRIOR_ROWS", 1e-12)
    monkeypatch.setattr(doubtful, "EM_STEPS", 10_000)
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7], [0.88, 0.12]])
    target = np.array([0, 0, 1, 1, 1])
    found = doubtful_labels(probs, target)
    # Thresholds: .85 of class 0, .54 of class 1. The last row has .88 of class 0 and is an issue.
    assert found.is_issue.tolist() == [False, False, False, False, True]
    assert found.suggested.tolist() == [0, 0, 1, 1, 0]
    # The issues make T = ((2/3, 1/3), (0, 1)): a label 0 is right, and q = p T^-1 = (3/2 p_0, p_1 - p_0 / 2).
    q = np.stack([1.5 * probs[:, 0], probs[:, 1] - probs[:, 0] / 2], 1).clip(0)
    q /= q.sum(1, keepdims=True)
    wrong = [q[i, 0] / 3 / (q[i, 0] / 3 + q[i, 1]) for i in (2, 3, 4)]
    np.testing.assert_allclose(found.wrong, [0, 0, *wrong], atol=1e-6)
    first = np.array([1, 1, *wrong])  # the probability of class 0 to be the right one, given the row and its label
    by_class = doubtful.right_class_probs(probs, target, confident_labels(probs, target))
    np.testing.assert_allclose(by_class, np.stack([first, 1 - first], 1), atol=1e-6)
    assert found.order[0] == 4 and found.suspects(9).tolist() == [4]


def test_the_noise_matrix_counts_rows_and_some_that_are_given_beforehand():
    target, confident = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 1])
    # A third of the rows are issues. 10 rows of each class beforehand, a third of them with one of the other labels.
    beforehand = 10 * np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4]]) / 6
    expected = (np.array([[2, 0, 0], [1, 2, 1], [0, 0, 0]]) + beforehand) / [[12], [14], [10]]
    np.testing.assert_allclose(doubtful._noise_matrix(target, confident, 3), expected)


def test_each_step_makes_the_probabilities_likelier(monkeypatch):
    rng = np.random.default_rng(0)
    probs, target = rng.dirichlet(np.ones(4), size=30), np.arange(30) % 4
    noise = doubtful._noise_matrix(target, confident_labels(probs, target), 4)
    least = [
        minimize(
            lambda a, p=p: -p @ np.log(np.exp(a) / np.exp(a).sum() @ noise), np.zeros(4), method="BFGS", tol=1e-9
        ).fun
        for p in probs
    ]
    monkeypatch.setattr(doubtful, "EM_STEPS", 20_000)
    right = doubtful._right(probs, noise)
    np.testing.assert_allclose(right.sum(1), 1)
    np.testing.assert_allclose(-(probs * np.log(right @ noise)).sum(1), least, atol=1e-5)


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
