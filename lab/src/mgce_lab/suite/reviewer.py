"""Simulate a reviewer who knows every right label: `python -m mgce_lab.suite.reviewer --data FOLDER`.

The reviewer checks each label that `mgce fit` calls more likely wrong than right, and mends it; then the model learns
anew. This goes on until no label is called so. `results/suite/reviewer.jsonl` keeps what was asked for, what was found,
what is left, and how many wrong labels the estimate expects among those that were not checked.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from functools import cache as remembered
from pathlib import Path
from typing import Any

import numpy as np

from mgce._threads import one_blas_thread, one_torch_thread
from mgce.estimators import LabelCorrectionClassifier
from mgce.labels.doubtful import doubtful_labels
from mgce_lab.engine.lines import Lines, Record
from mgce_lab.engine.markdown import table
from mgce_lab.suite.cells import drawn
from mgce_lab.suite.choice import RESULTS
from mgce_lab.suite.noises import NOISES
from mgce_lab.suite.tables import CHOOSING, TABLES

FILE = RESULTS / "reviewer.jsonl"
SIZE = 300  # training rows: every table has as many
ROUNDS = 10  # at most: nearly all reviews end after four
FIRST = 10  # suspects whose stated probability is kept


def reviewed(X: Any, given: Any, right: Any, seed: int = 0) -> list[dict[str, float]]:
    """Review rows until nothing is asked for; return what each round says and finds, and what it leaves."""
    labels, is_checked = given.copy(), np.zeros(len(given), bool)
    rounds: list[dict[str, float]] = []
    while len(rounds) < ROUNDS:
        with one_blas_thread(), one_torch_thread():
            model = LabelCorrectionClassifier(random_state=seed).fit(X, labels)
        target = np.searchsorted(model.classes_, labels)
        judged = doubtful_labels(model.left_out_proba_, target).settled(np.flatnonzero(is_checked))
        is_wrong, asked = labels != right, judged.is_issue
        rounds.append(
            {
                "asked": int(asked.sum()),
                "found": int((is_wrong & asked).sum()),
                "left": int((is_wrong & ~asked).sum()),
                "told": round(float(judged.wrong[~asked].sum()), 1),
                "first": round(float(judged.wrong[judged.suspects(FIRST)].mean()), 3),
                "most": round(float(judged.wrong.max()), 3),
            }
        )
        if not asked.any():
            break
        labels[asked], is_checked = right[asked], is_checked | asked
    return rounds


def render(records: Sequence[Record]) -> str:
    """Return what is asked for and left, by kind of noise: means of shares of all rows, in percent."""
    rows = []
    for kind, rate in NOISES:
        cells = [r for r in records if (r["kind"], r["rate"]) == (kind, rate)]
        if not cells:
            continue
        parts = [[r["wrong"], *_of_round(r["rounds"][:1]), *_of_round(r["rounds"]), r["rows"]] for r in cells]
        shares = np.array([[100 * value / part[-1] for value in part[:-1]] for part in parts]).mean(0)
        rows.append([f"{kind} {rate:.0%}" if rate else "right labels", str(len(cells)), *(f"{s:.1f}" for s in shares)])
    heads = ["%", "tables", "wrong", "asked in round 1", "left", "expected left", "asked in all rounds", "left"]
    return table([*heads, "expected left"], rows)


def _of_round(rounds: Sequence[dict[str, float]]) -> tuple[float, float, float]:
    return sum(one["asked"] for one in rounds), rounds[-1]["left"], rounds[-1]["told"]


def hardest(records: Sequence[Record], most: int = 3) -> str:
    """Return the tables with right labels on which a reviewer is asked for most rows, and the stated probabilities."""
    right = sorted((r for r in records if r["kind"] == "right"), key=lambda r: -r["rounds"][0]["asked"])[:most]
    rows = []
    for record in right:
        first = record["rounds"][0]
        said = [f"{100 * first[name]:.0f} %" for name in ("first", "most")]
        rows.append([record["table"], str(record["classes"]), f"{first['asked']} of {record['rows']}", *said])
    heads = ["labels all right", "classes", "more likely wrong than right", f"first {FIRST}, mean", "highest"]
    return table(heads, rows)


def main() -> None:
    """Simulate what has no record yet, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.suite.reviewer", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the two archives")
    parser.add_argument("--every", type=int, default=1, help="take every so manyth table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of classes too rare for the folds
    lines = Lines(FILE, "table", "kind", "rate")
    for name in CHOOSING[:: options.every]:
        read = remembered(lambda name=name: TABLES[name](options.data))
        for kind, rate in NOISES:
            key = {"table": name, "kind": kind, "rate": rate}
            cell = None if key in lines else drawn(read(), SIZE, kind, rate, 0)
            if cell is not None:
                known = {
                    "rows": len(cell.given),
                    "classes": cell.n_classes,
                    "wrong": int((cell.given != cell.right).sum()),
                }
                lines.add({**key, **known, "rounds": reviewed(cell.X, cell.given, cell.right)})
    print(render(lines.read()), hardest(lines.read()), sep="\n\n")


if __name__ == "__main__":
    main()
