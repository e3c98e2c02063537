import pytest
import torch
from scipy import stats

from mgce.metrics import bootstrap_interval, expected_calibration_error, static_calibration_error

CONFIDENCE = torch.tensor([0.55, 0.75, 0.95], dtype=torch.float64)
ACCURACY = torch.tensor([0.50, 0.60, 0.90], dtype=torch.float64)
TRUE_ECE = float((CONFIDENCE - ACCURACY).abs().mean())


def draw(n, generator):
    """Return rows whose three levels of confidence are equally likely and wrong by known amounts."""
    level = torch.randint(3, (n,), generator=generator)
    right = torch.rand(n, generator=generator, dtype=torch.float64) < ACCURACY[level]
    probs = torch.stack([CONFIDENCE[level], 1 - CONFIDENCE[level]], 1)
    return probs, (~right).long()


@pytest.mark.parametrize("samples", [50, pytest.param(100, marks=pytest.mark.nightly)])
def test_it_holds_the_true_error_about_as_often_as_it_says(samples):
    generator = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(samples):
        interval = bootstrap_interval(
            expected_calibration_error, *draw(300, generator), generator, delta=0.1, n_resamples=100
        )
        held += bool(interval.lower <= TRUE_ECE <= interval.upper)
    # Binomial with 0.9: of 100, 82 and 97 are beyond 2.5 deviations, what approximation allows beside chance.
    assert stats.binom.ppf(0.007, samples, 0.9) <= held <= stats.binom.ppf(0.993, samples, 0.9)


def test_the_interval_shrinks_and_takes_back_the_bias():
    generator = torch.Generator().manual_seed(0)
    few = bootstrap_interval(expected_calibration_error, *draw(100, generator), generator, n_resamples=200)
    many = bootstrap_interval(expected_calibration_error, *draw(10000, generator), generator, n_resamples=200)
    assert many.upper - many.lower < (few.upper - few.lower) / 3
    # A calibrated classifier of few rows: its error is all bias, and the interval goes down to nearly none.
    probs = torch.full((60, 2), 0.5, dtype=torch.float64)
    probs[:, 0] += torch.linspace(0, 0.5, 60)
    probs[:, 1] = 1 - probs[:, 0]
    target = (torch.rand(60, generator=generator) >= probs[:, 0]).long()
    interval = bootstrap_interval(expected_calibration_error, probs, target, generator, n_resamples=200)
    assert interval.lower < interval.value / 2


def test_any_metric_and_the_generator_alone():
    probs, target = draw(200, torch.Generator().manual_seed(1))
    state = torch.get_rng_state()
    intervals = [
        bootstrap_interval(static_calibration_error, probs, target, torch.Generator().manual_seed(s), n_resamples=50)
        for s in (0, 0, 1)
    ]
    assert intervals[0] == intervals[1] != intervals[2]
    assert intervals[0].value == static_calibration_error(probs, target)
    assert (torch.get_rng_state() == state).all()


def test_bad_input():
    probs, target = draw(10, torch.Generator())
    with pytest.raises(TypeError, match="generator"):
        bootstrap_interval(expected_calibration_error, probs, target, 0)
    with pytest.raises(ValueError, match="delta"):
        bootstrap_interval(expected_calibration_error, probs, target, torch.Generator(), delta=1.0)
    for n, few in ((10, 3), (0, 0)):
        with pytest.raises(ValueError, match=f"as long as `probs`, {n}, and not empty, but got {few}"):
            bootstrap_interval(expected_calibration_error, probs[:n], target[:few], torch.Generator())
