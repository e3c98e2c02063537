"""The transformer's probabilities on the suite: `python -m mgce_lab.table_model.suite --data FOLDER --cache FOLDER`.

`python -m mgce_lab.suite.rankings --transformer` then compares its ranking of suspects with those of the suite.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from mgce_lab.suite.cache import Place, write
from mgce_lab.suite.cells import drawn
from mgce_lab.suite.noises import NOISES
from mgce_lab.suite.opponents import TRANSFORMER, Probabilities
from mgce_lab.suite.tables import CHOOSING, TABLES
from mgce_lab.table_model.measure import of_cell
from mgce_lab.table_model.prior import MAX_CLASSES


def main() -> None:
    """Measure what has no file yet, on the choosing tables of at most `MAX_CLASSES` classes."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.table_model.suite", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the two archives")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the files of `mgce_lab.suite.cache`")
    parser.add_argument("--size", type=int, default=300, help="training rows")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in CHOOSING:
        table = TABLES[name](options.data)
        for kind, rate in NOISES:
            path = Place(options.cache, name, options.size, kind, rate, options.seed).file(TRANSFORMER)
            cell = None if path.exists() else drawn(table, options.size, kind, rate, options.seed)
            if cell is not None and cell.n_classes <= MAX_CLASSES:
                start = time.process_time()
                found = Probabilities(*of_cell(cell, options.seed))
                write(path, cell, found, time.process_time() - start)
        print(name, flush=True)


if __name__ == "__main__":
    main()
