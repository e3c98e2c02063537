"""What every loss answers: a copy with another reduction, its link, both probabilities, its mode."""

import ast
import copy
import math
from pathlib import Path

import pytest
import torch
from torch import nn

import mgce
from contracts.inside_libraries import MADE, X, Y, network, taken_up
from grids import pairs
from mgce import GCELoss, LinearMGCELoss, MGCELoss
from mgce.functional import minimax_probs, worst_case_probs
from mgce.losses import LogitScale, NCELoss, RCELoss, SumLoss, protocol
from mgce.losses.protocol import both_probs, evaluating, link_of, with_reduction
from mgce_lab.losses import LogitClip

LOGITS = network()(X).detach()
EVERY = pytest.mark.parametrize("name", MADE)


class Focal(nn.Module):
    """A loss as people write it, around one of PyTorch's."""

    def __init__(self, inside="none"):
        super().__init__()
        self.ce, self.reduction = nn.CrossEntropyLoss(reduction=inside), "mean"

    def forward(self, input, target):
        losses = self.ce(input, target)
        losses = (1 - torch.exp(-losses)) ** 2 * losses
        return losses if self.reduction == "none" else losses.mean()


@pairs("name, before, after", list(MADE), ["none", "mean", "sum"], ["none", "mean", "sum"])
def test_a_copy_with_another_reduction_is_the_loss_made_with_it(name, before, after):
    loss = MADE[name](before)
    texts, own = repr(loss), {id(t) for t in (*loss.parameters(), *loss.buffers())}
    copied = with_reduction(loss, after)
    assert repr(copied) == repr(MADE[name](after)) and repr(loss) == texts
    assert {id(t) for t in (*copied.parameters(), *copied.buffers())} == own
    torch.testing.assert_close(copied(LOGITS, Y), MADE[name](after)(LOGITS, Y))


@EVERY
def test_both_probabilities(name):
    loss = MADE[name]()
    h, p = both_probs(loss, LOGITS.double())
    link = link_of(loss)(LOGITS.double())
    torch.testing.assert_close(p if "forward" in repr(loss).lower() else h, link)
    for probs in (h, p):
        torch.testing.assert_close(probs.sum(-1), torch.ones(len(probs), dtype=probs.dtype))
    half = both_probs(loss, LOGITS.half())
    assert [probs.dtype for probs in half] == [torch.float16] * 2


def test_p_is_the_one_whose_best_answer_h_is():
    """h minimises the mean alpha-loss under p: the definition of both, whichever link gives h."""
    for loss, beta in ((MGCELoss(beta=1.4), 1.4), (GCELoss(beta=2.0), 2.0), (LogitScale(MGCELoss(beta=3.0), 0.5), 3.0)):
        h, p = both_probs(loss, LOGITS.double())
        for row_h, row_p in zip(h, p, strict=True):
            on = row_h > 0
            slope = row_p[on] * row_h[on] ** (1 / beta - 1)  # less the derivative of the mean: the same in all classes
            torch.testing.assert_close(slope, slope.mean().expand_as(slope))
    for loss in (NCELoss(), nn.CrossEntropyLoss(), GCELoss(beta=math.inf)):
        torch.testing.assert_close(*both_probs(loss, LOGITS))


def test_p_near_beta_1_does_not_go_through_an_h_that_is_rounded_to_0():
    logits = torch.tensor([[1.0, 0.0, 0.004]])
    torch.testing.assert_close(both_probs(MGCELoss(beta=1.001), logits)[1], worst_case_probs(logits, beta=1.001))


def test_a_sum_answers_for_its_first_loss_that_counts():
    criterion = SumLoss([RCELoss(), MGCELoss(beta=2.0)], [0, 1])
    torch.testing.assert_close(both_probs(criterion, LOGITS)[0], minimax_probs(LOGITS, beta=2.0))
    with_reduction(SumLoss([RCELoss(), nn.CrossEntropyLoss()], [0, 1]), "none")


