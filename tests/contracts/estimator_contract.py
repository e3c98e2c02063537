"""What every estimator of this package promises, beyond scikit-learn's own checks, which it runs too."""

import contextlib
import copy
import functools
import unittest

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from mgce import certify
from mgce.estimators import load, save
from mgce.functional import minimax_probs, minimax_to_worst_case

FITTED = {}  # by contract
# Of scikit-learn's checks those that fit large or many models: most of the time, of classifiers that share their base.
DEAR = {
    "check_class_weight_classifiers",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_estimators_dtypes",
    "check_non_transformer_estimators_n_iter",
    "check_positive_only_tag_during_fit",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_list",
}


class EstimatorContract:
    """Inherit, and give `make(**parameters)`, an estimator that fits 150 rows in well under a second."""

    expected_failures: dict[str, str] = {}  # noqa: RUF012

    @staticmethod
    def make(**parameters):
        raise NotImplementedError

    @pytest.fixture
    def data(self):
        X, y = make_classification(
            150,
            5,
            n_informative=4,
            n_redundant=0,
            n_classes=3,
            n_clusters_per_class=1,
            class_sep=2.0,
            flip_y=0,
            random_state=0,
        )
        return X, np.array(["ant", "bee", "cat"])[y]

    @pytest.fixture
    def fitted(self, data):
        """Return a copy of the one fit of all tests of a class."""
        if type(self) not in FITTED:
            FITTED[type(self)] = self.make().fit(*data)
        return copy.deepcopy(FITTED[type(self)])

    @pytest.mark.slow
    def test_scikit_learn_checks(self):
        """All but the dear ones, which CI makes of the linear model."""
        checks = estimator_checks_generator(self.make(), expected_failed_checks=self.expected_failures, mark="skip")
        for estimator, check in checks:
            if (check.func if isinstance(check, functools.partial) else check).__name__ not in DEAR:
                with contextlib.suppress(unittest.SkipTest):
                    check(estimator)

    @pytest.mark.slow
    @pytest.mark.nightly
    def test_every_scikit_learn_check(self):
        check_estimator(self.make(), on_skip=None, expected_failed_checks=self.expected_failures)

    def test_learns_string_labels(self, fitted, data):
        X, y = data
        assert fitted.classes_.tolist() == ["ant", "bee", "cat"]
        assert (fitted.predict(X) == y).mean() > 0.8

    def test_probabilities_are_the_links_of_the_margins(self, fitted, data):
        X, _ = data
        f = fitted.decision_function(X)
        h, p = fitted.predict_proba(X), fitted.worst_case_proba(X)
        torch.testing.assert_close(torch.from_numpy(h), minimax_probs(torch.from_numpy(f), beta=fitted.beta_))
        expected = minimax_to_worst_case(torch.from_numpy(h), beta=fitted.beta_)
        torch.testing.assert_close(torch.from_numpy(p), expected, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(fitted.classes_[f.argmax(1)], fitted.predict(X))

    def test_two_classes_have_one_column_of_margins(self, data):
        X, y = data
        two = y != "cat"
        clf = self.make().fit(X[two], y[two])
        f, h = clf.decision_function(X), clf.predict_proba(X)
        assert f.shape == (150,) and h.shape == (150, 2)
        # With margins (0, f) the links are the same: they do not change with a common shift.
        both = torch.from_numpy(np.column_stack([np.zeros_like(f), f]))
        torch.testing.assert_close(torch.from_numpy(h), minimax_probs(both, beta=clf.beta_), rtol=0, atol=1e-7)
        np.testing.assert_array_equal(clf.predict(X), clf.classes_[(f > 0).astype(int)])

    def test_certify_is_that_of_h(self, fitted, data):
        X, y = data
        codes = np.searchsorted(fitted.classes_, y)
        for arguments in ({}, {"delta": 0.1, "noise_rate": 0.05}):
            assert fitted.certify(X, y, **arguments) == certify(codes, fitted.predict_proba(X), **arguments)

    def test_certify_with_some_classes_only(self, fitted, data):
        X, y = data
        some = y == "bee"
        assert fitted.certify(X[some], y[some]).n_classes == 3

    def test_certify_counts_unknown_labels_as_errors(self, fitted, data):
        X, y = data
        other = y.copy()
        other[:30] = "dog"
        codes = np.searchsorted(fitted.classes_, y)
        codes[:30] = -1
        assert fitted.certify(X, other) == certify(codes, fitted.predict_proba(X))
        with pytest.raises(ValueError, match="Expected `y` to be labels of the classes that the model knows"):
            fitted.certify(X, np.full(150, "dog"))
        with pytest.raises(ValueError, match=r"Expected `y` to be of shape \(150,\)"):
            fitted.certify(X, y[:-1])

    @pytest.mark.parametrize("method", ["suspect_labels", "label_quality"])
    def test_unknown_labels_and_lengths_get_a_sentence(self, fitted, data, method):
        X, y = data
        other = y.copy()
        other[3] = "dog"
        with pytest.raises(ValueError, match="Expected `y` to be labels among `classes_`, but got .*dog"):
            getattr(fitted, method)(X, other)
        with pytest.raises(ValueError, match=r"Expected `y` to be of shape \(150,\)"):
            getattr(fitted, method)(X, y[:-1])

    def test_label_quality_is_that_of_cleanlab(self, fitted, data):
        rank = pytest.importorskip("cleanlab.rank")
        X, y = data
        codes = np.searchsorted(fitted.classes_, y)
        quality = rank.get_self_confidence_for_each_label(codes, fitted.predict_proba(X))
        np.testing.assert_allclose(fitted.label_quality(X, y), quality, atol=1e-12)

    def test_suspects_are_ranked_by_the_lead_of_another_class(self, fitted, data):
        X, y = data
        wrong = np.where(np.arange(150) % 2 == 0, y, fitted.classes_[(np.searchsorted(fitted.classes_, y) + 1) % 3])
        order = fitted.suspect_labels(X, wrong)
        assert sorted(order) == list(range(150))
        f = np.asarray(fitted.decision_function(X))
        codes = np.searchsorted(fitted.classes_, wrong)
        lead = [max(np.delete(row, code)) - row[code] for row, code in zip(f, codes, strict=True)]
        assert (np.diff(np.array(lead)[order]) <= 1e-9).all()

    def test_finds_flipped_labels(self, data):
        X, y = data
        flipped = np.random.default_rng(0).choice(150, 15, replace=False)
        noisy = y.copy()
        noisy[flipped] = np.where(y[flipped] == "ant", "bee", "ant")
        suspects = self.make().fit(X, noisy).suspect_labels(X, noisy)[:15]
        assert len(set(suspects) & set(flipped)) >= 9

    def test_random_predictions_are_drawn_from_h(self, fitted, data):
        X, _ = data
        h = fitted.predict_proba(X)
        draws = np.stack([fitted.predict_random(X, seed) for seed in range(200)])
        np.testing.assert_array_equal(fitted.predict_random(X, 3), draws[3])
        shares = np.stack([(draws == label).mean(0) for label in fitted.classes_], 1)
        assert (shares[h == 0] == 0).all()
        assert np.abs(shares - h).max() < 5 * np.sqrt(0.25 / 200)  # five deviations of a share of 200

    def test_fits_are_deterministic(self, fitted, data):
        again = clone(fitted).fit(*data)
        np.testing.assert_array_equal(again.decision_function(data[0]), fitted.decision_function(data[0]))

    def test_global_random_numbers_stay(self, data):
        torch.manual_seed(5)
        np.random.seed(5)  # noqa: NPY002
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        self.make().fit(*data)
        assert torch.equal(before[0], torch.get_rng_state())
        np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002

    def test_saved_and_loaded(self, fitted, data, tmp_path):
        model = make_pipeline(StandardScaler(), clone(fitted)).fit(*data)
        save(model, tmp_path / "model.mgce")
        loaded = load(tmp_path / "model.mgce")
        for method in ("decision_function", "predict_proba", "predict"):
            np.testing.assert_array_equal(getattr(loaded, method)(data[0]), getattr(model, method)(data[0]))

    def test_pipeline_with_data_frames(self, data):
        pandas = pytest.importorskip("pandas")
        X, y = data
        frame = pandas.DataFrame(X, columns=list("abcde"))
        model = make_pipeline(StandardScaler(), self.make()).set_output(transform="pandas").fit(frame, y)
        assert model[-1].feature_names_in_.tolist() == list("abcde")
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[list("edcba")])

    def test_html_representation(self, fitted):
        assert type(fitted).__name__ in fitted._repr_html_()

    def test_calibration_on_top(self, data):
        probs = CalibratedClassifierCV(self.make(), cv=2).fit(*data).predict_proba(data[0])
        np.testing.assert_allclose(probs.sum(1), 1)

    def test_cleanlab_wraps_it(self, data):
        classification = pytest.importorskip("cleanlab.classification")
        X, y = data
        codes = np.unique(y, return_inverse=True)[1]
        issues = classification.CleanLearning(self.make(), cv_n_folds=2, seed=0).find_label_issues(X, codes)
        assert len(issues) == 150

    def test_weights_are_routed(self, data):
        X, y = data
        weight = np.where(y == "cat", 0.0, 1.0)
        with sklearn.config_context(enable_metadata_routing=True):
            model = make_pipeline(
                StandardScaler().set_fit_request(sample_weight=False),
                self.make().set_fit_request(sample_weight=True),
            )
            model.fit(X, y, sample_weight=weight)
        assert "cat" not in model.predict(X)

    def grid_search(self, data, grid):
        search = GridSearchCV(self.make(), grid, cv=2).fit(*data)
        assert search.best_score_ > 0.8
        return search
