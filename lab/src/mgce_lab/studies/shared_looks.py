"""Bounds from looks that are shared out, beside those from random looks, on CIFAR-10N.

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
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from mgce.risk import certify, clopper_pearson_upper, share_looks
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.cifar10n import HELD_OUT, LABELS, MODELS, command, world

OUT = Path(__file__).parents[4] / "results" / "certificates" / "shared-looks.json"
PAGE = Path(__file__).parents[4] / "docs" / "lab" / "certificates.md"
BEGIN, END = "<!-- shared looks -->\n", "<!-- /shared looks -->\n"
LOOKS, BLOCK, DELTA = (300, 100, 50, 1000), 20, 0.05
KINDS = ("shared out", "drawn at random", "Clopper-Pearson")


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
            cell = record.setdefault(f"{name}, {m}", {"draws": 0, "sums": dict.fromkeys(KINDS, 0.0), "false": {}})
            if cell["draws"] < aim:
                extend(cell, f"{name}, {m}", worlds[name], m)
        OUT.write_text(json.dumps(record, indent=0) + "\n")


def extend(cell: dict[str, Any], name: str, drawn_from: Any, m: int) -> None:
    """Add a block of draws to a cell; its seed follows from its name and the draws before."""
    right, given, probs = drawn_from
    rng, truth = (
        np.random.default_rng(zlib.crc32(f"{name}/{cell['draws']}".encode())),
        float((probs.argmax(1) != right).mean()),
    )
    for _ in range(BLOCK):
        rows = rng.integers(0, right.size, HELD_OUT)
        labels, p, y = given[rows], probs[rows], right[rows]
        looks = share_looks(labels, p, generator=rng)
        some, first = looks.rows[:m], np.arange(m)
        shared = certify(labels, p, bounds=["argmax"], checked=(some, y[some]), checked_with=looks.chance)
        random = certify(labels, p, bounds=["argmax"], checked=(first, y[:m]))
        alone = clopper_pearson_upper(int((p[:m].argmax(1) != y[:m]).sum()), m)
        for kind, bound in zip(KINDS, (shared.argmax_error, random.argmax_error, alone), strict=True):
            cell["sums"][kind] += float(bound or 0.0)
            cell["false"][kind] = cell["false"].get(kind, 0) + int((bound or 0.0) < truth)
    cell |= {"truth": truth, "draws": cell["draws"] + BLOCK}


def significant(record: dict[str, Any]) -> int:
    """Return how many bounds from shared-out looks are false significantly more often than delta, after Holm."""
    p = np.sort([stats.binom.sf(c["false"][KINDS[0]] - 1, c["draws"], DELTA) for c in record.values()])
    beyond = p > DELTA / np.arange(len(p), 0, -1)
    return int(beyond.argmax()) if beyond.any() else len(p)


def render(record: dict[str, Any]) -> str:
    """Return the table: mean bounds, and how often those from shared-out looks are false."""
    header = ["label set, model, looks", "draws", "true error", *KINDS, "shared out: false"]
    rows = []
    for name, c in sorted(record.items(), key=lambda item: (item[0].split(", ")[:2], int(item[0].split(", ")[2]))):
        means = [f"{c['sums'][kind] / c['draws']:.3f}" for kind in KINDS]
        rows.append([name, str(c["draws"]), f"{c['truth']:.3f}", *means, f"{c['false'][KINDS[0]] / c['draws']:.3f}"])
    said = f"{significant(record)} bounds" if significant(record) else "No bound"
    return (
        f"{table(header, rows)}\n\n{said} of shared-out looks: false significantly more often than delta, after Holm."
    )


if __name__ == "__main__":
    main()
