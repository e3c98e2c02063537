"""Coverage of prediction sets under people's noise, on CIFAR-10N with the worst labels.

`python -m mgce_lab.studies.human_sets EMBEDDINGS CIFARN` reads the folders of `mgce_lab.studies.cifar10n`, and draws
samples of 3,000 rows of its worlds. Sets are calibrated on the labels of people, with nothing stated or with the true
T; on rows whose right labels are looked up; and on all right labels. The results are written to
results/certificates/sets.json, and `--page` writes the table of docs/lab/certificates.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mgce.sets import calibrate
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.cifar10n import HELD_OUT, command, true_transition, world
from mgce_lab.studies.human_noise import PAGE

OUT = Path(__file__).parents[4] / "results" / "certificates" / "sets.json"
BEGIN, END = "<!-- human sets -->\n", "<!-- /human sets -->\n"
LABELS, MODELS, ALPHA, DELTA = "worst", ("LDA", "logistic"), 0.1, 0.05
LOOKED_UP = (50, 300)
HEADER = ("model", "calibrated on", "mean coverage", "coverage below 0.9", "mean number of classes")


def main() -> None:
    """Measure, and write the table of the page."""
    parser = command("human_sets", __doc__, "--page", "write the table of the page")
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    if not options.page:
        cells = [
            {"model": model} | found
            for model in MODELS
            for found in measure(*world(options.embeddings, options.cifarn, LABELS, model), options.draws)
        ]
        head = {"labels": LABELS, "alpha": ALPHA, "delta": DELTA, "n": HELD_OUT, "draws": options.draws}
        OUT.write_text(json.dumps(head | {"cells": cells}, indent=1) + "\n")
    cells = json.loads(OUT.read_text())["cells"]
    write_between(PAGE, BEGIN, f"{render(cells)}\n", END)


def measure(right: Any, given: Any, probs: Any, draws: int) -> list[dict[str, Any]]:
    """Return the coverage and size of sets in one world, for each kind of calibration."""
    rng, transition = np.random.default_rng(0), true_transition(right, given, probs.shape[1])
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(draws):
        rows = rng.integers(0, right.size, HELD_OUT)
        kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
            "people's labels": (given[rows], probs[rows], {}),
            "people's labels, true T stated": (given[rows], probs[rows], {"transition": transition, "delta": DELTA}),
            # Rows of a random sample are in random order: the first m are any m.
            **{f"{m} looked up": (right[rows[:m]], probs[rows[:m]], {}) for m in LOOKED_UP},
            "all right labels": (right[rows], probs[rows], {}),
        }
        for name, (target, h, stated) in kinds.items():
            sets = calibrate(target, h, alpha=ALPHA, **stated).predict(probs)
            covered = float(sets[np.arange(right.size), right].mean())
            found.setdefault(name, []).append((covered, float(sets.sum(1).mean())))
    return [_summary(name, np.array(values)) for name, values in found.items()]


def _summary(name: str, values: Any) -> dict[str, Any]:
    coverage, size = values.T
    below = float((coverage < 1 - ALPHA).mean())
    return dict(zip(HEADER[1:], (name, float(coverage.mean()), below, float(size.mean())), strict=True))


def render(cells: list[dict[str, Any]]) -> str:
    """Return the table of docs/lab/certificates.md: means over the models."""
    digits = {"mean coverage": 3, "coverage below 0.9": 2, "mean number of classes": 2}
    rows = []
    for kind in dict.fromkeys(c[HEADER[1]] for c in cells):
        of_models = [c for c in cells if c[HEADER[1]] == kind]
        rows.append([kind, *(f"{np.mean([c[name] for c in of_models]):.{n}f}" for name, n in digits.items())])
    return table(HEADER[1:], rows)


if __name__ == "__main__":
    main()
