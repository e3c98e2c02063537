"""Read the numbers that the paper prints in its tables."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

# Our data set, and the paper's whose numbers stand beside it. This one is a random sample of its rows.
PUBLISHED_AS = {"covertype_sample": "covertype"}


@cache
def published() -> list[dict[str, Any]]:
    """Return the rows of the paper's Tables 1, 2 and 3 as dicts.

    A row belongs to a data set, a method, and a noise rate or weight of the penalty. Its numbers are pairs of mean and
    standard deviation in percent.

    Example:
        >>> published()[0]["dataset"], published()[0]["accuracy"]
        ('fashion_mnist', [92.94, 0.17])
    """
    text = resources.files("mgce_lab.paper").joinpath("published.json").read_text()
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


def published_row(
    table: str, dataset: str, method: str, noise_rate: float | None = None, *, l1: float | None = None
) -> dict[str, Any]:
    """Return the row of a paper's table for a data set, a method, and a noise rate or L1 weight; {} if there is none.

    Example:
        >>> published_row("table3", "letter", "gce", 0.2)["accuracy"]
        [85.19, 0.29]
    """
    cell = {"noise_rate": noise_rate, "l1": l1}
    key: dict[str, Any] = {"table": table, "dataset": PUBLISHED_AS.get(dataset, dataset), "method": method}
    key |= {name: value for name, value in cell.items() if value is not None}
    return next((row for row in published() if key.items() <= row.items()), {})
