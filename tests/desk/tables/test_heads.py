"""The choice of a head: the estimator's own folds give its accuracy, the margins for q, and judge the labels."""

import numpy as np

from mgce.desk.tables.choice import HEAD_FITS, choose_head
from mgce.desk.tables.judging import judge_by_head
from mgce.estimators import MGCEEmbeddingClassifier


def test_the_folds_are_those_of_the_estimator():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=120)
    X = (rng.normal(size=(120, 6)) + 2 * np.eye(6)[y]).astype(np.float32)
    labels, steps = np.array([*"abc"])[y], []
    train = np.arange(90)
    choice = choose_head(X[train], labels[train], seed=3, on_fit=steps.append)
    alone = MGCEEmbeddingClassifier(random_state=3).fit(X[train], labels[train])
    assert len(steps) == HEAD_FITS
    assert choice.trial.accuracy == (alone.classes_[alone.oof_proba_.argmax(1)] == labels[train]).mean()
    np.testing.assert_allclose(np.exp(choice.out_of_fold.margins), alone.oof_proba_, atol=1 / 90)
    np.testing.assert_array_equal(choice.out_of_fold.target, y[train])
    judged = judge_by_head(choice, X, y, train, np.arange(120))
    np.testing.assert_allclose(judged.probs[train], alone.oof_proba_, atol=1e-6)
    np.testing.assert_allclose(judged.probs[90:], alone.predict_proba(X[90:]), atol=1e-9)
