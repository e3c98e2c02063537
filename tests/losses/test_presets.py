import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from contracts.robust_loss_contract import told
from grids import grid
from mgce import MGCELoss, robust_loss
from mgce.functional import agce_loss, gce_loss, linear_mgce_loss, mgce_loss, minimax_probs, nce_loss
from mgce.loop.recipes import RECIPES
from mgce.losses import LogitScale, MinimaxLink
from mgce_lab.losses import (
    DATA,
    LOSSES,
    NAMED,
    LogitClip,
    TemperedSoftmax,
    amse_loss,
    clip_logits,
    epsilon_softmax_loss,
    nnce_loss,
    preset,
)

LOGITS, TARGET = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4
P = LOGITS.double().softmax(-1).gather(1, TARGET[:, None])[:, 0]
H = minimax_probs(LOGITS.double(), beta=1.4).gather(1, TARGET[:, None])[:, 0]
TOLD = {"transition": torch.full((4, 4), 0.25), "trim": 0.5, "num_classes": 4}  # otherwise than `extra` has it
EVERY = {hyperparameter for loss in LOSSES.values() for hyperparameter in loss.hyperparameters}
# Of what is told, and how many losses a trimmed one keeps; neither changes anything where no row is left out.
SILENT = ("num_classes", "window")


def extra(name):
    return told(name, 4)


def changed(name, hyperparameter):
    """Return values of a hyperparameter that are not its default, and that the loss takes."""
    default, values = LOSSES[name].hyperparameters[hyperparameter], [TOLD.get(hyperparameter)]
    if hyperparameter not in TOLD:
        numbers = default if isinstance(default, tuple) else (default,)
        factors = (0.5, 2) if isinstance(default, int) else (0.5, 2, 1e5)
        scaled = [tuple(type(number)(factor * number) for number in numbers) for factor in factors]
        values = scaled if isinstance(default, tuple) else [value for (value,) in scaled]
    taken = []
    for value in values:
        try:
            robust_loss(name, **{**extra(name), hyperparameter: value})(LOGITS, TARGET)
            taken.append(value)
        except ValueError:
            pass
    return taken


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_takes_the_arguments_of_cross_entropy(name):
    weight = torch.tensor([0.5, 1.0, 2.0, 1.5])
    keywords = {"weight": weight, "ignore_index": 3, "label_smoothing": 0.1, "reduction": "sum"}
    criterion = robust_loss(name, **keywords, **extra(name))
    value = criterion(LOGITS, TARGET)
    assert value.isfinite() and list(criterion.state_dict())
    kept = TARGET != 3
    torch.testing.assert_close(criterion(LOGITS[kept], TARGET[kept]), value)
    assert value != robust_loss(name, reduction="sum", **extra(name))(LOGITS, TARGET)
    assert criterion.link(LOGITS).sum(-1) == pytest.approx(torch.ones(9))


@pytest.mark.parametrize("name", LOSSES)
def test_weights_that_are_no_weights_do_what_they_do_in_cross_entropy(name):
    """Which checks none: each row's loss is multiplied by its weight, and the mean divides by the sum of those."""
    plain = robust_loss(name, reduction="none", **extra(name))(LOGITS, TARGET)
    cross_entropy = F.cross_entropy(LOGITS, TARGET, reduction="none")
    for bad, target in itertools.product((-1.0, math.nan, math.inf), (TARGET, TARGET.where(TARGET != 3, -100))):
        weight = torch.tensor([0.5, 1.0, 2.0, bad])
        of_rows = torch.where(target >= 0, weight[TARGET], 0.0)
        for losses, criterion in (
            (plain, robust_loss(name, weight=weight, **extra(name))),
            (cross_entropy, torch.nn.CrossEntropyLoss(weight)),
        ):
            kept = target >= 0
            want = (losses * of_rows)[kept].sum() / of_rows.sum()
            torch.testing.assert_close(criterion(LOGITS, target), want, equal_nan=True)


