"""Check that the runs in one folder have the same settings and data, so that their results can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mgce._messages import expected
from mgce_lab.engine.specification import networks
from mgce_lab.engine.store import Run


def check_one_data(runs: Sequence[Run]) -> None:
    """Raise an error unless all runs on a data set have used the same data.

    The checksums of the data are compared. Runs of earlier versions have no checksums and are not checked.

    Raises:
        ValueError: if two runs used different data.
    """
    seen: dict[tuple[str, str, Any], str] = {}
    for run in runs:
        specification, checksum = run.specification, run.machine.get("data")
        if checksum is not None:
            key = specification["kind"], specification["dataset"], specification.get("rows")
            if seen.setdefault(key, checksum) != checksum:
                what = f"the same in all runs on {specification['dataset']} of one folder"
                raise ValueError(expected("data", what, f"{seen[key]} and {checksum}"))


def check_one_setting(documents: Sequence[Mapping[str, Any]], by_dataset: Mapping[str, tuple[str, ...] | None]) -> None:
    """Raise an error unless the runs in a folder have the same settings, except in fields that may differ.

    Runs on one data set may differ only in their axes, the fields that a table varies. Runs on different data sets may
    also differ in the fields named in `by_dataset`. The published hyperparameters of a loss may differ by noise too.
    Smoke runs and other runs may not be mixed, nor runs of `mgce-lab reproduce` and `mgce-lab benchmark`, whose pages
    have the same name.

    Args:
        documents: the specifications of the runs.
        by_dataset: maps each kind of run to the attribute `by_dataset` of its `Specification`.

    Raises:
        ValueError: if the runs have different settings.
    """
    smoke = {bool(specification.get("smoke")) for specification in documents}
    if len(smoke) > 1:
        raise ValueError(
            "Expected the runs of a folder to be all of --smoke or none, but got both: take another --out-dir."
        )
    if not {specification["kind"] for specification in documents} <= by_dataset.keys():
        raise ValueError(
            "Expected the runs of a folder to be all of mgce-lab reproduce or all of mgce-lab benchmark, "
            "but got both: take another --out-dir."
        )
    settings: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for specification in documents:
        kind, dataset, miniature = (str(specification.get(name, "")) for name in ("kind", "dataset", "smoke"))
        setting = {name: value for name, value in specification.items() if name not in specification["axes"]}
        noise = [str(specification.get(name, "")) for name in ("noise_type", "noise_rate", "labels")]
        named = setting.pop("hyperparameters", None)
        for loss, values in named.items() if isinstance(named, Mapping) else ():
            given, where = {"hyperparameters": values}, (kind, dataset, miniature, loss, *noise)
            _check_same(settings.setdefault(where, given), given, f" by {loss} on {dataset}")
        _check_same(settings.setdefault((kind, dataset, miniature), setting), setting, f" on {dataset}")
        free = by_dataset[kind]
        if free is not None:
            own = (*free, "dataset", "smoke")
            shared = {name: value for name, value in setting.items() if name not in own}
            _check_same(settings.setdefault((kind,), shared), shared, "")


def _check_same(first: Mapping[str, Any], setting: Mapping[str, Any], where: str) -> None:
    for name in first.keys() | setting.keys():
        if first.get(name) != setting.get(name):
            what = f"{first.get(name)!r} in all runs{where} of one folder"
            raise ValueError(expected(name, what, setting.get(name)))


def check_no_network_twice(documents: Sequence[Mapping[str, Any]]) -> None:
    """Raise an error if two runs contain the same network.

    Raises:
        ValueError: if a network is in two runs.
    """
    seen: set[str] = set()
    for specification in documents:
        names = networks(specification)
        if names & seen:
            twice = sorted(names & seen)[0]
            raise ValueError(f"Expected the runs of a folder to be of different networks, but got {twice} twice.")
        seen |= names
