"""Which study finished runs belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgce._validation import expected
from mgce.experiments.benchmark.study import BENCHMARK
from mgce.experiments.paper.items import PAPER
from mgce.runs.store import Run
from mgce.runs.study import Study

STUDIES: tuple[Study[Any], ...] = (BENCHMARK, PAPER)


def study_of(runs: Mapping[str, Run]) -> Study[Any]:
    """Give the study whose runs these are, by their kinds.

    Raises:
        ValueError: if they are of none.
    """
    kinds = {str(run.specification.get("kind")) for run in runs.values()}
    found = next((study for study in STUDIES if kinds & study.by_dataset.keys()), None)
    if found is None:
        raise ValueError(expected("runs", "finished runs of mgce reproduce or mgce benchmark", ", ".join(kinds)))
    return found
