import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.special
import scipy.stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.preprocessing import scale

from mgce.desk.tables import choice as model_choice
from mgce.desk.tables.candidates import MODELS, Baseline, Candidate, Logistic, baselines, candidates, forest
from mgce.desk.tables.choice import choose, count_fits, fit_candidate, folds
from mgce.estimators import LabelCorrectionClassifier, MGCEClassifier

X, y = load_iris(return_X_y=True)
X = scale(X)
OPTIONS = {"budget": math.inf, "seed": 0}


class Stump(ClassifierMixin, BaseEstimator):
    """A threshold on one column: how good it is, its column says."""

    def __init__(self, column=0, beta=1.4):
        self.column = column
        self.beta = beta

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        self.means_ = np.array([X[y == label, self.column].mean() for label in self.classes_])
        return self

    def predict_proba(self, X):
        return scipy.special.softmax(-np.abs(X[:, [self.column]] - self.means_), axis=1)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


def stump(column, model="forest"):
    return Candidate(model, f"column {column}", Stump(column), Stump(column))


def silent(what):
    pass


def test_the_best_of_cross_validation_is_chosen_and_fitted_to_all_rows():
    among = [stump(column) for column in range(4)]
    found = choose(X, y, among, **OPTIONS, on_fit=silent)
    scores = [cross_val_score(Stump(column), X, y, cv=folds(y, 0)).mean() for column in range(4)]
    assert found.trial.candidate == among[int(np.argmax(scores))]
    assert {trial.name: pytest.approx(trial.accuracy) for trial in found.trials} == {
        candidate.name: score for candidate, score in zip(among, scores, strict=True)
    }
    np.testing.assert_array_equal(found.fitted.means_, Stump(int(np.argmax(scores))).fit(X, y).means_)
    assert found.measured_on == "in 3-fold cross-validation on 150 training rows"
    assert not hasattr(found.candidate.final, "means_")


def test_a_candidate_learns_from_no_more_rows_than_it_takes():
    few = replace(stump(3), most_rows=60)
    found = choose(X, y, [few], **OPTIONS, on_fit=silent)
    assert found.trial.rows == 150  # that it was tried on
    means = found.fitted.means_
    assert np.array_equal(means, fit_candidate(few, X, y, 0).means_)
    assert not np.array_equal(means, Stump(3).fit(X, y).means_)


def test_the_best_of_each_model_goes_on_to_more_rows(monkeypatch):
    monkeypatch.setattr(model_choice, "RUNGS", (60, 120))
    among = [stump(0), stump(1), stump(2, "linear"), stump(3, "linear")]
    calls = []
    found = choose(X, y, among, baselines=[Baseline("mean", Stump(0))], **OPTIONS, on_fit=calls.append)
    assert found.measured_on == "in 3-fold cross-validation on 120 training rows"
    on = {trial.name: trial.rows for trial in found.trials}
    # Sepals, columns 0 and 1, are more than five points behind petals on 60 rows.
    assert sorted(on.values()) == [60, 60, 60, 120, 120] and on["mean"] == 120 and on[found.trial.name] == 120
    assert found.trial.model == "linear"
    assert len(calls) == 4 + 1 + 1 + 1 <= count_fits(among, [None])


def test_of_several_models_the_best_is_chosen():
    # Petals, columns 2 and 3, are within five points of one another, sepals are not.
    among = [stump(0), stump(2, "linear"), stump(3, "mlp"), stump(1, "mlp")]
    found = choose(X, y, among, **OPTIONS, on_fit=silent)
    scores = [cross_val_score(Stump(column), X, y, cv=folds(y, 0)).mean() for column in (0, 2, 3, 1)]
    assert found.candidate == among[int(np.argmax(scores))] and found.out_of_fold is None
    np.testing.assert_array_equal(found.fitted.means_, Stump(found.candidate.final.column).fit(X, y).means_)


