"""The objective, its gradient, the entropy and the blocks of the Hessian, against numerical definitions."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array

from mgce._arrays import one_hot
from mgce.linear.objective import LinearProblem, Size, block_gram, phi_and_p
from mgce.linear.progress import DualBound, entropy

BETAS = [1.0, 1.05, 1.4, 2.0, 5.0, 11.0, math.inf]


def make_problem(rng, beta, n=12, d=3, k=4, lambda_=0.05):
    labels = rng.integers(0, k, n)
    weight = rng.random(n)
    weight /= weight.sum()
    features = rng.normal(size=(n, d))
    tau = np.einsum("i,iy,ij->yj", weight, one_hot(labels, k), features)
    return LinearProblem(features, tau, np.full((k, d), lambda_), weight, beta), one_hot(labels, k)


@pytest.mark.parametrize("beta", BETAS[1:])
def test_gradient(beta):
    rng = np.random.default_rng(0)
    problem, _ = make_problem(rng, beta)
    coef = 0.2 * rng.normal(size=(4, 3))
    _, gradient, _ = problem.smooth(coef)
    numeric = approx_fprime(coef.ravel(), lambda x: problem.smooth(x.reshape(4, 3))[0], 1e-7)
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=2e-6)


@pytest.mark.parametrize("beta", BETAS)
def test_value_with_labels_is_the_penalised_margin_loss(beta):
    problem, targets = make_problem(np.random.default_rng(1), beta)
    coef = np.random.default_rng(2).normal(size=(4, 3))
    f = problem.features @ coef.T
    phi, _ = phi_and_p(f, beta)
    loss = -(f * targets).sum(1) - phi
    assert (loss >= -1e-12).all()
    assert problem.value(coef) == pytest.approx(problem.weight @ loss + 0.05 * np.abs(coef).sum(), abs=1e-12)
    assert problem.value(0 * coef) == pytest.approx(problem.trivial_value, abs=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_entropy_is_the_conjugate_of_minus_phi(beta):
    # -phi(f) = p.f + E(p) at p = p_beta(f), and no other p does better.
    rng = np.random.default_rng(3)
    f = rng.normal(size=(50, 5))
    phi, p = phi_and_p(f, beta)
    np.testing.assert_allclose((p * f).sum(1) + entropy(p, beta), -phi, atol=1e-12)
    other = rng.dirichlet(np.ones(5), 50)
    assert ((other * f).sum(1) + entropy(other, beta) <= -phi + 1e-12).all()


@pytest.mark.parametrize("beta", BETAS)
def test_entropy_is_the_least_alpha_risk(beta):
    rng = np.random.default_rng(4)
    p, h = rng.dirichlet(np.ones(3), 200), rng.dirichlet(np.ones(3), 200)
    loss = -np.log(h) if math.isinf(beta) else beta * (1 - h ** (1 / beta))
    assert (entropy(p, beta) <= (p * loss).sum(1) + 1e-12).all()
    np.testing.assert_allclose(entropy(np.eye(3), beta), 0, atol=1e-15)


def test_block_gram():
    rng = np.random.default_rng(5)
    features, root = rng.normal(size=(9, 3)), rng.normal(size=(9, 4, 4))
    c = root @ root.transpose(0, 2, 1)
    c -= c.mean(1, keepdims=True)
    c -= c.mean(2, keepdims=True)  # now rows and columns sum to zero
    expected = np.einsum("iyz,ij,il->yjzl", c, features, features).reshape(12, 12)
    np.testing.assert_allclose(block_gram(features, [c[:, y, :y] for y in range(4)], 4, 3), expected, atol=1e-12)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("free", [False, True])
def test_dual_bound_is_below_every_value(beta, free):
    rng = np.random.default_rng(6)
    problem, targets = make_problem(rng, beta)
    if free:
        lambda_ = problem.lambda_.copy()
        lambda_[:, -1] = 0
        problem = dataclasses.replace(problem, lambda_=lambda_)
    dual = DualBound(problem, targets)
    values = []
    for scale in (0, 0.1, 0.3, 1):
        coef = scale * rng.normal(size=(4, 3))
        values.append(problem.value(coef))
        dual.update(problem.smooth(coef)[2])
    assert 0 <= dual.best <= min(values)


def test_moments_of_coefficients_without_l1_term_are_corrected():
    rng = np.random.default_rng(8)
    problem, targets = make_problem(rng, 2.0, n=60)
    lambda_ = problem.lambda_.copy()
    lambda_[:2, 1] = lambda_[1:, 2] = 0
    problem = dataclasses.replace(problem, lambda_=lambda_)
    assert problem.size == Size(60, 4, 3, free=5)
    near = 0.05 * targets + 0.95 * rng.dirichlet(np.full(4, 50), 60)
    problem = dataclasses.replace(problem, tau=problem.tau + 0.98 * problem.residual(near))
    corrected = DualBound(problem, None)._corrected(near)
    np.testing.assert_allclose(corrected.sum(1), 1)
    free = problem.lambda_ == 0
    assert np.abs(problem.residual(near)[free]).max() > 1e-3
    np.testing.assert_allclose(problem.residual(corrected)[free], 0, atol=1e-12)


def test_dual_bound_without_anchor_takes_feasible_p_only():
    problem, targets = make_problem(np.random.default_rng(7), 2.0)
    dual = DualBound(problem, None)
    assert dual.update(np.full((12, 4), 0.25)) == -math.inf
    assert dual.update(0.999 * targets + 0.00025) > 0
    outside = DualBound(problem, np.full((12, 4), 0.25))
    assert outside.anchor is None


def test_sparse_features_give_the_same_numbers():
    problem, _ = make_problem(np.random.default_rng(8), 1.4)
    sparse = dataclasses.replace(problem, features=csr_array(problem.features))
    coef = np.random.default_rng(9).normal(size=(4, 3))
    for dense_part, sparse_part in zip(problem.smooth(coef), sparse.smooth(coef), strict=True):
        np.testing.assert_allclose(sparse_part, dense_part, atol=1e-14)
