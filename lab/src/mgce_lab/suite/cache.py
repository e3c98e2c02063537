"""Probabilities of opponents on every cell, kept in files, so that a ranking of suspects is tried in seconds.

`python -m mgce_lab.suite.cache --data FOLDER --cache FOLDER` computes what is missing; stop it, and start it again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mgce._files import replacing
from mgce_lab.suite.cells import drawn
from mgce_lab.suite.noises import NOISES
from mgce_lab.suite.opponents import OPPONENTS, probabilities
from mgce_lab.suite.tables import CHOOSING, TABLES


class Cached(NamedTuple):
    """A cell with the probabilities of each opponent."""

    table: str
    kind: str
    rate: float
    given: Any
    right: Any
    test: Any
    own: dict[str, Any]
    new: dict[str, Any]
    seconds: dict[str, float]


def path_of(cache: Path, table: str, size: int, kind: str, rate: float, seed: int) -> Path:
    """Return the file of a cell."""
    return cache / f"{table.replace('/', '.')}-{size}-{kind.replace(' ', '_')}-{rate:g}-{seed}.npz"


def compute(cache: Path, table: str, size: int, kind: str, rate: float, seed: int, read: Any) -> None:
    """Compute and store a cell, unless it is there or the table has too few rows."""
    path = path_of(cache, table, size, kind, rate, seed)
    if path.exists():
        return
    cell = drawn(read(), size, kind, rate, seed)
    if cell is None:
        return
    arrays: dict[str, Any] = {"given": cell.given, "right": cell.right, "test": cell.test}
    for name in OPPONENTS:
        start = time.process_time()
        found = probabilities(name, cell.X, cell.given, cell.X_test, cell.n_classes, seed)
        arrays |= {f"own.{name}": found.own.astype(np.float32), f"new.{name}": found.new.astype(np.float32)}
        arrays[f"seconds.{name}"] = time.process_time() - start
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def cached(cache: Path, size: int, seed: int, tables: tuple[str, ...] = CHOOSING) -> Iterator[Cached]:
    """Yield the cells that are there."""
    for table in tables:
        for kind, rate in NOISES:
            path = path_of(cache, table, size, kind, rate, seed)
            if path.exists():
                with np.load(path, allow_pickle=False) as file:
                    parts = {
                        part: {name: file[f"{part}.{name}"] for name in OPPONENTS} for part in ("own", "new", "seconds")
                    }
                    yield Cached(table, kind, rate, file["given"], file["right"], file["test"], **parts)


def main() -> None:
    """Compute what is missing, the cells of a table one after the other."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.suite.cache", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the two archives")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the files")
    parser.add_argument("--size", type=int, default=1000, help="training rows")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of solvers that did not converge, and of classes too rare for the folds
    for name in CHOOSING:
        table: list[Any] = []

        def read(name: str = name, table: list[Any] = table) -> Any:
            table.extend([] if table else [TABLES[name](options.data)])
            return table[0]

        for kind, rate in NOISES:
            compute(options.cache, name, options.size, kind, rate, options.seed, read)
            print(name, kind, rate, flush=True)


if __name__ == "__main__":
    main()
