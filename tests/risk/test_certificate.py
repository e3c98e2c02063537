"""Certificates: their parts against the inequalities they are made of, their words, their noise correction."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgce._rounding import percent_up
from mgce.noise import symmetric
from mgce.risk import argmax_factor, betting_upper, certify, clopper_pearson_upper
from mgce.risk.betting import n_orders, shuffled
from mgce.risk.certificate import SHUFFLED
from mgce.risk.label_noise import clean_error
from mgce.risk.sample import Sample

N, K = 400, 4


@pytest.fixture
def outputs():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(K, 0.5), N)
    return np.array([rng.choice(K, p=p) for p in probs]), probs


def bound_of(values, target, probs, delta):
    return betting_upper(shuffled(values, Sample(target, probs).content), delta)


def test_a_conditional_certificate_says_how_much_a_smaller_rate_moves_its_bound():
    guess = np.arange(400) % 2
    target = np.where(np.arange(400) % 4 < 1, 1 - guess, guess)
    probs = np.where(np.eye(2)[guess] > 0, 0.8, 0.2)
    stated, smaller = (certify(target, probs, bounds=["argmax"], noise_rate=rate) for rate in (0.2, 0.19))
    moved = smaller.assumed.argmax_error - stated.assumed.argmax_error
    assert stated.per_point == pytest.approx(moved) and moved > 0
    assert f"is {percent_up(moved)[:-1]} points larger" in str(stated)
    assert certify(target, probs, transition=np.eye(2)).per_point is None


@pytest.mark.parametrize("beta", [None, 1.0, 1.4, 5.0])
def test_parts(outputs, beta):
    target, probs = outputs
    c = certify(target, probs, delta=0.1, beta=beta)
    share = 0.1 / (2 if beta is None else 3)
    own = probs[np.arange(N), target]
    assert c.argmax_error == clopper_pearson_upper(int((probs.argmax(1) != target).sum()), N, share)
    assert c.randomized_error == pytest.approx(bound_of(1 - own, target, probs, share), abs=1e-12)
    if beta is not None:
        expected = beta * bound_of(1 - own ** (1 / beta), target, probs, share)
        assert c.alpha_risk == pytest.approx(expected, abs=1e-9)
    assert (c.delta, c.n, c.n_classes, c.noise_rate, c.beta) == (0.1, N, K, 0.0, beta)


def test_ties_go_to_the_lowest_class():
    probs = np.full((50, 2), 0.5)
    assert certify(np.zeros(50), probs).argmax_error < 0.1
    assert certify(np.ones(50), probs).argmax_error == 1.0


def test_tensors_and_float32(outputs):
    target, probs = outputs
    exact = certify(target, probs, beta=1.4)
    rounded = certify(torch.tensor(target), torch.tensor(probs, dtype=torch.float32), beta=1.4)
    assert rounded.randomized_error == pytest.approx(exact.randomized_error, abs=1e-6)
    assert rounded.alpha_risk == pytest.approx(exact.alpha_risk, abs=1e-6)


def test_sorting_the_sample_does_no_harm(outputs):
    target, probs = outputs
    order = np.argsort(probs[np.arange(N), target])
    fair, ordered = certify(target, probs), certify(target[order], probs[order])
    assert ordered.randomized_error == pytest.approx(fair.randomized_error, abs=0.03)


def test_rounding_does_no_harm_where_all_examples_have_the_same_probabilities():
    """Of such a sample few are possible, so that several random orders judge it, however its last digits differ."""
    rng = np.random.default_rng(0)
    target, probs = rng.integers(0, 2, 200), np.tile([0.7, 0.3], (200, 1))
    bound = certify(target, probs, bounds=["randomized"]).randomized_error
    for eps in (2.0**-52, 2.0**-23):
        other = probs * (1 + eps * rng.integers(-2, 3, (200, 1)) * [1, -7 / 3])  # whose rows sum to one
        sample = Sample(target, other)
        assert sample.content == Sample(target, probs).content
        assert n_orders(sample.kinds, 0.05) == n_orders(Sample(target, probs).kinds, 0.05) > 1
        assert certify(target, other, bounds=["randomized"]).randomized_error == pytest.approx(bound, rel=1e-5)


def test_it_prints_itself_with_its_assumptions(outputs):
    c = certify(*outputs, beta=1.4, noise_rate=0.2)
    text = str(c)
    assert text.startswith(
        "If labels are wrong as stated, whatever the example, then with confidence 0.95 over n = 400 examples: the "
        "most probable class is wrong in at most"
    )
    argmax, randomized = (
        f"at most {math.ceil(1e3 * bound) / 10:.1f}%" for bound in (c.assumed.argmax_error, c.assumed.randomized_error)
    )
    alpha = f"{math.ceil(1e4 * c.assumed.alpha_risk) / 1e4:.4f}"
    for part in (argmax, randomized, f"beta = 1.4 is at most {alpha}"):
        assert part in text
    *assumed, fact = c.assumptions
    assert all(assumption in text for assumption in assumed)
    assert fact == SHUFFLED and SHUFFLED not in text  # in JSON and reports alone
    assert "probability 0.2, or more" in text
    assert "not used to train" in text
    assert "alpha-risk" not in str(certify(*outputs))


def test_a_bound_is_on_errors_only_where_wrong_labels_are_stated(outputs):
    plain = certify(*outputs)
    assert plain.against_given and "the most probable class disagrees with the given label in at" in str(plain)
    one = str(certify(*outputs, bounds=["randomized"]))
    drawn = "a class that is drawn at random by the predicted probabilities disagrees with the given label"
    assert f"{drawn} in at most" in one and one.count("%") == 1
    for stated in ({"noise_rate": 0.2}, {"noise_rate": 0.1, "noise_type": "any"}, {"transition": symmetric(K, 0.1)}):
        certificate = certify(*outputs, **stated)
        assert not certificate.against_given and "disagrees" not in str(certificate)
    right = np.arange(N) % K
    refuted = certify(right, np.eye(K)[right], noise_rate=0.2)
    assert refuted.against_given and "class disagrees with the given label in at most" in str(refuted)


def test_json(outputs):
    c = certify(*outputs, beta=2)
    read = json.loads(c.to_json())
    assert read == c.to_dict()
    assert read["alpha_risk"] == c.alpha_risk
    assert read["assumptions"] == list(c.assumptions)


@given(error=st.floats(0, 1), rate=st.floats(0, 0.7), lower=st.floats(0, 1))
@settings(max_examples=200)
def test_clean_error_inverts_the_noise_and_is_monotone_in_the_rate(error, rate, lower):
    # error -> noisy error -> error; with a lower bound of the rate, never less.
    noisy = error * (1 - rate / (K - 1)) + (1 - error) * rate
    assert clean_error(noisy, rate, K) >= error - 1e-9
    assert clean_error(noisy, rate * lower, K) >= error - 1e-9
    if rate > 0 and noisy < (K - 1) / K - 1e-9:
        assert clean_error(noisy, rate, K) == pytest.approx(error, abs=1e-9)


@pytest.mark.parametrize("beta", [1.0, 1.4, 5.0])
def test_alpha_risk_under_noise_is_unbiased_and_in_its_range(beta, monkeypatch):
    # Replace the inequality by the mean: what is left is the correction.
    seen = {}

    def mean(sample, delta, *, limits=(0.0, 1.0)):
        seen.setdefault(limits, (sample.min(), sample.max()))
        return float(sample.mean())

    monkeypatch.setattr("mgce.risk.sample.betting_upper", mean)
    transition = symmetric(K, 0.3)
    rng, eta = np.random.default_rng(1), 0.3
    base = np.vstack([rng.dirichlet(np.full(K, 0.3), 20), np.eye(K), [[0, 1 / 3, 1 / 3, 1 / 3]]])
    clean = rng.integers(0, K, len(base))
    # Every label that noise can give, as often as it does: 7 of 10 stay, 1 of 10 goes to each other.
    target = np.concatenate([np.concatenate([np.full(7, y), np.delete(np.arange(K), y)]) for y in clean])
    probs = np.repeat(base, 10, 0)
    risk = (beta * (1 - base[np.arange(len(base)), clean] ** (1 / beta))).mean()
    assert certify(target, probs, transition=transition, beta=beta).assumed.alpha_risk == pytest.approx(risk, abs=1e-9)
    (low, high), (least, most) = list(seen.items())[-1]
    assert low <= least
    assert most <= high
    scale = K - 1 - eta * K
    assert low == pytest.approx(-eta * beta * (K - 1) / scale)
    # A row whose label has probability 0 and whose other classes are alike attains the upper end.
    certify(np.zeros(2), np.tile([0, 1 / 3, 1 / 3, 1 / 3], (2, 1)), transition=transition, beta=beta)
    others = beta * (1 - 3 ** (-1 / beta))
    assert high == pytest.approx(((K - 1) * beta - eta * (beta + 3 * others)) / scale)


def test_noise_lowers_the_bound_on_the_clean_error(outputs):
    target, probs = outputs
    plain, corrected = certify(target, probs), certify(target, probs, noise_rate=0.2)
    assert corrected.assumed.argmax_error < plain.assumed.argmax_error
    assert certify(target, probs, noise_rate=0.0) == plain


def test_a_bound_above_chance_stays_trivial_under_noise():
    probs = np.tile([1.0, 0.0], (30, 1))
    assert certify(np.ones(30), probs, noise_rate=0.1).assumed.argmax_error == 1.0


@pytest.mark.parametrize("beta", [1, 1.05, 1.4, 2, 5, math.inf])
def test_argmax_factor(beta):
    golden = {1: 2, 1.05: 1.971, 1.4: 1.829, 2: 1.707, 5: 1.545, math.inf: 1.4427}
    assert argmax_factor(beta) == pytest.approx(golden[beta], abs=5e-4)
    # The loss at h = (1/2, 1/2), the least at which the most probable class can be wrong, times C is 1.
    loss = math.log(2) if math.isinf(beta) else beta * (1 - 0.5 ** (1 / beta))
    assert argmax_factor(beta) * loss == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        (dict(noise_rate=0.5), ValueError, r"Expected `noise_rate` to be in \[0, 1/2\).*but got 0.5."),
        (dict(noise_rate=-0.1), ValueError, "Expected `noise_rate`"),
        (dict(delta=1.5), ValueError, r"Expected `delta` to be in \(0, 1\), but got 1.5."),
        (dict(beta=0.9), ValueError, r"Expected `beta` to be a float in \[1, inf\]"),
        (dict(beta=math.inf), ValueError, "Expected `beta` to be finite, since the log-loss has no upper bound"),
        (dict(beta="1"), TypeError, "Expected `beta`"),
        (dict(probs=[[0.5, 0.6], [1, 0]]), ValueError, "Expected `probs` to be rows that are not negative and sum to"),
        (dict(probs=[[1.5, -0.5], [1, 0]]), ValueError, "a least entry of -0.5"),
        (dict(probs=[0.5, 0.5]), ValueError, r"Expected `probs` to be of shape \(n, k\)"),
        (dict(probs=[[1.0], [1.0]]), ValueError, "k >= 2"),
        (dict(target=[], probs=np.empty((0, 2))), ValueError, r"n >= 1 and k >= 2, but got \(0, 2\)"),
        (dict(target=[0, 2]), ValueError, "Expected `target` to be integers from 0 to 1"),
        (dict(target=[0]), ValueError, r"Expected `target` to be of shape \(2,\)"),
    ],
)
def test_errors(options, error, sentence):
    options = {"target": [0, 1], "probs": [[0.5, 0.5], [0.2, 0.8]], **options}
    with pytest.raises(error, match=sentence):
        certify(options.pop("target"), options.pop("probs"), **options)
