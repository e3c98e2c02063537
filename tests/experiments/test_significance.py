import math

import numpy as np
import pytest
from scipy import stats

from mgce.experiments.significance import holm, tallies, welch


def test_welch_is_the_equation():
    a, b = [0.90, 0.93, 0.91, 0.95], [0.84, 0.99, 0.80]
    va, vb = np.var(a, ddof=1) / 4, np.var(b, ddof=1) / 3
    t = (np.mean(a) - np.mean(b)) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / 3 + vb**2 / 2)
    assert welch(a, b) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-10)


def test_welch_without_spread_or_without_seeds():
    assert welch([0.5, 0.5], [0.5, 0.5]) == 1
    assert welch([0.5, 0.5], [0.6, 0.6]) == 0
    assert welch([0.5], [0.9, 0.8]) == 1


def test_holm_is_the_step_down_procedure():
    generator = np.random.default_rng(0)
    for _ in range(50):
        p = generator.uniform(0, 0.1, 6).tolist()
        corrected = holm(p)
        for level in (0.01, 0.05, 0.2):
            rejected = set()
            for place, number in enumerate(np.argsort(p)):
                if p[number] > level / (6 - place):
                    break
                rejected.add(int(number))
            assert {i for i in range(6) if corrected[i] <= level} == rejected


def test_methods_that_are_alike_seldom_win():
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        samples = {str(i): generator.normal(size=5).tolist() for i in range(6)}
        wrong += any(tally.wins for tally in tallies(samples).values())
    assert wrong <= 18  # 10 are expected at most: above 18 with probability 0.004


def test_tallies_count_every_pair_once():
    generator = np.random.default_rng(0)
    samples = {str(i): (generator.normal(size=5) * 0.01 + i).tolist() for i in range(4)}
    found = tallies(samples)
    assert [found[str(i)].wins for i in range(4)] == [0, 1, 2, 3]
    assert [found[str(i)].losses for i in range(4)] == [3, 2, 1, 0]
    assert all(sum(tally) == 3 for tally in found.values())