@pytest.mark.slow
@grid("name, label_smoothing", list(LOSSES), [0.0, 0.1], keep=lambda name, label_smoothing: label_smoothing > 0)
def test_every_weighted_loss_is_mapped_and_knows_its_shapes_without_values(name, label_smoothing):
    weight = torch.tensor([0.5, 1.0, 2.0, 1.5])
    criterion = robust_loss(name, weight=weight, label_smoothing=label_smoothing, **extra(name)).eval()
    gradient = torch.func.grad(criterion)
    together = torch.func.vmap(gradient)(LOGITS, TARGET)
    torch.testing.assert_close(together, torch.stack([gradient(f, y) for f, y in zip(LOGITS, TARGET, strict=True)]))
    assert repr(criterion.to("meta"))
    for f, y in ((LOGITS, TARGET), (LOGITS[0], TARGET[0])):
        value = criterion(f.to("meta"), y.to("meta"))
        assert value.is_meta and value.shape == ()


@pytest.mark.parametrize("name, data", [(name, data) for name, loss in LOSSES.items() for data in loss.presets.by_data])
def test_every_preset_makes_its_loss(name, data):
    assert robust_loss(name, data)(LOGITS, TARGET).isfinite()
    assert LOSSES[name].presets.source or "ours" not in LOSSES[name].source
    for (of, kind), by_rate in LOSSES[name].presets.by_noise.items():
        for rate, keywords in by_rate.items() if of == data else ():
            assert preset(name, data, kind, rate) == {**preset(name, data), **keywords}
            same = robust_loss(name, data, kind, rate)(LOGITS, TARGET) == robust_loss(name, data)(LOGITS, TARGET)
            assert same == (not keywords)


@pytest.mark.parametrize(
    "name, data, want",
    [
        ("ce", None, F.cross_entropy(LOGITS.double(), TARGET)),
        ("mae", None, (1 - P).mean()),
        ("gce", None, ((1 - P**0.7) / 0.7).mean()),
        ("gce", "clothing1m", ((1 - P**0.6) / 0.6).mean()),
        ("sce", "cifar10", (-0.1 * P.log() - math.log(1e-4) * (1 - P)).mean()),
        ("nce+agce", "cifar10", nce_loss(LOGITS, TARGET) + 4 * agce_loss(LOGITS, TARGET, a=6, q=1.5)),
        ("nce+mae", "mnist", nce_loss(LOGITS, TARGET) + 10 * (1 - P).mean()),
        ("nce+mae", "fashion_mnist", nce_loss(LOGITS, TARGET) + 10 * (1 - P).mean()),
        ("anl-ce", "cifar100", 10 * nce_loss(LOGITS, TARGET) + nnce_loss(LOGITS, TARGET)),
        ("jal-ce", "cifar100", 5 * nce_loss(LOGITS, TARGET) + amse_loss(LOGITS, TARGET, c=20)),
        # The authors' MAE is |p - e_y|, summed: 2 (1 - p_y), five times.
        ("ce_eps+mae", "cifar10", 0.01 * epsilon_softmax_loss(LOGITS, TARGET, m=1e5) + 5 * 2 * (1 - P).mean()),
        ("poly-1", None, (-P.log() + 1 - P).mean()),
        ("ce+forward", None, F.cross_entropy(LOGITS.double(), TARGET)),
        ("mgce+nce", None, mgce_loss(LOGITS, TARGET, beta=1.4) + nce_loss(LOGITS, TARGET)),
        ("mgce+logitclip", None, mgce_loss(clip_logits(LOGITS, inverse_norm=1.0), TARGET, beta=1.4)),
        ("mgce+trunc", None, 1.4 * (1 - H.clamp(min=0.5) ** (1 / 1.4)).mean()),
        ("mgce+rce", "cifar10", 0.1 * mgce_loss(LOGITS, TARGET, beta=1.4).double() - math.log(1e-4) * (1 - P).mean()),
        ("ce+trunc", None, -P.clamp(min=0.5).log().mean()),
        ("mgce+forward", None, mgce_loss(LOGITS, TARGET, beta=1.4, reduction="none").clamp(max=1.4).mean()),
    ],
)
def test_names_mean_their_formulas(name, data, want):
    torch.testing.assert_close(robust_loss(name, data, **extra(name))(LOGITS, TARGET), want.float())