def overlapping(n=400, seed=0):
    """Two classes, told apart by the sum of two columns."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 2))
    return rows, (rows.sum(1) + rng.normal(size=n) > 0).astype(int)


def test_a_baseline_that_is_clearly_ahead_is_chosen():
    rows, labels = overlapping()
    both, one = Baseline("logistic regression", LogisticRegression(max_iter=300), Logistic()), stump(0)
    found = choose(rows, labels, [one], [both], **OPTIONS, on_fit=silent)
    right = [cross_val_predict(model, rows, labels, cv=folds(labels, 0)) == labels for model in (both.quick, one.quick)]
    gained, lost = (right[0] & ~right[1]).sum(), (right[1] & ~right[0]).sum()
    assert scipy.stats.binom.sf(gained - 1, gained + lost, 0.5) < 0.01  # McNemar's test
    assert (found.trial.name, found.trial.model, found.out_of_fold) == (
        "logistic regression",
        "logistic regression",
        None,
    )
    fitted = LogisticRegression(max_iter=300).fit(rows, labels)
    np.testing.assert_allclose(found.fitted.predict_proba(rows), fitted.predict_proba(rows), atol=1e-6)
    assert type(found.fitted) is MGCEClassifier and math.isinf(found.fitted.beta_)


def test_a_baseline_that_may_be_ahead_by_chance_is_not_chosen():
    rows, labels = overlapping(60, seed=1)
    both = Baseline("logistic regression", LogisticRegression(), Logistic())
    found = choose(rows, labels, [stump(0)], [both], **OPTIONS, on_fit=silent)
    accuracy = {trial.name: trial.accuracy for trial in found.trials}
    assert accuracy["logistic regression"] > accuracy["forest, column 0"] + 0.1
    assert found.trial.name == "forest, column 0" and isinstance(found.fitted, Stump)


def test_balanced_accuracies_are_means_over_the_labels():
    rows, labels = overlapping()
    some = np.r_[np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)[:20]]
    rows, labels = rows[some], labels[some]
    one, both = stump(0), Baseline("logistic regression", LogisticRegression(), Logistic())
    found = choose(rows, labels, [one, stump(1, "mlp")], [both], **OPTIONS, on_fit=silent, balanced=True)
    predicted = cross_val_predict(Stump(0), rows, labels, cv=folds(labels, 0))
    of_one = next(trial for trial in found.trials if trial.candidate == one)
    assert of_one.accuracy == pytest.approx(balanced_accuracy_score(labels, predicted))
    assert found.trial.model != "logistic regression"


@pytest.mark.parametrize("k", [2, 3])
def test_the_estimators_of_baselines_predict_as_those_of_scikit_learn(k):
    some = y < k
    for baseline in baselines(0, k):
        theirs = baseline.quick.fit(X[some], y[some])
        ours = baseline.final.fit(X[some], y[some])
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


def test_a_baseline_without_an_estimator_of_ours_is_never_chosen():
    found = choose(X, y, [stump(0)], [Baseline("all columns", LogisticRegression())], **OPTIONS, on_fit=silent)
    assert found.trials[0].name == "all columns" and found.trials[0].accuracy > found.trial.accuracy
    assert isinstance(found.fitted, Stump)


@pytest.fixture
def clock(monkeypatch):
    """A processor time that only the fits of `slow` candidates take."""
    now = [0.0]

    class Slow(Stump):
        def __init__(self, column=0, beta=1.4, seconds=0.0):
            super().__init__(column, beta)
            self.seconds = seconds

        def fit(self, X, y):
            now[0] += self.seconds
            return super().fit(X, y)

    monkeypatch.setattr(model_choice.time, "process_time", lambda: now[0])
    # A trial is three fits.
    return lambda column, model, trial: Candidate(model, f"{column}", Slow(column, 1.4, trial / 3), Stump(column))


def test_what_would_take_too_long_is_not_chosen(clock):
    found = choose(X, y, [clock(0, "linear", 3), clock(3, "mlp", 90)], budget=60.0, seed=0, on_fit=silent)
    assert found.trial.name == "linear, 0"
    (slow,) = [trial for trial in found.trials if trial.left_out]
    assert slow.name == "mlp, 3" and slow.left_out == "fitting it to 150 rows would take about 45 s"


def test_trials_end_with_the_budget(clock, monkeypatch):
    # The first linear candidate took 30 s, so that the second would end after 60 s; of fourier nothing is known.
    among = [clock(0, "linear", 30), clock(1, "linear", 31), clock(2, "fourier", 30), clock(3, "mlp", 30)]
    found = choose(X, y, among, [Baseline("mean", Stump())], budget=59.0, seed=0, on_fit=silent)
    assert found.untried == ["linear, 1", "mlp, 3"]
    assert {trial.name for trial in found.trials} == {"linear, 0", "fourier, 2"}
    # On twice as many rows a candidate takes twice as long: the second does not get there.
    monkeypatch.setattr(model_choice, "RUNGS", (60, 120))
    found = choose(X, y, [clock(3, "mlp", 10), clock(3, "linear", 20)], budget=65.0, seed=0, on_fit=silent)
    assert found.untried == ["linear, 3"] and found.trial.name == "mlp, 3"
    assert {trial.name: trial.rows for trial in found.trials} == {"mlp, 3": 120, "linear, 3": 60}


@pytest.mark.parametrize("model", MODELS)
def test_candidates_differ_and_are_of_the_model(model):
    found = candidates(model, None, 0, 100)
    assert len({candidate.name for candidate in found}) == len(found)
    assert {candidate.model for candidate in found} == {model}
    for candidate in candidates(model, 2.0, 0, 100):
        assert candidate.final.beta == 2.0 and "beta 2" in candidate.settings
        assert candidate.model == "linear" or candidate.final.random_state == 0
    edges = [candidate.edge for candidate in found if candidate.edge]
    assert bool(edges) == (model in ("linear", "fourier"))


@pytest.mark.parametrize("beta", [None, 2.0])
def test_without_a_model_the_one_that_corrects_labels_is_the_only_candidate(beta):
    (found,) = candidates("auto", beta, 7, 100, jobs=2)
    assert found.name == found.model == "correction" and found.edge == ""
    assert isinstance(found.final, LabelCorrectionClassifier)
    assert (found.final.random_state, found.final.n_jobs) == (7, 2)


def test_many_classes_have_fewer_baselines():
    assert [baseline.name for baseline in baselines(0, 51)] == ["logistic regression"]


def test_baselines_are_of_scikit_learn():
    assert [type(baseline.quick).__module__.split(".")[0] for baseline in baselines(0, 3)] == ["sklearn", "sklearn"]


def test_a_rare_class_has_fewer_folds():
    for rows, n_splits in ((2, 2), (3, 3), (9, 3)):
        assert folds(np.repeat([0, 1], [50, rows]), 0).n_splits == n_splits


def test_rows_are_drawn_class_by_class(monkeypatch):
    seen = []

    class Watched(Stump):
        def fit(self, X, y):
            seen.append(np.unique(y, return_counts=True)[1])
            return super().fit(X, y)

    monkeypatch.setattr(model_choice, "RUNGS", (90,))
    candidate = replace(stump(0), quick=Watched())
    choose(X, y, [candidate], **OPTIONS, on_fit=silent)
    assert all((counts == 20).all() for counts in seen) and len(seen) == 3


@pytest.mark.usefixtures("all_trees")
@pytest.mark.parametrize("n", [1, 2, 100, 10_000, 100_000, 750_000, 10**7])
def test_each_row_is_judged_by_as_many_trees_however_many_rows_there_are(n):
    trees = forest(n, seed=0).n_estimators
    judges = scipy.stats.binom(trees, (1 - 1 / n) ** min(n, 100_000)).mean()
    assert trees == 100 or 36.7 < judges < 38
    assert 37 <= trees <= 100
