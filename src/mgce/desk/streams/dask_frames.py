"""Fit to Dask DataFrames: the workers write their partitions to files, and fit to these."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from mgce._files import replacing
from mgce.desk.files.parts import Parts
from mgce.desk.streams.chunks import Chunks, n_chunks, parse_memory
from mgce.desk.streams.fit import Work, fit_in_chunks
from mgce.desk.streams.workers import workers
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.fit_plan import FitPlan


def fit_dask(frame: Any, plan: FitPlan, out: Path, memory: str = "2GB") -> TableFit:
    """Fit to a Dask DataFrame; its rows stay with the workers of the current client, or in this process without one.

    Args:
        frame: the `dask.dataframe.DataFrame`.
        plan: the settings.
        out: a folder that does not exist yet, which all workers reach: for the parts of the file of suspects.
        memory: what each worker may use, such as 2GB.

    Returns:
        The fit: see :func:`mgce.desk.streams.fit.fit_in_chunks`.
    """
    distributed: Any = importlib.import_module("distributed")
    try:
        scheduler = distributed.get_client().scheduler.address
    except ValueError:
        scheduler = None
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as parts:
        table, chunks = parts.parent / "table", parts.parent / "chunks"
        for folder in (parts, chunks):
            folder.mkdir()
        frame.to_parquet(table, write_index=False)
        written = Parts.of(table)
        n = max(2, n_chunks(written, plan, parse_memory(memory)))
        work = Work(Chunks.of(chunks, n, written, plan), plan, 1, parts)
        with workers(scheduler) as each:
            return fit_in_chunks(written, work, each)
