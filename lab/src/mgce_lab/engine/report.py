"""Render the finished runs of a folder into tables, figures and an HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgce._files import write_files
from mgce._messages import expected
from mgce_lab.engine.consistency import check_no_network_twice, check_one_data, check_one_setting
from mgce_lab.engine.page import page
from mgce_lab.engine.result import Result, explained, files, page_name, smoke
from mgce_lab.engine.store import Run, Runs
from mgce_lab.engine.study import Study

REASONS = "reasons.json"
UNSAID = ("run", "seconds", "data")  # left out of the facts of machines


def write_report(study: Study[Any], store: Runs, out: Path) -> dict[str, Result]:
    """Render every table and figure for which there are enough finished runs, and write it to the folder `out`.

    Args:
        study: the study that the runs belong to.
        store: the finished runs. A file `reasons.json` in the folder of the runs may explain numbers that are far from
            published ones, see :func:`mgce_lab.engine.result.explained`.
        out: the folder to write to.

    Returns:
        The tables and figures by name.

    Raises:
        ValueError: if a file is damaged, or the runs have different settings.
    """
    runs = list(store.runs.values())
    try:
        check_one_setting([run.specification for run in runs], study.by_dataset)
        check_no_network_twice([run.specification for run in runs])
        check_one_data(runs)
        miniature = any(run.specification.get("smoke") for run in runs)
        rendered = {name: item.render(runs) for name, item in study.items.items()}
    except (AttributeError, IndexError, KeyError, TypeError) as error:  # runs of versions that wrote no checksums
        got = f"what these cannot be rendered from ({type(error).__name__}: {error})"
        raise ValueError(f"Expected {store.directory} to hold finished runs, but got {got}.") from error
    reasons = read_reasons(store.directory)
    results = {name: explained(result, reasons) for name, result in rendered.items() if result is not None}
    if miniature:  # what is computed is of no run
        results = {name: smoke(result) if study.items[name].plan else result for name, result in results.items()}
    shown = list(results.values())
    contents = {name: content for result in shown for name, content in files(result).items()}
    write_files(out, {**contents, page_name(shown): page(study.title, study.headline(shown), shown, facts(runs))})
    return results


def facts(runs: list[Run]) -> dict[str, str]:
    """Return the settings of the runs and the facts about their machines, as texts by name for the HTML page.

    A setting is a field of a run's specification other than its axes, the fields that a table varies. Published
    hyperparameters, which differ by loss, have an entry of their own. If a setting or fact has several values, all are
    listed.
    """
    settings: dict[str, dict[str, None]] = {}
    for run in runs:
        what = {name: value for name, value in run.specification.items() if name not in run.specification["axes"]}
        where = f"{what['dataset']} ({what['kind']})"
        for loss, values in what.pop("hyperparameters", {}).items():
            given = ", ".join(f"{name} {value}" for name, value in values.items())
            settings.setdefault(f"published hyperparameters, {where}", {})[f"{loss}: {given or 'none'}"] = None
        text = ", ".join(f"{name} {value}" for name, value in what.items() if name not in ("kind", "axes", "dataset"))
        settings.setdefault(where, {})[text] = None
        checksum = (
            f"SHA-256 {run.machine['data'][:16]}…" if "data" in run.machine else "not recorded by earlier versions"
        )
        settings.setdefault(f"data of {where}", {})[checksum] = None
        for name, value in run.machine.items():
            if name not in UNSAID:
                settings.setdefault(name, {})[str(value)] = None
    count = {"finished runs": str(len(runs))} if runs else {}
    return count | {name: "; ".join(values) for name, values in sorted(settings.items())}


def read_reasons(directory: Path) -> Mapping[str, str]:
    """Read the sentences in `reasons.json` that explain deviations from the paper, by a pattern for keys of notes.

    The result is empty if the folder has no such file.

    Raises:
        ValueError: if the file is damaged.
    """
    path = directory / REASONS
    if not path.is_file():
        return {}
    what = "an object of sentences by pattern, such as letter/*/gce/*"
    try:
        reasons: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(expected(path.name, what, str(error))) from None
    if not isinstance(reasons, dict) or not all(isinstance(reason, str) for reason in reasons.values()):
        raise ValueError(expected(path.name, what, reasons))
    return reasons
