"""The paper's inequalities and theorems, on random probabilities, transition matrices and minimax problems."""

import numpy as np
import pytest
import torch
from scipy import optimize

from mgce.functional import mgce_loss, worst_case_probs
from mgce.noise import pair_flip, symmetric
from mgce.risk import (
    asymmetric_noise_bounds,
    clean_risk_bound,
    composite_losses,
    loss_sum_bounds,
    mae_bounds,
    minimax_risk,
    optimal_margins,
    stochastic_gradient,
    symmetric_noise_bounds,
)

BETAS = [1.0, 1.4, 3.0]


def alpha_losses(h, beta):
    return beta * (1 - h ** (1 / beta))


def simplex(rng, n, k):
    return np.vstack([rng.dirichlet(np.full(k, 0.4), n), np.eye(k), np.full(k, 1 / k)])


@pytest.mark.parametrize("beta", BETAS)
def test_equation_5_and_theorem_2(beta):
    h = simplex(np.random.default_rng(0), 500, 4)
    losses = alpha_losses(h, beta)
    low, high = loss_sum_bounds(4, beta)
    assert losses.sum(1).min() == pytest.approx(low) and losses.sum(1).max() == pytest.approx(high)
    for row, own in zip(losses[:, 0], 1 - h[:, 0], strict=True):
        least, most = mae_bounds(row, beta)
        assert least - 1e-12 <= own <= most + 1e-12
        assert row - own <= beta - 1 + 1e-12


@pytest.mark.parametrize("beta", [1.2, 2.0, 5.0])
def test_corollary_1_and_properness(beta):
    rng = np.random.default_rng(0)
    q = 0.8 * rng.dirichlet(np.ones(4), 20) + 0.05  # nothing that margins cannot express at beta = 1.2
    f = optimal_margins(q, beta)
    np.testing.assert_allclose(worst_case_probs(torch.from_numpy(f), beta=beta).numpy(), q, atol=1e-9)
    for row, best in zip(q[:4], f[:4], strict=True):

        def risk(margins, row=row):
            logits = torch.from_numpy(margins)[None].expand(4, 4)
            return float(mgce_loss(logits, torch.arange(4), reduction="none", beta=beta) @ torch.from_numpy(row))

        found = optimize.minimize(
            risk, np.zeros(4), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
        )
        assert risk(best) <= found.fun + 1e-9
        assert (np.argsort(best) == np.argsort(row)).all()
        losses = mgce_loss(torch.from_numpy(best)[None].expand(4, 4), torch.arange(4), reduction="none", beta=beta)
        np.testing.assert_allclose(composite_losses(row, beta), losses.numpy(), atol=1e-9)
    others = rng.dirichlet(np.ones(4), 300)
    expected = composite_losses(others, beta) @ q.T
    assert (expected > (composite_losses(q, beta) * q).sum(1)).all()


def least_risk(q, beta):
    """Return the least mean margin loss, beta (1 - ||q||_alpha); at infinity it is Shannon's entropy."""
    if np.isinf(beta):
        return -(q * np.log(q)).sum()
    return beta * (1 - np.linalg.norm(q, np.inf if beta == 1 else beta / (beta - 1)))


def pooled_below(q, wrong):
    """Return q with its largest entries and that of `wrong` made equal, the fewest that put `wrong` on top."""
    others = sorted((y for y in range(len(q)) if y != wrong), key=lambda y: -q[y])
    pool = [wrong]
    for y in others:
        if q[y] > q[pool].mean():
            pool.append(y)
    pooled = q.copy()
    pooled[pool] = q[pool].mean()
    return pooled


def best_margins(q, beta):
    """Return margins of the least risk: those of p = q, and at beta = 1 two levels, the largest entries 1/m above."""
    if np.isinf(beta):
        return np.log(q)
    if beta > 1:
        return optimal_margins(q, beta)
    top = q >= q.max() - 1e-12
    return top / top.sum()


@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 5.0, np.inf])
def test_corollary_1_calibration(beta):
    """Calibration: margins with a wrong class on top have more than the least risk, by a gap known in closed form."""
    rng, k = np.random.default_rng(0), 4
    for q in 0.7 * rng.dirichlet(np.ones(k), 5) + 0.3 / k:

        def risk_and_gradient(f, q=q):
            logits = torch.from_numpy(f).requires_grad_()
            risk = mgce_loss(logits.expand(k, k), torch.arange(k), reduction="none", beta=beta) @ torch.from_numpy(q)
            risk.backward()
            return risk.item(), logits.grad.numpy()

        assert risk_and_gradient(best_margins(q, beta))[0] == pytest.approx(least_risk(q, beta), abs=1e-9)
        for wrong in np.argsort(q)[:-1]:
            pooled = pooled_below(q, wrong)
            least = least_risk(pooled, beta)
            assert least > least_risk(q, beta)
            if beta == 1:  # then the excess error is at most k times the excess risk
                assert least - least_risk(q, beta) >= (q.max() - q[wrong]) / k - 1e-12
            tie = best_margins(pooled, beta)
            assert tie[wrong] >= tie.max() - 1e-12
            assert risk_and_gradient(tie)[0] == pytest.approx(least, abs=1e-9)
            # All margins with `wrong` on top are lead @ z, z >= 0, plus a constant that changes no loss.
            lead = -np.delete(np.eye(k), wrong, 1)

            def of_leads(z, lead=lead, of=risk_and_gradient):
                risk, gradient = of(lead @ z)
                return risk, lead.T @ gradient

            found = optimize.minimize(of_leads, np.ones(k - 1), jac=True, bounds=[(0, None)] * (k - 1))
            assert found.fun >= least - 1e-9


