"""The truth of the soak against mpmath, which finds the root by bisection in 50 digits."""

import math

import mpmath
import numpy as np
import pytest
import torch

import oracle
from hard_rows import hard_rows
from mgce_lab.soak import truth
from mgce_lab.soak.families import FAMILIES, rows
from mgce_lab.soak.measure import valid_rows

pytestmark = pytest.mark.skipif(truth.EPS > 2e-19, reason="no extended precision on this machine")
EPS = np.finfo(np.float64).eps
BETAS = (1, 1 + 1e-12, 1.02, 1.4, 2, 5, 100, 1e6, 1e9, math.inf)


def exact(number):
    """Return a longdouble as an mpf, whole."""
    high = float(number)
    return mpmath.mpf(high) + mpmath.mpf(float(number - np.longdouble(high)))


def distance_in_eps(t, logits, beta):
    true = oracle.normalizer([mpmath.mpf(v) - max(logits) for v in logits], beta)
    return float(abs(exact(t) - true) / max(1, abs(true))) / EPS


@pytest.mark.nightly
@pytest.mark.parametrize("beta", BETAS)
def test_root_of_hard_rows(beta):
    for k in (1, 2, 17):
        logits = hard_rows(k, beta, torch.float64)
        found = truth.solve(logits.numpy(), beta)
        for t, row in zip(found.t, logits.tolist(), strict=True):
            assert distance_in_eps(t, row, beta) < 1 / 30


@pytest.mark.nightly
@pytest.mark.parametrize("family", FAMILIES)
def test_root_of_every_family(family):
    for beta in (1.0, 1 + 1e-12, 1.5, 11.0, 1e9):
        logits = rows(family, 6, 7, beta, torch.float64, seed=2)[0]
        logits = logits[torch.from_numpy(valid_rows(logits))]
        found = truth.solve(logits.numpy(), beta)
        for t, row in zip(found.t, logits.tolist(), strict=True):
            assert distance_in_eps(t, row, beta) < 1 / 30


@pytest.mark.parametrize("beta", (1.0, 1.4, 2.0, 11.0, 1e6, math.inf))
def test_powers_and_loss(beta):
    logits = torch.randn(4, 9, dtype=torch.float64)
    found = truth.solve(logits.numpy(), beta)
    losses = found.loss(np.full(4, 3))
    for i, row in enumerate(logits.tolist()):
        h, p = oracle.probabilities(row, beta)
        for y in range(9):
            assert abs(exact(found.h[i, y]) - h[y]) < EPS / 100
            assert abs(exact(found.p[i, y]) - p[y]) < EPS / 100
        assert abs(exact(losses[i]) + row[3] + oracle.normalizer(row, beta)) < EPS / 10


def test_long_rows_agree_with_a_sum_by_groups():
    # Equal classes together in the equation, so that mpmath has eight terms for 100,000 classes.
    values, counts = (
        [0.0, -0.5, -1.0, -1.25, -1.399, -1.4, -1.401, -3.0],
        [1, 9, 90, 900, 9000, 30000, 30000, 30000],
    )
    logits = np.repeat(values, counts)[None]
    for beta in (1.0, 1.4, 11.0):
        t = exact(truth.solve(logits, beta).t[0])
        b = mpmath.mpf(beta)

        def excess(t, b=b):
            return mpmath.fsum(n * max(0, 1 + (x + t) / b) ** b for x, n in zip(values, counts, strict=True)) - 1

        width = mpmath.mpf(EPS) / 30 * max(1, -t)
        assert excess(t - width) < 0 < excess(t + width)


def test_a_bad_start_does_not_matter(monkeypatch):
    logits = hard_rows(17, 1.4, torch.float64).numpy()
    expected = truth.solve(logits, 1.4).t
    for start in (-1.0, 0.0, 50.0):
        monkeypatch.setattr(truth, "_descend", lambda x, t, beta, start=start: np.full_like(t, start))
        assert (abs(truth.solve(logits, 1.4).t - expected) < EPS / 10).all()


def test_a_root_that_was_not_found_raises(monkeypatch):
    monkeypatch.setattr(truth, "MOST_STEPS", 1)
    with pytest.raises(ArithmeticError, match="Expected every root to be found, but"):
        truth.solve(hard_rows(17, 1.4, torch.float64).numpy(), 1.4)
