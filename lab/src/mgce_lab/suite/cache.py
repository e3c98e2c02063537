"""Probabilities of models on every cell, kept in files, so that a choice is tried in seconds.

`python -m mgce_lab.suite.cache --data FOLDER --cache FOLDER` computes what is missing; stop it, and start it again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache as remembered
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mgce._files import replacing
from mgce._threads import one_blas_thread, one_torch_thread
from mgce.desk.files.tables import Table
from mgce_lab.suite.cells import Cell, drawn
from mgce_lab.suite.choice import check_readable
from mgce_lab.suite.noises import NOISES
from mgce_lab.suite.opponents import ENTRANTS, Probabilities, probabilities
from mgce_lab.suite.tables import LISTS, TABLES


class Cached(NamedTuple):
    """A cell with the probabilities of each model."""

    table: str
    kind: str
    rate: float
    given: Any
    right: Any
    test: Any
    own: dict[str, Any]
    new: dict[str, Any]
    seconds: dict[str, float]


class Place(NamedTuple):
    """Where a cell is kept, and which one it is."""

    cache: Path
    table: str
    size: int
    kind: str
    rate: float
    seed: int

    def file(self, entrant: str) -> Path:
        """Return the file of a model's probabilities."""
        cell = f"{self.table.replace('/', '.')}-{self.size}-{self.kind.replace(' ', '_')}-{self.rate:g}-{self.seed}"
        return self.cache / f"{cell}-{entrant}.npz"


def compute(place: Place, read: Callable[[], Table], entrants: tuple[str, ...] = ENTRANTS) -> None:
    """Compute and store the probabilities that are missing, unless the table has too few rows."""
    missing = [name for name in entrants if not place.file(name).exists()]
    cell = drawn(read(), place.size, place.kind, place.rate, place.seed) if missing else None
    for name in missing if cell is not None else ():
        assert isinstance(cell, Cell)
        start = time.process_time()
        with one_blas_thread(), one_torch_thread():
            found = probabilities(name, cell, place.seed)
        write(place.file(name), cell, found, time.process_time() - start)


def write(path: Path, cell: Cell, found: Probabilities, seconds: float) -> None:
    """Write the probabilities of a model on a cell."""
    arrays = {"given": cell.given, "right": cell.right, "test": cell.test}
    arrays |= {"own": found.own.astype(np.float32), "new": found.new.astype(np.float32)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, seconds=seconds, **arrays)


def cached(cache: Path, size: int, seed: int, tables: tuple[str, ...], entrants: Any = ENTRANTS) -> Iterator[Cached]:
    """Yield the cells that every model has."""
    for table in tables:
        for kind, rate in NOISES:
            place = Place(cache, table, size, kind, rate, seed)
            if all(place.file(name).exists() for name in entrants):
                parts = {name: dict(np.load(place.file(name), allow_pickle=False)) for name in entrants}
                first = parts[entrants[0]]
                own, new = ({name: part[key] for name, part in parts.items()} for key in ("own", "new"))
                seconds = {name: float(part["seconds"]) for name, part in parts.items()}
                yield Cached(table, kind, rate, first["given"], first["right"], first["test"], own, new, seconds)


def main() -> None:
    """Compute what is missing, the cells of a table one after the other."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.suite.cache", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the two archives")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the files")
    parser.add_argument("--list", choices=list(LISTS), default="choosing", help="a locked list is read once")
    parser.add_argument("--entrants", nargs="+", choices=ENTRANTS, default=ENTRANTS)
    parser.add_argument("--size", type=int, default=1000, help="training rows")
    parser.add_argument("--kinds", nargs="+", default=[kind for kind, _ in NOISES], help="of wrong labels")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    check_readable(options.list)
    warnings.simplefilter("ignore")  # of solvers that did not converge, and of classes too rare for the folds
    for name in LISTS[options.list]:
        read = remembered(lambda name=name: TABLES[name](options.data))
        for kind, rate in NOISES:
            if kind not in options.kinds:
                continue
            place = Place(options.cache, name, options.size, kind, rate, options.seed)
            compute(place, read, tuple(options.entrants))
            print(name, kind, rate, flush=True)


if __name__ == "__main__":
    main()
