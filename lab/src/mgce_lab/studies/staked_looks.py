"""A bound from ten cells that stakes on every look, beside that of two: `python -m mgce_lab.studies.staked_looks`.

EMBEDDINGS CIFARN are the folders of `mgce_lab.studies.cifar10n`. Each look has some rows of its own that are not looked
up. Let s be the error rate that earlier looks showed in the cell of a row. An error, minus s of its row, plus the mean
of s over the look's own rows has the error as its mean, whatever the noise and the cells. So a stake on it is a fair
bet. The stakes aim at a capital of 1 / delta after the last look, as those of an option that pays this or nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from mgce.risk import certify, clopper_pearson_upper
from mgce_lab.engine.markdown import table
from mgce_lab.studies.cifar10n import HELD_OUT, LABELS, world

LOOKS, DELTA, FIFTHS = 300, 0.05, 5
GRID = np.arange(0.1, 0.6, 0.001)  # the error rates that are tested
FEW = 3.0  # looks for which the model's own guess counts in each cell
FIRST = 10.0, 0.12  # looks that a first guess of the variance counts for, and that guess
SOONER = 2.0  # by which stakes exceed those in continuous time, over the root of the looks that are left


def main() -> None:
    """Draw samples, and print the mean bounds."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.staked_looks", description=__doc__)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("cifarn", type=Path)
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    rows = []
    for labels in LABELS:
        found = measure(world(options.embeddings, options.cifarn, labels, "LDA"), options.draws)
        rows.append([labels, *(f"{value:.4f}" for value in found.values())])
    print(table(["labels", *found], rows))


def measure(drawn_from: Any, draws: int) -> dict[str, float]:
    """Return the true error, the mean bounds by each method, and how often the one of ten cells is false."""
    right, given, probs = drawn_from
    rng, wrong = np.random.default_rng(0), probs.argmax(1) != right
    truth, size = float(wrong.mean()), HELD_OUT // LOOKS
    agrees, top = probs.argmax(1) == given, probs.max(1)
    cells = np.where(agrees, 0, FIFTHS) + np.digitize(top, np.quantile(top, np.arange(1, FIFTHS) / FIFTHS))
    guess = np.where(agrees, (1 - top) / 2, 1 - 0.75 * top)
    guesses = np.bincount(cells, guess) / np.bincount(cells)
    sums, false = np.zeros(3), 0
    for _ in range(draws):
        rows = rng.integers(0, right.size, HELD_OUT)
        own = rows.reshape(LOOKS, size)
        looks = own[:, 0]
        share = wrong[looks].mean()
        c = certify(given[rows], probs[rows], bounds=["argmax"], checked=(np.arange(0, HELD_OUT, size), right[looks]))
        staked, estimate = bound(wrong[looks], cells[own], guesses)
        sums += clopper_pearson_upper(int(wrong[looks].sum()), LOOKS) - share, (c.argmax_error or 0) - share, 0
        sums[2] += staked - estimate
        false += staked < truth
    means = dict(zip(("Clopper-Pearson", "two cells", "ten cells, staked"), truth + sums / draws, strict=True))
    return {"true error": truth, **means, "false": false / draws}


def bound(wrong: Any, cells: Any, guesses: Any) -> tuple[float, float]:
    """Return the largest error rate that is not refuted, and an estimate of the rate.

    Args:
        wrong: whether each look found an error, shape (m,).
        cells: the cells of the rows of each look, the looked-up one first, shape (m, size).
        guesses: the error rates of the cells as guessed beforehand.
    """
    looks, found = np.full(guesses.size, FEW), FEW * guesses
    capital, refuted = np.full(GRID.size, DELTA), np.zeros(GRID.size, dtype=bool)
    seen: list[float] = []
    for t, own in enumerate(cells):
        s, left = found / looks, wrong.size - t
        variance = (np.var(seen) * t + np.prod(FIRST)) / (t + FIRST[0]) if t else FIRST[1]
        normal = np.exp(-(special.ndtri(np.clip(capital, 1e-12, 1 - 1e-9)) ** 2) / 2) / np.sqrt(2 * np.pi * variance)
        stake = normal / np.sqrt(left) * (1 + SOONER / np.sqrt(left))
        most = 1 - s.min() + s.max()  # that a look can be
        look = float(wrong[t] - s[own[0]] + s[own].mean())
        stake = np.minimum(stake, capital / np.maximum(most - GRID, 1e-9))
        capital = np.where(refuted, capital, capital + stake * (GRID - look))
        refuted |= capital >= 1 - 1e-12
        looks[own[0]] += 1
        found[own[0]] += wrong[t]
        seen.append(look)
    place = np.flatnonzero(~refuted)
    return float(GRID[min(GRID.size - 1, place[-1] + 1)]), float(np.mean(seen))


if __name__ == "__main__":
    main()
