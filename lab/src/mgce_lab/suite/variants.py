"""What other values of each constant do on the choosing tables: `python -m mgce_lab.suite.variants --cache FOLDER`.

Constants of the ranking are tried on probabilities in the cache. `--refit` tries those of the model, which is fitted
anew on each table of 300 rows with 40 % symmetric noise. A constant is chosen on random halves of the tables, and
judged on the other halves: that is how stable its choice is. No locked table is read.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score

from mgce._threads import one_blas_thread, one_torch_thread
from mgce.estimators import LabelCorrectionClassifier
from mgce.labels.doubtful import doubtful_labels
from mgce_lab.engine.markdown import table
from mgce_lab.suite.cache import Cached, cached
from mgce_lab.suite.cells import Cell, drawn
from mgce_lab.suite.choice import RESULTS
from mgce_lab.suite.opponents import OURS
from mgce_lab.suite.tables import CHOOSING, TABLES

FILE = RESULTS / "variants.json"
HALVES = 1_000  # random halves of the tables: shares of them are known to 1.6 points
LEAST = 1e-3  # of a stated probability: a certain error would decide a mean of logarithms


class Constant(NamedTuple):
    """A constant, and the values that are tried."""

    module: str
    name: str
    values: tuple[Any, ...]
    says: str


RANKING = (
    Constant("mgce.labels.correction", "SURER", (0.25, 0.5, 0.75, 1.0), "surer rows that count"),
    Constant("mgce.labels.correction", "LEVEL", (0.0, 1e-5, 0.001, 0.01, 1.0), "level of the test for noise by class"),
    Constant("mgce.labels.correction", "PRIOR_ROWS", (3, 10, 30), "prior of the noise matrix, rows a class"),
    Constant("mgce.labels.sharpened", "TOO_EVEN", (0.0, 0.001, 0.05, 1.0), "level of the test for too even p; 0: none"),
    Constant("mgce.labels.correction", "EM_STEPS", (1, 3, 5, 10, 30), "steps towards q T = p"),
)
STATED = (
    Constant("mgce.labels.doubtful", "FEW", (0, 30, 100, 300), "n / (n + this), of a stated probability"),
    Constant("mgce.labels.doubtful", "BY_CLASS", (0.6, 0.8, 1.0), "factor of it, if noise depends on the class"),
)
MODEL = (
    Constant("mgce.estimators.correction", "CORRECTED_LEAF", (1, 2, 3, 5), "leaf of the second forest"),
    Constant("mgce.estimators.correction", "LEAVES", ((1,), (3,), (10,), (1, 3, 10)), "leaves of the first forest"),
    Constant("mgce.estimators.fourier_ridge", "WIDTHS", ((0.3,), (1.0,), (0.3, 1.0), (0.1, 0.3, 1.0, 3.0)), "widths"),
    Constant("mgce.estimators.fourier_ridge", "RIDGES", ((0.3,), (1.0,), (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)), "ridges"),
)


class Tried(NamedTuple):
    """The value in use and the best other value of a constant; shares are of the random halves that choose them."""

    constant: Constant
    share: float
    other: str
    other_share: float
    gain: float  # of the other value, in points over all tables
    on_the_rest: float  # what a choice by halves gains on the other halves


KINDS = {"ranking": RANKING, "stated": STATED, "model": MODEL}
Scores = dict[str, dict[str, dict[str, float]]]  # of each constant, of each value, of each table


@contextmanager
def having(constant: Constant, value: Any) -> Iterator[None]:
    """Set a constant to another value for a while."""
    module = import_module(constant.module)
    usual = getattr(module, constant.name)
    setattr(module, constant.name, value)
    try:
        yield
    finally:
        setattr(module, constant.name, usual)


def used(constant: Constant) -> Any:
    """Return the value that is in use."""
    return getattr(import_module(constant.module), constant.name)


def precision(cell: Cached) -> float | None:
    """Return the average precision of the suspects in percent; None where no label is wrong."""
    wrong = cell.given != cell.right
    judged = doubtful_labels(cell.own[OURS].astype(np.float64), cell.given)
    return 100 * float(average_precision_score(wrong, judged.wrong)) if wrong.any() else None


def said(cell: Cached) -> float:
    """Return the mean log-likelihood, in hundredths, of the stated probabilities that labels are wrong."""
    stated = doubtful_labels(cell.own[OURS].astype(np.float64), cell.given).wrong
    true = np.where(cell.given != cell.right, stated, 1 - stated)
    return 100 * float(np.log(np.maximum(true, LEAST)).mean())


def accuracy(cell: Cell) -> float:
    """Return the accuracy on right labels of test rows, in percent, of the model fitted anew."""
    with one_blas_thread(), one_torch_thread():
        model = LabelCorrectionClassifier(random_state=0).fit(cell.X, cell.given)
    return 100 * float(np.mean(model.predict(cell.X_test) == cell.test))


def scores(
    constants: tuple[Constant, ...], cells: Mapping[str, list[Any]], measure: Callable[[Any], float | None]
) -> Scores:
    """Return the mean score of each table, for each value of each constant."""
    found: Scores = {}
    for constant in constants:
        found[constant.name] = {}
        for value in constant.values:
            with having(constant, value):
                by_table = {
                    name: [s for cell in some if (s := measure(cell)) is not None] for name, some in cells.items()
                }
            found[constant.name][str(value)] = {name: round(float(np.mean(s)), 3) for name, s in by_table.items() if s}
    return found


def stability(values: Mapping[str, Mapping[str, float]], ours: str) -> dict[str, tuple[float, float]]:
    """Return for each value: the mean over tables minus that of ours, and the share of halves that choose it.

    The entry "" has 0 and the mean, on the other halves, of what the halves choose minus ours.
    """
    names = [*values]
    grid = np.array([[values[name][one] for one in values[ours]] for name in names])
    rng, own, n = np.random.default_rng(0), names.index(ours), grid.shape[1]
    chosen, gains = np.zeros(len(names)), []
    for _ in range(HALVES):
        order = rng.permutation(n)
        half, rest = order[: n // 2], order[n // 2 :]
        best = int(grid[:, half].mean(1).argmax())
        chosen[best] += 1 / HALVES
        gains.append(float((grid[best, rest] - grid[own, rest]).mean()))
    means = grid.mean(1) - grid[own].mean()
    found = {name: (float(means[place]), float(chosen[place])) for place, name in enumerate(names)}
    return found | {"": (0.0, float(np.mean(gains)))}


def render(records: Mapping[str, Scores]) -> str:
    """Return a table of all constants: the effect of the best other value, and how many halves choose each value."""
    rows = [
        [
            one.constant.says,
            f"{used(one.constant)} ({one.share:.0%})",
            f"{one.other} ({one.other_share:.0%}): {one.gain:+.1f}",
            f"{one.on_the_rest:+.2f}",
        ]
        for one in tried(records)
    ]
    return table(["constant", "value", "best other value, points", "chosen by halves, on the rest"], rows)


def tried(records: Mapping[str, Scores]) -> Iterator[Tried]:
    """Yield what was tried of each constant that has records."""
    for kind, constants in KINDS.items():
        for constant in constants:
            values = records.get(kind, {}).get(constant.name)
            if not values:
                continue
            found = stability(values, str(used(constant)))
            other = max((value for value in values if value != str(used(constant))), key=lambda value: found[value][0])
            gain, share = found[other]
            yield Tried(constant, found[str(used(constant))][1], other, share, gain, found[""][1])


def main() -> None:
    """Score all values on the choosing tables, write the record, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.suite.variants", description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of the files of `mgce_lab.suite.cache`")
    parser.add_argument("--data", type=Path, help="folder of the two archives, for --refit")
    parser.add_argument("--refit", action="store_true", help="try the constants of the model too")
    parser.add_argument("--every", type=int, default=1, help="of --refit: take every so manyth table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of classes too rare for the folds
    records = json.loads(FILE.read_text()) if FILE.exists() else {}
    by_table: dict[str, list[Any]] = {}
    for size in (300, 1000):
        for cell in cached(options.cache, size, 0, CHOOSING, (OURS,)):
            by_table.setdefault(cell.table, []).append(cell)
    records |= {"ranking": scores(RANKING, by_table, precision), "stated": scores(STATED, by_table, said)}
    if options.refit:
        cells = {
            name: [drawn(TABLES[name](options.data), 300, "symmetric", 0.4, 0)] for name in CHOOSING[:: options.every]
        }
        records["model"] = scores(MODEL, cells, accuracy)
    FILE.write_text(json.dumps(records) + "\n")
    print(render(records))


if __name__ == "__main__":
    main()
