"""Time and memory of one pass, by rows and columns: `python -m mgce_lab.table_model.costs`.

Each cell is a process of its own with one thread: as many new rows as rows of the table, one order of the columns. It
is a line of `results/table-model/costs.jsonl`; a run that is stopped goes on where it was.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from mgce_lab.engine.lines import Lines
from mgce_lab.table_model.measure import WEIGHTS
from mgce_lab.table_model.model import predict
from mgce_lab.table_model.train import read_weights

RESULTS = Path("results/table-model/costs.jsonl")
ROWS, COLUMNS = (100, 300, 1_000, 2_000, 5_000), (5, 20, 40)


def main() -> None:
    """Measure what has no result yet."""
    lines = Lines(RESULTS, "rows", "columns")
    for rows in ROWS:
        for columns in COLUMNS:
            if {"rows": rows, "columns": columns} not in lines:
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    lines.add(pool.submit(measured, rows, columns).result())


def measured(rows: int, columns: int) -> dict[str, Any]:
    """Return processor time and the peak of memory beyond what the loaded model has."""
    torch.set_num_threads(1)
    model, generator = read_weights(WEIGHTS), torch.Generator().manual_seed(0)
    kinds, given = torch.zeros(columns, dtype=torch.bool), torch.randint(10, (rows,), generator=generator)
    x = torch.randn(2 * rows, columns, generator=generator, dtype=torch.float64)
    predict(model, x[:40], kinds, given[:20], 1, generator)  # loads what the first call needs
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, start = _mebibytes("VmRSS"), time.process_time()
    predict(model, x, kinds, given, 1, generator)
    seconds, memory = time.process_time() - start, _mebibytes("VmHWM") - before
    return {"rows": rows, "columns": columns, "seconds": round(seconds, 2), "mebibytes": round(memory)}


def _mebibytes(field: str) -> float:
    found = re.search(field + r":\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
