import copy
import math
import pickle

import pytest
import torch
from torch import nn

import mgce
from mgce import GCELoss, MGCELoss, MinimaxLink, functional

LOGITS = torch.randn(6, 4)
TARGET = torch.tensor([0, 1, 2, 3, 0, 1])


@pytest.mark.parametrize("module, function", [(MGCELoss, functional.mgce_loss), (GCELoss, functional.gce_loss)])
def test_module_is_its_function(module, function):
    weight = torch.rand(4)
    keywords = {"ignore_index": 3, "reduction": "sum", "label_smoothing": 0.1, "beta": 2.0}
    expected = function(LOGITS, TARGET, weight, **keywords)
    torch.testing.assert_close(module(weight, **keywords)(LOGITS, TARGET), expected, rtol=0, atol=0)
    torch.testing.assert_close(module()(LOGITS, TARGET), function(LOGITS, TARGET), rtol=0, atol=0)


@pytest.mark.parametrize("module", [MGCELoss, GCELoss])
def test_it_takes_the_place_of_cross_entropy(module):
    theirs = nn.CrossEntropyLoss(torch.rand(4))
    ours = module(theirs.weight, beta=math.inf)
    torch.testing.assert_close(ours(LOGITS, TARGET), theirs(LOGITS, TARGET))
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["weight"]
    assert not isinstance(ours, nn.CrossEntropyLoss)  # skorch and skada would softmax the logits
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert module(None, False).reduction == "sum"


def test_link_travels_with_the_loss():
    h = functional.minimax_probs(LOGITS, beta=2.0)
    torch.testing.assert_close(MGCELoss(beta=2.0).link(LOGITS), h)
    torch.testing.assert_close(MGCELoss(beta=2.0).link(LOGITS[0]), h[0])
    pixels = torch.randn(2, 4, 3)
    torch.testing.assert_close(MGCELoss().link(pixels), functional.minimax_probs(pixels, beta=1.4, dim=1))
    torch.testing.assert_close(GCELoss().link(LOGITS), LOGITS.softmax(-1))
    worst_case = MinimaxLink(beta=2.0, output="worst_case")(LOGITS)
    torch.testing.assert_close(worst_case, functional.worst_case_probs(LOGITS, beta=2.0))


def test_beta_may_be_a_buffer_or_a_parameter():
    betas = torch.tensor([1.0, 1.4, 2.0, 5.0, 11.0, math.inf])
    loss = MGCELoss(beta=betas, reduction="none")
    torch.testing.assert_close(loss(LOGITS, TARGET), functional.mgce_loss(LOGITS, TARGET, beta=betas, reduction="none"))
    assert "beta" in loss.state_dict()
    assert loss.double().beta.dtype == torch.float64
    learnt = MinimaxLink(beta=nn.Parameter(torch.tensor(1.4)))
    learnt(LOGITS)[:, 0].sum().backward()
    assert learnt.beta.grad.isfinite() and learnt.beta.grad != 0


def test_repr_shows_what_is_not_default():
    assert repr(MGCELoss()) == "MGCELoss(beta=1.4)"
    assert repr(GCELoss(beta=2, reduction="sum", ignore_index=0)) == "GCELoss(beta=2, ignore_index=0, reduction='sum')"
    assert repr(MinimaxLink()) == "MinimaxLink(beta=1.4, dim=-1, output='minimax')"


@pytest.mark.parametrize("make", [MGCELoss, GCELoss, MinimaxLink])
def test_bad_hyperparameters_are_refused_when_made(make):
    with pytest.raises(ValueError, match="Expected `beta`"):
        make(beta=0.5)
    with pytest.raises(TypeError, match="Expected `beta`"):
        make(beta="1.4")
    if make is MinimaxLink:
        with pytest.raises(ValueError, match="Expected `output` to be one of 'minimax', 'worst_case'"):
            make(output="softmax")
    else:
        with pytest.raises(ValueError, match="Expected `reduction`"):
            make(reduction="avg")
        with pytest.raises(RuntimeError, match="Expected `label_smoothing`"):
            make(label_smoothing=2)


def test_copies_and_pickles():
    loss = MGCELoss(torch.rand(4), beta=2.0, label_smoothing=0.1)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(other(LOGITS, TARGET), loss(LOGITS, TARGET), rtol=0, atol=0)


def test_training_drives_the_loss_to_zero_on_separable_data():
    """Convex in a linear model: gradient descent reaches the global minimum, here 0."""
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(60) % 3
    features = 4 * nn.functional.one_hot(target, 3) + 0.3 * torch.randn(60, 3, generator=generator)
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    criterion = mgce.MGCELoss()
    for _ in range(200):
        optimizer.zero_grad()
        loss = criterion(model(features), target)
        loss.backward()
        optimizer.step()
    assert loss == 0
    assert (criterion.link(model(features)).argmax(-1) == target).all()
