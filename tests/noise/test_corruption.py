"""Corrupted labels: rates by statistical tests with fixed seeds, exact counts, and where draws come from."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mgce.noise import asymmetric, corrupt, pair_flip, symmetric

CIFAR10 = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
LEVEL = 1e-3  # of the statistical tests; their seeds are fixed, so they do not fail by chance
both = pytest.mark.parametrize("exact", [False, True])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_labels(n, k, seed=100):
    return torch.randint(k, (n,), generator=seeded(seed))


def transitions(labels, noisy, k):
    """Count how many labels of each class (row) became each class (column)."""
    table = np.zeros((k, k), dtype=int)
    for true, seen in zip(labels.tolist(), noisy.tolist(), strict=True):
        table[true, seen] += 1
    return table


@pytest.mark.parametrize(
    "matrix",
    [symmetric(10, 0.4), symmetric(10, 0.9), pair_flip(10, 0.45), asymmetric(CIFAR10, 10, 0.3), symmetric(2, 0.2)],
    ids=["symmetric", "uniform", "pair", "asymmetric", "two classes"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_draws_follow_the_matrix(matrix, seed):
    """Chi-square test in each row over the classes that have any probability."""
    k = len(matrix)
    labels = random_labels(20_000, k)
    table = transitions(labels, corrupt(labels, matrix, seeded(seed)).labels, k)
    for counts, row in zip(table, matrix.numpy(), strict=True):
        possible = row > 0
        assert counts[~possible].sum() == 0
        if possible.sum() > 1:
            assert stats.chisquare(counts[possible], row[possible] * counts.sum()).pvalue > LEVEL


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5, 0.99])
def test_flip_rate_is_binomial(rate):
    labels = random_labels(20_000, 7)
    flips = [int(corrupt(labels, symmetric(7, rate), seeded(seed)).flipped.sum()) for seed in range(20)]
    assert stats.binomtest(sum(flips), 20 * 20_000, rate).pvalue > LEVEL
    variance = np.var(flips, ddof=1) / (20_000 * rate * (1 - rate))  # chi-square with 19 degrees, over 19
    assert stats.chi2.ppf(LEVEL, 19) < 19 * variance < stats.chi2.isf(LEVEL, 19)


def test_flips_of_neighbours_are_independent():
    flipped = corrupt(torch.zeros(20_000).long(), symmetric(3, 0.5), seeded()).flipped.numpy()
    table = stats.contingency.crosstab(flipped[:-1], flipped[1:]).count
    assert stats.chi2_contingency(table).pvalue > LEVEL


@pytest.mark.parametrize(("rate", "flips"), [(0.0, 0), (0.1, 100), (0.37, 370), (0.9, 900), (1.0, 1000)])
def test_exact_counts_where_they_are_whole(rate, flips):
    """1000 labels in each class: as many flips as expected in each, and 1/9 of them to each other class."""
    labels = torch.arange(10).repeat(1000)
    for seed in range(3):
        noisy, flipped = corrupt(labels, symmetric(10, rate), seeded(seed), exact=True)
        table = transitions(labels, noisy, 10)
        assert table.diagonal().tolist() == [1000 - flips] * 10
        off = table[~np.eye(10, dtype=bool)]
        assert off.min() == flips // 9
        assert off.max() == -(-flips // 9)
        assert flipped.sum() == 10 * flips


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(any),
    st.integers(0, 20),
    st.integers(0, 2**32),
)
def test_exact_counts_are_rounded_shares(sizes, twentieths, seed):
    """Total, classes and pairs of classes: each count is the expected one rounded down or up."""
    k, rate = len(sizes), Fraction(twentieths, 20)
    labels = torch.arange(k).repeat_interleave(torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=seeded(seed))]
    noisy, flipped = corrupt(labels, symmetric(k, float(rate)), seeded(seed), exact=True)
    assert abs(int(flipped.sum()) - rate * len(labels)) <= Fraction(1, 2)
    table = transitions(labels, noisy, k)
    for true, size in enumerate(sizes):
        flips = size - int(table[true, true])
        assert math.floor(rate * size) <= flips <= math.ceil(rate * size)
        for seen in set(range(k)) - {true}:
            share = rate * size / (k - 1)
            assert math.floor(share) <= table[true, seen] <= math.ceil(share)


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(0, 60), st.integers(0, 2**32), st.booleans())
def test_any_matrix(k, n, seed, exact):
    """Only classes of positive probability appear, for rows of any kind, float32 too."""
    weights = torch.randint(4, (k, k), generator=seeded(seed)).double()
    weights[:, 0] += weights.sum(1) == 0
    matrix = (weights / weights.sum(1, keepdim=True)).float()
    labels = random_labels(n, k, seed)
    noisy, flipped = corrupt(labels, matrix, seeded(seed), exact=exact)
    assert (matrix[labels, noisy] > 0).all()
    assert torch.equal(flipped, noisy != labels)
    assert noisy.dtype == torch.int64
    assert flipped.dtype == torch.bool


def test_exact_prefers_the_largest_remainders():
    """Of 10 labels, 2.7, 0.8 and 0.5 flips are expected: 4 in all, of which 3 and 1 go to the first two."""
    matrix = torch.eye(4, dtype=torch.float64)
    matrix[0] = torch.tensor([0.6, 0.27, 0.08, 0.05])
    for seed in range(5):
        noisy = corrupt(torch.zeros(10).long(), matrix, seeded(seed), exact=True).labels
        assert noisy.bincount(minlength=4).tolist() == [6, 3, 1, 0]


def test_exact_draws_which_rows_flip():
    """Each of 10 rows flips in half of the runs: binomial test for each."""
    labels = torch.zeros(10).long()
    times = sum(corrupt(labels, symmetric(2, 0.5), seeded(seed), exact=True).flipped.long() for seed in range(400))
    assert times.sum() == 400 * 5
    assert all(stats.binomtest(t, 400, 0.5).pvalue > LEVEL for t in times.tolist())


@pytest.mark.nightly
def test_exact_spreads_flips_where_classes_are_many():
    """Ten flips to 99 equal classes must not all go to the first ten."""
    labels = torch.zeros(50).long()
    times = torch.zeros(100).long()
    for seed in range(400):
        noisy, flipped = corrupt(labels, symmetric(100, 0.2), seeded(seed), exact=True)
        times += noisy[flipped].bincount(minlength=100)
    assert times.sum() == 400 * 10
    assert times[0] == 0
    assert stats.chisquare(times[1:].numpy()).pvalue > LEVEL


@both
def test_rate_zero_and_one(exact):
    labels = random_labels(500, 5)
    unchanged = corrupt(labels, symmetric(5, 0.0), seeded(), exact=exact)
    assert torch.equal(unchanged.labels, labels)
    assert not unchanged.flipped.any()
    assert corrupt(labels, symmetric(5, 1.0), seeded(), exact=exact).flipped.all()
    assert torch.equal(corrupt(labels, pair_flip(5, 1.0), seeded(), exact=exact).labels, (labels + 1) % 5)
    binary = labels % 2
    assert torch.equal(corrupt(binary, symmetric(2, 1.0), seeded(), exact=exact).labels, 1 - binary)


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_extreme_draws_never_give_an_impossible_class(monkeypatch, draw):
    """Rows whose first or last class is impossible, and whose float64 sum is below 1."""
    matrix = torch.tensor([[0.0, 1.0, 0.0, 0.0]] + 3 * [[0.0, 0.7, 0.1, 0.2 - 1e-9]], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda n, **options: torch.full((n,), draw, dtype=torch.float64))
    noisy = corrupt(torch.tensor([0, 1, 2, 3]), matrix, seeded()).labels
    assert noisy.tolist() == ([1, 1, 1, 1] if draw == 0 else [1, 3, 3, 3])


@both
def test_equal_states_give_equal_labels(exact):
    labels, matrix = random_labels(300, 4), symmetric(4, 0.5)
    first, second, other = seeded(1), seeded(2), seeded(3)
    second.set_state(first.get_state())
    one, two = (corrupt(labels, matrix, each, exact=exact) for each in (first, second))
    assert torch.equal(one.labels, two.labels)
    assert torch.equal(one.flipped, two.flipped)
    assert not torch.equal(one.labels, corrupt(labels, matrix, first, exact=exact).labels)  # its state has moved
    assert not torch.equal(one.labels, corrupt(labels, matrix, other, exact=exact).labels)


@both
def test_global_random_states_are_neither_read_nor_changed(exact):
    labels, matrix = random_labels(300, 4), symmetric(4, 0.5)
    results = []
    for seed in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            before = torch.get_rng_state(), random.getstate(), str(np.random.get_state())  # noqa: NPY002
            results.append(corrupt(labels, matrix, seeded(), exact=exact).labels)
            assert torch.equal(torch.get_rng_state(), before[0])
            assert (random.getstate(), str(np.random.get_state())) == before[1:]  # noqa: NPY002
    assert torch.equal(*results)


@both
def test_arguments_are_unchanged(exact):
    labels, matrix = random_labels(300, 4), symmetric(4, 0.5)
    corrupt(labels, matrix, seeded(), exact=exact)
    assert torch.equal(labels, random_labels(300, 4))
    assert torch.equal(matrix, symmetric(4, 0.5))


@both
def test_no_labels(exact):
    noisy, flipped = corrupt(torch.empty(0).long(), symmetric(3, 0.5), seeded(), exact=exact)
    assert noisy.shape == flipped.shape == (0,)


@both
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_labels_get_the_noise_of_the_generator(exact):
    labels, matrix = random_labels(300, 4), symmetric(4, 0.5)
    on_gpu = corrupt(labels.cuda(), matrix.cuda(), seeded(), exact=exact)
    assert on_gpu.labels.is_cuda
    assert torch.equal(on_gpu.labels.cpu(), corrupt(labels, matrix, seeded(), exact=exact).labels)
    assert corrupt(labels, matrix, torch.Generator("cuda"), exact=exact).flipped.any()


HALF = torch.full((2, 2), 0.5)
ZERO = torch.tensor([0])


@pytest.mark.parametrize(
    ("labels", "transition", "error", "sentence"),
    [
        ([0], HALF, TypeError, "Expected `labels` to be a torch.Tensor, but got 'list'"),
        (ZERO.int(), HALF, ValueError, "`labels` to be a tensor of dtype torch.int64, but got torch.int32"),
        (ZERO.double(), HALF, ValueError, "`labels` to be a tensor of integers, but got torch.float64"),
        (ZERO[None], HALF, ValueError, r"`labels` to be a tensor of shape \(N,\), but got \(1, 1\)"),
        (ZERO + 2, HALF, ValueError, r"`labels` to be integers in \[0, 1\], but got 2"),
        (ZERO - 1, HALF, ValueError, r"`labels` to be integers in \[0, 1\], but got -1"),
        (ZERO, [[1.0]], TypeError, "`transition` to be a torch.Tensor, but got 'list'"),
        (ZERO, torch.eye(2).long(), ValueError, "`transition` to be a floating-point tensor, but got torch.int64"),
        (ZERO, HALF[:1], ValueError, r"`transition` to be a square matrix, but got \(1, 2\)"),
        (ZERO, HALF[0], ValueError, r"`transition` to be a tensor of shape \(N, k\)"),
        (ZERO, HALF / 2, ValueError, "`transition` to be a tensor whose rows sum to one, but got 0.5"),
        (ZERO, torch.tensor([[1.5, -0.5], [0, 1]]), ValueError, r"`transition` .* in \[0, 1\].*, but got 1.5"),
        (ZERO, HALF * torch.nan, ValueError, r"`transition` .* in \[0, 1\].*, but got nan"),
    ],
)
def test_bad_tensors(labels, transition, error, sentence):
    with pytest.raises(error, match=sentence):
        corrupt(labels, transition, seeded())


def test_a_seed_is_not_a_generator():
    with pytest.raises(TypeError, match=r"Expected `generator` to be a torch.Generator, but got 0"):
        corrupt(ZERO, HALF, 0)
