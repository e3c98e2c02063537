"""Monte Carlo: every certificate is wrong in at most a share delta of the repetitions.

The truth is exact, by enumeration or in closed form. A miss rate is compared with delta by a binomial
tail of 1e-3, so that a valid bound fails one such test in a thousand, and each run is seeded.
"""

import inspect

import numpy as np
import pytest
from scipy import stats

from grids import grid
from mgce import risk
from mgce._arrays import with_intercept
from mgce.linear.objective import phi_and_p
from mgce.risk import (
    UncertaintySet,
    betting_upper,
    certify,
    clopper_pearson_upper,
    linear_risk_bound,
    minimax_risk,
)
from mgce.risk.betting import _betting_upper_rows, shuffled

pytestmark = pytest.mark.slow
SIZES = [200, 2000]
DELTA = 0.1
# Every public bound on the mean of a sample; that by betting is computed for many samples at once.
UPPER = [getattr(risk, name) for name in risk.__all__ if name.endswith("_upper") and name != "betting_upper"]
UPPER = [bound for bound in UPPER if "sample" in inspect.signature(bound).parameters]


def assert_valid(misses, repetitions, delta=DELTA):
    assert misses <= stats.binom.ppf(0.999, repetitions, delta), f"{misses} of {repetitions}"


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.4])
def test_clopper_pearson(n, rate):
    errors, count = np.unique(np.random.default_rng(0).binomial(n, rate, 4000), return_counts=True)
    misses = sum(c for e, c in zip(errors, count, strict=True) if clopper_pearson_upper(int(e), n, DELTA) < rate)
    assert_valid(misses, 4000)
    assert misses > 100  # and is not idle


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("a", "b"), [(1, 9), (0.2, 0.8), (5, 5), (0.05, 1)])
def test_betting_and_the_others_on_beta_laws(n, a, b):
    rng, truth, repetitions = np.random.default_rng(1), a / (a + b), 600
    z = rng.beta(a, b, (repetitions, n))
    upper = _betting_upper_rows(z, DELTA, 30)
    assert upper[0] == pytest.approx(betting_upper(z[0], DELTA), abs=1e-8)
    assert_valid((upper < truth).sum(), repetitions)
    for bound in UPPER:
        assert_valid(sum(bound(row, DELTA) < truth for row in z), repetitions)


@pytest.mark.parametrize("n", SIZES)
def test_betting_on_sorted_samples(n):
    rng, repetitions = np.random.default_rng(2), 600
    samples = np.sort(rng.beta(0.2, 0.8, (repetitions, n)))  # as a file sorted by the classifier's doubt has them
    upper = _betting_upper_rows(np.stack([shuffled(z) for z in samples]), DELTA, 30)
    assert_valid((upper < 0.2).sum(), repetitions)
    assert (_betting_upper_rows(samples, DELTA, 30) < 0.2).mean() > 0.3  # sorted as they are, they deceive the gambler


@grid("n, delta", [20, 200], [0.05, 0.2], keep=lambda n, delta: (n == 200) == (delta == 0.2))
def test_samples_of_which_few_are_possible(n, delta):
    """A classifier that gives all examples one h has a sample for each number of errors: misses are enumerated."""
    most = n // 2
    targets = [np.arange(n) < errors for errors in range(most + 1)]
    h = np.tile([0.9, 0.1], (n, 1))
    upper = [certify(target.astype(int), h, delta=delta, bounds=["randomized"]).randomized_error for target in targets]
    shares = np.linspace(0.005, 0.4, 80)
    missed = np.array(upper)[:, None] < 0.1 * (1 - shares) + 0.9 * shares
    probability = stats.binom.pmf(np.arange(most + 1)[:, None], n, shares)
    assert (missed * probability).sum(0).max() <= delta
    assert (missed * probability).sum(0).max() > delta / 10  # and is not idle


K = 4
BETA = 1.4


def population(rng, size=40):
    """Return a finite world: atoms with a marginal, true class probabilities, and a classifier."""
    marginal = rng.dirichlet(np.ones(size))
    truth = rng.dirichlet(np.full(K, 0.3), size)
    classifier = 0.7 * truth + 0.3 * rng.dirichlet(np.ones(K), size)
    return marginal, truth, classifier


def draw(rng, marginal, truth, n):
    atoms = rng.choice(marginal.size, n, p=marginal)
    labels = (truth[atoms].cumsum(1) < rng.random((n, 1))).sum(1)
    return atoms, labels


