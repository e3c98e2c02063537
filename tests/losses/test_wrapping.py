import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from contracts.loss_contract import K
from mgce import ForwardCorrection, LinearMGCELoss, MGCELoss, TrimmedLoss
from mgce.functional import minimax_probs, worst_case_probs
from mgce.losses import LogitScale, NCELoss, RCELoss, SumLoss
from mgce.noise import symmetric
from mgce_lab.losses import BiTemperedLoss, LogitClip, clip_logits

CE = nn.CrossEntropyLoss
LOGITS, TARGET = torch.randn(9, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), torch.arange(9) % K


def test_links():
    softmaxed = LOGITS.softmax(-1)
    for criterion in (
        SumLoss([NCELoss(), RCELoss()], [1, 1]),
        SumLoss([CE()], [1]),
        ForwardCorrection(CE(), torch.eye(K)),
    ):
        torch.testing.assert_close(criterion.link(LOGITS), softmaxed)
    torch.testing.assert_close(LogitClip(CE(), 2.0).link(LOGITS), clip_logits(LOGITS, inverse_norm=2.0).softmax(-1))
    torch.testing.assert_close(LogitClip(MGCELoss()).link(LOGITS), minimax_probs(clip_logits(LOGITS), beta=1.4))
    corrected = ForwardCorrection(MGCELoss(beta=2.0), torch.eye(K))
    torch.testing.assert_close(corrected.link(LOGITS), worst_case_probs(LOGITS, beta=2.0))


@pytest.mark.parametrize("wrap", [LogitScale, LogitClip, lambda loss: SumLoss([loss], [1.0])])
def test_class_weights_have_to_be_of_the_type_of_half_logits(wrap):
    loss = wrap(NCELoss(torch.ones(K)))
    with pytest.raises(RuntimeError, match="Expected `weight` to be of the dtype of `input`, torch.float16"):
        loss(LOGITS.half(), TARGET)
    assert loss.half()(LOGITS.half(), TARGET).dtype == torch.float16


def test_class_weights_that_are_a_number():
    loss = CE()
    loss.weight = None
    outer = nn.Module()
    outer.weight, outer.reduction, outer.forward = 0.5, "mean", lambda x, y: 0.5 * loss(x, y)
    torch.testing.assert_close(LogitScale(outer)(LOGITS.half(), TARGET), 0.5 * loss(LOGITS.half(), TARGET))


def test_wrappers_nest_and_copy():
    inner = ForwardCorrection(SumLoss([CE(), RCELoss()], [1.0, 2.0]), symmetric(K, 0.2))
    criterion = copy.deepcopy(LogitClip(inner, 0.5)).double()
    want = inner.double()(clip_logits(LOGITS, inverse_norm=0.5), TARGET)
    torch.testing.assert_close(criterion(LOGITS, TARGET), want)
    assert list(criterion.state_dict()) == ["loss.transition"]


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: SumLoss([], []), "Expected `weights` to be one number for each of 0 losses"),
        (lambda: SumLoss([CE()], [1.0, 2.0]), "Expected `weights` to be one number for each of 1 losses"),
        (lambda: SumLoss([CE()], [math.inf]), r"Expected `weights\[0\]` to be a finite number in \(-inf, inf\)"),
        (lambda: SumLoss([CE(reduction="none"), NCELoss()], [1, 1]), "Expected `losses` to be losses of one reduction"),
        (lambda: SumLoss([CE(ignore_index=1), NCELoss()], [1, 1]), r"losses of one ignore_index, but got .1, -100"),
        (lambda: SumLoss([NCELoss(), RCELoss(dim=-1)], [1, 1]), r"of one dim, but got .None, -1"),
        (lambda: LogitClip(CE(), 0), "Expected `inverse_norm`"),
        (
            lambda: ForwardCorrection(CE(), torch.ones(2, 2)),
            "Expected `transition` to be a tensor whose rows sum to one",
        ),
        (lambda: ForwardCorrection(CE(), torch.ones(2, 3)), r"Expected `transition` to be a tensor of shape \(k, k\)"),
        (lambda: ForwardCorrection(MGCELoss(beta=1), torch.eye(2)), "Expected `beta` to be one number above 1"),
        (
            lambda: ForwardCorrection(BiTemperedLoss(), torch.eye(2)),
            "Expected `loss` to be a loss of softmax, or of MGCE's",
        ),
        (
            lambda: ForwardCorrection(CE(), torch.eye(2))(LOGITS, TARGET),
            r"Expected `transition` to be of shape \(5, 5\)",
        ),
    ],
)
def test_bad_arguments(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda: LogitScale("ce"), "loss"),
        (lambda: LogitClip(F.cross_entropy), "loss"),
        (lambda: LogitClip(NCELoss), "loss"),
        (lambda: ForwardCorrection(None, torch.eye(2)), "loss"),
        (lambda: SumLoss(NCELoss(), [1.0]), "losses"),
        (lambda: SumLoss(None, [1.0]), "losses"),
        (lambda: SumLoss([NCELoss()], 1.0), "weights"),
        (lambda: SumLoss([NCELoss()], torch.tensor(1.0)), "weights"),
        (lambda: SumLoss([NCELoss(), "rce"], [1.0, 1.0]), r"losses\[1\]"),
    ],
)
def test_what_is_no_loss_is_named(make, name):
    with pytest.raises(TypeError, match=f"Expected `{name}` to be a (module|sequence), but got"):
        make()


