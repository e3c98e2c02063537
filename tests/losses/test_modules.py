import copy
import math
import pickle
import warnings

import pytest
import torch
from torch import nn

import mgce
from mgce import GCELoss, LinearMGCELoss, MGCELoss, functional
from mgce.losses import MinimaxLink, NCELoss
from mgce.losses.base import Loss
from mgce_lab.losses import LogitClip

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
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


@pytest.mark.parametrize("name", [name for name in mgce.__all__ if name.endswith("Loss")])
def test_what_is_no_weight_is_named(name):
    """Which a beta is that comes without its name."""
    loss = getattr(mgce, name)
    if not issubclass(loss, Loss):
        pytest.skip("takes no class weights in the first place")
    sizes = {"in_features": 3, "num_classes": 4} if loss is LinearMGCELoss else {}
    with pytest.raises(TypeError, match="Expected `weight` to be a tensor .*, but got 1.4"):
        loss(**sizes, weight=1.4)


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
    assert list(loss.state_dict()) == list(loss.link.state_dict()) == ["raw_beta"]
    assert loss.double().beta.dtype == torch.float64
    learnt = MinimaxLink(beta=nn.Parameter(torch.tensor(1.4)))
    learnt(LOGITS)[:, 0].sum().backward()
    assert learnt.raw_beta.grad.isfinite() and learnt.raw_beta.grad != 0
    learnt.beta = 2.0  # a number in the place of the parameter
    assert not list(learnt.parameters()) and not learnt.state_dict() and learnt.beta == 2


LEARNT = {
    "MGCELoss": lambda beta: MGCELoss(beta=beta),
    "GCELoss": lambda beta: GCELoss(beta=beta),
    "LinearMGCELoss": lambda beta: LinearMGCELoss(4, 4, beta=beta),
    "link of the loss": lambda beta: nn.Sequential(MGCELoss(beta=beta).link),
    "worst case": lambda beta: MinimaxLink(beta=beta, output="worst_case"),
    "compiled": lambda beta: torch.compile(MGCELoss(beta=beta), backend="eager"),
}

LINKS = ("link of the loss", "worst case")


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNT)
def test_a_learnt_beta_stays_in_range(name):
    torch._dynamo.reset()
    raw = nn.Parameter(torch.tensor(1.05))
    module = LEARNT[name](raw)
    optimizer = torch.optim.SGD([raw], lr=0.5)  # a step crosses 1
    crossed = False
    for _ in range(6):
        optimizer.zero_grad()
        value = module(LOGITS) if name in LINKS else module(LOGITS, TARGET)
        assert value.isfinite().all()
        (value.sum() if value.ndim == 0 else value[:, 0].square().sum()).backward()
        assert raw.grad.isfinite()
        optimizer.step()
        crossed |= raw.item() < 1
    assert crossed or name in LINKS  # whose value need not grow with beta


def test_a_learnt_beta_below_one_is_reflected():
    logits = torch.randn(5, 4, dtype=torch.float64)
    raw = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    loss = MGCELoss(beta=nn.Parameter(torch.tensor(1.3, dtype=torch.float64)))
    before = loss(logits, TARGET[:5])
    loss.load_state_dict({"raw_beta": raw.detach()})
    torch.testing.assert_close(loss.beta.item(), 1.3)
    after = loss(logits, TARGET[:5])
    torch.testing.assert_close(after, before)
    after.backward()
    assert (
        loss.raw_beta.grad
        < 0
        < torch.autograd.functional.jacobian(
            lambda b: functional.mgce_loss(logits, TARGET[:5], beta=b), torch.tensor(1.3, dtype=torch.float64)
        )
    )
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other.beta == loss.beta and other.raw_beta is not loss.raw_beta
    assert loss.link.raw_beta is loss.raw_beta  # the link goes on with the loss
    torch.testing.assert_close(loss.link(logits), functional.minimax_probs(logits, beta=1.3))


