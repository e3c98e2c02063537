"""Define the losses in comparisons: their betas, their hyperparameters, and what they know of the noise."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mgce._messages import check_choice, expected, nearest
from mgce.losses.trimmed import check_trim
from mgce.noise import inverse_noise_matrix
from mgce.numerics.root import DEFAULT_BETA
from mgce_lab.losses import DATA, LOSSES, preset
from mgce_lab.training.member_losses import MemberLoss

NEAR_MAE = 1.05  # beta in comparisons of what should be near the minimax MAE, as variants that give up rows should
# The betas at which losses are compared, if not at their default. MGCE: at the minimax MAE, near it, at the paper's
# default, and beyond.
_BETAS = {
    "mgce": (1.0, NEAR_MAE, DEFAULT_BETA, 2.0),
    "mgce+scale": (NEAR_MAE, DEFAULT_BETA),
    **dict.fromkeys(("mgce+cap", "mgce+trim", "mgce+trunc"), (NEAR_MAE,)),
}
# The loss of the first epochs. A loss with a cap needs one: it has no gradient for rows whose label has a small
# probability, as all labels have at the start of training.
_BEGIN = {"mgce+cap": "mgce", "mgce+trunc": "mgce", "ce+trunc": "ce"}
# Of data for which none is published. At a scale of 4 the MGCE of a row, at beta = 1.4, ends when its class leads by
# 0.35, as is soon learnt.
_SCALE = {"scale": 4.0}


def compared_betas(name: str) -> tuple[float, ...]:
    """Return the values of beta in comparisons of a loss; (inf,) for a loss without beta."""
    return _BETAS.get(name, (LOSSES[name].hyperparameters.get("beta", math.inf),))


(GCE_BETA,) = compared_betas("gce")
TRIMMED = tuple(name for name, loss in LOSSES.items() if "trim" in loss.told)
# The paper's methods, as `at_betas` reads them. Its MAE is the convex minimax one, MGCE at beta = 1; `mae` is that of
# softmax. Of the others, validation chooses the beta of those that have one.
MINIMAX_MAE = "mgce@1"
CHOOSING = ("mgce", "gce")
PAPER = (*CHOOSING, "ce", MINIMAX_MAE)
KNOWN = tuple(dict.fromkeys((*PAPER, *LOSSES)))
# These a network learns only after so many epochs by the loss without a cap, of the 30 to 200 that the protocols have,
# unless a run says otherwise.
CAPPED, CAPPED_FROM = tuple(name for name in LOSSES if name in _BEGIN), 3

PublishedFor = tuple[str, str | None, float | None]  # data set, kind and rate of the noise


@dataclass(frozen=True)
class Method:
    """A loss in a comparison, with its hyperparameters beta and trim.

    Attributes:
        name: name of the loss, a key of `mgce_lab.losses.LOSSES`.
        beta: in [1, inf]; inf for a loss without beta.
        trim: for a trimmed loss, the fraction of the rows of every label to leave out, in [0, 1). None means the true
            fraction of wrong labels, which differs by label.
    """

    name: str
    beta: float = math.inf
    trim: float | None = None

    def __post_init__(self) -> None:
        check_choice("methods", self.name, tuple(LOSSES))
        if self.trim is not None:
            check_choice("methods", self.name, TRIMMED)
            check_trim("trim", self.trim)

    @property
    def label(self) -> str:
        """The name of the loss in tables, with beta if the loss is MGCE or built on MGCE."""
        return f"{self.name} {self.beta:g}" if is_mgce(self.name) else self.name

    @property
    def untrimmed(self) -> Method:
        """The loss inside a trimmed loss; for other losses the loss itself."""
        return Method(LOSSES[self.name].of[0].name, self.beta) if self.name in TRIMMED else self

    def hyperparameters(
        self, data: str, noise_type: str | None = None, noise_rate: float | None = None
    ) -> dict[str, Any]:
        """Return the hyperparameters of the loss, except beta.

        Published hyperparameters for the data set and the noise are used, or else those for CIFAR-10. Without published
        ones, the values are those that this package uses in comparisons, or the defaults.

        Args:
            data: the data set, as for :func:`mgce.losses.presets.preset`; any other name stands for CIFAR-10.
            noise_type: as for :func:`mgce.losses.presets.preset`.
            noise_rate: as for :func:`mgce.losses.presets.preset`.
        """
        published = preset(self.name, data if data in DATA else "cifar10", noise_type, noise_rate)
        options = {**(_SCALE if self.name.endswith("+scale") else {}), **published}
        options.pop("beta", None)  # GCE's, which is `self.beta`
        return options

    def loss(self, published_for: PublishedFor, transition: Tensor, frequencies: Tensor) -> MemberLoss:
        """Return the loss as a :class:`MemberLoss` with its hyperparameters.

        Args:
            published_for: data set, type and rate of the noise, as for :meth:`hyperparameters`.
            transition: transition matrix of the noise, for losses that use it.
            frequencies: frequencies of the true classes, for losses that use the fraction of wrong labels of each
                label.
        """
        options, told = self.hyperparameters(*published_for), LOSSES[self.name].told
        if "transition" in told:
            options["transition"] = transition.tolist()
        if "trim" in told:
            options["trim"] = self._wrong_labels(transition, frequencies) if self.trim is None else self.trim
        if "num_classes" in told:
            options["num_classes"] = len(transition)
        return MemberLoss(self.name, self.beta, options)

    def _wrong_labels(self, transition: Tensor, frequencies: Tensor) -> list[float]:
        """Return the fraction of wrong labels among the rows with each label."""
        right = inverse_noise_matrix(transition, frequencies).diagonal()
        if right.min() <= 0:
            what = f"such that {self.name}, which leaves out wrong labels, has a right one of every class"
            raise ValueError(expected("noise_rate", what, "noise in which all labels of a class are wrong"))
        # Shares as one would state them, and not 1 - .6 in floating point.
        return [round(1 - share, 6) for share in right.tolist()]


def at_betas(method: str, candidates: tuple[float, ...]) -> list[Method]:
    """Return the losses to train for a method of a comparison: one for each beta that validation may select.

    Args:
        method: name of a loss, or NAME@BETA for a loss at a fixed beta.
        candidates: values of beta for the methods in `CHOOSING`.

    Raises:
        ValueError: if the method is neither NAME nor NAME@BETA.

    Example:
        >>> [one.beta for name in ("gce", "mgce@1", "ce", "mgce+rce") for one in at_betas(name, (1.4, 2.0))]
        [1.4, 2.0, 1.0, inf, 1.4]
    """
    name, fixed, beta = method.partition("@")
    if not fixed:
        check_choice("methods", name, KNOWN)
        return [Method(name, beta) for beta in (candidates if name in CHOOSING else compared_betas(name)[-1:])]
    try:
        if not (name in LOSSES and "beta" in LOSSES[name].hyperparameters and float(beta) >= 1):
            raise ValueError
    except ValueError:
        what = "names of losses, or NAME@BETA of one that has a beta, from 1 to inf, as in mgce@1"
        raise ValueError(expected("methods", what, method) + nearest(name, LOSSES)) from None
    return [Method(name, float(beta))]


def row_name(method: str, beta: float) -> str:
    """Return the row of a network in the paper's tables: `MINIMAX_MAE` for MGCE at beta = 1, else the method."""
    return MINIMAX_MAE if (method, beta) == ("mgce", 1) else method