RECIPE_NAMES = {
    "MGCE 1.05": ("mgce", {"beta": 1.05}),
    "cross-entropy": ("ce", {}),
    "learned correction": ("learned-correction", {"num_classes": 4}),
    "SCE": ("sce", {"data": "cifar10"}),
    "ELR": ("elr", {"num_rows": 9, "num_classes": 4}),
    "soft bootstrap": ("soft-bootstrap", {"num_rows": 9, "num_classes": 4, "start": 5}),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_has_a_name(recipe):
    """And what is made by the name is the recipe, also after what it remembers of the first epochs."""
    name, keywords = RECIPE_NAMES[recipe]
    assert NAMED[name].recommended
    by_name, by_hand = robust_loss(name, **keywords), RECIPES[recipe](9, 4)
    for epoch in range(8):
        logits = (1 + epoch) * LOGITS
        index = (torch.arange(9),) if "num_rows" in keywords else ()
        torch.testing.assert_close(by_name(logits, TARGET, *index), by_hand(logits, TARGET, *index))


def test_the_page_on_choosing_names_what_is_recommended():
    page = (Path(__file__).parents[2] / "docs/choosing.md").read_text()
    for name, loss in NAMED.items():
        if loss.recommended:
            assert f"`{name}" in page or f'"{name}"' in page, name


@pytest.mark.parametrize("name", [name for name, loss in NAMED.items() if loss.of_one_network])
def test_a_loss_of_one_network_says_what_it_needs_and_is_in_no_comparison(name):
    with pytest.raises(TypeError, match=rf"Expected `num_\w+` to be given, as '{name}' has no default of it"):
        robust_loss(name)
    assert name not in LOSSES
    keywords = {"num_rows": 9, "num_classes": 4}
    own = {told: keywords[told] for told in NAMED[name].told}
    weighted = robust_loss(name, "cifar10", weight=torch.tensor([0.5, 1.0, 2.0, 1.5]), reduction="sum", **own)
    assert weighted.eval()(LOGITS, TARGET) != robust_loss(name, reduction="sum", **own).eval()(LOGITS, TARGET)


def test_elr_has_the_published_numbers():
    criterion = robust_loss("elr", "cifar100", num_rows=9, num_classes=4)
    assert (criterion.strength, criterion.momentum) == (7.0, 0.9)


def numbers(name):
    own = LOSSES[name].hyperparameters
    return [h for h, default in own.items() if h == "trim" or (isinstance(default, (int, float)) and h not in SILENT)]


@pytest.mark.parametrize("name, hyperparameter", [(name, h) for name in LOSSES for h in numbers(name)])
def test_a_number_is_refused_in_a_sentence_or_gives_a_finite_loss(name, hyperparameter):
    sizes = [sign * size for sign in (1, -1) for size in (10**400, 1e300, 1e39, 1e30, 0.9, 1e-30, 1e-39, 1e-300, 0.0)]
    for value in (*sizes, math.inf, math.nan, Fraction(3, 2), True, "1"):
        try:
            criterion = robust_loss(name, **{**extra(name), hyperparameter: value})
        except (TypeError, ValueError) as error:
            assert str(error).startswith("Expected `")
            continue
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            logits = LOGITS.to(dtype).clone().requires_grad_()
            loss = criterion(logits, TARGET)
            loss.backward()
            assert loss.isfinite() and logits.grad.isfinite().all()
            masked = logits.detach().index_fill(1, torch.tensor([0]), -torch.inf)
            assert not criterion(masked, TARGET.clamp(min=1)).isnan()
        assert repr(criterion)


@pytest.mark.parametrize("name", LOSSES)
def test_the_old_words_for_the_reduction(name):
    for old, value, reduction in (("reduce", False, "none"), ("size_average", False, "sum"), ("reduce", True, "mean")):
        with pytest.warns(UserWarning, match="please use reduction"):
            criterion = robust_loss(name, **{old: value}, **extra(name))
        want = robust_loss(name, reduction=reduction, **extra(name))(LOGITS, TARGET)
        torch.testing.assert_close(criterion(LOGITS, TARGET), want)


def test_scaled_logits_are_those_of_a_network_whose_last_layer_is_larger():
    criterion = robust_loss("mgce+scale", beta=2.0, scale=3.0)
    torch.testing.assert_close(criterion(LOGITS, TARGET), mgce_loss(3 * LOGITS, TARGET, beta=2.0))
    torch.testing.assert_close(criterion.link(LOGITS), minimax_probs(3 * LOGITS, beta=2.0))
    with pytest.raises(ValueError, match="Expected `scale` to be a finite number in"):
        robust_loss("mgce+scale", scale=0.0)


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="Expected `name` to be one of 'ce', 'mae'"):
        robust_loss("nothing")
    for name in ("mgce+trim", "ce+trim"):
        with pytest.raises(
            TypeError, match=f"Expected `trim` to be given, as '{re.escape(name)}' has no default of it"
        ):
            robust_loss(name)
    with pytest.raises(TypeError, match="Expected `transition` to be given"):
        robust_loss("ce+forward", "cifar10")
    with pytest.raises(
        TypeError, match=r"Expected `a` to be a hyperparameter of 'nce\+rce', which has weights, log_zero, but got 1.0"
    ):
        robust_loss("nce+rce", a=1.0)
    assert preset("focal", "cifar10") == {}
    assert robust_loss("agce", "mnist", q=0.5).q == 0.5


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_takes_its_hyperparameters_and_no_others(name):
    """Beta above all: cross-entropy and MAE are GCE at its ends, and stay what they are called."""
    plain = robust_loss(name, **extra(name))(LOGITS, TARGET)
    for keyword in LOSSES[name].hyperparameters:
        losses = [robust_loss(name, **{**extra(name), keyword: value}) for value in changed(name, keyword)]
        differ = [not torch.allclose(loss(LOGITS, TARGET), plain, rtol=1e-6) for loss in losses]
        assert losses and any(differ) == (keyword not in SILENT), keyword
    for keyword in EVERY - LOSSES[name].hyperparameters.keys():
        with pytest.raises(TypeError, match=f"Expected `{keyword}` to be a hyperparameter of"):
            robust_loss(name, **{**extra(name), keyword: 1.0})


