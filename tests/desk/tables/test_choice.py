import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.metrics import balanced_accuracy_score
from sklearn.preprocessing import scale

from mgce.desk.tables.choice import AUTO, CORRECTING, NAMED, candidates, choose, estimator, unlearnt
from mgce.estimators import LabelCorrectionClassifier, MGCEClassifier, MGCEEmbeddingClassifier

X, y = load_iris(return_X_y=True)
X, y = scale(X), np.array(["ant", "bee", "cat"])[y]
GIVEN = np.where(np.random.default_rng(0).random(150) < 0.2, np.roll(y, 50), y)


class Fixed(ClassifierMixin, BaseEstimator):
    """Say the given probabilities of every row; note the weights of the fit."""

    def __init__(self, probs):
        self.probs = probs

    def fit(self, X, y, sample_weight=None):
        self.classes_, self.left_out_proba_, self.weight_ = np.unique(y), self.probs, sample_weight
        return self


def said(labels):
    """Return the probabilities of one who is sure of these labels."""
    return np.eye(3)[np.unique(labels, return_inverse=True)[1]]


def silent(step):
    pass


@pytest.mark.parametrize(
    ("model", "options", "names"),
    [
        (AUTO, {}, ["correction"]),
        (AUTO, {"wide": True}, ["correction", "head"]),
        (AUTO, {"encoded": True}, ["head"]),
        ("linear", {"wide": True}, ["linear"]),
        ("forest", {"encoded": True}, ["forest"]),
    ],
)
def test_a_named_model_is_alone_and_wide_tables_have_the_head_too(model, options, names):
    assert candidates(model, **options) == names


@pytest.mark.parametrize("name", NAMED)
def test_a_named_model_has_the_settings_of_its_class(name):
    found, usual = estimator(name, 7, jobs=2), NAMED[name][1]()
    seeded = {key: value for key, value in {"random_state": 7, "n_jobs": 2}.items() if key in usual.get_params()}
    assert {**usual.get_params(), **seeded} == found.get_params()


def test_models_that_correct_labels_have_the_seed_and_the_threads():
    correction, head = (estimator(name, 7, jobs=2) for name in CORRECTING)
    assert isinstance(correction, LabelCorrectionClassifier) and (correction.random_state, correction.n_jobs) == (7, 2)
    assert isinstance(head, MGCEEmbeddingClassifier) and head.random_state == 7


def test_the_best_predictions_of_labels_that_were_not_learnt_are_chosen():
    rng, steps = np.random.default_rng(1), []
    worse = said(np.where(rng.random(150) < 0.3, "ant", GIVEN))
    models = [("correction", Fixed(worse)), ("head", Fixed(said(GIVEN)))]
    found = choose(X, GIVEN, models, on_fit=steps.append, weight=np.arange(150.0))
    assert steps == ["Fitting correction", "Fitting head"]
    assert found.name == "head" and found.fitted is models[1][1] and "embeddings" in found.description
    assert [(trial.name, trial.accuracy) for trial in found.trials] == [
        ("head", 1.0),
        ("correction", pytest.approx((np.unique(y)[worse.argmax(1)] == GIVEN).mean())),
    ]
    assert all((model.weight_ == np.arange(150.0)).all() for _, model in models)


def test_equals_are_those_that_come_first():
    models = [("correction", Fixed(said(GIVEN))), ("head", Fixed(said(GIVEN)))]
    assert choose(X, GIVEN, models, on_fit=silent).name == "correction"


def test_for_the_balanced_metric_every_label_counts_the_same():
    rows = np.r_[0:50, 50:60]  # fifty ants and ten bees
    two, probs = y[rows], {}
    probs["correction"] = np.eye(2)[np.zeros(60, int)]  # right on all ants
    probs["head"] = np.eye(2)[np.r_[np.zeros(35, int), np.ones(25, int)]]  # on 35 ants and all bees
    models = [(name, Fixed(each)) for name, each in probs.items()]
    assert choose(X[rows], two, models, on_fit=silent).name == "correction"
    found = choose(X[rows], two, models, on_fit=silent, balanced=True)
    expected = balanced_accuracy_score(two, np.array(["ant", "bee"])[probs["head"].argmax(1)])
    assert found.name == "head" and found.trials[0].accuracy == pytest.approx(expected)


def test_a_named_model_is_fitted_and_nothing_is_compared():
    found = choose(X, GIVEN, [("linear", estimator("linear", 0))], on_fit=silent)
    assert found.trials == [] and found.description.startswith("linear MGCE")
    np.testing.assert_array_equal(found.fitted.coef_, MGCEClassifier().fit(X, GIVEN).coef_)


def test_what_was_not_learnt_is_out_of_bag_or_out_of_fold():
    head = MGCEEmbeddingClassifier(random_state=0).fit(X, GIVEN)
    np.testing.assert_array_equal(unlearnt(head), head.oof_proba_)
    found = LabelCorrectionClassifier(n_estimators=20, n_components=50, random_state=0).fit(X, GIVEN)
    np.testing.assert_array_equal(unlearnt(found), found.left_out_proba_)
