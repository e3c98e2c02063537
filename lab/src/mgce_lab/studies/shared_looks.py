"""Bounds from looks that are shared out, beside Clopper and Pearson's from as many random looks, on CIFAR-10N.

`python -m mgce_lab.studies.shared_looks EMBEDDINGS CIFARN` reads the folders of `mgce_lab.studies.cifar10n`, draws
samples of its nine worlds, and looks up rows of each. Results are written to results/certificates/shared-looks.json
after every block of draws: a second call goes on where the first stopped. `--page` writes the table of
docs/lab/certificates.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import zlib
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

from mgce.risk import clopper_pearson_upper, share_looks, stratified
from mgce.risk.checking import upper_after
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.cifar10n import HELD_OUT, LABELS, MODELS, command, world

OUT = Path(__file__).parents[4] / "results" / "certificates" / "shared-looks.json"
PAGE = Path(__file__).parents[4] / "docs" / "lab" / "certificates.md"
BEGIN, END = "<!-- shared looks -->\n", "<!-- /shared looks -->\n"
LOOKS, BLOCK, DELTA = (300, 100, 50, 1000), 20, 0.05
KINDS = ("shared out", "Clopper-Pearson")
MEANS = 40  # draws whose bounds are averaged; of further ones it is only asked whether the bound is false
ROUGH = 0.05  # by which a bound is rounded up first: it takes a fifth of the time


def main() -> None:
    """Draw, write the sums, and write the table."""
    parser = command("shared_looks", __doc__, "--page", "write the table of the page")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--looks", type=int, nargs="+", default=LOOKS)
    options = parser.parse_args()
    record = json.loads(OUT.read_text()) if OUT.is_file() else {}
    if not options.page:
        measure(options, record)
    write_between(PAGE, BEGIN, f"{render(record)}\n", END)


def measure(options: argparse.Namespace, record: dict[str, Any]) -> None:
    """Bring every cell to the draws that are asked for, a block at a time."""
    names = [f"{labels}, {model}" for model in MODELS for labels in LABELS]
    worlds = {name: world(options.embeddings, options.cifarn, *name.split(", ")) for name in names}
    for m, aim in itertools.product(options.looks, range(BLOCK, options.draws + 1, BLOCK)):
        for name in names:
            cell = record.setdefault(f"{name}, {m}", {"draws": 0, "sums": dict.fromkeys(KINDS, 0.0), "false": 0})
            if cell["draws"] < aim:
                extend(cell, f"{name}, {m}", worlds[name], m)
        OUT.write_text(json.dumps(record, indent=0) + "\n")


def extend(cell: dict[str, Any], name: str, drawn_from: Any, m: int) -> None:
    """Add a block of draws to a cell; its seed follows from its name and the draws before."""
    right, given, probs = drawn_from
    rng = np.random.default_rng(zlib.crc32(f"{name}/{cell['draws']}".encode()))
    truth = float((probs.argmax(1) != right).mean())
    for _ in range(BLOCK):
        rows = rng.integers(0, right.size, HELD_OUT)
        labels, p, y = given[rows], probs[rows], right[rows]
        looks, wrong = share_looks(labels, p, generator=rng), p.argmax(1) != y
        some = looks.rows[:m]
        bound = partial(_bound, labels, p, (some, y[some]), looks.chance)
        if cell["draws"] < MEANS:
            found, alone = bound(), clopper_pearson_upper(int(wrong[:m].sum()), m)
            cell["false"] += int(found < truth)
            # An estimate has the true error as its mean: bounds above it vary ten times less than bounds.
            by_chance = np.average(wrong[some], weights=1 / looks.chance[some])
            cell["sums"][KINDS[0]] += truth + found - by_chance
            cell["sums"][KINDS[1]] += truth + alone - wrong[:m].mean()
        else:
            cell["false"] += int(bound(ROUGH) / (1 + ROUGH) < truth and bound() < truth)
    cell["draws"] += BLOCK
    cell |= {"truth": truth, "means": min(cell["draws"], MEANS)}


def _bound(labels: Any, p: Any, checked: Any, chance: Any, rounded: float = stratified.SEARCH.tolerance) -> float:
    """Return the bound from shared-out looks, rounded up by at most a share `rounded` of it."""
    with mock.patch.object(stratified, "SEARCH", stratified.SEARCH._replace(tolerance=rounded)):
        return upper_after(labels, p, checked, 0, DELTA, chance)


def significant(record: dict[str, Any]) -> int:
    """Return how many bounds from shared-out looks are false significantly more often than delta, after Holm."""
    p = np.sort([stats.binom.sf(c["false"] - 1, c["draws"], DELTA) for c in record.values()])
    beyond = p > DELTA / np.arange(len(p), 0, -1)
    return int(beyond.argmax()) if beyond.any() else len(p)


def render(record: dict[str, Any]) -> str:
    """Return the table: for each label set and number of looks, mean bounds, and the most false ones of a model."""
    header = ["label set, looks", "true error", *KINDS, "shared out: false at most"]
    rows = []
    for labels, m in itertools.product(LABELS, sorted(LOOKS)):
        cells = [record[f"{labels}, {model}, {m}"] for model in MODELS]
        means = [np.mean([c["sums"][kind] / c["means"] for c in cells]) for kind in KINDS]
        values = (np.mean([c["truth"] for c in cells]), *means, max(c["false"] / c["draws"] for c in cells))
        rows.append([f"{labels}, {m}", *(f"{value:.3f}" for value in values)])
    said = "Bounds that were false significantly more often than delta, with Holm's correction"
    return f"{table(header, rows)}\n\n{said}: {significant(record)}."


if __name__ == "__main__":
    main()
