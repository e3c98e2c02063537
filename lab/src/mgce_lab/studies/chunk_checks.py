"""How a fit in chunks differs from one in memory, and what two workers do beside two independent processes.

`python -m mgce_lab.studies.chunk_checks agreement` fits to 20,000 simulated rows in memory with several seeds, and in 2
and 4 chunks, and counts how many of the first suspects are the same. `workers` learns and judges eight chunks by the
two workers of a Dask cluster, and by two processes that know nothing of one another, in turn. `models` ranks the wrong
labels of further rows by the merged models of 1 to 16 chunks. `page` writes the table of agreement of
docs/large-tables.md. Results are lines in `results/growth/`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from mgce._machine import describe
from mgce.desk.files.parts import Parts
from mgce.desk.streams.chunks import Chunks
from mgce.desk.streams.dask_frames import workers
from mgce.desk.streams.fit import Work, fit_in_chunks
from mgce.desk.tables.choice import CORRECTION, Choice, estimator
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.learning import Learnt, refit
from mgce.desk.tables.rows import split_rows
from mgce.estimators.merged import for_chunk, merged, share_of_trees
from mgce.labels.doubtful import doubtful_labels
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.growth import CLASSES, PAGE, made

RESULTS = Path("results/growth")
ROWS, COLUMNS = 20_000, 20
FIRST = (100, 1_000)  # suspects that are compared
SEEDS = (0, 1, 2)
N_CHUNKS = (2, 4)
PAIR_CHUNKS, PAIRS = 8, 3  # chunks of the table of ROWS rows for two workers, and how often both ways are measured
MODELS, MODEL_ROWS = (2, 4, 8, 16), 10_000  # numbers of merged models, of chunks of so many rows
BEGIN, END = "<!-- agreement -->\n", "<!-- /agreement -->"


def main() -> None:
    """Measure what the first argument names, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.chunk_checks", description=__doc__)
    parser.add_argument("what", choices=["agreement", "workers", "models", "page"])
    {"agreement": agreement, "workers": pairs, "models": models, "page": page}[parser.parse_args().what]()


def agreement() -> None:
    """Compare the first suspects of each fit with those of the fit in memory with the first seed."""
    lines = Lines(RESULTS / "agreement.jsonl", "chunks", "seed")
    frame = made(np.random.default_rng(0), ROWS, COLUMNS)[0]
    first: list[int] | None = None
    for n, seed in [*((1, seed) for seed in SEEDS), *((n, seed) for n in N_CHUNKS for seed in SEEDS[:2])]:
        if first is not None and {"chunks": n, "seed": seed} in lines:
            continue
        start = time.process_time()
        suspects = in_memory(frame, seed) if n == 1 else in_chunks(frame, n, seed)
        seconds = time.process_time() - start
        first = suspects if first is None else first
        same = {f"first_{m}": len({*suspects[:m]} & {*first[:m]}) / m for m in FIRST}
        if {"chunks": n, "seed": seed} not in lines:
            lines.add({"chunks": n, "seed": seed, **same, "processor_seconds": round(seconds)})


def in_memory(frame: pd.DataFrame, seed: int) -> list[int]:
    """Return the numbers of the rows, the most suspect first."""
    plan = FitPlan("label", seed=seed)
    learnt: Any = Learnt(None, Choice(CORRECTION, None, []), [])  # type: ignore[arg-type]  # no model is needed
    return [*refit(learnt, split_rows(frame, plan), plan, 1)[1].order.tolist()]


def in_chunks(frame: pd.DataFrame, n: int, seed: int) -> list[int]:
    """Return the numbers of the most suspect rows, in the order of a fit in n chunks."""
    with begun(frame, n, seed) as (parts, work), workers(None) as each:
        fit = fit_in_chunks(parts, work, each)
    return [int(name) - 1 for name in fit.row_names.iloc[fit.judgement.order]]


@contextmanager
def begun(frame: pd.DataFrame, n: int, seed: int = 0) -> Iterator[tuple[Parts, Work]]:
    """Yield a table in parts, and the work on its n chunks, in a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("chunks", "suspects"):
            Path(folder, name).mkdir()
        frame.to_parquet(Path(folder, "table.parquet"), row_group_size=-(-len(frame) // 4))
        parts, plan = Parts.of(Path(folder, "table.parquet")), FitPlan("label", seed=seed)
        chunks = Chunks.of(Path(folder, "chunks"), n, parts, plan)
        yield parts, Work(chunks, plan, 1, Path(folder, "suspects"))


def pairs() -> None:
    """Measure how long two workers, and two independent processes, take to learn and to judge all chunks."""
    distributed: Any = __import__("distributed")
    lines = Lines(RESULTS / "workers.jsonl", "pair")
    context, every = get_context("spawn"), range(PAIR_CHUNKS)
    with begun(made(np.random.default_rng(0), ROWS, COLUMNS)[0], PAIR_CHUNKS) as (parts, work):
        for one in enumerate(parts.units):
            work.chunks.scatter(one)
        work.choose(0)
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, memory_limit=None) as cluster,
            context.Pool(2) as pool,
        ):
            for pair in range(-1, PAIRS):  # the first one imports libraries, and does not count
                seconds = {}
                with workers(cluster.scheduler_address) as each:
                    for function in (work.learn, work.judge):
                        start = time.monotonic()
                        each(function, every)
                        seconds[f"workers_{function.__name__}"] = time.monotonic() - start
                for function in (work.learn, work.judge):
                    start = time.monotonic()
                    pool.map(function, every, chunksize=PAIR_CHUNKS // 2)
                    seconds[f"processes_{function.__name__}"] = time.monotonic() - start
                rounded = {name: round(value, 1) for name, value in seconds.items()}
                if pair >= 0:
                    lines.add({"pair": pair, **rounded, "machine": describe()}, unseen=["machine"])


def models() -> None:
    """Rank the wrong labels of further rows by the model of one chunk, and by merged ones of 100 trees in all."""
    lines, rng = Lines(RESULTS / "models.jsonl", "models"), np.random.default_rng(0)

    def drawn() -> tuple[Any, Any, Any]:
        frame, right = made(rng, MODEL_ROWS, COLUMNS)
        given = frame["label"].to_numpy()
        return frame.drop(columns="label").to_numpy(), given, given != CLASSES[right]

    X, given, wrong = drawn()
    target = np.searchsorted(CLASSES, given)

    def measured(n: int, model: Any) -> None:
        doubt = doubtful_labels(model.predict_proba(X) @ model.transition_, target).wrong
        lines.add({"models": n, "ap": round(float(average_precision_score(wrong, doubt)), 4)})

    first = estimator(CORRECTION, 0).fit(*drawn()[:2])
    measured(1, first)
    fitted = [for_chunk(estimator(CORRECTION, 0), first, min(MODELS)).fit(*drawn()[:2]) for _ in range(max(MODELS))]
    for n in MODELS:
        measured(n, merged(fitted[:n], share_of_trees(first, n)))


def page() -> None:
    """Write the table of agreement: means over the seeds."""
    records = Lines(RESULTS / "agreement.jsonl").read()[1:]  # the first is what all others are compared with
    rows = []
    for n in (1, *N_CHUNKS):
        same = [np.mean([one[f"first_{m}"] for one in records if one["chunks"] == n]) for m in FIRST]
        rows.append(["another in memory" if n == 1 else f"in {n} chunks", *(f"{share:.0%}" for share in same)])
    head = ["fit", *(f"of the first {m:,}" for m in FIRST)]
    write_between(PAGE, BEGIN, table(head, rows) + "\n", END)


if __name__ == "__main__":
    main()