@pytest.mark.parametrize(
    "wrap, name",
    [
        (LogitScale, "loss"),
        (LogitClip, "loss"),
        (lambda loss: ForwardCorrection(loss, torch.eye(5)), "loss"),
        (lambda loss: TrimmedLoss(loss, 0.4, 5), "loss"),
        (lambda loss: SumLoss([NCELoss(reduction="none"), loss], [1.0, 1.0]), r"losses\[1\]"),
        (lambda loss: LogitClip(SumLoss([loss], [1.0])), r"losses\[0\]"),
    ],
)
@pytest.mark.parametrize("head", [LinearMGCELoss, getattr(torch.nn, "LinearCrossEntropyLoss", LinearMGCELoss)])
def test_losses_with_a_head_of_their_own_take_no_logits(wrap, name, head):
    with pytest.raises(TypeError, match=f"Expected `{name}` to be a loss of logits, without a linear head, but got"):
        wrap(head(8, 5, reduction="none"))


def test_a_term_of_weight_0_says_nothing_of_the_sum():
    logits, target, weight = torch.randn(4, 7, 7), torch.randint(7, (4, 7)), torch.rand(7)
    unused, used = MGCELoss(weight=weight, dim=-1, reduction="none"), MGCELoss(reduction="none")
    for wrap in (lambda loss: LogitClip(loss), lambda loss: TrimmedLoss(loss, 0.0, 7)):
        torch.testing.assert_close(wrap(SumLoss([unused, used], [0, 1]))(logits, target), wrap(used)(logits, target))


@pytest.mark.parametrize("name", ["beta", "dim", "ignore_index", "label_smoothing", "reduction", "weight"])
@pytest.mark.parametrize(
    "wrap",
    [
        LogitClip,
        LogitScale,
        lambda loss: SumLoss([loss], [1.0]),
        lambda loss: ForwardCorrection(loss, torch.eye(3)),
        lambda loss: TrimmedLoss(loss, 0.4, 3),
    ],
)
def test_what_only_the_loss_inside_has_is_not_set_around_it_without_effect(wrap, name):
    outer = wrap(MGCELoss(reduction="none"))
    if isinstance(outer, TrimmedLoss) and name in ("ignore_index", "reduction"):
        return  # which it has itself
    with pytest.raises(AttributeError, match=f"`{name}` to be set on the losses inside {type(outer).__name__}"):
        setattr(outer, name, 1)