@pytest.mark.nightly
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_compiles_whole_while_its_hyperparameters_change(name):
    """As in a sweep: a compiler takes a number that has changed for a symbol, of which less can be computed."""
    torch._dynamo.reset()
    for keyword in (None, *LOSSES[name].hyperparameters):
        keywords = {**extra(name), **({} if keyword is None else {keyword: changed(name, keyword)[0]})}
        criterion, plain = (robust_loss(name, **keywords) for _ in range(2))
        compiled = torch.compile(criterion, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(LOGITS, TARGET), plain(LOGITS, TARGET))


@pytest.mark.nightly
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_compiles_whole_with_dynamic_shapes(name):
    torch._dynamo.reset()
    criterion, plain = (robust_loss(name, **extra(name)) for _ in range(2))
    compiled = torch.compile(criterion, backend="eager", fullgraph=True, dynamic=True)
    for rows in (4, 9):
        torch.testing.assert_close(compiled(LOGITS[:rows], TARGET[:rows]), plain(LOGITS[:rows], TARGET[:rows]))


@pytest.mark.parametrize("name", LOSSES)
def test_the_link_is_over_the_dimension_of_the_classes(name):
    logits = LOGITS.unflatten(0, (3, 3))
    last, second = robust_loss(name, dim=-1, **extra(name)), robust_loss(name, **extra(name))
    torch.testing.assert_close(last.link(logits).sum(-1), torch.ones(3, 3))
    torch.testing.assert_close(last.link(logits), second.link(logits.movedim(-1, 1)).movedim(1, -1))


@pytest.mark.parametrize("name", LOSSES)
def test_the_link_takes_logits_only(name):
    link = robust_loss(name, dim=None, **extra(name)).link
    with pytest.raises(
        RuntimeError, match=r"Expected `(logits|input)` to be a floating-point tensor, but got torch.int64"
    ):
        link(torch.tensor([[2, 1, 0, 0]]))
    with pytest.raises(TypeError, match=r"Expected `(logits|input)` to be a torch.Tensor, but got 'list'"):
        link([[2.0, 1.0, 0.0, 0.0]])


# Of each kind of module one: what a compiler makes of numbers is code that all losses share.
KINDS = ("ce", "gce", "nce+rce", "ce_eps+mae", "ce+logitclip", "mgce+cap", "bi-tempered")


