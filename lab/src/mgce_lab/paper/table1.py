"""Plan and render Table 1: accuracy and calibration of methods on images with clean and noisy labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgce_lab.engine.result import Result
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.paper.comparison import compare_methods
from mgce_lab.paper.image_settings import NOISE_RATES
from mgce_lab.paper.images import PENALTY, SMOKE_COUNT, image_records, plan_images, settings_of
from mgce_lab.paper.plan import Options

DATASETS = ("fashion_mnist", "cifar10", "svhn", "cifar100")


def plan(options: Options) -> list[Specification]:
    """Plan a run for each data set, noise rate, seed, method and beta; a smoke run uses at most two betas."""
    most = SMOKE_COUNT if options.smoke else None
    members = [member for method in options.methods for member in options.members(method)[:most]]
    return plan_images(options, DATASETS, members, noise_rates=options.noise_rates or NOISE_RATES)


def render(runs: Sequence[Run]) -> Result | None:
    """Render a row for each data set, noise rate and method; return None if there are no runs."""
    records = records_of(runs)
    title = f"Table 1: accuracy and calibration on images ({settings_of(records)})"
    return compare_methods("table1", title, records, DATASETS, NOISE_RATES)


def records_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the records for the table: those with its L1 penalty, without data sets that only figures show."""
    return [r for r in image_records(runs) if r["l1"] == PENALTY and r["for_tables"]]