def test_losses_of_others():
    torch.testing.assert_close(with_reduction(Focal(), "none")(LOGITS, Y).mean(), Focal()(LOGITS, Y))
    torch.testing.assert_close(both_probs(Focal(), LOGITS)[0], LOGITS.softmax(-1))
    other = Focal()
    other.link = mgce.losses.MinimaxLink(2.0)
    for got, probs in zip(both_probs(other, LOGITS), (minimax_probs, worst_case_probs), strict=True):
        torch.testing.assert_close(got, probs(LOGITS, beta=2.0))
    for loss in (Focal(inside="mean"), nn.Sequential(nn.CrossEntropyLoss()), nn.Linear(2, 2), LogitClip(nn.Identity())):
        with pytest.raises(TypeError, match="Expected `loss` to be a loss of this package or of PyTorch, or one with"):
            with_reduction(loss, "sum")
    with pytest.raises(TypeError, match="Expected `criterion` to be a loss of logits, without a linear head"):
        with_reduction(LinearMGCELoss(2, 3), "sum", "criterion")
    with pytest.raises(ValueError, match="Expected `reduction`"):
        with_reduction(MGCELoss(), "average")


def test_what_is_learnt_stays_the_parameter_that_was_given():
    beta = nn.Parameter(torch.tensor(1.4))
    criterion = LogitClip(MGCELoss(beta=beta))
    copied = with_reduction(criterion, "sum")
    copied(LOGITS, Y).backward()
    assert beta.grad != 0 and copied.loss is not criterion.loss


def test_a_compiled_loss_is_asked_what_it_was_made_of():
    inside = LogitScale(torch.compile(GCELoss(), backend="eager"), 2.0)
    for loss in (torch.compile(inside, backend="eager"), inside):
        got = with_reduction(loss, "none")(LOGITS, Y)
        torch.testing.assert_close(got, LogitScale(GCELoss(reduction="none"), 2.0)(LOGITS, Y))
        torch.testing.assert_close(both_probs(loss, LOGITS), both_probs(LogitScale(GCELoss(), 2.0), LOGITS))


@EVERY
def test_evaluating_takes_nothing_up_and_puts_the_modes_back(name):
    loss = MADE[name]()
    next(iter(loss.children()), loss).eval()
    modes = [part.training for part in loss.modules()]
    with evaluating(loss):
        torch.testing.assert_close(loss(LOGITS, Y), copy.deepcopy(loss).eval()(LOGITS, Y))
        assert not any(part.training for part in loss.modules())
    assert [part.training for part in loss.modules()] == modes and not any(taken_up(loss))
    with pytest.raises(ZeroDivisionError), evaluating(loss):
        raise ZeroDivisionError
    assert [part.training for part in loss.modules()] == modes


def test_nothing_else_guesses_what_a_loss_has():
    """By attributes that losses have; only the protocol asks modules of others for them."""
    names = {"link", "beta", "raw_beta", "reduction", "ignore_index", "weight", "dim", "counted", "_orig_mod"}
    root = Path(mgce.__file__).parent
    found = []
    for path in sorted(set(root.rglob("*.py")) - {Path(protocol.__file__)}):
        for node in ast.walk(ast.parse(path.read_text())):
            guess = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GUESSES
            if guess and len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value in names:
                found.append((path.relative_to(root).as_posix(), node.lineno, node.args[1].value))
            elif isinstance(node, ast.Assign) and any(sets_reduction(target) for target in node.targets):
                found.append((path.relative_to(root).as_posix(), node.lineno, "reduction"))
    # A beta asks whether it is set itself.
    assert [(path, name) for path, _, name in found] == [("losses/base.py", "raw_beta")], found


GUESSES = ("getattr", "hasattr", "setattr")


def sets_reduction(target):
    """Say whether a statement sets the reduction of something else than `self`."""
    return isinstance(target, ast.Attribute) and target.attr == "reduction" and ast.unparse(target.value) != "self"
