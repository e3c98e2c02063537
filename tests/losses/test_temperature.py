import math

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch.nn import functional as F

from mgce import GCELoss, LinearMGCELoss, MGCELoss, TrimmedLoss, robust_loss
from mgce.functional import mgce_loss, minimax_probs, worst_case_probs
from mgce.losses import LogitScale, TemperatureScaling
from mgce_lab.losses import BiTemperedLoss, LogitClip, clip_logits


def sample(beta, temperature, n=4000, k=4):
    """Return labels drawn from p of logits, and the logits times a temperature."""
    logits = 2 * torch.randn(n, k, dtype=torch.float64)
    target = torch.multinomial(worst_case_probs(logits, beta=beta), 1).squeeze(1)
    return logits * temperature, target


@pytest.mark.parametrize("beta", [1.4, 2.0, 5.0, math.inf])
def test_finds_the_least_loss(beta):
    logits, target = sample(beta, 3.0)
    scaling = TemperatureScaling(beta).fit(logits, target)
    # Independent: a general minimiser of the loss itself, in 1 / T, where it is convex.
    best = minimize_scalar(
        lambda s: float(mgce_loss(s * logits, target, beta=beta)), bounds=(1e-3, 3), options={"xatol": 1e-10}
    )
    assert scaling.temperature.item() == pytest.approx(1 / best.x, rel=1e-5)
    assert scaling.temperature.item() == pytest.approx(3.0, rel=0.1)  # the one the labels were drawn with


def test_at_infinity_it_is_the_usual_temperature_scaling():
    logits, target = sample(math.inf, 2.0)
    scaling = TemperatureScaling(math.inf).fit(logits, target)
    best = minimize_scalar(lambda t: float(F.cross_entropy(logits / t, target)), bounds=(0.1, 10))
    assert scaling.temperature.item() == pytest.approx(best.x, rel=1e-4)
    torch.testing.assert_close(scaling(logits), (logits / scaling.temperature).softmax(-1))


def test_outputs_dtypes_and_state():
    logits, target = sample(1.4, 0.5)
    scaling = TemperatureScaling(1.4, output="minimax").fit(logits, target)
    torch.testing.assert_close(scaling(logits), minimax_probs(logits / scaling.temperature, beta=1.4))
    other = TemperatureScaling(1.4)
    other.load_state_dict(scaling.state_dict())
    torch.testing.assert_close(other(logits), worst_case_probs(logits / scaling.temperature, beta=1.4))
    assert scaling(logits.half()).dtype == torch.float16
    assert (scaling(logits).argmax(-1) == logits.argmax(-1)).all()


def test_logits_that_say_nothing_get_an_infinite_temperature():
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(10, 1)
    wrong = torch.tensor([1, 0]).repeat(10)
    scaling = TemperatureScaling(2.0).fit(logits, wrong)
    assert scaling.temperature == math.inf
    torch.testing.assert_close(scaling(logits), torch.full((20, 2), 0.5))
    assert TemperatureScaling(2.0).fit(torch.zeros(3, 2), torch.tensor([0, 1, 0])).temperature == math.inf


@pytest.mark.parametrize("right", [0, 1, 5, 10])
@pytest.mark.parametrize("beta", [1.4, 2.0, math.inf])
def test_logits_that_are_right_no_more_often_than_not_get_an_infinite_temperature(beta, right):
    """Though turned around, at a temperature below zero, those that are mostly wrong would say something."""
    logits, target = torch.tensor([[1.0, 0.0]]).repeat(20, 1), (torch.arange(20) >= right).long()
    assert TemperatureScaling(beta).fit(logits, target).temperature == math.inf
    assert (TemperatureScaling(beta).fit(-logits, target).temperature < math.inf) == (right < 10)


@pytest.mark.parametrize("beta", [1.0, 1.4, math.inf])
def test_logits_that_say_everything_and_masked_classes_are_no_trouble(beta):
    logits = torch.tensor([[5.0, 0.0, -math.inf], [0.0, 5.0, -math.inf]])
    scaling = TemperatureScaling(beta).fit(logits, torch.tensor([0, 1]))
    assert 0 < scaling.temperature < math.inf
    torch.testing.assert_close(scaling(logits), torch.eye(3)[:2], atol=1e-6, rtol=0)


