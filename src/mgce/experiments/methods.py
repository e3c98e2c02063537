"""The losses that are compared: at which betas, with which hyperparameters, and what is told to them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mgce._validation import check_choice, expected
from mgce.losses.presets import DATA, LOSSES, preset
from mgce.losses.trimmed import check_trim
from mgce.noise import inverse_noise_matrix
from mgce.training.member_losses import MemberLoss

(GCE_BETA,) = LOSSES["gce"].compared_betas
TRIMMED = tuple(name for name, loss in LOSSES.items() if loss.trims)
# What comparisons with the paper's methods mean by the name of a loss: which loss, and its beta, None where validation
# chooses it. The paper's MAE is the convex minimax one; elsewhere `mae` is that of softmax, which has a name here too.
MEANT: Mapping[str, tuple[str, float | None]] = {
    "mgce": ("mgce", None),
    "gce": ("gce", None),
    "ce": ("mgce", math.inf),
    "mae": ("mgce", 1.0),
    "softmax_mae": ("gce", 1.0),
}
PAPER = tuple(name for name in MEANT if name != "softmax_mae")
CHOOSING = tuple(name for name, (_, beta) in MEANT.items() if beta is None)
# These a network learns only after so many epochs by the loss without a cap, of the 30 to 200 that the protocols have,
# unless a run says otherwise.
CAPPED, CAPPED_FROM = tuple(name for name, loss in LOSSES.items() if loss.begin), 3


@dataclass(frozen=True)
class Method:
    """A loss of the comparison.

    Attributes:
        name: in `mgce.losses.presets.LOSSES`.
        beta: in [1, inf]; inf where it has none.
        trim: of a loss that trims, the share of the rows of every label to leave out, in [0, 1); None for that of wrong
            labels, which differs by label.
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
        """How tables call it."""
        return f"{self.name} {self.beta:g}" if is_mgce(self.name) else self.name

    @property
    def untrimmed(self) -> Method:
        """The loss that it trims; itself where it trims none."""
        return Method(LOSSES[self.name].of[0].name, self.beta) if LOSSES[self.name].trims else self

    def hyperparameters(self, data: str, noise: str | None) -> dict[str, Any]:
        """Give those published for a data set and a kind of noise, or for CIFAR-10, and those of comparisons.

        Args:
            data: the data set, as `preset` has it, or another.
            noise: kind and rate, as `preset` has it.
        """
        published = preset(self.name, data if data in DATA else "cifar10", noise)
        options = {**LOSSES[self.name].compared, **published}
        options.pop("beta", None)  # GCE's, which is `self.beta`
        return options

    def loss(self, data: str, noise: str | None, transition: Tensor, frequencies: Tensor) -> MemberLoss:
        """Make it, with its hyperparameters.

        Args:
            data: the data set, as `hyperparameters` has it.
            noise: kind and rate, as `hyperparameters` has it.
            transition: matrix of the noise, for the methods that are told it.
            frequencies: of the true classes, for those that are told the share of wrong labels by label.
        """
        options, told = self.hyperparameters(data, noise), LOSSES[self.name].told
        if "transition" in told:
            options["transition"] = transition.tolist()
        if "trim" in told:
            options["trim"] = self._wrong_labels(transition, frequencies) if self.trim is None else self.trim
        if "num_classes" in told:
            options["num_classes"] = len(transition)
        return MemberLoss(self.name, self.beta, options)

    def _wrong_labels(self, transition: Tensor, frequencies: Tensor) -> list[float]:
        """Give the share of wrong labels of each label."""
        right = inverse_noise_matrix(transition, frequencies).diagonal()
        if right.min() <= 0:
            what = f"such that {self.name}, which leaves out wrong labels, has a right one of every class"
            raise ValueError(expected("noise", what, "noise in which all labels of a class are wrong"))
        # Shares as one would state them, and not 1 - .6 in floating point.
        return [round(1 - share, 6) for share in right.tolist()]


def paper_loss(method: Method, data: str, noise: str | None, transition: Tensor, frequencies: Tensor) -> MemberLoss:
    """Make a loss as comparisons with the paper's methods have it; what it takes is what :meth:`Method.loss` does.

    Example:
        >>> paper_loss(Method("mae", 1.0), "mnist", None, torch.eye(2), torch.ones(2)).family
        'mgce'
    """
    if method.name in PAPER:
        return MemberLoss(MEANT[method.name][0], method.beta)
    return method.loss(data, noise, transition, frequencies)


def paper_betas(name: str, candidates: tuple[float, ...]) -> tuple[float, ...]:
    """Give the betas of a method in comparisons with the paper's: of those that choose theirs, the candidates.

    Example:
        >>> [paper_betas(name, (1.4, 2.0)) for name in ("gce", "mae", "ce", "mgce+rce")]
        [(1.4, 2.0), (1.0,), (inf,), (1.4,)]
    """
    if name not in MEANT:
        return LOSSES[name].compared_betas[-1:]
    beta = MEANT[name][1]
    return candidates if beta is None else (beta,)


def stages(losses: Sequence[MemberLoss], cap_from: int = CAPPED_FROM) -> dict[int, list[MemberLoss]]:
    """Give the losses from an epoch on by that epoch: those with a cap have it from `cap_from` on.

    Example:
        >>> [[loss.family for loss in losses] for losses in stages([MemberLoss("mgce+cap", 1.4)]).values()]
        [['mgce'], ['mgce+cap']]
    """
    first = [LOSSES[loss.family].begin for loss in losses]
    begin = [MemberLoss(one.name, loss.beta) if one else loss for one, loss in zip(first, losses, strict=True)]
    return {0: begin, cap_from: list(losses)} if begin != list(losses) else {0: begin}


def is_mgce(label: str) -> bool:
    """Tell whether a name of tables, which begins with that of a loss, is of MGCE or of a loss made of it.

    Example:
        >>> [is_mgce(label) for label in ("mgce 1.05, trim 0.2", "mgce+nce 1.4", "ce+trim")]
        [True, True, False]
    """
    return LOSSES[re.split("[ ,]", label)[0]].core.name == "mgce"


METHODS = tuple(Method(name, beta) for name, loss in LOSSES.items() for beta in loss.compared_betas)
