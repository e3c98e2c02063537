"""The transition matrices: written out, and as properties."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgce import MGCELoss, TrimmedLoss
from mgce.noise import asymmetric, corrupt, inverse_noise_matrix, pair_flip, symmetric

sizes = st.integers(2, 30)
rates = st.floats(0, 1)
CIFAR10 = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}


@st.composite
def matrices(draw):
    """A matrix of any kind, with its rate."""
    k, rate = draw(sizes), draw(rates)
    mapping = draw(st.dictionaries(st.integers(0, k - 1), st.integers(1, k - 1)))
    mapping = {true: (true + step) % k for true, step in mapping.items()}
    return draw(st.sampled_from([symmetric(k, rate), pair_flip(k, rate), asymmetric(mapping, k, rate)])), rate


@settings(deadline=None)
@given(matrices())
def test_row_stochastic_with_the_rate_off_the_diagonal(drawn):
    matrix, rate = drawn
    assert matrix.dtype == torch.float64
    assert matrix.shape == (len(matrix), len(matrix))
    assert ((matrix >= 0) & (matrix <= 1)).all()
    torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix)).double(), rtol=0, atol=1e-14)
    assert set(matrix.diagonal().tolist()) <= {1.0, 1 - rate}


@settings(deadline=None)
@given(sizes, rates)
def test_symmetric_is_a_mixture_with_uniform_over_all_classes(k, rate):
    """Noise that is uniform over all k classes with rate s is symmetric with rate s (k - 1)/k."""
    mixture = (1 - rate) * torch.eye(k, dtype=torch.float64) + rate / k
    torch.testing.assert_close(symmetric(k, rate * (k - 1) / k), mixture, rtol=0, atol=1e-15)


@settings(deadline=None)
@given(sizes, rates)
def test_pair_flip_is_asymmetric_along_the_cycle(k, rate):
    cycle = {y: (y + 1) % k for y in range(k)}
    assert torch.equal(pair_flip(k, rate), asymmetric(cycle, k, rate))


def test_asymmetric_of_cifar10():
    matrix = asymmetric(CIFAR10, 10, 0.4)
    for true in range(10):
        for seen in range(10):
            row = {true: 0.6, CIFAR10[true]: 0.4} if true in CIFAR10 else {true: 1.0}
            assert matrix[true, seen] == row.get(seen, 0.0)


@pytest.mark.parametrize("build", [symmetric, pair_flip, lambda k, rate: asymmetric({0: 1, 1: 0}, k, rate)])
def test_two_classes(build):
    assert build(2, 0.25).tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert build(2, 0).tolist() == [[1, 0], [0, 1]]
    assert build(2, 1).tolist() == [[0, 1], [1, 0]]


def test_empty_mapping_is_no_noise():
    assert torch.equal(asymmetric({}, 3, 0.5), torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("build", [symmetric, pair_flip, lambda k, rate: asymmetric({0: 1}, k, rate)])
@pytest.mark.parametrize(
    ("n_classes", "rate", "error", "sentence"),
    [
        (1, 0.1, ValueError, "Expected `n_classes` to be an integer of at least 2, but got 1"),
        (3.0, 0.1, TypeError, "Expected `n_classes` to be an integer of at least 2, but got 3.0"),
        (3, -0.1, ValueError, r"Expected `noise_rate` to be a float in \[0, 1\], but got -0.1"),
        (3, 1.5, ValueError, r"Expected `noise_rate` to be a float in \[0, 1\], but got 1.5"),
        (3, float("nan"), ValueError, r"Expected `noise_rate` to be a float in \[0, 1\], but got nan"),
        (3, "0.1", TypeError, r"Expected `noise_rate` to be a float in \[0, 1\], but got '0.1'"),
        (3, True, TypeError, r"Expected `noise_rate` to be a float in \[0, 1\], but got True"),
    ],
)
def test_bad_arguments(build, n_classes, rate, error, sentence):
    with pytest.raises(error, match=sentence):
        build(n_classes, rate)


@pytest.mark.parametrize(
    ("mapping", "error", "sentence"),
    [
        ([(0, 1)], TypeError, r"`mapping` to be a mapping of classes to other classes, but got \[\(0, 1\)\]"),
        ({0: 3}, ValueError, r"`mapping` to be a mapping between integers in \[0, 2\], but got \{0: 3\}"),
        ({-1: 0}, ValueError, r"integers in \[0, 2\], but got \{-1: 0\}"),
        ({"cat": "dog"}, TypeError, r"integers in \[0, 2\], but got \{'cat': 'dog'\}"),
        ({1: 1}, ValueError, r"a mapping of classes to other classes, but got \{1: 1\}"),
    ],
)
def test_bad_mappings(mapping, error, sentence):
    with pytest.raises(error, match=sentence):
        asymmetric(mapping, 3, 0.5)


@pytest.mark.parametrize("noise", [symmetric(4, 0.4), pair_flip(4, 0.7), asymmetric({3: 1}, 4, 0.3)])
def test_inverse_noise_matrix_counts_what_true_labels_are_seen_as(noise):
    """With exact numbers of flips, the matrix is the table of the labels' counts, normalised."""
    frequencies = torch.tensor([1000, 3000, 0, 6000])
    labels = torch.arange(4).repeat_interleave(frequencies)
    seen = corrupt(labels, noise, torch.Generator().manual_seed(0), exact=True).labels
    counts = torch.zeros(4, 4, dtype=torch.double).index_put_((labels, seen), torch.ones(()).double(), True)
    matrix = inverse_noise_matrix(noise, frequencies)
    shown = counts.sum(0) > 0
    torch.testing.assert_close(matrix[:, shown], (counts / counts.sum(0))[:, shown], rtol=0, atol=1e-3)
    torch.testing.assert_close(matrix[:, ~shown], torch.eye(4).double()[:, ~shown])
    torch.testing.assert_close(matrix, inverse_noise_matrix(noise, frequencies / 7e5))


