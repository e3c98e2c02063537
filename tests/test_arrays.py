"""Arrays of callers, checked: what is taken, what comes of it, and what is refused in which words."""

import numpy as np
import pytest
import torch
from scipy import sparse

from mgce._arrays import as_array, as_labels, as_matrix, as_probs, one_hot, with_intercept

DENSE = np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("values", [[1, 2.5], (1, 2.5), np.float32([1, 2.5]), torch.tensor([1, 2.5]).requires_grad_()])
def test_numbers_of_every_kind_become_float64(values):
    array = as_array(values, "x")
    assert array.dtype == np.float64 and array.tolist() == [1, 2.5]


@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.coo_array, torch.tensor])
def test_features_keep_their_values_and_get_a_column_of_ones(store):
    matrix = as_matrix(store(DENSE))
    wider = with_intercept(matrix)
    assert with_intercept(matrix, False) is matrix
    assert sparse.issparse(matrix) == sparse.issparse(wider) == hasattr(store(DENSE), "tocsr")
    for found, want in ((matrix, DENSE), (wider, np.hstack([DENSE, np.ones((3, 1))]))):
        np.testing.assert_array_equal(found.toarray() if sparse.issparse(found) else found, want)


def test_memory_that_may_only_be_read_is_copied():
    fixed = DENSE.copy()
    fixed.flags.writeable = False
    matrix = as_matrix(fixed)
    assert matrix.flags.writeable and not np.shares_memory(matrix, fixed)
    np.testing.assert_array_equal(matrix, DENSE)
    matrix[:] = 7
    np.testing.assert_array_equal(fixed, DENSE)


def test_labels_are_integers_whatever_type_they_come_in():
    labels = as_labels(torch.tensor([2.0, 0.0, 1.0]), 3, 3)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(one_hot(labels, 4), np.eye(4)[[2, 0, 1]])
    assert as_labels([7, 0], 2).tolist() == [7, 0]


def test_probabilities_are_divided_by_their_sum_and_printed_ones_taken():
    printed = np.array([[0.3334, 0.3333, 0.3334], [1, 0, 0]])
    np.testing.assert_allclose(as_probs(printed), printed / printed.sum(1, keepdims=True), rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: as_array([1, np.nan], "x"), "Expected `x` to be free of NaN and infinities"),
        (lambda: as_array(["a"], "x"), "Expected `x` to be numbers in rows of one length, but got"),
        (lambda: as_array([[1], [1, 2]], "x"), "Expected `x` to be numbers in rows of one length, but got"),
        (lambda: as_matrix(sparse.csr_matrix([[np.inf]])), "Expected `features` to be free of NaN and infinities"),
        (lambda: as_matrix([1.0]), "Expected `features` to be of shape (n, d) with n, d >= 1, but got (1,)"),
        (lambda: as_matrix(np.ones((0, 2))), "with n, d >= 1, but got (0, 2)"),
        (lambda: as_labels([0, 1], 3), "Expected `labels` to be of shape (3,), one for each row, but got (2,)"),
        (lambda: as_labels([0, 0.5], 2), "Expected `labels` to be integers from 0, but got"),
        (lambda: as_labels([0, -1], 2), "but got 'values from -1 to 0'"),
        (lambda: as_labels([0, 3], 2, 3), "Expected `labels` to be integers from 0 to 2"),
        (lambda: as_probs([]), "Expected `probs` to be of shape (..., k), not empty"),
        (lambda: as_probs([0.6, 0.5]), "Expected `probs` to be rows that are not negative and sum to one"),
        (lambda: as_probs([1.1, -0.1]), "a least entry of -0.1"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert sentence in str(error.value)
