"""Classes are in dimension 1 of (N, C, d1, ..., dK), 0 of one row, or where `dim` says: in every function and link."""

import inspect

import pytest
import torch

from every_loss import FUNCTIONS, MODULES
from mgce import MGCELoss, functional
from mgce.losses import MinimaxLink, TemperatureScaling
from mgce_lab.losses import TemperedSoftmax
from mgce_lab.losses.clipped import ClippedLogits

K = 5
LOGITS = torch.randn(2, K, 3, 4, generator=torch.Generator().manual_seed(0))
TARGET = torch.randint(K, (2, 3, 4), generator=torch.Generator().manual_seed(0))
SHIFTED = torch.eye(K).roll(1, 0)
GIVEN = {
    "target": TARGET,
    "beta": 2.0,
    "reduction": "none",
    "transition": 0.8 * torch.eye(K) + 0.2 * SHIFTED,
}
PROBABILITIES = ("probs", "h", "p")  # the names of arguments that are no logits
# One has features and not classes in its last dimension, the other takes rows (N, k) alone.
WITHOUT_DIM = {"linear_mgce_loss"}
PARAMETERS = {name: inspect.signature(function).parameters for name, function in FUNCTIONS.items()}
LINKS = {
    "MinimaxLink": MinimaxLink,
    "worst case": lambda **dim: MinimaxLink(output="worst_case", **dim),
    "MGCELoss().link": lambda **dim: MGCELoss(**dim).link,
    "TemperedSoftmax": TemperedSoftmax,
    "TemperatureScaling": TemperatureScaling,
    "ClippedLogits": ClippedLogits,
}


def values(name, tensor, target, **dim):
    """Call a function of tensors and targets, with the values of `GIVEN` for what it takes of these."""
    given = {key: GIVEN[key] for key in PARAMETERS[name] if key in GIVEN}
    given |= {"target": target} if "target" in given else {}
    return FUNCTIONS[name](tensor, **given, **dim)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - WITHOUT_DIM))
def test_a_function_has_the_classes_where_the_losses_have_them(name):
    tensor = LOGITS.softmax(1) if next(iter(PARAMETERS[name])) in PROBABILITIES else LOGITS
    last = tensor.movedim(1, -1)
    flat = values(name, last.reshape(-1, K), TARGET.reshape(-1))
    want = flat.reshape(2, 3, 4, *flat.shape[1:])
    torch.testing.assert_close(values(name, last, TARGET, dim=-1), want)
    torch.testing.assert_close(values(name, tensor, TARGET), want.movedim(-1, 1) if flat.ndim == 2 else want)
    torch.testing.assert_close(values(name, last[0, 0, 0], TARGET[0, 0, 0]), want[0, 0, 0])


@pytest.mark.parametrize("name", LINKS)
def test_a_link_has_the_classes_where_the_losses_have_them(name):
    make, last = LINKS[name], LOGITS.movedim(1, -1)
    want = make()(last.reshape(-1, K)).reshape(2, 3, 4, K)
    torch.testing.assert_close(make(dim=-1)(last), want)
    torch.testing.assert_close(make()(LOGITS), want.movedim(-1, 1))
    torch.testing.assert_close(make()(last[0, 0, 0]), want[0, 0, 0])


def test_every_function_of_logits_takes_dim():
    for name, parameters in PARAMETERS.items():
        assert ("dim" in parameters) == (name not in WITHOUT_DIM)
        if "dim" in parameters:
            assert parameters["dim"].default is None, name


def own(callable):
    """Return the hyperparameters and their defaults: what is by keyword only."""
    parameters = inspect.signature(callable).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def modules_of_functions():
    """Pair each function of a loss with its module, by their names: `agce_loss` and `AGCELoss`."""
    modules = {name.lower(): module for name, module in MODULES.items()}
    pairs = {name: modules.get(name.replace("_", "")) for name in FUNCTIONS}
    return {name: module for name, module in pairs.items() if module is not None}


@pytest.mark.parametrize("name, module", modules_of_functions().items())
def test_a_module_has_the_hyperparameters_and_defaults_of_its_function(name, module):
    if name == "linear_mgce_loss":  # whose head is the module's own
        assert set(own(functional.linear_mgce_loss)) < set(own(module))
    else:
        assert own(module) == own(FUNCTIONS[name])


def test_every_loss_that_is_a_function_has_a_module():
    losses = {name for name in FUNCTIONS if name.endswith("_loss")}
    # The alpha-loss is of probabilities.
    assert set(modules_of_functions()) == losses - {"alpha_loss"}
