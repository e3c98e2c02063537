"""Do the runs that are not finished yet, in many processes on this machine or by the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mgce._threads import one_torch_thread
from mgce._validation import check_choice, expected, not_installed
from mgce.runs import scratch
from mgce.runs.consistency import check_one_setting
from mgce.runs.machine import describe
from mgce.runs.place import Place
from mgce.runs.specification import Specification, document, networks, remaining
from mgce.runs.store import Run, Runs
from mgce.runs.study import Study

BACKENDS = ("loky", "dask")


@dataclass(frozen=True)
class Workers:
    """Who does the runs.

    Attributes:
        jobs: how many runs at a time; 1 is in this process. With Dask, -1 is all its workers.
        backend: "loky", processes on this machine, or "dask".
        scheduler: address of the Dask scheduler, `tcp://...`; for Dask, and only for Dask.

    Raises:
        ValueError: if there are no jobs, the backend is unknown, or `scheduler` is missing or superfluous.
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
        """Make them; without `jobs` one on each core, one where they would share a GPU, or all of a Dask cluster."""
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
    """Do the runs of a plan that the store has no records of, and pack the store.

    Args:
        study: what the runs are for.
        specifications: the plan.
        store: where finished runs go.
        place: data and device; what it may download, it does before the first run.
        workers: who does the runs.
        on_progress: called with the number of runs done, from 0 on, and of all to do; not if there are none.

    Raises:
        ValueError: if the runs are not of one setting.
        FileNotFoundError: if data are missing.
        OSError: as :func:`sweep` does.
    """
    documents = [*(run.specification for run in store.runs.values()), *map(document, specifications)]
    check_one_setting(documents, study.by_dataset)
    scratch.carry_over(place, documents)
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
    """Return specifications of the networks that no finished run has, each of them once.

    So a grid grows: of a run that asks for eight betas, one of which has been run before, the other seven are left.
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
    """Say what is missing for which runs, now and not after hours of others: by kind and data set, a sentence.

    One specification of each kind and data set stands for all of them. Anything else that is wrong raises its error.
    """
    missing = {}
    for specification in {(type(one), one.dataset): one for one in specifications}.values():
        try:
            specification.check(place)
        except (OSError, ModuleNotFoundError) as error:  # a file or library that is not there, or a failed download
            missing[specification.kind, specification.dataset] = str(error)
    return missing


def check(specifications: Sequence[Specification], place: Place) -> None:
    """Require the data of all runs to be there.

    Raises:
        FileNotFoundError: if some are not; its message has a sentence for each data set.
    """
    missing = absent(specifications, place)
    if missing:
        raise FileNotFoundError(" ".join(dict.fromkeys(missing.values())))


def clean(store: Runs, place: Place) -> None:
    """Remove what a stop left between the writing of a run and the removal of its scratch folder."""
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
    """Do all runs, and write each as it finishes.

    Args:
        specifications: of the runs.
        store: where finished runs go; only this process writes there.
        place: data and device, as the workers see them.
        workers: who does the runs.
        on_finished: called after each run has been written.

    Raises:
        OSError: if there is no scheduler at the address, or the system ended a worker.
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
    """Do one run, on one thread: sums then have one order, and runs side by side do not compete for the cores."""
    with one_torch_thread():
        start = time.monotonic()
        records = specification.run(place)
        seconds = round(time.monotonic() - start, 1)
        data = specification.data_checksum(place)
        machine: dict[str, Any] = {**describe(), "device": place.device, "seconds": seconds, "data": data}
    return Run(document(specification), records, machine)


@contextlib.contextmanager
def _dask(scheduler: str) -> Iterator[None]:
    """Let joblib hand its jobs to a Dask cluster."""
    import joblib

    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise ValueError(not_installed("`--backend dask` needs", "Dask", "dask")) from None
    with distributed.Client(scheduler, timeout="10s") as client, joblib.parallel_config(backend="dask", client=client):
        yield
