"""Every published preset is what its paper prints: the numbers and formulas are written here again, from the papers.

They are those of Ma et al. 2020, Zhou et al. 2021, Ye et al. 2023 and Wang et al. 2024 and 2025. Asymmetric noise has
those of the public configuration of Wang et al. 2024 (`config.py` of https://github.com/cswjl/eps-softmax).
"""

import math

import pytest
import torch

from mgce import robust_loss
from mgce.functional import mgce_loss
from mgce_lab.losses import LOSSES

# Norms on both sides of those at which logits are clipped, and classes that lead and that do not.
LOGITS = 3 * torch.randn(40, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TARGET = torch.arange(40) % 5
P = LOGITS.softmax(1)
OWN, LEADS = P[torch.arange(40), TARGET], P.argmax(1) == TARGET

CE = -OWN.log()
MAE = 1 - OWN
RCE = -math.log(1e-4) * MAE  # the code of its authors clamps at 1e-4, their paper writes log 0 = -4
NCE = OWN.log() / P.log().sum(1)
MGCE = mgce_loss(LOGITS, TARGET, beta=1.4, reduction="none")
LIFTED = P.clamp(min=1e-7).log() - math.log(1e-7)
NNCE = 1 - (OWN.clamp(min=1e-7).log() - math.log(1e-7)) / LIFTED.sum(1)


def gce(q):
    return (1 - OWN**q) / q


def agce(a, q):
    return ((a + 1) ** q - (a + OWN) ** q) / q


def amse(c):
    return ((P - c * torch.nn.functional.one_hot(TARGET, 5)) ** 2).mean(1)


def ce_eps(m):
    return -((OWN + m * LEADS) / (m + 1)).clamp(min=1e-8).log()


def clipped_ce(delta):
    clipped = LOGITS * (1 / (delta * LOGITS.norm(dim=1, keepdim=True))).clamp(max=1)
    return -clipped.log_softmax(1)[torch.arange(40), TARGET]


BY_DATA = {
    ("gce", "clothing1m"): gce(0.6),
    ("sce", "mnist"): 0.01 * CE + RCE,
    ("sce", "cifar10"): 0.1 * CE + RCE,
    ("sce", "cifar100"): 6 * CE + 0.1 * RCE,
    ("sce", "webvision"): 10 * CE + RCE,
    ("mgce+rce", "mnist"): 0.01 * MGCE + RCE,  # ours: SCE with MGCE for its cross-entropy, and the weights of SCE
    ("mgce+rce", "cifar10"): 0.1 * MGCE + RCE,
    ("mgce+rce", "cifar100"): 6 * MGCE + 0.1 * RCE,
    ("mgce+rce", "webvision"): 10 * MGCE + RCE,
    ("nce+rce", "mnist"): NCE + 10 * RCE,
    ("nce+rce", "cifar10"): NCE + RCE,
    ("nce+rce", "cifar100"): 10 * NCE + 0.1 * RCE,
    ("nce+rce", "webvision"): 50 * NCE + 0.1 * RCE,
    ("nce+mae", "mnist"): NCE + 10 * MAE,
    ("nce+mae", "cifar10"): NCE + MAE,
    ("nce+mae", "cifar100"): 10 * NCE + 0.1 * MAE,
    ("agce", "mnist"): agce(4, 0.2),
    ("agce", "cifar10"): agce(0.6, 0.6),
    ("agce", "cifar100"): agce(0.6, 0.6),
    ("agce", "webvision"): agce(1e-5, 0.5),
    ("nce+agce", "mnist"): agce(4, 0.2),
    ("nce+agce", "cifar10"): NCE + 4 * agce(6, 1.5),
    ("nce+agce", "cifar100"): 10 * NCE + 0.1 * agce(1.8, 3),
    ("nce+agce", "webvision"): 50 * NCE + 0.1 * agce(2.5, 3),
    ("anl-ce", "mnist"): NCE + NNCE,
    ("anl-ce", "cifar10"): 5 * NCE + 5 * NNCE,
    ("anl-ce", "cifar100"): 10 * NCE + NNCE,
    ("anl-ce", "webvision"): 20 * NCE + NNCE,
    ("jal-ce", "cifar10"): NCE + amse(30),
    ("jal-ce", "cifar100"): 5 * NCE + amse(20),
    ("jal-ce", "webvision"): 50 * NCE + amse(30),
    ("ce_eps+mae", "cifar10"): 0.01 * ce_eps(1e5) + 5 * 2 * MAE,  # whose authors count |p - e_y|, summed
    ("ce_eps+mae", "cifar100"): 0.1 * ce_eps(1e4) + 2 * MAE,
    ("ce_eps+mae", "webvision"): 0.015 * ce_eps(1e3) + 0.3 * 2 * MAE,
    ("ce+logitclip", "cifar10"): clipped_ce(1),
    ("ce+logitclip", "cifar100"): clipped_ce(0.5),
    ("ce+logitclip", "webvision"): clipped_ce(1.2),
}
# Without noise, at every rate that was published, and above the largest.
BY_NOISE = {
    ("ce_eps+mae", "cifar10", "symmetric"): {
        0: BY_DATA["ce_eps+mae", "cifar10"],
        0.8: BY_DATA["ce_eps+mae", "cifar10"],
    },
    ("ce_eps+mae", "cifar10", "asymmetric"): {
        0: BY_DATA["ce_eps+mae", "cifar10"],
        0.4: 0.02 * ce_eps(1e3) + 5 * 2 * MAE,
        0.45: 0.02 * ce_eps(1e3) + 5 * 2 * MAE,
    },
    ("ce_eps+mae", "cifar100", "symmetric"): {
        0: 0.1 * ce_eps(1e4) + 2 * MAE,
        0.2: 0.05 * ce_eps(1e4) + 2 * MAE,
        0.4: 0.03 * ce_eps(1e4) + 2 * MAE,
        0.6: 0.0125 * ce_eps(1e4) + 2 * MAE,  # of the paper; .00125 in the public configuration
        0.8: 0.0075 * ce_eps(1e4) + 2 * MAE,
        0.9: 0.0075 * ce_eps(1e4) + 2 * MAE,
    },
    ("ce_eps+mae", "cifar100", "asymmetric"): {
        0: 0.1 * ce_eps(1e4) + 2 * MAE,
        0.1: 0.015 * ce_eps(1e2) + 2 * MAE,
        0.2: 0.007 * ce_eps(1e2) + 2 * MAE,
        0.3: 0.005 * ce_eps(1e2) + 2 * MAE,
        0.4: 0.004 * ce_eps(1e2) + 2 * MAE,
        0.45: 0.004 * ce_eps(1e2) + 2 * MAE,
    },
    ("ce+logitclip", "cifar10", "symmetric"): {
        0: clipped_ce(1),
        0.2: clipped_ce(1),
        0.4: clipped_ce(1),
        0.6: clipped_ce(1.5),
        0.8: clipped_ce(1.5),
        0.9: clipped_ce(1.5),
    },
    ("ce+logitclip", "cifar10", "asymmetric"): {0: clipped_ce(1), 0.1: clipped_ce(2.5), 0.45: clipped_ce(2.5)},
    ("ce+logitclip", "cifar100", "symmetric"): {0: clipped_ce(0.5), 0.8: clipped_ce(0.5)},
    ("ce+logitclip", "cifar100", "asymmetric"): {0: clipped_ce(0.5), 0.1: clipped_ce(2.5), 0.45: clipped_ce(2.5)},
}


def test_no_preset_is_missing_here():
    """A new one has its numbers written twice: where the loss is, and here from its paper."""
    losses = LOSSES.values()
    assert {(loss.name, data) for loss in losses for data in loss.presets.by_data} == BY_DATA.keys()
    assert {(loss.name, *key) for loss in losses for key in loss.presets.by_noise} <= BY_NOISE.keys()


@pytest.mark.parametrize("name, data", BY_DATA)
def test_a_preset_is_what_was_published(name, data):
    want = BY_DATA[name, data]
    torch.testing.assert_close(robust_loss(name, data, reduction="none")(LOGITS, TARGET), want)
    if data == "mnist":
        torch.testing.assert_close(robust_loss(name, "fashion_mnist", reduction="none")(LOGITS, TARGET), want)


@pytest.mark.parametrize("name, data, noise_type, rate", [(*key, rate) for key in BY_NOISE for rate in BY_NOISE[key]])
def test_a_preset_of_a_noise_rate_is_what_was_published(name, data, noise_type, rate):
    criterion = robust_loss(name, data, noise_type, rate, reduction="none")
    torch.testing.assert_close(criterion(LOGITS, TARGET), BY_NOISE[name, data, noise_type][rate])
