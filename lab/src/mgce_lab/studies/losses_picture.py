"""Draw accuracy by epoch of the losses of `docs/choosing.md`: `python -m mgce_lab.studies.losses_picture`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

from mgce_lab.engine.picture import AMBER, BLUE, GREEN, PURPLE, RED, Line, lines
from mgce_lab.engine.store import Run, Runs

RECORDS, PICTURE = Path("results/losses-reduced"), Path("docs/images/losses-accuracy.svg")
# Method and beta of the records, its name in the picture, colour, dash.
LINES = (
    ("ce+trim", "inf", "trimmed CE", GREEN, "none"),
    ("nce+agce", "inf", "NCE+AGCE", BLUE, "none"),
    ("gce", 1 / 0.7, "GCE", PURPLE, "none"),
    ("ce", "inf", "cross-entropy", RED, "none"),
    ("mgce", 1.05, "MGCE, beta 1.05", AMBER, "7 4"),
)
# What the records of 2,000 images of MNIST have in common: not a loss begun with another, nor a share that was chosen.
CELL = {"noise_type": "symmetric", "noise_rate": 0.4, "beta_start": None, "trim": None}


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(render(Runs(RECORDS).read().values()))
    print(f"Written to {PICTURE}.")


def render(runs: Iterable[Run]) -> str:
    """Return the picture as SVG: a line for each loss, the mean over its seeds."""
    own = [
        record | run.specification
        for run in runs
        if run.specification["dataset"] == "mnist"
        for record in run.records
        if all((record | run.specification).get(name) == value for name, value in CELL.items())
    ]
    drawn = []
    for method, beta, name, colour, dash in LINES:
        curves = [r["test_accuracy_by_epoch"] for r in own if (r["method"], r["beta"]) == (method, beta)]
        means = [100 * statistics.fmean(values) for values in zip(*curves, strict=True)]
        drawn.append(Line(name, colour, list(enumerate(means, 1)), dash))
    said = "; ".join(
        f"{line.name} {max(y for _, y in line.points):.1f} at best and {line.points[-1][1]:.1f} at last"
        for line in drawn
    )
    return lines(
        f"Percent of right test labels predicted, by epoch: {said}",
        "right test labels predicted, 40 % of the training labels wrong",
        "epoch, 2,000 images of MNIST",
        drawn,
        {epoch: str(epoch) for epoch in (1, 10, 20, 30)},
        low=50,
    )


if __name__ == "__main__":
    main()
