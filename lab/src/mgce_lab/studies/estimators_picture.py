"""Draw the accuracies of `docs/estimators.md`: `python -m mgce_lab.studies.estimators_picture`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgce_lab.engine.picture import BLUE, RED, dots
from mgce_lab.studies.estimators_page import NOISY_TABLES

PICTURE = Path("docs/images/estimators-accuracy.svg")
COLOURS = {"letter": BLUE, "adult": RED}


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(render([json.loads(line) for line in NOISY_TABLES.read_text().splitlines()]))
    print(f"Written to {PICTURE}.")


def render(results: Sequence[dict[str, Any]]) -> str:
    """Return the picture as SVG: a row for each estimator, the one of the best mean accuracy on top."""
    rows = {
        name: {
            dataset: 100 * statistics.fmean(r["accuracy"] for r in results if _is(r, dataset, name))
            for dataset in COLOURS
        }
        for name in dict.fromkeys(result["estimator"] for result in results)
    }
    rows = dict(sorted(rows.items(), key=lambda row: -sum(row[1].values())))
    said = "; ".join(f"{name} {', '.join(f'{value:.1f}' for value in row.values())}" for name, row in rows.items())
    return dots(
        f"Percent of right test labels predicted, on letter and on adult: {said}",
        "right test labels predicted, 40 % of the training labels wrong",
        rows,
        COLOURS,
        low=60,
    )


def _is(result: dict[str, Any], dataset: str, name: str) -> bool:
    return (result["dataset"], result["estimator"]) == (dataset, name)


if __name__ == "__main__":
    main()
