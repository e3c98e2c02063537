"""Certificates under people's noise: which hold, which refuse, and how wide they are, on CIFAR-10N.

`python -m mgce_lab.studies.human_noise EMBEDDINGS CIFARN` reads the folders of `mgce_lab.studies.cifar10n`, and draws
samples of its worlds. Each finished cell is written to results/certificates/human-noise.json. A second call goes on
where the first stopped, and measures anew what has fewer draws than asked for. `--page` writes the table of
docs/lab/certificates.md, and the sentence below it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from mgce.risk import betting_upper_sequence, certify, clopper_pearson_upper, looked_up_upper_sequence
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.cifar10n import HELD_OUT, LABELS, MODELS, IntArray, command, true_transition, world

LOOKED_UP = (50, 300)
OUT = Path(__file__).parents[4] / "results" / "certificates" / "human-noise.json"
PAGE = Path(__file__).parents[4] / "docs" / "lab" / "certificates.md"
BEGIN, END = "<!-- human noise -->\n", "<!-- /human noise -->\n"
DELTA = 0.05
CELLS = "label set, model"
COLUMNS = (
    "true error",
    "rate: condition false",
    "rate: refused",
    "T: condition false",
    "T: refused",
    "drawn from T: refused",
)
SHOWN = [name for name in COLUMNS if "refused" not in name]  # on the page
BOUNDS = ("mean bound", "Clopper-Pearson", "PPI++", "at every look", "at every look, these rows alone")
OURS_FALSE = ("false", "at every look false")  # of `certify` with checked rows, without and with `anytime`
LEVEL = 0.05  # of the tests that a share is above delta, all together
RESERVED = slice(1000, HELD_OUT)  # rows that are never looked up


def main() -> None:
    """Fit the models, draw the samples, write the counts of false bounds, and print a table."""
    parser = command("human_noise", __doc__, "--page", "write the table of the page and its sentence")
    parser.add_argument("--draws", type=int, default=1000, help="samples of a cell, for stated noise")
    parser.add_argument("--looks", type=int, default=1000, help="samples of a cell, for looked-up rows")
    options = parser.parse_args()
    cells = json.loads(OUT.read_text())["cells"] if OUT.is_file() else []
    if not options.page:
        measure(options, cells)
    write_between(PAGE, BEGIN, f"{render(cells)}\n", END)


def measure(options: argparse.Namespace, cells: list[dict[str, Any]]) -> None:
    """Measure the cells that have fewer draws than asked for."""
    for name in (f"{labels}, {model}" for labels in LABELS for model in MODELS):
        done = next((found for found in cells if found[CELLS] == name), None)
        if done is None:
            done = {CELLS: name, "draws": 0, "looks": 0}
            cells.append(done)
        if done["draws"] >= options.draws and done["looks"] >= options.looks:
            continue
        drawn_from = world(options.embeddings, options.cifarn, *name.split(", "))
        if done["draws"] < options.draws:
            done |= cell(*drawn_from, options.draws) | {"draws": options.draws}
        if done["looks"] < options.looks:
            done["widths"] = [looked_up(*drawn_from, m, options.looks) for m in LOOKED_UP]
            done["looks"] = options.looks
        print(json.dumps(done), flush=True)
        OUT.write_text(json.dumps({"delta": DELTA, "cells": cells}, indent=1) + "\n")


def cell(right: IntArray, given: IntArray, probs: Any, draws: int) -> dict[str, Any]:
    """Return the shares of samples of one world in which a bound by stated noise is false or refused."""
    rng, k = np.random.default_rng(0), probs.shape[1]
    transition, rate = true_transition(right, given, k), float((right != given).mean())
    truth = float((probs.argmax(1) != right).mean())
    shares = {name: 0.0 for name in COLUMNS[1:]}
    for _ in range(draws):
        rows = rng.integers(0, right.size, HELD_OUT)
        kinds: dict[str, dict[str, Any]] = {"rate": {"noise_rate": rate}, "T": {"transition": transition}}
        for name, stated in kinds.items():
            now = certify(given[rows], probs[rows], bounds=["argmax"], **stated)
            shares[f"{name}: refused"] += (now.refuted is not None) / draws
            condition = None if now.conditional is None else now.conditional.argmax_error
            shares[f"{name}: condition false"] += (condition is not None and condition < truth) / draws
        drawn = (transition[right[rows]].cumsum(1) < rng.random((HELD_OUT, 1))).sum(1).clip(max=k - 1)
        refused = certify(drawn, probs[rows], bounds=["argmax"], transition=transition).refuted is not None
        shares["drawn from T: refused"] += refused / draws
    return {"true error": truth, "noise rate": rate, **shares}


def looked_up(right: Any, given: Any, probs: Any, m: int, draws: int) -> dict[str, float]:
    """Return how often bounds from m looked-up rows of a sample are false, and their means."""
    rng, wrong, agree = np.random.default_rng(m), probs.argmax(1) != right, probs.argmax(1) == given
    truth, bounds = float(wrong.mean()), []
    for _ in range(draws):
        rows = rng.integers(0, right.size, HELD_OUT)  # rows of a random sample are in random order: the first m are any
        own = certify(given[rows], probs[rows], bounds=["argmax"], checked=(np.arange(m), right[rows[:m]]))
        pooled = clopper_pearson_upper(int(wrong[rows[:m]].sum()), m)
        others = int((~agree)[rows[RESERVED]].sum()), HELD_OUT - RESERVED.start
        every = looked_up_upper_sequence(wrong[rows[:m]], ~agree[rows[:m]], others)
        alone = betting_upper_sequence(wrong[rows[:m]])
        bounds.append(
            (own.argmax_error, pooled, ppi_upper(wrong[rows[:m]], ~agree[rows], m), every[-1], alone[-1], every.min())
        )
    found = np.array(bounds, dtype=float)
    return {
        "looked up": m,
        "false": float((found[:, 0] < truth).mean()),
        "PPI++ false": float((found[:, 2] < truth).mean()),
        "Clopper-Pearson false": float((found[:, 1] < truth).mean()),
        "at every look false": float((found[:, 5] < truth).mean()),
        **dict(zip(BOUNDS, found[:, : len(BOUNDS)].mean(0).tolist(), strict=True)),
    }


def ppi_upper(wrong: Any, proxy: Any, m: int) -> float:
    """Return the asymptotic upper end of PPI++ (Angelopoulos, Duchi and Zrnic, 2023) of the mean of `wrong`."""
    y, f, rest = wrong.astype(float), proxy[:m].astype(float), proxy[m:].astype(float)
    spread = np.var(np.append(f, rest))
    weight = float(np.clip(np.cov(y, f)[0, 1] / ((1 + m / rest.size) * spread), 0, 1)) if spread else 0.0
    mean = weight * rest.mean() + (y - weight * f).mean()
    error = np.sqrt(weight**2 * rest.var() / rest.size + (y - weight * f).var() / m)
    return float(mean + stats.norm.isf(DELTA) * error)


def significant(cells: list[dict[str, Any]]) -> tuple[int, int]:
    """Return how many bounds from looked-up rows are false significantly more often than delta, and of how many.

    The tests are one-sided and binomial, one for each cell, number of rows and kind of bound. Holm's correction is over
    all of them.
    """
    found = [(w[kind], c["looks"]) for c in cells for w in c["widths"] for kind in OURS_FALSE]
    p = np.sort([stats.binom.sf(round(share * looks) - 1, looks, DELTA) for share, looks in found])
    beyond = p > LEVEL / np.arange(len(p), 0, -1)
    return int(beyond.argmax()) if beyond.any() else len(p), len(p)


def sentence(cells: list[dict[str, Any]]) -> str:
    """Say whether bounds from looked-up rows are false more often than delta."""
    n, of = significant(cells)
    which = f"{n} of {of} bounds" if n else "No bound"
    return (
        f"{which} from checked rows, with or without `anytime`, {'were' if n > 1 else 'was'} false significantly more "
        f"often than {100 * DELTA:g} %\n(binomial tests with Holm's correction)."
    )


def render(cells: list[dict[str, Any]]) -> str:
    """Return the table of docs/lab/certificates.md, and the sentence below it."""
    few, many = LOOKED_UP
    columns = [(few, "false"), (few, "mean bound"), (few, "Clopper-Pearson"), (many, "false")]
    header = [CELLS, *SHOWN, *(f"{m} looked up: {name}" for m, name in columns)]
    rows = []
    for c in cells:
        widths = {w["looked up"]: w for w in c["widths"]}
        means = [widths[m][name] for m, name in columns]
        stated = [f"{c[name]:.3f}" for name in SHOWN]
        rows.append([c[CELLS], *stated, *(f"{value:.3f}" for value in means)])
    return f"{table(header, rows)}\n\n{sentence(cells)}"


if __name__ == "__main__":
    main()
