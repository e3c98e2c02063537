"""Rows held out: classes in proportion."""

import numpy as np
import pytest

from mgce.labels.out_of_fold import hold_out

INDEX = np.repeat([0, 1, 2], [30, 12, 6])


@pytest.mark.parametrize("share, size", [(0.25, 12), (0.001, 1), (0.999, 47), (0.5, 24)])
def test_rows_held_out_are_of_every_class_where_there_are_enough(share, size):
    rows = 100 + np.arange(48)
    train, held_out = hold_out(rows, INDEX, share, np.random.RandomState(0))
    assert len(held_out) == size and sorted([*train, *held_out]) == rows.tolist()
    if 3 <= size <= 45:
        assert (np.abs(np.bincount(INDEX[held_out - 100]) - np.bincount(INDEX) * size / 48) < 1).all()
    single = np.array([0, *[1] * 9])
    assert len(hold_out(np.arange(10), single, 0.3, np.random.RandomState(0))[1]) == 3
