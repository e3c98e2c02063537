"""What is asked for: data sets, methods, betas, seeds; and the size of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mgce._validation import check_beta, check_choice, check_count, expected

METHODS = ("mgce", "gce", "ce", "mae")
# Eight values in [1.05, 11] for the cross-validation; the paper's figures show 1.05, 1.18 and 1.4.
BETAS = (1.05, 1.18, 1.4, 1.7, 2.0, 3.0, 5.0, 11.0)
# That of all figures.
BETA = 1.4


@dataclass(frozen=True)
class Options:
    """What is asked for.

    Attributes:
        datasets: names; None for those of the paper.
        methods: of `METHODS`.
        betas: candidates of mgce and gce.
        seeds: how many.
        smoke: whether to run a miniature, to see that all works.
        together: whether networks of all seeds and methods are one run, as an accelerator likes it.
    """

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] = METHODS
    betas: tuple[float, ...] = BETAS
    seeds: int = 5
    smoke: bool = False
    together: bool = False

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds)
        for method in self.methods:
            check_choice("methods", method, METHODS)
        for beta in self.betas:
            check_beta(beta)
        for name in ("methods", "betas", "datasets"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) < len(values)):
                raise ValueError(expected(name, "one or more values, none of them twice", values))

    def candidates(self, method: str) -> tuple[float, ...]:
        """Give the values of beta to choose from: one for cross-entropy and MAE."""
        return {"ce": (math.inf,), "mae": (1.0,)}.get(method, self.betas)