@pytest.mark.parametrize("beta", BETAS)
def test_symmetric_noise_costs_no_more_than_the_bound(beta):
    rng, k, eta = np.random.default_rng(0), 3, 0.4
    bounds, worst = symmetric_noise_bounds(k, eta, beta), 0.0
    for _ in range(200):  # a world of 4 atoms, and classifiers that are any of 60 at each
        truth, h = rng.dirichlet(np.full(k, 0.3), 4), simplex(rng, 60, k)
        clean = alpha_losses(h, beta) @ truth.T
        noisy = alpha_losses(h, beta) @ (truth @ symmetric(k, eta).numpy()).T
        best, chosen = clean.argmin(0), noisy.argmin(0)
        atoms = np.arange(4)
        regret = (clean[chosen, atoms] - clean[best, atoms]).mean()
        assert -1e-12 <= regret <= bounds.clean_regret + 1e-12
        assert (noisy[best, atoms] - noisy[chosen, atoms]).mean() <= bounds.noisy_regret + 1e-12
        worst = max(worst, regret)
        assert (clean <= [[clean_risk_bound(r, k, eta, beta) + 1e-12 for r in row] for row in noisy]).all()
    assert beta == 1 or worst > 0
    if beta == 1:
        assert bounds.clean_regret == 0


@pytest.mark.parametrize("beta", BETAS)
def test_asymmetric_noise_costs_no_more_than_the_bound(beta):
    rng, k = np.random.default_rng(0), 4
    for matrix in (pair_flip(k, 0.3).numpy(), 0.6 * np.eye(k) + 0.4 * rng.dirichlet(np.ones(k), k)):
        stays = np.diagonal(matrix)
        if (stays[:, None] - matrix)[~np.eye(k, dtype=bool)].min() <= 0:
            continue
        bounds = asymmetric_noise_bounds(matrix, beta)
        h = np.vstack([simplex(rng, 4000, k), *(np.eye(k) * 0.98 + 0.005,)])
        h /= h.sum(1, keepdims=True)
        noisy = alpha_losses(h, beta) @ matrix.T  # of true class y in column y
        chosen = noisy.argmin(0)
        right = np.eye(k)
        gap = np.diagonal(alpha_losses(right, beta) @ matrix.T) - noisy.min(0)
        assert gap.max() <= bounds.noisy_regret + 1e-12
        assert (1 - h[chosen, np.arange(k)]).max() <= bounds.clean_regret + 1e-12


@pytest.mark.parametrize("beta", [1.4, 2.0])
def test_the_worst_case_distribution_is_in_the_set_and_has_the_risk_v(beta):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.integers(0, 3, 40)
    psi = np.hstack([x, np.ones((40, 1))])
    tau, l1 = np.eye(3)[y].T @ psi / 40, np.full((3, 3), 0.05)
    risk = minimax_risk(psi, (tau, l1), beta=beta, labels=y, tol=1e-8)
    p = risk.worst_case_distribution(psi)
    np.testing.assert_allclose(risk.worst_case_distribution(x), p)
    assert (np.abs(p.T @ psi / 40 - tau) <= l1 + 1e-4).all()
    h = p ** (beta / (beta - 1))
    h /= h.sum(1, keepdims=True)
    assert (p * alpha_losses(h, beta)).sum(1).mean() == pytest.approx(risk.value, abs=1e-5)
    # No other distribution of the set that we can find is worse for h: those of samples of the labels.
    for _ in range(50):
        q = 0.9 * p + 0.1 * np.eye(3)[rng.permutation(y)]
        if (np.abs(q.T @ psi / 40 - tau) <= l1).all():
            assert (q * alpha_losses(h, beta)).sum(1).mean() <= risk.value + 1e-9


@pytest.mark.parametrize("options", [{"lambda_": 0.1}, {}])
@pytest.mark.parametrize("beta", [1.4, np.inf])
def test_the_stochastic_gradient_is_the_derivative(beta, options):
    rng = np.random.default_rng(0)
    psi, y, mu = rng.normal(size=(30, 3)), rng.integers(0, 4, 30), rng.normal(size=(4, 3))
    coef = torch.from_numpy(mu).requires_grad_()
    loss = (
        mgce_loss(torch.from_numpy(psi) @ coef.T, torch.from_numpy(y), beta=beta)
        + options.get("lambda_", 0) * coef.abs().sum()
    )
    loss.backward()
    np.testing.assert_allclose(stochastic_gradient(mu, psi, y, beta=beta, **options), coef.grad.numpy(), atol=1e-9)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: loss_sum_bounds(3, np.inf), "Expected `beta` to be finite"),
        (lambda: mae_bounds(2.0, 1.4), r"Expected `alpha_risk` to be in \[0, 1.4\]"),
        (lambda: optimal_margins([0.5, 0.5], 1.0), "Expected `beta` to be above 1"),
        (lambda: composite_losses([0.5, 0.6], 2.0), "Expected `probs` to be rows"),
        (lambda: symmetric_noise_bounds(2, 0.5, 1.4), "Expected `noise_rate` to be below 1/2"),
        (lambda: asymmetric_noise_bounds([[0.4, 0.6], [0, 1]], 1.4), "diagonal entries that lead their rows"),
        (lambda: asymmetric_noise_bounds([[0.4, 0.4], [0, 1]], 1.4), "rows that sum to one"),
        (lambda: stochastic_gradient([1.0], [[1.0]], [0], beta=2), "Expected `coef` to be of shape"),
    ],
)
def test_errors(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
