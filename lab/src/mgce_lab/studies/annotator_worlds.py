"""How far estimates of several annotators are from the truth, in made worlds that keep to their assumption and do not.

`python -m mgce_lab.studies.annotator_worlds` draws labels whose right classes are known, and asks `find_consensus`. A
world is an entry of `results/annotators/worlds.json`; one that has enough draws is not drawn again. The table of
`docs/lab/annotators.md` is written anew.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce import certify
from mgce.labels.consensus import find_consensus
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.annotators import BEGIN, END, PAGE, within

RESULTS = Path(__file__).parents[4] / "results" / "annotators" / "worlds.json"
NAME = "worlds"
LOOKED_UP = 50
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """Labels of m annotators on n rows of k classes: a share of all labels is given."""

    n: int
    k: int
    m: int
    share: float = 1.0
    shared: Callable[[np.random.Generator, Labels, Labels], Labels] | None = (
        None  # errors that annotators have in common
    )

    def draw(self, rng: np.random.Generator) -> tuple[Labels, Labels]:
        """Return right classes, shape (n,), and labels, shape (n, m), of rows with a label; -1 for none."""
        y = rng.integers(self.k, size=self.n)
        accuracy = np.linspace(0.65, 0.9, self.m)
        other = (y[:, None] + rng.integers(1, self.k, (self.n, self.m))) % self.k
        labels = np.where(rng.random((self.n, self.m)) < accuracy, y[:, None], other)
        if self.shared is not None:
            labels = self.shared(rng, y, labels)
        labels[rng.random(labels.shape) > self.share] = -1
        kept = (labels >= 0).any(1)
        return y[kept], labels[kept]


def copied(rng: np.random.Generator, y: Labels, labels: Labels) -> Labels:
    """Four fifths of the labels are copies of the first annotator's."""
    return np.where(rng.random(labels.shape) < 0.8, labels[:, :1], labels)


def hard_rows(rng: np.random.Generator, y: Labels, labels: Labels) -> Labels:
    """On three tenths of the rows every annotator guesses."""
    return np.where(rng.random((len(y), 1)) < 0.3, rng.integers(int(y.max()) + 1, size=labels.shape), labels)


def wrong_guideline(rng: np.random.Generator, y: Labels, labels: Labels) -> Labels:
    """Every annotator takes half of the rows of the first class for the second."""
    return np.where((labels == 0) & (rng.random((len(y), 1)) < 0.5), 1, labels)


WORLDS = {
    "independent errors, 150 rows": World(150, 2, 4),
    "independent errors, 150 rows, half of the labels": World(150, 2, 4, 0.5),
    "independent errors, 600 rows": World(600, 2, 5, 0.4),
    "independent errors, 600 rows, 3 classes": World(600, 3, 5),
    "copies": World(600, 2, 4, shared=copied),
    "hard rows": World(600, 2, 4, shared=hard_rows),
    "wrong guideline": World(600, 2, 4, shared=wrong_guideline),
}
MISLED = ("copies", "wrong guideline")  # worlds in which all annotators look better than they are


def measured(name: str, draws: int) -> dict[str, Any]:
    """Return sums over draws of a world."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found: dict[str, Any] = {"draws": draws, "errors": []}
    found |= dict.fromkeys(("given", "ranges", "missed", "bounds", "false"), 0)
    for _ in range(draws):
        y, labels = WORLDS[name].draw(rng)
        consensus = find_consensus(labels, classes=np.arange(WORLDS[name].k))
        right = consensus.labels == y
        if not consensus.independence.refuted:
            found["given"] += 1
            found["errors"].append(round(consensus.estimated_accuracy() - float(right.mean()), 4))
        for one in consensus.annotators:
            own = labels[:, int(one.name)]
            found["ranges"] += 1
            found["missed"] += int(not within(one, float((own == y)[own >= 0].mean())))
        rows = rng.choice(len(y), LOOKED_UP, replace=False)
        c = certify(consensus.probs.argmax(1), consensus.probs, bounds=["argmax"], checked=(rows, y[rows]))
        found["bounds"] += 1
        found["false"] += int((c.argmax_error or 0.0) < 1 - right.mean())
    return found


def render(cells: dict[str, Any]) -> str:
    """Return the table of the page."""
    rows = []
    for name, cell in cells.items():
        errors = 100 * np.array(cell["errors"])
        rows.append(
            [
                name,
                f"{cell['given']} of {cell['draws']}",
                f"{errors.mean():+.1f}" if errors.size else "",
                f"{cell['missed']} of {cell['ranges']}",
                f"{cell['false']} of {cell['bounds']}",
            ]
        )
    head = ["world", "estimate given", "estimate - truth, points", "ranges that miss"]
    return table([*head, f"bound from {LOOKED_UP} looked-up rows false"], rows)


def main() -> None:
    """Measure the worlds that have too few draws, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.annotator_worlds", description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    cells = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in WORLDS:
        if cells.get(name, {"draws": 0})["draws"] < options.draws:
            cells[name] = measured(name, options.draws)
            print(name, {key: value for key, value in cells[name].items() if key != "errors"}, flush=True)
            RESULTS.write_text(json.dumps({each: cells[each] for each in WORLDS if each in cells}, indent=0) + "\n")
    write_between(PAGE, BEGIN.format(NAME), f"{render(cells)}\n", END.format(NAME))


if __name__ == "__main__":
    main()