def true_risks(marginal, truth, h):
    argmax = (marginal * (1 - truth[np.arange(len(h)), h.argmax(1)])).sum()
    randomized = (marginal[:, None] * truth * (1 - h)).sum()
    alpha = (marginal[:, None] * truth * BETA * (1 - h ** (1 / BETA))).sum()
    return argmax, randomized, alpha


@grid(
    "n, rates",
    SIZES,
    [(0.0, 0.0), (0.3, 0.3), (0.3, 0.2)],
    keep=lambda *one: one in ((200, (0.0, 0.0)), (2000, (0.3, 0.3))),
)
def test_certify(n, rates):
    rate, stated = rates
    rng, repetitions = np.random.default_rng(2), 250
    marginal, truth, h = population(rng)
    risks, misses, any_miss = np.array(true_risks(marginal, truth, h)), np.zeros(3), 0
    for _ in range(repetitions):
        atoms, labels = draw(rng, marginal, truth, n)
        flipped = (labels + rng.integers(1, K, n)) % K
        labels = np.where(rng.random(n) < rate, flipped, labels)
        c = certify(labels, h[atoms], delta=DELTA, noise_rate=stated, beta=BETA)
        missed = np.array([c.assumed.argmax_error, c.assumed.randomized_error, c.assumed.alpha_risk]) < risks
        misses += missed
        any_miss += missed.any()
    assert_valid(any_miss, repetitions)
    for miss in misses:
        assert_valid(miss, repetitions, DELTA / 3)
    if n == 2000 and rate == stated:
        bounds = np.array([c.assumed.argmax_error, c.assumed.randomized_error, c.assumed.alpha_risk])
        assert (bounds < risks + 0.15).all()  # and says something


def linear_world(rng, size=30):
    """Return a world whose atoms have two bounded features."""
    marginal, truth, _ = population(rng, size)
    return marginal, truth, rng.uniform(-1, 1, (size, 2))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bound", ["hoeffding", "bernstein", "betting"])
@pytest.mark.nightly
def test_uncertainty_sets_hold_the_true_moments(n, bound):
    rng, repetitions, misses = np.random.default_rng(3), 300, 0
    marginal, truth, psi = linear_world(rng)
    moments = (marginal[:, None] * truth).T @ with_intercept(psi)
    for _ in range(repetitions):
        atoms, labels = draw(rng, marginal, truth, n)
        u = UncertaintySet.from_samples(
            psi[atoms], labels, n_classes=K, feature_range=(-1, 1), delta=DELTA, bound=bound
        )
        misses += (np.abs(moments - u.tau) > u.lambda_).any()
    assert_valid(misses, repetitions)


def test_the_heuristic_set_misses_almost_always():
    rng = np.random.default_rng(4)
    marginal, truth, psi = linear_world(rng)
    moments = (marginal[:, None] * truth).T @ with_intercept(psi)
    held = 0
    for _ in range(50):
        atoms, labels = draw(rng, marginal, truth, 2000)
        u = UncertaintySet.heuristic(psi[atoms], labels, n_classes=K)
        held += (np.abs(moments - u.tau) <= u.lambda_).all()
    assert held == 0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.nightly
def test_linear_bound(n):
    rng, repetitions, misses = np.random.default_rng(5), 120, np.zeros(3)
    marginal, truth, psi = linear_world(rng)
    for _ in range(repetitions):
        atoms, labels = draw(rng, marginal, truth, n)
        u = UncertaintySet.from_samples(psi[atoms], labels, n_classes=K, feature_range=(-1, 1), delta=DELTA / 2)
        # mu of a much smaller set than the certified one, so that the bound has something to prove.
        small = (u.tau, 0.3 * u.lambda_)
        mu = minimax_risk(with_intercept(psi[atoms]), small, beta=BETA, labels=labels, tol=1e-3).coef
        fresh = psi[rng.choice(marginal.size, n, p=marginal)]
        c = linear_risk_bound(mu, u, fresh, beta=BETA, delta=DELTA / 2)
        margins = with_intercept(psi) @ mu.T
        h = np.maximum((margins + phi_and_p(margins, BETA)[0][:, None]) / BETA + 1, 0) ** BETA
        risks = true_risks(marginal, truth, h / h.sum(1, keepdims=True))
        misses += np.array([c.assumed.argmax_error, c.assumed.randomized_error, c.assumed.alpha_risk]) < risks
    for miss in misses:
        assert_valid(miss, repetitions)
