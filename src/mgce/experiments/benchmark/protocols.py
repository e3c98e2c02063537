"""The protocols by name: what is to be run for each, the cells that tell most first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mgce._validation import check_choice, check_count
from mgce.experiments.benchmark.methods import METHODS, Method
from mgce.experiments.benchmark.tables import RateRun
from mgce.experiments.paper.specification import Specification


@dataclass(frozen=True)
class Request:
    """What is asked of a protocol.

    Attributes:
        datasets: names; None for those of the protocol.
        methods: names of losses; None for those of the protocol.
        seeds: how many; None for those of the protocol.
        smoke: whether to run a miniature, to see that all works.
    """

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    smoke: bool = False

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_count("seeds", self.seeds)
        for method in self.methods or ():
            check_choice("methods", method, tuple(dict.fromkeys(method.name for method in METHODS)))

    def chosen(self, methods: Sequence[Method]) -> list[Method]:
        """Give those of the methods that are asked for."""
        return [method for method in methods if self.methods is None or method.name in self.methods]


# Learning rates from the paper's to ten times that.
RATES = (0.01, 0.003, 0.001)
RATE_NOISE = 0.4
# Smaller than the networks of the paper's Table 3, 1024 units and 150 epochs, so that 87 of five seeds take an hour on
# one core; of adult a part of the rows, for the same reason.
RATE_SETTINGS: dict[str, dict[str, Any]] = {
    "letter": {"hidden": 256, "epochs": 60},
    "adult": {"hidden": 256, "epochs": 60, "rows": 10_000},
}
RATE_SMOKE: dict[str, Any] = {"hidden": 16, "epochs": 3}


def rates(request: Request) -> list[Specification]:
    """Plan small networks on tables by all losses: one run for each data set, learning rate and loss."""
    datasets = request.datasets or (("digits",) if request.smoke else tuple(RATE_SETTINGS))
    settings = {name: RATE_SMOKE if request.smoke else RATE_SETTINGS.get(name, {}) for name in datasets}
    seeds = tuple(range(request.seeds or (2 if request.smoke else 5)))
    return [
        RateRun(dataset, RATE_NOISE, seeds, ((method.name, method.beta),), lr=lr, **settings[dataset])
        for dataset in datasets
        for lr in RATES
        for method in request.chosen(METHODS)
    ]


PROTOCOLS: dict[str, Callable[[Request], list[Specification]]] = {"rates": rates}
