"""Fit on the workers of a Dask cluster: to files that they reach, or to a Dask DataFrame, which they write as files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mgce._files import replacing
from mgce._messages import expected, not_installed
from mgce.desk.files.parts import Parts
from mgce.desk.streams.chunks import Chunks, n_chunks, parse_memory
from mgce.desk.streams.fit import Each, Work, fit_in_chunks
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.fit_plan import FitPlan


@contextmanager
def workers(scheduler: str | None) -> Iterator[Each]:
    """Yield a function like `map`: it calls another function with each of some arguments, and returns the results.

    The calls run in this process, or on the workers of a Dask cluster. If a worker is lost, Dask repeats its calls on
    another worker.

    Args:
        scheduler: address of the scheduler of a Dask cluster; None for this process.

    Raises:
        ValueError: if Dask is not installed, or there is no scheduler.
    """
    if scheduler is None:
        yield lambda function, arguments: [function(one) for one in arguments]
        return
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise ValueError(not_installed("`--scheduler` needs", "Dask", "dask")) from None
    try:
        client = distributed.Client(scheduler, timeout="10s")
    except (OSError, ValueError) as error:
        raise ValueError(expected("scheduler", "the address of a Dask scheduler, tcp://...", scheduler)) from error
    with client:
        yield lambda function, arguments: client.gather(client.map(function, [*arguments], pure=False))


def fit_dask(frame: Any, plan: FitPlan, out: Path, memory: str = "2GB") -> TableFit:
    """Fit to a Dask DataFrame; its rows stay with the workers of the current client, or in this process without one.

    Args:
        frame: the `dask.dataframe.DataFrame`.
        plan: the settings.
        out: a folder for the parts of the file of suspects; all workers reach it, and it does not exist yet.
        memory: the memory that each worker may use, such as 2GB.

    Returns:
        The fit: see :func:`mgce.desk.streams.fit.fit_in_chunks`.

    Raises:
        TypeError: if `frame` is no such DataFrame.
        ValueError: if `out` exists, or if :func:`mgce.desk.streams.fit.fit_in_chunks` raises the error.
    """
    if not hasattr(frame, "npartitions"):
        raise TypeError(expected("frame", "a DataFrame of Dask", type(frame).__name__))
    if out.exists():
        raise ValueError(expected("out", "the path of a folder that does not exist yet", str(out)))
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
