"""Probabilities and logits in any floating type, over every public function that takes them."""

import inspect

import numpy as np
import pytest
import torch

from mgce import functional, metrics, risk, sets
from mgce._validation import sum_tolerance
from mgce_lab.losses import clip_logits

N, K = 60, 4
LOGITS = 2 * torch.randn(N, K, generator=torch.Generator().manual_seed(0))
TARGET = torch.arange(N) % K
SETS = sets.calibrate(TARGET, LOGITS.double().softmax(1))
EYE = torch.eye(K)
HALF = [torch.float16, torch.bfloat16]


def bootstrap(p):
    generator = torch.Generator().manual_seed(0)
    return metrics.bootstrap_interval(metrics.expected_calibration_error, p, TARGET, generator, n_resamples=3)


def streamed(name):
    pytest.importorskip("torchmetrics")
    classes = {"num_classes": K} if name == "StaticCalibrationError" else {}
    return getattr(metrics, name)(**classes)


FUNCTIONS = [name for name in metrics.__all__ if name.endswith("_error") or name == "reliability_curve"]
CLASSES = [name for name in metrics.__all__ if name.endswith("Error")]
OF_ARRAYS = {
    "certify": lambda p: risk.certify(TARGET, p, noise_rate=0.1, beta=2.0),
    "certify_each": lambda p: risk.certify_each(TARGET, p, by="label"),
    "rows_to_check": lambda p: risk.rows_to_check(TARGET, p, 0.2),
    "share_looks": lambda p: risk.share_looks(TARGET, p).rows,
    "estimate_transition": lambda p: risk.estimate_transition(TARGET, p).matrix,
    "optimal_margins": lambda p: risk.optimal_margins(p, 2.0),
    "composite_losses": lambda p: risk.composite_losses(p, 2.0),
    "calibrate": lambda p: sets.calibrate(TARGET, p, score="adaptive"),
    "conformal_scores": lambda p: sets.conformal_scores(p, "adaptive"),
    "ConformalSets": SETS.predict,
}
OF_TENSORS = {
    "bootstrap_interval": bootstrap,
    **{name: lambda p, name=name: getattr(metrics, name)(p, TARGET) for name in FUNCTIONS},
    **{name: lambda p, name=name: streamed(name)(p, TARGET) for name in CLASSES},
}
# These give the type that they get, hence digits of it.
ROUNDED = {
    "alpha_loss": lambda p: functional.alpha_loss(p, TARGET, beta=2.0),
    "minimax_to_worst_case": lambda p: functional.minimax_to_worst_case(p, beta=2.0),
    "worst_case_to_minimax": lambda p: functional.worst_case_to_minimax(p, beta=2.0),
}
OF_LOGITS = {
    "minimax_probs": lambda f: functional.minimax_probs(f, beta=2.0),
    "worst_case_probs": lambda f: functional.worst_case_probs(f, beta=2.0),
    "normalizer": lambda f: functional.normalizer(f, beta=2.0),
    "normalized_logits": lambda f: functional.normalized_logits(f, beta=2.0),
    "clip_logits": lambda f: clip_logits(f, inverse_norm=1.0),
    "forward_corrected_logits": lambda f: functional.forward_corrected_logits(f, 0.9 * EYE + 0.025, beta=2.0),
}


def taken_by(value):
    """Return the names of the arguments of a function, or of those of a class's methods that take rows."""
    methods = [getattr(value, name, None) for name in ("update", "predict")] if inspect.isclass(value) else [value]
    return {name for method in methods if callable(method) for name in inspect.signature(method).parameters}


def test_every_public_function_of_probabilities_or_logits_is_in_a_table():
    public = {name: getattr(room, name) for room in (functional, metrics, risk, sets) for name in room.__all__}
    public["clip_logits"] = clip_logits
    found = {name for name, value in public.items() if taken_by(value) & {"probs", "h", "p", "logits"}}
    assert found == {*OF_ARRAYS, *OF_TENSORS, *ROUNDED, *OF_LOGITS}


