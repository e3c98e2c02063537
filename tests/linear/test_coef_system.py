import numpy as np
import pytest

from mgce.linear.interior_point import ByCoefficients, ByMargins, coef_system


def problem(rng, n, d, k, free):
    """Matrices C_i as differences of a diagonal and a term of rank one, features, and spreads."""
    p = rng.dirichlet(np.ones(k), size=n)
    matrices = np.einsum("iy,yz->iyz", p, np.eye(k)) - p[:, :, None] * p[:, None]
    spread = rng.lognormal(sigma=2, size=(k, d))
    spread[:, :free] = 0
    return matrices, rng.normal(size=(n, d)), spread


def pairs(matrices):
    return (matrices[:, y, :y] for y in range(matrices.shape[1]))


def dense(matrices, features, spread):
    """The same equations written out, for one coefficient after another."""
    k, d = spread.shape
    matrix = np.einsum("iyz,ia,ib->yazb", matrices, features, features).reshape(k * d, k * d)
    return matrix + np.diag(np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0).ravel())


@pytest.mark.parametrize("system", [ByCoefficients, ByMargins])
@pytest.mark.parametrize(("n", "d", "k"), [(5, 12, 3), (12, 5, 3), (7, 7, 2), (1, 4, 2)])
def test_the_equations_are_solved(system, n, d, k):
    matrices, features, spread = problem(np.random.default_rng(n), n, d, k, free=0)
    right = np.random.default_rng(1).normal(size=(k, d))
    solution = system(features, pairs(matrices), spread).solve(right)
    expected = np.linalg.solve(dense(matrices, features, spread), right.ravel()).reshape(k, d)
    np.testing.assert_allclose(solution, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("system", [ByCoefficients, ByMargins])
def test_free_coefficients_solve_their_equations(system):
    # The free ones are determined up to a number added to all classes, so the equations are looked at, not the answer.
    matrices, features, spread = problem(np.random.default_rng(3), 6, 9, 3, free=1)
    right = np.random.default_rng(4).normal(size=spread.shape)
    right[:, 0] -= right[:, 0].mean()
    solution = system(features, pairs(matrices), spread).solve(right)
    left = dense(matrices, features, spread) @ solution.ravel()
    np.testing.assert_allclose(left, right.ravel(), atol=1e-8)


@pytest.mark.parametrize("system", [ByCoefficients, ByMargins])
def test_a_free_coefficient_of_a_feature_that_is_zero_stays_where_it_is(system):
    matrices, features, spread = problem(np.random.default_rng(5), 6, 9, 3, free=1)
    features[:, 0] = 0
    right = np.random.default_rng(6).normal(size=spread.shape)
    right[:, 0] = 0
    solution = system(features, pairs(matrices), spread).solve(right)
    rest = np.linalg.solve(dense(matrices, features[:, 1:], spread[:, 1:]), right[:, 1:].ravel()).reshape(3, 8)
    np.testing.assert_array_equal(solution[:, 0], 0)
    np.testing.assert_allclose(solution[:, 1:], rest, rtol=1e-9, atol=1e-9 * np.abs(rest).max())


def test_the_smaller_equations_are_picked():
    for n, d, free, by in ((4, 40, 1, ByMargins), (40, 4, 1, ByCoefficients), (4, 40, 40, ByCoefficients)):
        matrices, features, spread = problem(np.random.default_rng(0), n, d, 2, free)
        assert type(coef_system(features, pairs(matrices), spread)) is by


@pytest.mark.parametrize("system", [ByCoefficients, ByMargins])
def test_what_is_not_finite_is_refused(system):
    matrices, features, spread = problem(np.random.default_rng(0), 5, 5, 2, free=0)
    with np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError):
        system(features * 1e200, pairs(matrices), spread)
