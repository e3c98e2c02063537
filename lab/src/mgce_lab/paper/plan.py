"""Define the options of `mgce-lab reproduce`: data sets, methods, betas, seeds, and smoke runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mgce._messages import check_choice, check_count, expected
from mgce._validation import check_beta
from mgce_lab.engine.methods import MINIMAX_MAE, PAPER, at_betas
from mgce_lab.paper.image_settings import NOISE_RATES

# Candidates for the cross-validation. The paper has eight from 1.05 to 11 and does not name them; we take 1.05, 1.18
# and 1.4, which its figures show, and five more up to 11.
BETAS = (1.05, 1.18, 1.4, 1.7, 2.0, 3.0, 5.0, 11.0)
# At which the figures of accuracy by epoch compare MGCE and GCE.
BETA = 1.4


@dataclass(frozen=True)
class Options:
    """The options of `mgce-lab reproduce`.

    Attributes:
        datasets: names of data sets; None means those of the paper.
        methods: names of losses, or NAME@BETA for a loss at a fixed beta.
        betas: candidates for the beta of mgce and gce.
        seeds: number of seeds.
        smoke: whether to run a miniature that only checks that everything works.
        together: whether one run trains the networks of all seeds and methods at once. This suits a GPU, which one
            small network cannot keep busy. On a CPU separate runs can use several cores.
        noise_rates: rates of symmetric noise in Tables 1 and 3, a subset of the paper's; None means all of them.
        settings: settings of networks for images that replace the paper's: the `stem` or the number of `epochs`.
    """

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] = PAPER
    betas: tuple[float, ...] = BETAS
    seeds: int = 5
    smoke: bool = False
    together: bool = False
    noise_rates: tuple[float, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds)
        for beta in self.betas:
            check_beta(beta)
        for method in self.methods:
            self.members(method)
        if "mgce" in self.methods and 1 in self.betas:
            raise ValueError(expected("betas", f"above 1 for mgce, which has {MINIMAX_MAE} in a row of its own", 1))
        for rate in self.noise_rates or ():
            check_choice("noise_rate", rate, NOISE_RATES)
        for name in ("methods", "betas", "datasets", "noise_rates"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) < len(values)):
                raise ValueError(expected(name, "one or more values, none of them twice", values))

    def members(self, method: str) -> list[tuple[str, float]]:
        """Return a pair of loss and beta for each network of a method: see `mgce_lab.engine.methods.at_betas`."""
        return [(one.name, one.beta) for one in at_betas(method, self.betas)]
