import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from mgce import robust_loss
from mgce.functional import (
    agce_loss,
    amse_loss,
    clip_logits,
    epsilon_softmax_loss,
    mgce_loss,
    minimax_probs,
    nce_loss,
    nnce_loss,
)
from mgce.losses.presets import LOSSES, PRESETS, PRESETS_BY_NOISE, preset

LOGITS, TARGET = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4
P = LOGITS.double().softmax(-1).gather(1, TARGET[:, None])[:, 0]
H = minimax_probs(LOGITS.double(), beta=1.4).gather(1, TARGET[:, None])[:, 0]


def extra(name):
    if name.endswith("+trim"):
        return {"trim": 0.0, "n_classes": 4}
    return {"transition": torch.eye(4)} if name.endswith("+forward") else {}


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


@pytest.mark.parametrize("name, data", [(name, data) for name, table in PRESETS.items() for data in table])
def test_every_preset_makes_its_loss(name, data):
    assert robust_loss(name, data)(LOGITS, TARGET).isfinite()
    for noise, keywords in PRESETS_BY_NOISE.get((name, data), {}).items():
        assert preset(name, data, noise) == {**preset(name, data), **keywords}
        assert robust_loss(name, data, noise)(LOGITS, TARGET) != robust_loss(name, data)(LOGITS, TARGET)


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
        ("mgce+logitclip", None, mgce_loss(clip_logits(LOGITS, delta=1.0), TARGET, beta=1.4)),
        ("mgce+trunc", None, 1.4 * (1 - H.clamp(min=0.5) ** (1 / 1.4)).mean()),
        ("mgce+rce", "cifar10", 0.1 * mgce_loss(LOGITS, TARGET, beta=1.4).double() - math.log(1e-4) * (1 - P).mean()),
        ("ce+trunc", None, -P.clamp(min=0.5).log().mean()),
        ("mgce+forward", None, mgce_loss(LOGITS, TARGET, beta=1.4, reduction="none").clamp(max=1.4).mean()),
    ],
)
def test_names_mean_their_formulas(name, data, want):
    torch.testing.assert_close(robust_loss(name, data, **extra(name))(LOGITS, TARGET), want.float())


def test_scaled_logits_are_those_of_a_network_whose_last_layer_is_larger():
    criterion = robust_loss("mgce+scale", beta=2.0, scale=3.0)
    torch.testing.assert_close(criterion(LOGITS, TARGET), mgce_loss(3 * LOGITS, TARGET, beta=2.0))
    torch.testing.assert_close(criterion.link(LOGITS), minimax_probs(3 * LOGITS, beta=2.0))
    with pytest.raises(ValueError, match="Expected `scale` to be a finite number in"):
        robust_loss("mgce+scale", scale=0.0)


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="Expected `name` to be one of 'ce', 'mae'"):
        robust_loss("nothing")
    with pytest.raises(
        TypeError, match="TrimmedLoss.. missing 2 required keyword-only arguments: 'trim' and 'n_classes'"
    ):
        robust_loss("mgce+trim")
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        robust_loss("nce+rce", a=1.0)
    assert preset("focal", "cifar10") == {}
    assert robust_loss("agce", "mnist", q=0.5).q == 0.5


def test_the_page_of_losses_has_a_row_for_each():
    page = (Path(__file__).parents[2] / "docs" / "losses.md").read_text()
    names = {name.strip(" `") for row in page.split("\n| ")[2:] for name in row.split("|")[0].split(",")}
    assert set(LOSSES) <= names
