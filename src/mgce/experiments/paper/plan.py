"""What `mgce reproduce` is asked for: data sets, methods, betas, seeds, and whether in miniature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mgce._validation import check_beta, check_choice, check_count, expected
from mgce.experiments.methods import PAPER, paper_betas
from mgce.experiments.paper.image_settings import NOISE_RATES
from mgce.losses.presets import LOSSES

KNOWN = tuple(dict.fromkeys((*PAPER, *LOSSES)))
# Candidates for the cross-validation. The paper has eight from 1.05 to 11 and does not name them; we take 1.05, 1.18
# and 1.4, which its figures show, and five more up to 11.
BETAS = (1.05, 1.18, 1.4, 1.7, 2.0, 3.0, 5.0, 11.0)
# At which the figures of accuracy by epoch compare MGCE and GCE.
BETA = 1.4


@dataclass(frozen=True)
class Options:
    """What is asked for.

    Attributes:
        datasets: names; None for those of the paper.
        methods: some of `KNOWN`: those of the paper, and the other losses of this package.
        betas: candidates for the beta of mgce and gce.
        seeds: how many.
        smoke: whether to run a miniature, to see that all works.
        together: whether the networks of all seeds and methods are one run. One alone is too small to keep an
            accelerator busy; on a CPU, separate runs use the cores side by side.
        noises: rates of symmetric noise in Tables 1 and 3, among the paper's; None for all of them.
        settings: settings of image networks that replace the paper's: the `stem` or the number of `epochs`.
    """

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] = PAPER
    betas: tuple[float, ...] = BETAS
    seeds: int = 5
    smoke: bool = False
    together: bool = False
    noises: tuple[float, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds)
        for method in self.methods:
            check_choice("methods", method, KNOWN)
        for beta in self.betas:
            check_beta(beta)
        for noise in self.noises or ():
            check_choice("noise", noise, NOISE_RATES)
        for name in ("methods", "betas", "datasets", "noises"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) < len(values)):
                raise ValueError(expected(name, "one or more values, none of them twice", values))

    def candidates(self, method: str) -> tuple[float, ...]:
        """Give the values of beta to choose from, as :func:`mgce.experiments.methods.paper_betas` does."""
        return paper_betas(method, self.betas)
