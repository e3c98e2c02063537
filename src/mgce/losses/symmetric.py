r"""Define reverse cross-entropy, and symmetric cross-entropy (SCE), which is cross-entropy plus reverse cross-entropy.

Reverse cross-entropy is symmetric: its sum over all classes is the same for every row of logits. Symmetric noise then
does not move the minimiser of its mean. But alone it learns slowly, and underfits with many classes. Cross-entropy
learns fast, and memorises wrong labels. SCE weighs the two: `robust_loss("sce", "cifar10")`.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from mgce._validation import expected
from mgce.kernels.options import SoftmaxTerms
from mgce.losses.modules import CE, MGCE
from mgce.losses.records import NamedLoss, Number, Presets
from mgce.losses.scored import Wanted, expm1
from mgce.losses.scored_module import ScoredLoss, by_scores
from mgce.losses.sums import sum_of

LARGEST_A = 1e30  # well within the range of float32


def rce_scores(logits: Tensor, wanted: Wanted, log_zero: float) -> Tensor:
    r"""Compute reverse cross-entropy: the mean absolute error times a number A that replaces -log 0.

    .. math:: \ell(f, y) = -\sum_j p_j \log [j = y] = A (1 - p_y), \qquad p = \mathrm{softmax}(f), \quad A = -\log 0

    where [j = y] is 1 if class j is the label y, else 0. The loss lies in [0, A]. It is symmetric: its sum over the k
    classes is A (k - 1). It is not convex in the logits. Against class probabilities q it is
    :math:`\sum_y q_y \ell(f, y)`, as for every loss of this package, and not :math:`-\sum_j p_j \log q_j`.

    Reference: Wang et al., Symmetric cross entropy for robust learning with noisy labels, 2019.
    """
    if log_zero == 0:
        raise ValueError(expected("log_zero", "below 0", log_zero))
    return -log_zero * expm1(wanted.of(F.log_softmax(logits, wanted.dim)))


class _WithKernel(ScoredLoss):
    """The base class of the module, for which there is a kernel."""

    @staticmethod
    def terms_of(**own: Any) -> SoftmaxTerms | None:
        """Return the numbers of the loss for its kernel; None if `log_zero` has to be checked first."""
        log_zero = own["log_zero"]
        is_checked = type(log_zero) is float and -LARGEST_A <= log_zero < 0
        return SoftmaxTerms(0.0, -log_zero, 1.0) if is_checked else None


RCE = NamedLoss(
    "rce",
    by_scores(
        "RCELoss",
        rce_scores,
        ("log_zero=-4", "2.9242"),
        base=_WithKernel,
        log_zero=Number(
            math.log(1e-4),  # with which the published results were computed
            "-A, the number that replaces log 0, in [-1e30, 0). Papers write -4, but their results were computed with "
            "log 1e-4 = -9.21, the default.",
            -LARGEST_A,
            0,
        ),
    ),
    "$A (1 - p_y)$, `log_zero` = -A",
    order=5,
    bounded=True,
    symmetric=True,
    source="Wang et al. 2019",
)
_SCE = Presets(
    {
        "mnist": {"weights": (0.01, 1.0)},
        "cifar10": {"weights": (0.1, 1.0)},
        "cifar100": {"weights": (6.0, 0.1)},
        "webvision": {"weights": (10.0, 1.0)},
    },
    source="Ma et al. 2020",
)
SCE = sum_of(
    "sce",
    CE,
    RCE,
    order=6,
    claims={"convex": r"if $w_2 A \le w_1$"},
    source="Wang et al. 2019",
    presets=_SCE,
    recommended=True,
)
MGCE_RCE = sum_of("mgce+rce", MGCE, RCE, order=26, presets=_SCE)  # SCE with MGCE for its cross-entropy
NAMED = (RCE, SCE, MGCE_RCE)
