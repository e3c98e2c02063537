import math
import warnings

import numpy as np
import pytest
from scipy import stats

from mgce_lab.engine.significance import (
    Summary,
    difference_of_means,
    holm,
    paired_difference,
    tallies,
    welch,
)


def test_welch_is_the_equation():
    a, b = [0.90, 0.93, 0.91, 0.95], [0.84, 0.99, 0.80]
    va, vb = np.var(a, ddof=1) / 4, np.var(b, ddof=1) / 3
    t = (np.mean(a) - np.mean(b)) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / 3 + vb**2 / 2)
    assert welch(a, b) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-10)


def test_welch_without_spread_or_without_seeds():
    assert welch([0.5, 0.5], [0.5, 0.5]) == 1
    assert welch([0.1] * 2, [0.1] * 3) == 1  # though the mean of three is not .1 in floating point
    assert welch([0.5, 0.5], [0.6, 0.6]) == 0
    assert welch([0.5], [0.9, 0.8]) == 1


def test_welch_with_a_sample_without_spread_is_the_test_of_one_sample():
    # As of a network that learns nothing and gives every seed the share of the largest class.
    sample, constant = [0.78, 0.81, 0.80, 0.83, 0.79], 0.760993
    expected = stats.ttest_1samp(sample, constant).pvalue
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert welch(sample, [constant] * 5) == pytest.approx(expected, rel=1e-10)


def test_difference_of_means_is_scipys():
    generator = np.random.default_rng(0)
    for n, m in ((5, 5), (5, 3), (2, 9), (1, 5), (4, 1)):
        a, b = generator.normal(0, 1, n), generator.normal(1, 3, m)
        # One number has no spread of its own: then it is Student's test, whose pooled spread is that of the other one.
        test = stats.ttest_ind(a, b, equal_var=min(n, m) == 1)
        summaries = [Summary(x.mean(), x.std(ddof=1) if len(x) > 1 else math.nan, len(x)) for x in (a, b)]
        found = difference_of_means(*summaries)
        assert found.p == pytest.approx(test.pvalue, rel=1e-9)
        assert (found.low, found.high) == pytest.approx(test.confidence_interval(0.95), rel=1e-9)
        assert found.value == a.mean() - b.mean()


def test_difference_without_spread_or_without_seeds():
    assert difference_of_means(Summary(1, 0, 5), Summary(1, 0, 5))[:2] == (0, 1)
    assert difference_of_means(Summary(1, 0, 5), Summary(2, 0, 5))[:2] == (-1, 0)
    nothing = difference_of_means(Summary(1, math.nan, 1), Summary(2, math.nan, 1))
    assert nothing == (-1, 1, -math.inf, math.inf)


def test_paired_difference_is_scipys():
    generator = np.random.default_rng(0)
    for n in (2, 5, 9):
        a, b = generator.normal(size=(2, n))
        test = stats.ttest_rel(a, b)
        found = paired_difference(a.tolist(), b.tolist())
        assert found.p == pytest.approx(test.pvalue, rel=1e-9)
        assert (found.low, found.high) == pytest.approx(test.confidence_interval(0.95), rel=1e-9)
    assert paired_difference([0.9], [0.8])[1:] == (1, -math.inf, math.inf)
    assert paired_difference([0.5, 0.75], [0.25, 0.5]) == (0.25, 0, 0.25, 0.25)


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


def test_methods_of_one_number_are_compared_with_none_and_blunt_no_test():
    samples = {"a": [0.90, 0.91, 0.92], "b": [0.93, 0.94, 0.95]}  # p = .021: told apart alone, not among three pairs
    single = {f"one seed {i}": [0.1 * i] for i in range(9)}
    found = tallies(samples | single)
    assert {name: found[name] for name in samples} == tallies(samples)
    assert tallies(samples)["b"].wins == 1
    assert all(found[name] == (0, 0, 0) for name in single)
