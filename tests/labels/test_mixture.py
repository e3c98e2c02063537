"""The noise matrix by expectation maximisation: against the truth, and against scipy's maximum."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from mgce.labels.mixture import fitted_transition, right_class

TRUE = np.array([[0.6, 0.4, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])


def drawn(n, sharpness):
    rng = np.random.default_rng(0)
    probs = softmax(sharpness * rng.normal(size=(n, 3)), axis=1)
    right = (probs.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=2)
    return probs, (TRUE[right].cumsum(1) < rng.random((n, 1))).sum(1).clip(max=2)


def test_it_finds_the_matrix_that_the_labels_were_drawn_by():
    probs, target = drawn(20_000, 3.0)
    np.testing.assert_allclose(fitted_transition(probs, target, np.ones(20_000)), TRUE, atol=0.04)


def test_it_is_the_most_likely_matrix():
    probs, target = drawn(2000, 4.0)
    found = fitted_transition(probs, target, np.ones(2000))

    def cost(flat):
        T = softmax(flat.reshape(3, 3), axis=1)
        return -np.log((probs @ T)[np.arange(2000), target]).mean()

    assert cost(np.log(found).ravel()) < minimize(cost, np.eye(3).ravel()).fun + 1e-3


def test_no_class_gives_most_of_its_labels_to_another():
    probs, target = np.eye(2)[np.repeat([0, 1], 100)], np.repeat([0, 1, 1], [30, 70, 100])
    found = fitted_transition(probs, target, np.ones(200))
    np.testing.assert_allclose(found[0], [0.5, 0.5])


def test_weights_count_rows():
    probs, target = drawn(300, 3.0)
    weight = np.arange(300) % 3
    rows = np.repeat(np.arange(300), weight)
    np.testing.assert_allclose(
        fitted_transition(probs, target, weight), fitted_transition(probs[rows], target[rows], np.ones(rows.size))
    )


def test_right_class_is_bayes_rule():
    found = right_class(np.array([[0.5, 0.3, 0.2]]), np.array([1]), TRUE)
    np.testing.assert_allclose(found, [np.array([0.5 * 0.4, 0.3 * 0.8, 0.2 * 0.3]) / 0.5])
