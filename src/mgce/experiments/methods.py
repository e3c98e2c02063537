"""The losses that are compared: names, betas and hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mgce._validation import check_choice, expected
from mgce.losses.presets import DATA, LOSSES, WITH_BETA, preset
from mgce.losses.trimmed import check_trim
from mgce.noise import inverse_noise_matrix
from mgce.training.member_losses import MemberLoss

# q = .7, as all comparisons have it.
GCE_BETA = 1 / 0.7
# MGCE: the minimax MAE, near it, the paper's default, and beyond.
MGCE_BETAS = (1.0, 1.05, 1.4, 2.0)
VARIANT_BETA = 1.4
NEAR_MAE = 1.05  # beta of the variant that is for it
# At a scale of 4 the loss of a row, at beta = 1.4, ends when its class leads by 0.35, which a network reaches sooner.
SCALE = 4.0
TRIMMED = ("mgce+trim", "ce+trim")
# Methods of the paper, by the family that their loss is of: its MAE is the convex minimax one.
PAPER: Mapping[str, str] = {"mgce": "mgce", "gce": "gce", "ce": "mgce", "mae": "mgce"}
CHOOSING = ("mgce", "gce")  # those of them whose beta validation chooses
# These have no gradient at rows whose label has little probability, as all labels have at first, so that a network has
# to learn something by the loss without a cap: for so many epochs, of which the protocols have 30 to 200, unless a run
# says otherwise.
CAPPED, CAPPED_FROM = ("mgce+cap", "mgce+trunc", "ce+trunc"), 3


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
        return f"{self.name} {self.beta:g}" if self.name.startswith("mgce") else self.name

    @property
    def untrimmed(self) -> Method:
        """The loss that it trims; itself where it trims none."""
        return Method(self.name.removesuffix("+trim"), self.beta)

    def hyperparameters(self, data: str, noise: str | None) -> dict[str, Any]:
        """Give those published for a data set and a kind of noise, or for CIFAR-10, and those of the variants.

        Args:
            data: the data set, as `preset` has it, or another.
            noise: kind and rate, as `preset` has it.
        """
        published = preset(self.name, data if data in DATA else "cifar10", noise)
        options = {**published, **({"scale": SCALE} if self.name.endswith("+scale") else {})}
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
        options = self.hyperparameters(data, noise)
        if self.name.endswith("+forward"):
            options["transition"] = transition.tolist()
        elif self.name in TRIMMED:
            trim = self._wrong_labels(transition, frequencies) if self.trim is None else self.trim
            options |= {"trim": trim, "n_classes": len(transition)}
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
        return MemberLoss(PAPER[method.name], method.beta)
    return method.loss(data, noise, transition, frequencies)


def paper_betas(name: str, candidates: tuple[float, ...]) -> tuple[float, ...]:
    """Give the betas of a method in comparisons with the paper's: of those that choose theirs, the candidates.

    Example:
        >>> [paper_betas(name, (1.4, 2.0)) for name in ("gce", "mae", "ce", "mgce+rce")]
        [(1.4, 2.0), (1.0,), (inf,), (1.4,)]
    """
    if name in CHOOSING:
        return candidates
    return (1.0,) if name == "mae" else (next(method.beta for method in reversed(METHODS) if method.name == name),)


def stages(losses: Sequence[MemberLoss], cap_from: int = CAPPED_FROM) -> dict[int, list[MemberLoss]]:
    """Give the losses from an epoch on by that epoch: those with a cap have it from `cap_from` on.

    Example:
        >>> [[loss.family for loss in losses] for losses in stages([MemberLoss("mgce+cap", 1.4)]).values()]
        [['mgce'], ['mgce+cap']]
    """
    begin = [MemberLoss(loss.family.split("+")[0], loss.beta) if loss.family in CAPPED else loss for loss in losses]
    return {0: begin, cap_from: list(losses)} if begin != list(losses) else {0: begin}


def _all() -> tuple[Method, ...]:
    several = {
        **{"gce": (GCE_BETA,), "gce+scale": (GCE_BETA,)},
        **{"mgce": MGCE_BETAS, "mgce+scale": (NEAR_MAE, VARIANT_BETA), "mgce+cap": (NEAR_MAE,)},
        **{"mgce+trunc": (NEAR_MAE,), "mgce+trim": (NEAR_MAE,)},
    }
    methods: list[Method] = []
    for name in LOSSES:
        betas = several.get(name, (VARIANT_BETA if name in WITH_BETA else math.inf,))
        methods += [Method(name, beta) for beta in betas]
    return tuple(methods)


METHODS = _all()
