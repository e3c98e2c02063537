"""Folds and rows held out: classes in proportion, sentences where a fold cannot train."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from mgce.labels.out_of_fold import checked_folds, hold_out

INDEX = np.repeat([0, 1, 2], [30, 12, 6])
CLASSES = np.array(["a", "b", "c"])
X = np.random.default_rng(0).normal(size=(48, 2))
ONES = np.ones(48)


@pytest.mark.parametrize("cv", [None, 3, 5])
def test_numbered_folds_hold_each_class_in_proportion_and_do_not_depend_on_the_order(cv):
    folds = checked_folds(cv, X, CLASSES, INDEX, ONES)
    n = cv or 5
    assert len(folds) == n and sorted(np.concatenate([test for _, test in folds])) == list(range(48))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(48))
        assert (np.abs(np.bincount(INDEX[test], minlength=3) - np.bincount(INDEX) / n) < 1).all()
    order = np.random.default_rng(1).permutation(48)
    again = checked_folds(cv, X[order], CLASSES, INDEX[order], ONES)
    assert [sorted(order[test]) for _, test in again] == [sorted(test) for _, test in folds]


def test_a_splitter_is_taken_as_it_is():
    folds = checked_folds(KFold(4, shuffle=True, random_state=0), X, CLASSES, INDEX, ONES)
    want = list(KFold(4, shuffle=True, random_state=0).split(X))
    assert all(
        np.array_equal(a, b) for fold, other in zip(folds, want, strict=True) for a, b in zip(fold, other, strict=True)
    )


def test_folds_that_cannot_train_are_refused_with_the_class_that_is_lost():
    with pytest.raises(ValueError, match="Expected `cv` to be at most 30, the number of rows of the largest class"):
        checked_folds(31, X, CLASSES, INDEX, ONES)
    for lost, rows in ((12, "12 rows in all"), (1, "1 row in all")):
        index = np.repeat([0, 1], [18, lost])
        first, second = np.arange(18), np.arange(18, 18 + lost)
        cv = [([*first, *second], first), (first, second)]
        with pytest.raises(ValueError, match=f"fold 2 of 2 without the class 'b', of {rows}"):
            checked_folds(cv, X[: len(index)], CLASSES[:2], index, ONES[: len(index)])
    unweighted = np.where(INDEX == 0, 1.0, 0.0) + (np.arange(48) == 47)  # of one class alone but for the last row
    with pytest.raises(ValueError, match="folds that train on at least 2 classes each .* without the class 'c'"):
        checked_folds(3, X, CLASSES, INDEX, unweighted)


@pytest.mark.parametrize("share, size", [(0.25, 12), (0.001, 1), (0.999, 47), (0.5, 24)])
def test_rows_held_out_are_of_every_class_where_there_are_enough(share, size):
    rows = 100 + np.arange(48)
    train, held_out = hold_out(rows, INDEX, share, np.random.RandomState(0))
    assert len(held_out) == size and sorted([*train, *held_out]) == rows.tolist()
    if 3 <= size <= 45:
        assert (np.abs(np.bincount(INDEX[held_out - 100]) - np.bincount(INDEX) * size / 48) < 1).all()
    single = np.array([0, *[1] * 9])
    assert len(hold_out(np.arange(10), single, 0.3, np.random.RandomState(0))[1]) == 3
