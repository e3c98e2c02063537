"""What a run of the paper is: a frozen specification that says everything its records depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from mgce._files import plain
from mgce._validation import check_choice, check_device, expected
from mgce.experiments.store import Run

PRECISIONS = ("32-true", "bf16-mixed")  # as `lightning.Trainer` has it


@dataclass(frozen=True)
class Place:
    """Where runs find their data and do their work; the records depend on it by rounding only.

    Attributes:
        data_dir: folder of the data sets; None for the default of `mgce.datasets.load`.
        device: where to train, as PyTorch spells it.
        download: whether data sets that are missing may be downloaded.
        scratch: folder in which a long run keeps a folder of its own with what it needs to go on after a stop; whoever
            writes its records removes that afterwards. None keeps nothing.
        precision: in which networks for images are trained, one of `PRECISIONS`; None is bfloat16 in the forward and
            backward pass where the device has units that multiply matrices of it, a GPU or AMX, and float32 elsewhere.
        logits: folder in which a run that knows how leaves the logits of its test rows, so that another measure of
            them needs no training; None keeps none.

    Raises:
        ValueError: if this PyTorch cannot use the device, or there is no such precision.
    """

    data_dir: Path | None = None
    device: str = "cpu"
    download: bool = False
    scratch: Path | None = None
    precision: str | None = None
    logits: Path | None = None

    def __post_init__(self) -> None:
        check_device(self.device)
        if self.precision is not None:
            check_choice("precision", self.precision, PRECISIONS)

    @property
    def image_precision(self) -> str:
        """The precision of networks for images on this device, one of `PRECISIONS`."""
        has_units = self.device.startswith("cuda") or _multiplies_bfloat16()
        return self.precision or ("bf16-mixed" if has_units else "32-true")


def _multiplies_bfloat16() -> bool:
    """Say whether the processor has units that multiply matrices of bfloat16; False where PyTorch cannot tell."""
    capabilities: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)  # not before PyTorch 2.10
    return bool(capabilities().get("amx_bf16", False))


class Specification(Protocol):
    """A frozen dataclass that can be run.

    Attributes:
        kind: "tabular" or "images".
        axes: the names of the fields in which the runs of one table differ. In all other fields the runs on a data set
            have to agree, so that a table compares what can be compared. An axis that is a tuple has several values in
            one run, each with each value of the other axes.
        dataset: the name of the data set.
    """

    kind: ClassVar[str]
    axes: ClassVar[tuple[str, ...]]

    @property
    def dataset(self) -> str: ...  # noqa: D102

    def check(self, place: Place) -> None:
        """Raise an error if the run's data set is missing."""

    def data_checksum(self, place: Place) -> str:
        """Give a SHA-256 of the data as they are read."""

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train; give the records, of types that JSON has."""


# Fields that came later: left out while they are empty, so that runs keep the names that they had before. Not where
# they are an axis: that kind of run has had them from its first day.
LATER = ("labels", "smoke", "random_test", "hyperparameters")
LATER_AXES = ("cap_from", "trim", "penalty")  # left out while they are None, and then no axes either
# By kind of the paper's runs, the fields in which those on one data set may differ from those on another, as the paper
# has it. In kinds that are not here, which compare losses, any.
BY_DATASET: Mapping[str, tuple[str, ...]] = {
    "tabular": ("rows", "scaling", "random_test"),
    "images": (
        *("architecture", "stem", "size", "padding", "crop", "jitter", "labels"),
        *("validation_size", "epochs", "batch_size", "lr", "milestones", "gamma"),
    ),
}


def document(specification: Specification) -> dict[str, Any]:
    """Give a specification as a dict of types that JSON has, with its kind and axes."""
    fields: dict[str, Any] = plain(asdict(specification))  # type: ignore[call-overload]
    unused = {name for name in LATER_AXES if fields.get(name) is None}
    axes = [axis for axis in specification.axes if axis not in unused]
    empty = {name for name in LATER if name not in axes and not fields.get(name)}
    return {"kind": specification.kind, "axes": axes, **{n: v for n, v in fields.items() if n not in unused | empty}}


def networks(specification: Mapping[str, Any]) -> set[str]:
    """Name the networks of a run by its document: its points on the axes, such as a noise rate, a seed and a method."""
    named = (specification[name] for name in specification["axes"])
    values = [value if isinstance(value, list) else [value] for value in named]
    where = (specification["kind"], specification["dataset"], specification.get("smoke", ""))
    return {repr((*where, point)) for point in product(*values)}


def remaining(specification: Specification, done: Set[str]) -> list[Specification]:
    """Give specifications of the networks that are not done yet, in as few runs as that takes.

    Args:
        specification: of a run.
        done: names of networks, as `networks` gives them.
    """
    names = networks(document(specification))
    if not names & done:
        return [specification]
    if names <= done:
        return []
    several = (axis for axis in specification.axes if isinstance(getattr(specification, axis), tuple))
    axis = next(axis for axis in several if len(getattr(specification, axis)) > 1)
    # Values of the axis that lack the same networks of the other axes share a run.
    joined: dict[str, list[Specification]] = {}
    for value in getattr(specification, axis):
        for part in remaining(_at(specification, axis, (value,)), done):
            joined.setdefault(repr({**document(part), axis: None}), []).append(part)
    return [_at(parts[0], axis, tuple(getattr(part, axis)[0] for part in parts)) for parts in joined.values()]


def _at(specification: Specification, axis: str, values: tuple[Any, ...]) -> Specification:
    changed: Specification = replace(specification, **{axis: values})  # type: ignore[type-var]
    return changed


def check_one_data(runs: Sequence[Run]) -> None:
    """Require the runs on a data set to have read the same data; runs of earlier versions do not say which.

    Raises:
        ValueError: if they did not.
    """
    seen: dict[tuple[str, str, Any], str] = {}
    for run in runs:
        specification, checksum = run.specification, run.machine.get("data")
        if checksum is not None:
            key = specification["kind"], specification["dataset"], specification.get("rows")
            if seen.setdefault(key, checksum) != checksum:
                what = f"the same in all runs on {specification['dataset']} of one folder"
                raise ValueError(expected("data", what, f"{seen[key]} and {checksum}"))


def check_one_setting(documents: Sequence[Mapping[str, Any]]) -> None:
    """Require the runs on a data set to differ in their axes only, those on two as the paper has it, and none by smoke.

    Runs of the paper's tables and those that compare losses have pages of one name, and so folders of their own. The
    hyperparameters of a loss may differ by noise too. Runs of earlier versions do not say them.

    Raises:
        ValueError: if they do not.
    """
    smoke = {bool(specification.get("smoke")) for specification in documents}
    if len(smoke) > 1:
        raise ValueError(
            "Expected the runs of a folder to be all of --smoke or none, but got both: take another --out."
        )
    if len({specification["kind"] in BY_DATASET for specification in documents}) > 1:
        raise ValueError(
            "Expected the runs of a folder to be all of mgce reproduce or all of mgce benchmark, but got both: take "
            "another --out."
        )
    settings: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for specification in documents:
        kind, dataset, miniature = (str(specification.get(name, "")) for name in ("kind", "dataset", "smoke"))
        setting = {name: value for name, value in specification.items() if name not in specification["axes"]}
        setting["axes"] = [axis for axis in specification["axes"] if axis not in LATER_AXES]
        noise = [str(specification.get(name, "")) for name in ("noise_type", "noise", "labels")]
        named = setting.pop("hyperparameters", None)
        for loss, values in named.items() if isinstance(named, Mapping) else ():
            given, where = {"hyperparameters": values}, (kind, dataset, miniature, loss, *noise)
            _check_same(settings.setdefault(where, given), given, f" by {loss} on {dataset}")
        _check_same(settings.setdefault((kind, dataset, miniature), setting), setting, f" on {dataset}")
        if kind in BY_DATASET:
            own = (*BY_DATASET[kind], "dataset", "smoke")
            shared = {name: value for name, value in setting.items() if name not in own}
            _check_same(settings.setdefault((kind,), shared), shared, "")


def _check_same(first: Mapping[str, Any], setting: Mapping[str, Any], where: str) -> None:
    for name in first.keys() | setting.keys():
        if first.get(name) != setting.get(name):
            what = f"{first.get(name)!r} in all runs{where} of one folder"
            raise ValueError(expected(name, what, setting.get(name)))


def check_no_network_twice(documents: Sequence[Mapping[str, Any]]) -> None:
    """Require that no network is in two runs.

    Raises:
        ValueError: if one is.
    """
    seen: set[str] = set()
    for specification in documents:
        names = networks(specification)
        if names & seen:
            twice = sorted(names & seen)[0]
            raise ValueError(f"Expected the runs of a folder to be of different networks, but got {twice} twice.")
        seen |= names
