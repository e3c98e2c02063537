"""How often the keeper names a kind of noise, on simulated predictions of validation rows, and after real trainings."""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from scipy.special import expit

from mgce import robust_loss
from mgce._arrays import FloatArray, IntArray
from mgce.labels.share import NoiseKind, kind_of_predictions
from mgce_lab.studies import loop
from mgce_lab.studies.noise_kind_page import DATASETS, REAL, RECORDS, Record, records

DRAWS, ROWS, CLASSES = 200, 800, 10
SLOPE = 4.0  # of errors by the rank u of the confidence, from 0 to 1: expit(-slope (u - middle))
# Middle of the curve, and the share of all errors of a class that go to the same other class. The first curve is
# about that of a forest against right labels.
NETWORKS = {"18 % errors": (0.03, 0.5), "35 % errors": (0.3, 0.9)}
NOISES = {
    "none": ("symmetric", 0.0),
    "symmetric 20 %": ("symmetric", 0.2),
    "symmetric 40 %": ("symmetric", 0.4),
    "20 %, on hard rows": ("instance", 0.2),
    "asymmetric 20 %": ("asymmetric", 0.2),
    "asymmetric 40 %": ("asymmetric", 0.4),
    "pair 20 %": ("pair", 0.2),
    "pair 40 %": ("pair", 0.4),
}


def drawn(
    noise: str, rate: float, rng: np.random.Generator, *, rows: int = ROWS, network: tuple[float, float]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return given labels, predictions and their confidence, each of shape (rows,).

    Args:
        noise: "symmetric", "instance", "asymmetric" or "pair".
        rate: of wrong labels; under asymmetric noise of the first half of the classes, the others have none.
        rng: random generator.
        rows: number of rows.
        network: middle of its curve of errors, and the share of its errors that go to the last class but one. Noise
            goes to the next class.
    """
    k, (middle, confused) = CLASSES, network
    right, confidence = rng.integers(0, k, rows), rng.random(rows)
    errs = rng.random(rows) < expit(-SLOPE * (confidence - middle))
    other = np.where(rng.random(rows) < confused, k - 2, rng.integers(1, k, rows))
    predicted = np.where(errs, (right + other) % k, right)
    chance = np.full(rows, rate)
    if noise == "instance":
        chance = 2 * rate * (1 - confidence)
    elif noise == "asymmetric":
        chance = np.where(right < k // 2, rate, 0.0)
    to = np.ones(rows, dtype=np.int64) if noise in ("asymmetric", "pair") else rng.integers(1, k, rows)
    given = np.where(rng.random(rows) < chance, (right + to) % k, right)
    return given, predicted, confidence


def kinds(
    noise: str, rate: float, network: tuple[float, float], draws: int = DRAWS, rows: int = ROWS
) -> list[NoiseKind]:
    """Return what is found on each of some samples of validation rows."""
    rng, found = np.random.default_rng(0), []
    for _ in range(draws):
        sample = drawn(noise, rate, rng, rows=rows, network=network)
        found.append(kind_of_predictions(*sample, CLASSES))
    return found


def simulated(draws: int, rows: int) -> list[Record]:
    """Return how many of the samples are called which kind, for each kind of noise and network."""
    found = []
    for (name, (noise, rate)), (errors, network) in itertools.product(NOISES.items(), NETWORKS.items()):
        named = Counter(one.kind for one in kinds(noise, rate, network, draws, rows))
        found.append({"noise": name, "network": errors, "draws": draws, "rows": rows, "kinds": named})
    return found


def trained(data_dir: Path) -> Iterator[Record]:
    """Train a network on each of the data sets with each kind of noise, and yield what its keeper says."""
    for dataset, noise in itertools.product(DATASETS, REAL):
        column = loop.Column(dataset, noise, first=20_000)  # rows of the development columns of `mgce_lab.studies.loop`
        data = loop.images(column, data_dir, 0)
        *_, keeper = loop.epochs(data, column, robust_loss("gce"), 0)
        found = keeper.verdict.noise_kind
        yield {"dataset": dataset, "noise": noise, "kind": found.kind, "pairs": found.pairs, "p_value": found.p_value}


def main() -> None:
    """Make what is asked for, and write the records; `mgce_lab.studies.loop` writes the page from them."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.noise_kind", description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="samples of validation rows of each kind")
    parser.add_argument("--rows", type=int, default=ROWS, help="validation rows of a sample")
    parser.add_argument("--data-dir", type=Path, help="train on the data sets of this folder instead of simulating")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = records()
    if options.data_dir is None:
        found["simulated"] = simulated(options.draws, options.rows)
    else:
        found["trained"] = [*trained(options.data_dir)]
    RECORDS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
