import numpy as np

from mgce.labels.confident import confident_labels


def test_by_hand():
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7], [0.88, 0.12]])
    # Thresholds: .85 of class 0, the mean of the first two, and .54 of class 1. The last row has .88 of class 0.
    assert confident_labels(probs, np.array([0, 0, 1, 1, 1])).tolist() == [0, 0, 1, 1, 0]