@pytest.mark.parametrize("module", [MGCELoss, GCELoss, NCELoss, lambda **k: LogitClip(MGCELoss(**k))])
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_dim_is_where_the_classes_are(module, dim):
    """The loss and link over any dimension are those of the transposed logits."""
    logits, target = torch.randn(3, 4, 5), torch.randint(4, (3, 5))  # (N, C, d)
    moved = logits.movedim(1, dim)
    want, loss = module(), module(dim=dim)
    torch.testing.assert_close(loss(moved, target), want(logits, target), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(loss.link(moved), want.link(logits).movedim(1, dim))
    soft = logits.softmax(1)
    torch.testing.assert_close(loss(moved, soft.movedim(1, dim)), want(logits, soft), rtol=1e-6, atol=1e-6)


def test_a_beta_for_each_class_is_one_for_each_row():
    betas = torch.tensor([1.0, 1.4, 5.0, math.inf])
    rows = functional.mgce_loss(LOGITS, TARGET, beta=betas[TARGET], reduction="none")
    for f, y, row in zip(LOGITS, TARGET, rows, strict=True):
        torch.testing.assert_close(row, functional.mgce_loss(f, y, beta=betas[y].item()))


@pytest.mark.parametrize("function", [functional.mgce_loss, functional.gce_loss])
def test_dim_of_the_functions(function):
    logits = torch.randn(2, 5, 4, requires_grad=True)  # tokens, classes last
    target = torch.tensor([[0, 1, 2, 3, -100], [3, 2, 1, 0, -100]])
    (got,) = torch.autograd.grad(function(logits, target, dim=-1), logits)
    flat = logits.detach().flatten(0, 1).requires_grad_()
    (want,) = torch.autograd.grad(function(flat, target.flatten()), flat)
    torch.testing.assert_close(got.flatten(0, 1), want)
    assert function(logits, target, dim=-1, reduction="none").shape == (2, 5)
    torch.testing.assert_close(function(flat[0], target[0, 0], dim=-1), function(flat[0], target[0, 0]))
    with pytest.raises(IndexError, match="Expected `dim` to be in"):
        function(logits, target, dim=3)
    for dim in ("a", 1.0, True):
        with pytest.raises(TypeError, match="Expected `dim` to be an integer, but got"):
            function(logits, target, dim=dim)


@pytest.mark.parametrize(
    "function",
    [
        lambda f, dim: functional.minimax_probs(f, beta=1.4, dim=dim),
        lambda f, dim: functional.worst_case_probs(f, beta=1.4, dim=dim),
        lambda f, dim: functional.normalizer(f, beta=1.4, dim=dim),
        lambda f, dim: MinimaxLink(dim=dim)(f),
    ],
)
@pytest.mark.parametrize("dim", ["a", 1.0, True])
def test_a_dim_that_is_no_integer_is_one_sentence(function, dim):
    with pytest.raises(TypeError, match="Expected `dim` to be an integer, but got"):
        function(torch.zeros(2, 3), dim)


def test_repr_shows_what_is_not_default():
    assert repr(MGCELoss()) == "MGCELoss(beta=1.4)"
    assert repr(GCELoss(beta=2, reduction="sum", ignore_index=0)) == "GCELoss(beta=2, ignore_index=0, reduction='sum')"
    assert repr(MinimaxLink()) == "MinimaxLink(beta=1.4, dim=None, output='minimax')"
    learnt = torch.nn.Parameter(torch.tensor(1.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(MGCELoss(beta=learnt)) == "MGCELoss(beta=1.5)" and repr(GCELoss(beta=learnt)) == "GCELoss(beta=1.5)"
    assert repr(MGCELoss(beta=learnt).to("meta")) == "MGCELoss(beta=tensor())"
    assert repr(MinimaxLink(beta=learnt).to("meta")) == "MinimaxLink(beta=tensor(), dim=None, output='minimax')"
    assert repr(LinearMGCELoss(2, 3, beta=learnt).to("meta")).startswith("LinearMGCELoss(\n  beta=tensor()\n")


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
        with pytest.raises(TypeError, match="Expected `label_smoothing`"):
            make(label_smoothing=None)
        with pytest.raises(TypeError, match="Expected `ignore_index` to be an integer, but got 1.5"):
            make(ignore_index=1.5)


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