def stages(losses: Sequence[MemberLoss], cap_from: int = CAPPED_FROM) -> dict[int, list[MemberLoss]]:
    """Return a schedule: a dict that maps the first epoch of each stage to the list of losses in this stage.

    A loss with a cap (an upper limit on its value) is trained without the cap in the epochs before `cap_from`. If no
    loss has a cap, the dict has only the key 0.

    Example:
        >>> [[loss.family for loss in losses] for losses in stages([MemberLoss("mgce+cap", 1.4)]).values()]
        [['mgce'], ['mgce+cap']]
    """
    begin = [MemberLoss(_BEGIN[one.family], one.beta) if one.family in _BEGIN else one for one in losses]
    return {0: begin, cap_from: list(losses)} if begin != list(losses) else {0: begin}


def is_mgce(label: str) -> bool:
    """Return whether a name in a table, which begins with the name of a loss, stands for MGCE or a variant of it.

    Example:
        >>> [is_mgce(label) for label in ("mgce 1.05, trim 0.2", "mgce+nce 1.4", "ce+trim")]
        [True, True, False]
    """
    loss = LOSSES[_BEGIN.get(name := re.split("[ ,]", label)[0], name)]
    while loss.of:
        loss = loss.of[0]
    return loss.name == "mgce"


METHODS = tuple(Method(name, beta) for name in LOSSES for beta in compared_betas(name))
