"""Plan the runs of each protocol of the benchmark, the most informative runs first.

P1 is the protocol of published tables with artificial noise, P2 that of published tables with human labels. All other
protocols are this package's own: smaller, or with other settings of training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from mgce._messages import check_choice, check_count, expected, nearest
from mgce_lab.engine.methods import GCE_BETA, METHODS, NEAR_MAE, TRIMMED, Method
from mgce_lab.engine.specification import Specification
from mgce_lab.losses import LOSSES
from mgce_lab.protocols.images import LossRun
from mgce_lab.protocols.settings import DIGITS, HUMAN, P1, P2, REDUCED, TINY, Settings, of_method
from mgce_lab.protocols.tables import RateRun

Cell = dict[str, Any]  # kind and rate of the noise, or the human labels
Value = TypeVar("Value")

# In the order in which they are run: the losses that papers compare most, and MGCE at the paper's beta and near MAE;
# then others of theirs; then the rest.
_FIRST = ("sce", "nce+rce", "nce+agce", "anl-ce", "ce_eps+mae")
FIRST = [Method("ce"), Method("gce", GCE_BETA), *map(Method, _FIRST), Method("mgce", 1.4), Method("mgce", NEAR_MAE)]
_LATER = ("mae", "ce+logitclip", "jal-ce", "focal", "nce+mae", "agce")
LATER = [*map(Method, _LATER), Method("mgce", 1.0), Method("mgce+cap", NEAR_MAE)]
GROUPS = (FIRST, LATER, [method for method in METHODS if method not in [*FIRST, *LATER]])
# Of MGCE: from nearly cross-entropy to nearly MAE.
BETA_START = 11.0
# Epochs from which on losses with a threshold have it, beside the third: they differ in which is best.
CAP_FROM = (1, 2)

# Learning rates from the paper's to thirty times that; the largest since many losses did best at 0.01.
RATES = (0.01, 0.03, 0.003, 0.001)
RATE_NOISE = 0.4
# P1 has no L1 penalty, with which MGCE and cross-entropy memorise less: sizes for the network of these data sets.
P1_PENALISED, P1_PENALTIES = ("mnist", "fashion_mnist"), (3e-4, 1e-3)
# At the learning rate where most losses are best: shares to leave out when the share of wrong labels is not known, and
# L1 penalties in place of the paper's 1e-5. Does the accuracy on noisy validation rows choose well among them?
TRIM_METHOD, PENALISED, TRIED_AT = ("mgce+trim", NEAR_MAE), (("mgce", NEAR_MAE), ("ce", math.inf)), 0.03
TRIMS, PENALTIES = (0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 1e-4, 3e-4, 1e-3, 3e-3)
# On images, which have no validation rows: beside the share that is wrong, two that are too small and one too large.
IMAGE_TRIMS, TRIMS_AT = (0.2, 0.3, 0.5), 0.4
# Is it the training that lets a loss memorise? Its settings, each changed alone; those that tell most first. With a
# weight decay of 0.3 neither MGCE nor cross-entropy learns anything.
TRAINING: Mapping[str, tuple[float, ...]] = {
    "l1": (3e-3, 1e-3, 1e-2, 3e-4, 1e-4),
    "weight_decay": (0.1, 0.03, 0.2, 0.01),
    "lr": (0.03, 0.003, 0.001),
}
# Losses that memorise on few images, each of its kind, and one that hardly does.
TRAINED = [Method("mgce", NEAR_MAE), Method("ce"), Method("gce", GCE_BETA), Method("sce"), Method("nce+agce")]
# What can be chosen by images held out with labels as noisy as those trained on: of these losses an L1 penalty, 0 among
# the sizes, of two a share of every label to trim, of MGCE beta. Beside them losses as published, with the epoch to
# choose alone.
HELD_OUT, SIZES, SHARES = 0.2, (0.0, 3e-4, 1e-3, 3e-3, 1e-2), (0.2, 0.3, 0.4, 0.5, 0.6)
TRIMMING = [Method("ce+trim"), Method("mgce+trim", NEAR_MAE)]
# From minimax MAE towards cross-entropy; 1.05 and, as cross-entropy, inf are there already.
TRIED_BETAS = [Method("mgce", beta) for beta in (1.0, 1.4, 2.0, 5.0)]
AS_PUBLISHED = [Method("nce+rce"), Method("anl-ce"), Method("ce_eps+mae"), Method("mae")]
# Smaller than the networks of the paper's Table 3, 1024 units and 150 epochs, and of adult a part of the rows: a run of
# five seeds then takes half a minute on one core.
RATE_SETTINGS: dict[str, Settings] = {
    "letter": {"hidden": 256, "epochs": 60},
    "adult": {"hidden": 256, "epochs": 60, "rows": 10_000},
}
RATE_SMOKE: Settings = {"hidden": 16, "epochs": 3}


@dataclass(frozen=True)
class Request:
    """The part of a protocol that the user wants to run.

    Attributes:
        datasets: names of data sets; None means those of the protocol, except for P1, where it means only MNIST.
        methods: names of losses; None means those of the protocol.
        noise_rates: rates of wrong labels; None means those of the protocol.
        seeds: number of seeds; None means that of the protocol.
        smoke: whether to run a miniature that only checks that everything works.
    """

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    noise_rates: tuple[float, ...] | None = None
    seeds: int | None = None
    smoke: bool = False

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_count("seeds", self.seeds)
        for method in self.methods or ():
            check_choice("methods", method, tuple(LOSSES))
        for name in ("datasets", "methods", "noise_rates"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) < len(values)):
                raise ValueError(expected(name, "one or more values, none of them twice", values))

    def chosen(self, methods: Iterable[Method]) -> list[Method]:
        """Return the methods whose loss the user asks for, in the order in which the protocol lists them."""
        return [method for method in methods if self.methods is None or method.name in self.methods]


def p1(request: Request) -> list[Specification]:
    """Plan protocol P1: a network for each loss, data set, noise and seed; then some networks with an L1 penalty."""
    datasets = request.datasets or (("digits",) if request.smoke else ("mnist",))
    known = dict.fromkeys(("digits", *P1), DIGITS) if request.smoke else P1
    settings = {name: _known(known, name) for name in datasets}
    runs = [
        _loss_run("p1", settings[dataset], dataset, method, {**cell, "seed": seed})
        for seed in range(request.seeds or (1 if request.smoke else 3))
        for group in GROUPS
        for stage in _stages(request)
        for dataset in datasets
        for cell in _p1_cells(stage)
        for method in request.chosen(group)
    ]
    penalised = [run for run in runs if (run.method, run.beta) in PENALISED and run.dataset in P1_PENALISED]
    return [*runs, *(replace(run, l1=size) for size in P1_PENALTIES for run in penalised)]


def p2(request: Request) -> list[Specification]:
    """Plan protocol P2: a network for each loss, set of human labels and seed."""
    datasets = request.datasets or (("cifar10n",) if request.smoke else tuple(P2))
    return [
        _loss_run("p2", _sized(_known(P2, dataset), request), dataset, method, {**_human(labels), "seed": seed})
        for seed in range(request.seeds or (1 if request.smoke else 3))
        for group in GROUPS
        for dataset in datasets
        for labels in _known(HUMAN, dataset)
        for method in request.chosen(group)
    ]


def reduced(request: Request) -> list[Specification]:
    """Plan the reduced protocol (few images): a network for each loss, data set, noise and seed."""
    datasets = request.datasets or (("mnist",) if request.smoke else ("mnist", "cifar10", "cifar10n"))
    return [
        run
        for seed in range(request.seeds or (1 if request.smoke else 3))
        for group in GROUPS
        for stage in _stages(request)
        for dataset in datasets
        for cell in _reduced_cells(dataset, stage)
        for run in _with_variants(request, group, dataset, {**cell, "seed": seed})
    ]


def training(request: Request) -> list[Specification]:
    """Plan protocol "training": networks of the reduced protocol, each with one changed setting of training.

    There is a network for each setting, loss, noise and seed. For the first noise setting of a data set all training
    settings are varied. For the other noise settings only the L1 penalty is varied, which has the largest effect.
    """
    datasets = request.datasets or ("mnist",)
    settings = {name: _sized(_known(REDUCED, name), request) for name in datasets}
    variants: list[Settings] = [{}, *({name: value} for name, values in TRAINING.items() for value in values)]
    penalties = [variant for variant in variants if set(variant) <= {"l1"}]
    return [
        _loss_run("training", {**settings[dataset], **variant}, dataset, method, {**cell, "seed": seed})
        for seed in range(request.seeds or 1)
        for dataset in datasets
        for number, cell in enumerate(_training_cells(dataset, request))
        for variant in (penalties if number else variants)
        for method in request.chosen(TRAINED)
    ]


def selection(request: Request) -> list[Specification]:
    """Plan protocol "selection": networks of the reduced protocol with a part of the noisy images held out.

    There is a network for each value (penalty, fraction to trim or beta) that the held-out images can select.
    """
    datasets = request.datasets or (("mnist",) if request.smoke else ("mnist", "fashion_mnist"))
    settings = {name: {**_sized(_known(REDUCED, name), request), "validation_size": HELD_OUT} for name in datasets}
    return [
        run
        for seed in range(request.seeds or (1 if request.smoke else 3))
        for dataset in datasets
        for cell in _training_cells(dataset, request)
        for run in _candidates(request, settings[dataset], dataset, {**cell, "seed": seed})
    ]


def rates(request: Request) -> list[Specification]:
    """Plan protocol "rates": small networks on tables, one run for each data set, learning rate and loss."""
    datasets = request.datasets or (("digits",) if request.smoke else tuple(RATE_SETTINGS))
    settings = {name: RATE_SMOKE if request.smoke else RATE_SETTINGS.get(name, {}) for name in datasets}
    seeds = tuple(range(request.seeds or (2 if request.smoke else 5)))
    runs = [
        RateRun(dataset, RATE_NOISE, seeds, ((method.name, method.beta),), lr=lr, **settings[dataset])
        for dataset in datasets
        for lr in RATES
        for method in request.chosen(METHODS)
    ]
    tried = [run for run in runs if run.lr == TRIED_AT]
    trimmed = [replace(run, trim=trim) for run in tried if run.members[0] == TRIM_METHOD for trim in TRIMS]
    penalised = [replace(run, penalty=size) for run in tried if run.members[0] in PENALISED for size in PENALTIES]
    return [*runs, *trimmed, *penalised]


def plan(protocol: str, request: Request) -> list[Specification]:
    """Plan the runs of a protocol that the user asks for.

    Raises:
        ValueError: if the protocol has no runs with a requested loss or noise rate.
    """
    check_choice("protocol", protocol, tuple(PROTOCOLS))
    trained = _methods_of(PROTOCOLS[protocol](replace(request, methods=None)))
    if not trained.keys() >= {*(request.methods or ())}:
        what = f"losses of this protocol ({', '.join(trained)})"
        raise ValueError(expected("methods", what, ", ".join(request.methods or ())))
    runs: Sequence[Any] = PROTOCOLS[protocol](request)
    if request.smoke:
        runs = [replace(run, smoke=protocol) for run in runs]
    rates = {run.noise_rate for run in runs}
    if request.noise_rates is not None and not rates.issuperset(request.noise_rates):
        what = f"rates of this protocol ({', '.join(f'{rate:g}' for rate in sorted(rates))})"
        raise ValueError(expected("noise_rate", what, ", ".join(f"{rate:g}" for rate in request.noise_rates)))
    return [run for run in runs if request.noise_rates is None or run.noise_rate in request.noise_rates]


PROTOCOLS: Mapping[str, Callable[[Request], list[Specification]]] = {
    "p1": p1,
    "p2": p2,
    "reduced": reduced,
    "training": training,
    "selection": selection,
    "rates": rates,
}


def _methods_of(runs: Iterable[Any]) -> dict[str, None]:
    """Return the names of all losses in the runs, in the order of the runs, as keys of a dict."""
    members = (run.members if isinstance(run, RateRun) else [(run.method, run.beta)] for run in runs)
    return {name: None for names in members for name, _ in names}


def _loss_run(protocol: str, settings: Settings, dataset: str, method: Method, cell: Cell) -> LossRun:
    shared: dict[str, Any] = {"protocol": protocol, "dataset": dataset, "method": method.name, "beta": method.beta}
    return LossRun(**{**of_method(settings, dataset, method), **shared, **cell})


def _reduced_cells(dataset: str, stage: int) -> list[Cell]:
    """Return the noise settings (type and rate) that the reduced protocol plans for a data set in a stage.

    Stages are planned one after another. CIFAR has one noise setting, in the first stage. The other data sets have the
    noise settings of protocol P1.
    """
    if dataset in ("cifar10", "cifar10n"):
        only = [_human("worst")] if dataset == "cifar10n" else _symmetric(0.4)
        return only if stage == 0 else []
    return _p1_cells(stage)


def _training_cells(dataset: str, request: Request) -> list[Cell]:
    """Return the noise settings of the first two stages; for a smoke run only the first one."""
    cells = _reduced_cells(dataset, 0) + _reduced_cells(dataset, 1)
    return cells[:1] if request.smoke else cells


def _with_variants(request: Request, group: Iterable[Method], dataset: str, cell: Cell) -> list[LossRun]:
    """Plan a run for each method of a group, and runs with other values for some losses.

    Losses with a threshold are also planned with other first epochs for the threshold, trimmed losses with other
    fractions. In the last group MGCE is also planned with a decreasing beta.
    """
    settings = _sized(_known(REDUCED, dataset), request)
    methods = request.chosen(group)
    runs = [_loss_run("reduced", settings, dataset, method, cell) for method in methods]
    if group is GROUPS[-1] and (request.methods is None or "mgce" in request.methods):
        annealed = {**cell, "beta_start": BETA_START}
        runs.append(_loss_run("reduced", settings, dataset, Method("mgce", NEAR_MAE), annealed))
    threshold = [run for run in runs if "threshold" in LOSSES[run.method].hyperparameters]
    begun = [replace(run, cap_from=epoch) for run in threshold for epoch in CAP_FROM]
    trims = IMAGE_TRIMS if cell.get("noise_rate") == TRIMS_AT else ()
    return [*runs, *begun, *(replace(run, trim=trim) for run in runs if run.method in TRIMMED for trim in trims)]


def _candidates(request: Request, settings: Settings, dataset: str, cell: Cell) -> list[LossRun]:
    """Plan a run for each loss and each value that the held-out images may select, for one noise and seed."""

    def run(method: Method, **changed: Any) -> LossRun:
        return replace(_loss_run("selection", settings, dataset, method, cell), **changed)

    penalised = [run(method, l1=size) for method in request.chosen(TRAINED) for size in SIZES]
    trimming = request.chosen(TRIMMING)
    untrimmed = [run(method.untrimmed) for method in trimming]  # the share 0, which may be among the penalised
    trimmed = [run(method, trim=share) for method in trimming for share in SHARES]
    others = map(run, request.chosen([*AS_PUBLISHED, *TRIED_BETAS]))
    return list(dict.fromkeys([*penalised, *untrimmed, *trimmed, *others]))


def _stages(request: Request) -> range:
    """Return the numbers of the stages in which runs are planned, the most informative noise settings first.

    A smoke run has only the first stage.
    """
    return range(1 if request.smoke else 3)


def _p1_cells(stage: int) -> list[Cell]:
    return (_symmetric(0.4, 0.8), [_asymmetric(0.4)], _symmetric(0.2, 0.6, 0.0))[stage]


def _symmetric(*rates: float) -> list[Cell]:
    return [{"noise_type": "symmetric", "noise_rate": rate} for rate in rates]


def _asymmetric(rate: float) -> Cell:
    return {"noise_type": "asymmetric", "noise_rate": rate}


def _human(labels: str) -> Cell:
    return {"noise_type": "human", "labels": labels}


def _sized(settings: Settings, request: Request) -> Settings:
    return {**settings, **TINY} if request.smoke else settings


def _known(settings: Mapping[str, Value], dataset: str) -> Value:
    if dataset not in settings:
        what = f"one of {', '.join(settings)} for this protocol"
        raise ValueError(expected("dataset", what, dataset) + nearest(dataset, settings))
    return settings[dataset]