def plain(value):
    """Return a result as one list of numbers."""
    if isinstance(value, dict):
        return [number for one in value.values() for number in plain(one)]
    if isinstance(value, tuple):
        return [number for one in value for number in plain(one)]
    if hasattr(value, "__dataclass_fields__"):
        return plain(tuple(one for one in vars(value).values() if isinstance(one, (float, torch.Tensor))))
    return np.asarray(value, dtype=np.float64).ravel().tolist()


@pytest.mark.filterwarnings("ignore:The right class has probability exactly 0")  # of labels that are arbitrary
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("link", ["softmax", "minimax_probs"])
@pytest.mark.parametrize("name", [*OF_ARRAYS, *OF_TENSORS])
def test_half_types_are_taken_wherever_they_are_stored(name, link, dtype):
    """Our links give the type of the logits; the result is that of the same numbers, divided by their sum in arrays."""
    f = LOGITS.to(dtype)
    p = f.softmax(1) if link == "softmax" else functional.minimax_probs(f, beta=1.4)
    assert p.dtype == dtype and (p.double().sum(1) - 1).abs().max() > 1e-4  # or nothing is tested here
    if name in OF_ARRAYS:
        want = plain(OF_ARRAYS[name](p.double() / p.double().sum(1, keepdim=True)))
        given = [p, p.float().numpy()]
    else:
        want = plain(OF_TENSORS[name](p.double()))
        given = [p, p.float()]
    assert want
    for values in given:
        np.testing.assert_allclose(plain((OF_ARRAYS | OF_TENSORS)[name](values)), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", [*ROUNDED, *OF_LOGITS])
def test_links_and_losses_of_half_types_are_those_of_the_same_numbers(name, dtype):
    call = ROUNDED.get(name) or OF_LOGITS[name]
    values = LOGITS.to(dtype)
    values = values.softmax(1) if name in ROUNDED else values
    torch.testing.assert_close(call(values).double(), call(values.double()), rtol=torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3, 10, 1000, 30_000])
@pytest.mark.parametrize("dtype", HALF)
def test_no_softmax_is_refused_and_what_rounding_cannot_do_is(k, dtype):
    generator = torch.Generator().manual_seed(k)
    info = torch.finfo(dtype)
    for scale in (0.01, 1.0, 10.0):
        f = scale * torch.randn(max(20, 2000 // k), k, generator=generator)
        exponentials = (f - f.amax(1, keepdim=True)).to(dtype).exp()
        normalizer = exponentials.float().sum(1, keepdim=True).clamp(max=info.max).to(dtype)
        for p in (f.to(dtype).softmax(1), f.double().softmax(1).to(dtype), exponentials / normalizer):
            assert (p.double().sum(1) - 1).abs().max() <= sum_tolerance(p, 0.0)
    p = torch.full((3, k), 1 / k, dtype=torch.float64).to(dtype)
    p[1, 0] += 3 * sum_tolerance(p, 1e-3)
    for call in (OF_ARRAYS["conformal_scores"], lambda p: metrics.reliability_curve(p, torch.zeros(3, dtype=int))):
        with pytest.raises(ValueError, match="Expected `probs` to be .*rows .*sum to one"):
            call(p)


def test_numbers_that_no_half_type_holds_are_what_files_and_float32_hold():
    assert sets.conformal_scores([[0.3334, 0.3333, 0.3329]]).sum() == pytest.approx(2)
    for p in ([[0.33, 0.33, 0.33]], [[0.337, 0.333, 0.3334]]):
        with pytest.raises(ValueError, match="Expected `probs` to be rows that .* sum to one, up to 0.001"):
            sets.conformal_scores(p)
    with pytest.raises(ValueError, match="Expected `probs` to be rows that are not negative"):
        risk.estimate_transition(TARGET, LOGITS)


def test_logits_of_cleanlab_in_half_types():
    cleanlab = pytest.importorskip("mgce.integrations.untied")
    for values in (LOGITS.bfloat16(), LOGITS.half(), LOGITS.half().numpy()):
        np.testing.assert_array_equal(
            cleanlab.untied_probs(values), cleanlab.untied_probs(np.asarray(torch.as_tensor(values).double()))
        )