@pytest.mark.parametrize(
    "name, compiled",
    [
        *((name, False) for name in LOSSES),
        *(
            pytest.param(name, True, marks=pytest.mark.slow if name in KINDS else pytest.mark.nightly)
            for name in LOSSES
        ),
    ],
)
def test_numbers_of_numpy_are_those_of_python(name, compiled):
    logits, target = LOGITS[:8].unflatten(0, (2, 4)), TARGET[:8].unflatten(0, (2, 4))  # as many positions as classes
    given = {"label_smoothing": np.float64(0.1), "ignore_index": np.int64(1), "dim": np.int64(-1)}
    criterion = robust_loss(name, **given, **extra(name))
    want = robust_loss(name, label_smoothing=0.1, ignore_index=1, dim=-1, **extra(name))
    torch._dynamo.reset()
    made = torch.compile(criterion, backend="eager", fullgraph=True) if compiled else criterion
    torch.testing.assert_close(made(logits, target), want(logits, target))
    torch.testing.assert_close(criterion.link(logits), want.link(logits))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda number, whole: TemperedSoftmax(number(1.5), whole(-1)),
        lambda number, whole: LogitScale(MGCELoss(), number(2)).link,
        pytest.param(lambda number, whole: MinimaxLink(number(1.5), whole(-1)), marks=pytest.mark.nightly),
        pytest.param(lambda number, whole: LogitClip(MGCELoss(), number(2)).link, marks=pytest.mark.nightly),
    ],
)
def test_numbers_of_numpy_in_modules_of_their_own(make):
    torch._dynamo.reset()
    compiled = torch.compile(make(np.float32, np.int64), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(LOGITS), make(float, int)(LOGITS))


@pytest.mark.parametrize("name", LOSSES)
def test_options_that_are_tensors_are_read_at_each_call(name):
    """As cross-entropy does it: they may change in place."""
    smoothing, index = torch.tensor(0.1), torch.tensor(1)
    criterion = robust_loss(name, label_smoothing=smoothing, ignore_index=index, **extra(name))
    for smooth, ignored in ((0.1, 1), (0.5, 2)):
        smoothing.fill_(smooth), index.fill_(ignored)
        want = robust_loss(name, label_smoothing=smooth, ignore_index=ignored, **extra(name))
        torch.testing.assert_close(criterion(LOGITS, TARGET), want(LOGITS, TARGET))


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    "loss",
    [
        lambda f, **options: mgce_loss(f, TARGET, beta=1.4, **options),
        lambda f, **options: linear_mgce_loss(f, torch.eye(4), TARGET, beta=1.4, **options),
    ],
)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_gradient_is_that_of_the_options_of_its_loss(loss, create_graph, reduction):
    gradients = []
    for smoothing in (0.1, torch.tensor(0.1)):
        f = LOGITS.clone().requires_grad_()
        value = loss(f, label_smoothing=smoothing, reduction=reduction).sum()
        if isinstance(smoothing, torch.Tensor):
            smoothing.fill_(0.5)
        gradients += torch.autograd.grad(value, f, create_graph=create_graph)
    torch.testing.assert_close(*gradients)


NO_NUMBERS = [
    ("label_smoothing", torch.tensor(0.1, requires_grad=True), TypeError),
    ("label_smoothing", torch.tensor([0.1]), TypeError),
    ("label_smoothing", torch.tensor([1.0, 2.0]), TypeError),
    ("ignore_index", torch.tensor(2.0), TypeError),
    ("ignore_index", torch.tensor([1, 2]), TypeError),
    ("ignore_index", np.uint64(2**64 - 1), ValueError),
    ("ignore_index", 2**64 + 2, ValueError),
    ("ignore_index", -(2**63) - 1, ValueError),
]


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_no_number_that_a_loss_can_take_is_one_sentence(name):
    """Refused by `cross_entropy` with an error of the same type, whose sentence is its own."""
    for argument, value, error in NO_NUMBERS:
        with pytest.raises(error):
            F.cross_entropy(LOGITS, TARGET, **{argument: value})
        with pytest.raises(error, match=f"Expected `{argument}` to be a"):
            robust_loss(name, **{argument: value}, **extra(name))


@pytest.mark.parametrize("value", [2**64 + 2, torch.tensor(True), torch.tensor(1j), torch.tensor(2.0)])
@pytest.mark.parametrize("function", [mgce_loss, gce_loss, nce_loss])
def test_functions_refuse_what_no_label_can_be(function, value):
    with pytest.raises((TypeError, ValueError), match="Expected `ignore_index` to be an integer"):
        function(LOGITS, TARGET, ignore_index=value)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("sce", "cifar-10"), ValueError, "Expected `data` to be one of 'cifar10', 'cifar100', .*, but got 'cifar-10'"),
        (("sce", "CIFAR10"), ValueError, "Expected `data` to be one of"),
        (("sce", ["cifar10"]), ValueError, "Expected `data` to be one of"),
        (("ce+logitclip", None, "symmetric", 0.8), ValueError, "Expected `data` to be given where the noise is"),
        (("ce+logitclip", "cifar10", "sym", 0.8), ValueError, "Expected `noise_type` to be one of"),
        (("ce+logitclip", "cifar10", "symmetric 0.8"), ValueError, "Expected `noise_rate` to be given where"),
        (("ce+logitclip", "cifar10", None, 0.0), ValueError, "Expected `noise_type` to be given where `noise_rate` is"),
        (("ce+logitclip", "cifar10", "symmetric", 80), ValueError, "Expected `noise_rate` to be a float in"),
        (("ce+logitclip", "cifar10", "symmetric", "0.8"), TypeError, "Expected `noise_rate` to be a float in"),
        (("ce+logitclip", "cifar10", "symmetric", math.nan), ValueError, "Expected `noise_rate` to be a float in"),
    ],
)
def test_a_typing_error_is_not_taken_for_a_data_set_without_a_preset(arguments, error, match):
    with pytest.raises(error, match=match):
        robust_loss(*arguments)