def test_true_frequencies_from_those_of_the_labels():
    noise, frequencies = symmetric(3, 0.4), torch.tensor([0.1, 0.3, 0.6]).double()
    found = torch.linalg.solve(noise.T, noise.T @ frequencies)
    torch.testing.assert_close(inverse_noise_matrix(noise, found), inverse_noise_matrix(noise, frequencies))


def test_the_recipe_for_counts_runs_to_its_end():
    """Of a rare class the estimate may be 0; the shares can be given to the loss all the same."""
    noise = symmetric(10, 0.4)
    labels = torch.arange(10).repeat_interleave(torch.tensor([1000] * 9 + [5]))
    shares = []
    for seed in range(8):
        counts = corrupt(labels, noise, torch.Generator().manual_seed(seed)).labels.bincount()
        matrix = inverse_noise_matrix(noise, torch.linalg.solve(noise.T, counts.double()).clamp(min=0))
        trim = (1 - matrix.diagonal()).clamp(max=0.99)
        TrimmedLoss(MGCELoss(reduction="none"), trim, 10)(torch.zeros(3, 10), torch.tensor([0, 5, 9]))
        shares.append(trim[-1].item())
    assert 0.99 in shares and min(shares) < 0.99


def test_an_entry_below_0_by_rounding_is_0():
    noise = torch.tensor([[1.0002, -0.0002], [0.2, 0.8]])
    matrix = inverse_noise_matrix(noise, torch.ones(2))
    assert matrix.min() == 0 and matrix.max() == 1


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (([[1.0]], torch.ones(1)), TypeError, "transition"),
        ((torch.ones(2, 3) / 3, torch.ones(3)), ValueError, "Expected `transition` to be a square matrix"),
        ((symmetric(3, 0.4), [1, 1, 1]), TypeError, "Expected `frequencies` to be a tensor"),
        ((symmetric(3, 0.4), torch.ones(2)), ValueError, r"Expected `frequencies` to be a tensor of shape \(3,\)"),
        ((symmetric(2, 0.4), torch.zeros(2)), ValueError, "Expected `frequencies` to be not negative and not"),
        ((symmetric(2, 0.4), torch.tensor([1.0, -1.0])), ValueError, "frequencies"),
        ((symmetric(2, 0.4), torch.tensor([1.0, torch.nan])), ValueError, "frequencies"),
        ((symmetric(2, 0.4), torch.ones(2, dtype=torch.complex64)), ValueError, "Expected `frequencies` to be real"),
    ],
)
def test_inverse_noise_matrix_says_what_it_expects(arguments, error, message):
    with pytest.raises(error, match=message):
        inverse_noise_matrix(*arguments)