def test_bad_input():
    with pytest.raises(ValueError, match="Expected `logits` to be of shape"):
        TemperatureScaling().fit(torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="without NaN"):
        TemperatureScaling().fit(torch.full((2, 3), math.nan), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="Expected `target`"):
        TemperatureScaling().fit(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(ValueError, match="N >= 1"):
        TemperatureScaling().fit(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match="and in each row a number, but got -inf"):
        TemperatureScaling().fit(torch.full((2, 3), -math.inf), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"Expected `target` to be of shape \(2,\), to match `logits`, but got \(3,\)"):
        TemperatureScaling().fit(torch.zeros(2, 3), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="no farther apart than float32 reaches"):
        TemperatureScaling().fit(torch.tensor([[0.0, 1e300]], dtype=torch.float64), torch.tensor([0]))


def test_labels_may_be_bytes():
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    target = torch.tensor([0, 1, 1])
    fits = [TemperatureScaling().fit(logits, labels).temperature for labels in (target, target.to(torch.uint8))]
    assert torch.equal(*fits)


def test_a_masked_class_is_masked_at_an_infinite_temperature():
    scaling = TemperatureScaling(beta=2.0).fit(torch.tensor([[0.0, 1.0], [0.0, 2.0]]), torch.tensor([0, 0]))
    assert scaling.temperature == math.inf
    torch.testing.assert_close(scaling(torch.tensor([[1.0, 0.0, -math.inf]])), torch.tensor([[0.5, 0.5, 0.0]]))


CRITERIA = {
    "MGCE": (MGCELoss(beta=2.0), 2.0),
    "trimmed": (TrimmedLoss(MGCELoss(beta=1.4, reduction="none"), 0.2, 4), 1.4),
    "a learnt beta": (MGCELoss(beta=torch.nn.Parameter(torch.tensor(2.0))), 2.0),
    "scaled": (LogitScale(MGCELoss(beta=2.0), 5.0), 2.0),
    "cross-entropy": (torch.nn.CrossEntropyLoss(), math.inf),
    "GCE": (GCELoss(beta=1.4), math.inf),
    "a sum": (robust_loss("sce"), math.inf),
    "compiled": (torch.compile(MGCELoss(beta=2.0)), 2.0),
}


@pytest.mark.parametrize("name", CRITERIA)
def test_a_criterion_gives_its_link(name):
    criterion, beta = CRITERIA[name]
    logits, target = sample(beta, 3.0, n=500)
    scaling = TemperatureScaling(criterion=criterion).fit(logits, target)
    best = minimize_scalar(
        lambda s: float(mgce_loss(s * logits, target, beta=beta)), bounds=(1e-3, 3), options={"xatol": 1e-10}
    )
    assert scaling.temperature.item() == pytest.approx(1 / best.x, rel=1e-4)
    torch.testing.assert_close(scaling(logits), worst_case_probs(logits / scaling.temperature, beta=beta))
    assert not scaling(logits).requires_grad


def test_logits_are_clipped_before_the_temperature_where_the_criterion_clips_them():
    logits, target = sample(1.4, 30.0, n=500)
    scaling = TemperatureScaling(criterion=LogitClip(MGCELoss(beta=1.4), 0.5)).fit(logits, target)
    clipped = clip_logits(logits, inverse_norm=0.5)
    assert scaling.temperature == TemperatureScaling(1.4).fit(clipped, target).temperature
    torch.testing.assert_close(scaling(logits), worst_case_probs(clipped / scaling.temperature, beta=1.4))


def test_a_criterion_with_another_link_or_a_beta_beside_it_is_refused():
    for criterion in (BiTemperedLoss(), LogitScale(LogitClip(MGCELoss()), 2.0)):
        with pytest.raises(
            ValueError, match="Expected `criterion` to be a loss whose probabilities are those of mgce.losses.Min"
        ):
            TemperatureScaling(criterion=criterion)
    with pytest.raises(TypeError, match="Expected `criterion` to be a module, but got 1.4"):
        TemperatureScaling(criterion=1.4)
    with pytest.raises(TypeError, match="Expected `criterion` to be a loss of logits, without a linear head"):
        TemperatureScaling(criterion=LinearMGCELoss(3, 2))
    for option in ({"beta": 2.0}, {"dim": 1}):
        with pytest.raises(
            ValueError, match=f"Expected `{next(iter(option))}` to be None where `criterion` has it, but"
        ):
            TemperatureScaling(criterion=MGCELoss(), **option)
