"""Draw the accuracies of `docs/tables.md` by the share of wrong labels: `python -m mgce_lab.studies.tables_picture`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgce_lab.studies.picture import AMBER, BLUE, GREEN, RED, Line, lines
from mgce_lab.studies.tables_page import RESULTS, whole_cells

PICTURE = Path("docs/images/tables-accuracy.svg")
RATES = (0.0, 0.2, 0.4)  # of symmetric noise
# Method, its name in the picture, colour and dash; both of ours have one colour.
LINES = (
    ("mgce fit", "mgce fit", BLUE, "none"),
    ("CleanLearning(boosting)", "CleanLearning", GREEN, "none"),
    ("random forest", "random forest", AMBER, "none"),
    ("gradient boosting", "gradient boosting", RED, "none"),
)


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(render([json.loads(line) for line in RESULTS.read_text().splitlines()]))
    print(f"Written to {PICTURE}.")


def render(results: Sequence[dict[str, Any]]) -> str:
    """Return the picture as SVG: a line for each method, with its name at the right end."""
    values = {method: means(results, method) for method, *_ in LINES}
    said = "; ".join(f"{name} {', '.join(f'{value:.1f}' for value in values[method])}" for method, name, *_ in LINES)
    drawn = [
        Line(name, colour, list(zip(RATES, values[method], strict=True)), dash) for method, name, colour, dash in LINES
    ]
    return lines(
        f"Percent of right test labels predicted, with 0, 20 and 40 % wrong training labels: {said}",
        "right test labels predicted, mean of ten tables",
        "training labels that are wrong",
        drawn,
        {rate: f"{rate:.0%}" for rate in RATES},
        low=65,
    )


def means(results: Sequence[dict[str, Any]], method: str) -> list[float]:
    """Return the mean accuracy of a method at each rate, in percent, over tables and seeds."""
    cells, _ = whole_cells(results)
    by_rate: dict[float, list[float]] = {rate: [] for rate in RATES}
    for (_, noise, rate, _), by_method in cells.items():
        if rate == 0 or noise == "symmetric":
            by_rate[rate].append(100 * by_method[method]["accuracy"])
    return [statistics.fmean(values) for values in by_rate.values()]


if __name__ == "__main__":
    main()