def test_every_share_is_a_rate():
    for rate in (0, 0.0, 1, 1e-5, 5e-324, np.float32(0.8)):
        assert preset("ce", "cifar10", "symmetric", rate) == preset("ce", "cifar10", "asymmetric", rate) == {}


@pytest.mark.parametrize("noise", [(), ("symmetric", 0.8), ("asymmetric", 0.4)])
@pytest.mark.parametrize("data", DATA)
def test_where_nothing_was_published_the_loss_is_that_for_cifar10(data, noise):
    """As in the comparisons, by which people choose the loss that they then make by its name."""
    for name in LOSSES:
        if {"fashion_mnist": "mnist"}.get(data, data) not in LOSSES[name].presets.by_data:
            assert preset(name, data, *noise) == preset(name, "cifar10", *noise)


def test_a_rate_that_was_not_published_has_what_was_for_the_next_larger_one():
    """LogitClip: 1 up to 40 % symmetric, 1.5 above, 2.5 where asymmetric, as its docstring has it."""
    clipped = {"symmetric": {0.2: 1.0, 0.4: 1.0, 0.45: 1.5, 0.7: 1.5, 0.9: 1.5}}
    clipped |= {"asymmetric": {0.0: 1.0, 0.05: 2.5, 0.45: 2.5}}
    for kind, by_rate in clipped.items():
        assert {r: preset("ce+logitclip", "cifar10", kind, r)["inverse_norm"] for r in by_rate} == by_rate
    weights = {"symmetric": {0.0: 0.1, 0.5: 0.0125, 0.9: 0.0075}, "asymmetric": {0.4: 0.004, 0.0: 0.1, 0.15: 0.007}}
    for kind, by_rate in weights.items():
        assert {r: preset("ce_eps+mae", "cifar100", kind, r)["weights"][0] for r in by_rate} == by_rate


def test_numbers_of_numpy_are_numbers():
    assert robust_loss("agce", a=np.float32(0.5), q=np.float64(0.5))(LOGITS, TARGET) == robust_loss(
        "agce", a=0.5, q=0.5
    )(LOGITS, TARGET)
    for name, keyword in (("ce_eps", "m"), ("mgce+scale", "scale"), ("focal", "gamma"), ("jal-ce", "c")):
        criterion = robust_loss(name, **{keyword: np.float32(3)})
        value = torch.compile(criterion, backend="eager", fullgraph=True)(LOGITS, TARGET)
        torch.testing.assert_close(value, robust_loss(name, **{keyword: 3})(LOGITS, TARGET))
    torch.testing.assert_close(
        robust_loss("sce", weights=np.array([1, 2]))(LOGITS, TARGET), robust_loss("sce", weights=(1, 2))(LOGITS, TARGET)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "unhinged"])
def test_half_types_are_computed_in_float32(name, dtype):
    """The result is that of float32, rounded once; a type that holds the logits holds a multiple of them, too."""
    logits = torch.tensor([[20000.0, 19999.0, 0.0], [30.0, 29.75, 0.0], [-3.0, 1.0, 2.0]]).to(dtype)
    keywords = told(name, 3) | ({"scale": 4.3} if "scale" in LOSSES[name].hyperparameters else {})
    criterion = robust_loss(name, reduction="none", **keywords)
    got = criterion(logits, torch.tensor([1, 0, 1]))
    want = criterion(logits.float(), torch.tensor([1, 0, 1]))
    assert got.dtype == dtype and criterion.link(logits).dtype == dtype
    torch.testing.assert_close(got.float(), want, rtol=torch.finfo(dtype).eps, atol=1e-6)
