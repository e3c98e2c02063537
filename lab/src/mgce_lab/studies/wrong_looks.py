"""Bounds where looks are wrong, in made worlds: the table of docs/lab/review.md.

`python -m mgce_lab.studies.wrong_looks` draws worlds of 5,000 rows and two classes. Labels are filled in by the model
for 70 % of the rows, or wrong at random for 20 %. It writes results/certificates/wrong-looks.json and the table of the
page. `--page` only writes the table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from mgce.risk import certify
from mgce_lab.engine.markdown import table, write_between

RESULTS = Path(__file__).parents[4] / "results" / "certificates" / "wrong-looks.json"
PAGE = Path(__file__).parents[4] / "docs" / "lab" / "review.md"
BEGIN, END = "<!-- wrong looks -->\n", "<!-- /wrong looks -->\n"
N, WRONG = 5000, 0.03
MODEL, CHANCE = "the model", "chance"
WORLDS = [*itertools.product((MODEL, CHANCE), (200, 500), (0.1, 0.2))]
HEADER = (
    "wrong labels by",
    "looks",
    "error",
    "looks right",
    "3 % wrong, agreeing with the model",
    "wrong labels left out",
    "3 % wrong, a tenth looked up twice",
    "mean bound",
    "with second looks",
)


def main() -> None:
    """Draw the worlds, write the shares of false bounds, and the table."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.wrong_looks", description=__doc__)
    parser.add_argument("--draws", type=int, default=100, help="samples of each world")
    parser.add_argument("--page", action="store_true", help="write the table of the page alone")
    options = parser.parse_args()
    if not options.page:
        cells = [measured(*world, options.draws) for world in WORLDS]
        RESULTS.write_text(json.dumps({"draws": options.draws, "cells": cells}, indent=1) + "\n")
    write_between(PAGE, BEGIN, f"{render(records())}\n", END)


def records() -> list[dict[str, Any]]:
    """Return the recorded cells, one for each world."""
    cells: list[dict[str, Any]] = json.loads(RESULTS.read_text())["cells"]
    return cells


def measured(labels: str, looks: int, error: float, draws: int) -> dict[str, Any]:
    """Return the share of bounds that are false with each kind of looks, and two mean bounds."""
    found = np.array([_bounds(np.random.default_rng(seed), labels, looks, error) for seed in range(draws)])
    values = [*(found < error).mean(0), *found[:, [0, 3]].mean(0)]
    return dict(zip(HEADER, (labels, looks, error, *(round(float(value), 4) for value in values)), strict=True))


def _bounds(rng: np.random.Generator, labels: str, looks: int, error: float) -> list[float]:
    """Return the bounds of one draw, for each kind of looks."""
    right = rng.integers(2, size=N)
    guess = np.where(rng.random(N) < error, 1 - right, right)
    as_guessed = np.where(rng.random(N) < 0.3, right, guess) if labels == MODEL else None
    given = np.where(rng.random(N) < 0.2, 1 - right, right) if as_guessed is None else as_guessed
    look = np.where((guess != right) & (rng.random(N) < WRONG / error), guess, right)
    rows = rng.choice(N, looks, replace=False)
    kept, again = rows[given[rows] == right[rows]], rng.choice(rows, looks // 10, replace=False)
    kinds: list[dict[str, Any]] = [
        {"checked": (rows, right[rows])},
        {"checked": (rows, look[rows])},
        {"checked": (kept, right[kept])},
        {"checked": (rows, look[rows]), "checked_again": (again, right[again])},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the labels that are left in are those of the table
        bounds = [certify(given, np.eye(2)[guess], bounds=["argmax"], **kind).argmax_error for kind in kinds]
    return [1.0 if bound is None else bound for bound in bounds]


def render(cells: list[dict[str, Any]]) -> str:
    """Return the table of the page."""
    digits = dict(zip(HEADER[2:], [".1f", ".2f", ".2f", ".2f", ".2f", ".3f", ".3f"], strict=True))
    return table(HEADER, [[format(cell[name], digits.get(name, "")) for name in HEADER] for cell in cells])


if __name__ == "__main__":
    main()
