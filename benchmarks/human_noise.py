"""Certificates under people's noise: which hold, which refuse, and how wide they are, on CIFAR-10N.

`python -m benchmarks.human_noise EMBEDDINGS CIFARN --out FILE` reads frozen features of two parts of CIFAR-10's
training set, `train-0-6000.npz` and `held-6000-9000.npz` with arrays x and y, and `CIFAR-10_human.pt`. Models see the
labels that people gave to the first part. The rows of the second are the world: samples of it are drawn with
replacement; rates, T and true errors are its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.markdown import table
from mgce._arrays import one_hot
from mgce.risk import certify, clopper_pearson_upper
from mgce.risk.label_noise import Losses, Refuted
from mgce.risk.sample import Sample
from mgce.risk.stated_noise import StatedNoise

LABELS = {"worst": "worse_label", "random": "random_label1", "aggregate": "aggre_label"}
MODELS: dict[str, Callable[[], Any]] = {
    "LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "logistic": lambda: LogisticRegression(C=1e-4, max_iter=200),
    "neighbours": lambda: KNeighborsClassifier(50),
}
LOOKED_UP = (50, 100, 300)
DELTA = 0.05
HELD_OUT = 3000
CELLS = "label set, model"
COLUMNS = (
    "true error",
    "rate: false before",
    "rate: false",
    "rate: refused",
    "T: false before",
    "T: false",
    "T: refused",
    "drawn from T: refused",
)
BOUNDS = ("mean bound", "Clopper-Pearson", "PPI++")
SHOWN = (50, 300)


def main() -> None:
    """Fit, draw, write the counts, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.human_noise", description=__doc__)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("cifarn", type=Path)
    parser.add_argument("--draws", type=int, default=1000, help="samples of a cell, for stated noise")
    parser.add_argument("--looks", type=int, default=200, help="samples of a cell, for looked-up rows")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    train, held = (np.load(options.embeddings / f"{name}.npz") for name in ("train-0-6000", "held-6000-9000"))
    human = torch.load(options.cifarn / "CIFAR-10_human.pt", weights_only=False)
    scale = StandardScaler().fit(train["x"].astype(np.float32))
    seen, unseen = (scale.transform(part["x"].astype(np.float32)) for part in (train, held))
    cells = []
    for labels, key in LABELS.items():
        given = np.asarray(human[key])
        for name, model in MODELS.items():
            probs = model().fit(seen, given[:6000]).predict_proba(unseen)
            world = held["y"].astype(np.int64), given[6000:9000].astype(np.int64), probs
            cells.append({CELLS: f"{labels}, {name}"} | cell(*world, options.draws, options.looks))
            print(json.dumps(cells[-1]), flush=True)
            if options.out is not None:
                document = {"draws": options.draws, "looks": options.looks, "delta": DELTA, "cells": cells}
                options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(render(cells))


def cell(right: NDArray[np.int64], given: NDArray[np.int64], probs: Any, draws: int, looks: int) -> dict[str, Any]:
    """Return the shares of samples of one world in which a bound is false or refused, and the mean bounds."""
    rng, k = np.random.default_rng(0), probs.shape[1]
    counts = np.zeros((k, k))
    np.add.at(counts, (right, given), 1)
    transition, rate = counts / counts.sum(1, keepdims=True), float((right != given).mean())
    truth = float((probs.argmax(1) != right).mean())
    shares = {name: 0.0 for name in COLUMNS[1:]}
    for _ in range(draws):
        rows = rng.integers(0, right.size, HELD_OUT)
        kinds: dict[str, dict[str, Any]] = {"rate": {"noise_rate": rate}, "T": {"transition": transition}}
        for name, stated in kinds.items():
            before = without_test(given[rows], probs[rows], stated.get("noise_rate", 0.0), stated.get("transition"))
            now = certify(given[rows], probs[rows], bounds=["argmax"], **stated)
            shares[f"{name}: false before"] += (before < truth) / draws
            shares[f"{name}: refused"] += (now.refuted is not None) / draws
            given_and_false = now.refuted is None and now.argmax_error is not None and now.argmax_error < truth
            shares[f"{name}: false"] += given_and_false / draws
        drawn = (transition[right[rows]].cumsum(1) < rng.random((HELD_OUT, 1))).sum(1).clip(max=k - 1)
        refused = certify(drawn, probs[rows], bounds=["argmax"], transition=transition).refuted is not None
        shares["drawn from T: refused"] += refused / draws
    widths = [looked_up(right, given, probs, m, looks) for m in LOOKED_UP]
    return {"true error": truth, "noise rate": rate, **shares, "widths": widths}


def without_test(target: Any, probs: Any, rate: float = 0.0, transition: Any = None) -> float:
    """Return the bound at all of delta, as it is where nothing tests whether noise depends on the example."""
    losses = Losses(1 - one_hot(probs.argmax(1), probs.shape[1]), binary=True)
    sample = Sample(target, probs)
    try:
        return StatedNoise(rate, transition=transition).assume(sample, DELTA)[0].upper(sample, losses, DELTA)
    except Refuted:
        return 1.0


def looked_up(right: Any, given: Any, probs: Any, m: int, draws: int) -> dict[str, float]:
    """Return how often bounds from m looked-up rows of a sample are false, and their means."""
    rng, wrong, agree = np.random.default_rng(m), probs.argmax(1) != right, probs.argmax(1) == given
    truth, bounds = float(wrong.mean()), []
    for _ in range(draws):
        rows = rng.integers(0, right.size, HELD_OUT)  # rows of a random sample are in random order: the first m are any
        own = certify(given[rows], probs[rows], bounds=["argmax"], checked=(np.arange(m), right[rows[:m]]))
        pooled = clopper_pearson_upper(int(wrong[rows[:m]].sum()), m)
        bounds.append((own.argmax_error, pooled, ppi_upper(wrong[rows[:m]], ~agree[rows], m)))
    found = np.array(bounds, dtype=float)
    return {
        "looked up": m,
        "false": float((found[:, 0] < truth).mean()),
        "PPI++ false": float((found[:, 2] < truth).mean()),
        "Clopper-Pearson false": float((found[:, 1] < truth).mean()),
        **dict(zip(BOUNDS, found.mean(0).tolist(), strict=True)),
    }


def ppi_upper(wrong: Any, proxy: Any, m: int) -> float:
    """Return the asymptotic upper end of PPI++ (Angelopoulos, Duchi and Zrnic, 2023) of the mean of `wrong`."""
    y, f, rest = wrong.astype(float), proxy[:m].astype(float), proxy[m:].astype(float)
    spread = np.var(np.append(f, rest))
    weight = float(np.clip(np.cov(y, f)[0, 1] / ((1 + m / rest.size) * spread), 0, 1)) if spread else 0.0
    mean = weight * rest.mean() + (y - weight * f).mean()
    error = np.sqrt(weight**2 * rest.var() / rest.size + (y - weight * f).var() / m)
    return float(mean + stats.norm.isf(DELTA) * error)


def render(cells: list[dict[str, Any]]) -> str:
    """Return the table of docs/certificates.md."""
    header = [CELLS, *COLUMNS, *(f"{m} looked up: {name}" for m in SHOWN for name in ("bound", "Clopper-Pearson"))]
    rows = []
    for c in cells:
        widths = {w["looked up"]: w for w in c["widths"]}
        means = [widths[m][name] for m in SHOWN for name in ("mean bound", "Clopper-Pearson")]
        rows.append([c[CELLS], *(f"{value:.3f}" for value in [*(c[name] for name in COLUMNS), *means])])
    return table(header, rows)


if __name__ == "__main__":
    main()
