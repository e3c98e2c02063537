"""Rows and labels that no classifier can be fitted to, over every estimator: the sentence names what is wrong."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse

from every_estimator import EVERY, MADE, make
from mgce import MGCEClassifier

rng = np.random.default_rng(0)
N = 24
y = np.arange(N) % 2
X = rng.normal(size=(N, 3)) + 2 * y[:, None]
CELL = np.arange(X.size).reshape(X.shape) == 5
NAMED = r"`X`|\bX\b"
# X, y and which of them is wrong; None where an estimator may fit.
WRONG = {
    "huge cells": (X * 1e200, y, NAMED),
    "the largest floats": (np.sign(X) * 1.7e308, y, NAMED),
    "one cell is infinite": (np.where(CELL, np.inf, X), y, NAMED),
    "one cell is NaN": (np.where(CELL, np.nan, X), y, NAMED),
    "words": (np.full((N, 3), "a"), y, NAMED),
    "objects": (np.array([["a", 1, None]] * N, dtype=object), y, NAMED),
    "complex numbers": (X + 1j, y, NAMED),
    "integers beyond any float": ([[10**400, 1, 2]] * N, y, NAMED),
    "one dimension": (X[:, 0], y, NAMED),
    "three dimensions": (X[:, :, None], y, NAMED),
    "no rows": (X[:0], y[:0], NAMED),
    "no columns": (X[:, :0], y, NAMED),
    "fewer labels than rows": (X, y[:-1], "`X` and `y`"),
    "no labels": (X, None, r"\by\b"),
    "one class": (X, np.zeros(N), "`y`"),
    "one row": (X[:1], y[:1], "`y`"),
    "labels that are not finite": (X, np.where(y, np.inf, 0.0), r"\by\b"),
    "labels that are NaN": (X, np.where(y, np.nan, 0.0), r"\by\b"),
    "labels of two types": (X, np.array(["a", 1] * (N // 2), dtype=object), "`y`.*one type, but got 'int, str'"),
    "labels that are missing": (X, np.array(["a", None] * (N // 2), dtype=object), "`y`.*one type"),
    "labels of two columns": (X, np.eye(2)[y], r"\by\b"),
}
ODD = {
    "tiny cells": (X * 1e-200, y),
    "denormal cells": (X * 1e-320, y),
    "one huge cell": (np.where(CELL, 1e200, X), y),
    "a huge common offset": (X + 1e20, y),
    "constant": (np.ones_like(X), y),
    "zeros": (np.zeros_like(X), y),
    "truth values": (X > 0, y),
    "one row a class": (X[:5], np.arange(5)),
    "as many classes as rows": (X, np.arange(N)),
    "a class of one row": (X, np.r_[2, y[1:]]),
    "labels beyond 2^53": (X, y + 2**62),
    "words for labels": (X, np.array(["a", "b"])[y]),
}
SPARSE = sparse.csr_array(X)
SPARSE.data[::5] = 0  # stored all the same


def fit(name, features, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with few rows, by scikit-learn
        warnings.filterwarnings("error", category=RuntimeWarning)
        return make(name).fit(features, labels)


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", EVERY)
def test_what_is_wrong_is_named(name, case):
    features, labels, named = WRONG[case]
    if case == "one cell is NaN" and make(name).__sklearn_tags__().input_tags.allow_nan:
        return
    with pytest.raises((TypeError, ValueError, OverflowError)) as raised:
        fit(name, features, labels)
    if "too large to convert" not in str(raised.value):  # NumPy's, of integers beyond any float
        assert re.search(named, str(raised.value)), raised.value
    assert not re.search("l1|n_splits|tau|anchor|float64\\(", str(raised.value))


@pytest.mark.nightly
@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("name", EVERY)
def test_what_is_odd_is_fitted_or_named(name, case):
    features, labels = ODD[case]
    try:
        clf = fit(name, features, labels)
    except ValueError as error:
        assert re.match("Expected `(X|cv)` to be |Input X contains", str(error)), error
        return
    assert np.isfinite(clf.predict_proba(features)).all()
    assert clf.predict_proba(features).sum(1) == pytest.approx(np.ones(len(features)))


@pytest.mark.parametrize("name", EVERY)
def test_rows_too_large_for_a_fitted_model_are_named(name):
    clf = fit(name, X, y)
    for rows in (X * 1e305, np.sign(X) * 1.7e308):
        try:
            assert np.isfinite(clf.predict_proba(rows)).all()
        except ValueError as error:
            assert re.match("Expected `X` to be |Input X contains", str(error)), error


@pytest.mark.parametrize("name", MADE)
def test_zeros_that_a_sparse_matrix_stores_are_zeros(name):
    if not make(name).__sklearn_tags__().input_tags.sparse:
        with pytest.raises(TypeError, match="Sparse data was passed for X"):
            make(name).fit(SPARSE, y)
        return
    dense = make(name).fit(SPARSE.toarray(), y)
    np.testing.assert_allclose(make(name).fit(SPARSE, y).predict_proba(X), dense.predict_proba(X), atol=1e-3)
    with pytest.raises(ValueError, match="^Expected `X` to be of values in"):
        make(name).fit(SPARSE * 1e200, y)
    assert np.isfinite(make(name).fit(sparse.csr_array((N, 3)), y).predict_proba(X)).all()  # nothing is stored


def test_chunks_and_batches_name_the_rows_too():
    for fitted in (
        lambda: MGCEClassifier().fit_chunks([(X, y), (X * 1e200, y)]),
        lambda: MGCEClassifier().partial_fit(X * 1e200, y, classes=[0, 1]),
    ):
        with pytest.raises(ValueError, match="^Expected `X` to be of values in .*, but got .*e[+]200"):
            fitted()
    # The largest that are let through are fitted.
    largest = X / np.abs(X).max() * np.sqrt(np.finfo(float).max / N) * (1 - 1e-9)
    assert np.isfinite(MGCEClassifier().fit(largest, y).predict_proba(largest)).all()
