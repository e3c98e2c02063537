"""Execute the runs that are not finished yet, in processes on this machine or on a Dask cluster."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mgce._machine import describe
from mgce._messages import check_choice, expected, not_installed
from mgce._threads import one_torch_thread
from mgce_lab.engine import scratch
from mgce_lab.engine.consistency import check_one_setting
from mgce_lab.engine.place import Place
from mgce_lab.engine.specification import Specification, document, networks, remaining
from mgce_lab.engine.store import Run, Runs
from mgce_lab.engine.study import Study

BACKENDS = ("loky", "dask")


@dataclass(frozen=True)
class Workers:
    """The number and kind of workers (processes) that execute runs.

    Attributes:
        jobs: number of runs at a time; 1 uses only the calling process. With Dask, -1 uses all workers.
        backend: "loky" for processes on this machine, or "dask".
        scheduler: address of the Dask scheduler, `tcp://...`; give it if and only if the backend is "dask".

    Raises:
        ValueError: if `jobs` is out of range, the backend is unknown, or `scheduler` is missing or superfluous.
    """

    jobs: int = 1
    backend: str = "loky"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_choice("backend", self.backend, BACKENDS)
        if self.jobs < 1 and not (self.jobs == -1 and self.backend == "dask"):
            what = "at least 1" + (", or -1" if self.backend == "dask" else "")
            raise ValueError(expected("jobs", what, self.jobs))
        if (self.scheduler is not None) != (self.backend == "dask"):
            what = "the address of a scheduler" if self.backend == "dask" else "left out without the backend 'dask'"
            raise ValueError(expected("scheduler", what, self.scheduler))

    @classmethod
    def of(cls, place: Place, jobs: int | None = None, backend: str = "loky", scheduler: str | None = None) -> Workers:
        """Construct workers with a default number of jobs.

        The default is one job for each core of the CPU, one job on a GPU, or all workers of a Dask cluster.
        """
        if jobs is None:
            here = (os.cpu_count() or 1) if place.device == "cpu" else 1
            jobs = -1 if backend == "dask" else here
        return cls(jobs, backend, scheduler)


def carry_out(
    study: Study[Any],
    specifications: Sequence[Specification],
    store: Runs,
    place: Place,
    workers: Workers,
    on_progress: Callable[[int, int], None],
) -> None:
    """Execute the runs of a plan that the store does not have yet; merge all stored runs into the store's four files.

    Args:
        study: the study that the runs belong to.
        specifications: the plan.
        store: stores the finished runs.
        place: data and device; missing data are downloaded before the first run if this is allowed.
        workers: how many runs at a time, and by which processes.
        on_progress: called with the number of finished runs, from 0 on, and the number of all runs to do. It is not
            called if there is nothing to do.

    Raises:
        ValueError: if the runs, with those in the store, have different settings.
        FileNotFoundError: if data are missing.
        OSError: under the same conditions as in :func:`sweep`.
    """
    documents = [*(run.specification for run in store.runs.values()), *map(document, specifications)]
    check_one_setting(documents, study.by_dataset)
    clean(store, place)
    todo = pending(specifications, store)
    check(todo, place)
    if todo:
        done = itertools.count(1)
        on_progress(0, len(todo))
        there = replace(place, data=replace(place.data, download=False))  # many at once would download one file
        sweep(todo, store, there, workers=workers, on_finished=lambda run: on_progress(next(done), len(todo)))
    store.pack()  # even if nothing was left to run: an earlier command may have been stopped before it packed


def pending(specifications: Sequence[Specification], store: Runs) -> list[Specification]:
    """Return specifications of all networks in the plan that no finished run contains, each network once.

    So a grid can be extended: if the plan has eight betas, and one was run before, only the other seven are returned.
    """
    done: set[str] = set()
    for run in store.runs.values():
        done |= networks(run.specification)
    todo: list[Specification] = []
    for specification in specifications:
        todo += (parts := remaining(specification, done))
        done.update(*(networks(document(part)) for part in parts))
    return todo


def absent(specifications: Sequence[Specification], place: Place) -> dict[tuple[str, str], str]:
    """Return a sentence about what is missing (data or a library), for each kind of run and data set.

    Calling it first avoids a failure after hours of other runs. Only one specification of each kind and data set is
    checked. Other problems raise their errors.
    """
    missing = {}
    for specification in {(type(one), one.dataset): one for one in specifications}.values():
        try:
            specification.check(place)
        except (OSError, ModuleNotFoundError) as error:  # a file or library that is not there, or a failed download
            missing[specification.kind, specification.dataset] = str(error)
    return missing


def check(specifications: Sequence[Specification], place: Place) -> None:
    """Raise an error if data or a library for a run are missing.

    Raises:
        FileNotFoundError: if data or a library are missing; the message has a sentence for each data set.
    """
    missing = absent(specifications, place)
    if missing:
        raise FileNotFoundError(" ".join(dict.fromkeys(missing.values())))


def clean(store: Runs, place: Place) -> None:
    """Delete scratch folders of runs that are already stored."""
    for name in store.runs:
        scratch.remove(place, name)


def sweep(
    specifications: Sequence[Specification],
    store: Runs,
    place: Place,
    *,
    workers: Workers,
    on_finished: Callable[[Run], None],
) -> None:
    """Execute all runs, and store each run as soon as it has finished.

    Args:
        specifications: the specifications of the runs.
        store: stores the finished runs; only this process writes to it.
        place: data and device of the workers.
        workers: number and kind of the processes that execute the runs.
        on_finished: called after each run has been stored.

    Raises:
        OSError: if there is no scheduler at the address, or the operating system ended a worker.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    scheduler = workers.scheduler
    with _dask(scheduler) if scheduler else contextlib.nullcontext():
        options = {} if scheduler else {"backend": workers.backend}
        try:
            for run in Parallel(n_jobs=workers.jobs, return_as="generator_unordered", **options)(
                delayed(execute)(specification, place) for specification in specifications
            ):
                store.write(run)
                scratch.remove(place, run.name)  # from now on the run is in the store
                on_finished(run)
        except TerminatedWorkerError:
            what = "such that each process has the memory it needs"
            got = f"{workers.jobs}, and the system ended one of them: the finished runs are kept, and the same command "
            raise OSError(f"Expected `jobs` to be {what}, but got {got}goes on from there.") from None


def execute(specification: Specification, place: Place) -> Run:
    """Execute one run on one thread, so that sums have a fixed order and parallel runs do not compete for cores."""
    with one_torch_thread():
        start = time.monotonic()
        records = specification.run(place)
        seconds = round(time.monotonic() - start, 1)
        data = specification.data_checksum(place)
        machine: dict[str, Any] = {**describe(), "device": place.device, "seconds": seconds, "data": data}
    return Run(document(specification), records, machine)


@contextlib.contextmanager
def _dask(scheduler: str) -> Iterator[None]:
    """Run joblib's jobs on a Dask cluster within the `with` block."""
    import joblib

    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise ValueError(not_installed("`--backend dask` needs", "Dask", "dask")) from None
    with distributed.Client(scheduler, timeout="10s") as client, joblib.parallel_config(backend="dask", client=client):
        yield
