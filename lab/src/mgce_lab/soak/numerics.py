"""`python -m mgce_lab.soak numerics`: no backend may return a wrong number, whatever the row."""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import time
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import mgce
from mgce._machine import describe
from mgce_lab.soak import page, truth
from mgce_lab.soak.backends import BACKENDS, usable
from mgce_lab.soak.families import rows
from mgce_lab.soak.measure import QUANTITIES, Errors, errors, valid_rows
from mgce_lab.soak.plan import DTYPES, Case, plan

PARTS = 200  # each is kept on disk when it is done, so that a run that was stopped goes on from there
WORK = Path("build/soak")
Result = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--rows", type=float, default=1e5, help="rows in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backends", help="names, with commas between them; all that can run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shard", default="0/1", help="i/n: only the i-th of n shares; the last one to end merges")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the parts that are done")
    parser.add_argument("--done", action="store_true", help="run nothing; take the parts that are done for the whole")
    parser.add_argument("--record", action="store_true", help=f"write {page.RESULTS} and {page.PAGE}")
    parser.add_argument("--replay", metavar="CASE", help="one case, by the name that a run gives it")


def main(options: argparse.Namespace) -> int:
    """Run it; 1 if something is beyond its limit."""
    names = tuple(options.backends.split(",") if options.backends else usable())
    if options.replay:
        result: Result | None = run([Case.parse(options.replay)], names, share=False)
    else:
        result = _finished_parts(options, names) if options.done else _run_parts(options, names)
    if result is None:
        print("This share is done; other shares of the run are not.")
        return 0
    summary = summarize(result)
    print(page.table_of_errors(summary))
    if options.record:
        facts = {"planned": int(options.rows), "seed": options.seed, "minutes": result.get("seconds", 0) / 60}
        page.save({"machine": describe(), "rows": result["rows"], **facts, **summary})
    return 1 if summary["failures"] else 0


def run(cases: Iterable[Case], backends: Iterable[str], *, share: bool = True) -> Result:
    """Try cases on backends; give how many rows each was given, and the worst of each quantity."""
    result: Result = {"rows": 0, "counts": {}, "worst": {}}
    for case in cases:
        result["rows"] += case.n * len(case.betas)
        chosen = [name for name in backends if not share or _falls_to(name, case)]
        for n, group in groupby(sorted(chosen, key=_most_rows), _most_rows):
            fewer = replace(case, n=min(case.n, n)) if share else case
            for name, beta, found in measure(fewer, group):
                where = f"{name}/{case.dtype}/{case.family}"
                result["counts"][where] = result["counts"].get(where, 0) + fewer.n
                for quantity, error in found.items():
                    row = int(error.argmax())
                    record = {"error": float(error[row]), "case": str(fewer), "beta": beta, "row": row}
                    _keep(result["worst"], f"{where}/{quantity}", record)
    return result


def measure(case: Case, backends: Iterable[str]) -> Iterator[tuple[str, float, Errors]]:
    """Yield backend, beta and the error of each quantity for each row of a case."""
    f, labels = rows(case.family, case.n, case.k, case.beta, DTYPES[case.dtype], case.seed)
    valid = valid_rows(f)
    finite = f[torch.from_numpy(valid)].double().numpy()
    truths = [truth.solve(finite, beta) for beta in case.betas]
    for name in backends:
        previous = None
        for true in truths:
            if not BACKENDS[name].takes(f, true.beta):
                continue
            outputs = BACKENDS[name].outputs(f, labels, true.beta)
            found = errors(outputs, true, valid, labels)
            if case.family == "segments":
                found["convexity"] = _above_segment(outputs["loss"])
            if previous is not None:
                found["monotone loss"] = _above(previous["loss"], outputs["loss"])
                found["monotone t"] = _above(outputs["t"], previous["t"])
            previous = outputs
            yield name, true.beta, found


def _above_segment(loss: Tensor) -> np.ndarray:
    """Return by how much the loss in the middle of each segment is above the mean of its ends."""
    ends = loss.double().clone()
    middles = torch.arange(1, len(loss) - 1, 3)
    ends[middles] = (ends[middles - 1] + ends[middles + 1]) / 2
    return _above(loss, ends, torch.finfo(loss.dtype).eps)


def _above(a: Tensor, b: Tensor, eps: float | None = None) -> np.ndarray:
    """Return by how much a is above b, in units of eps max(1, |a|); equal infinities are equal."""
    excess = torch.where(a == b, 0, a.double() - b.double()).clamp(min=0)
    scale = (eps or torch.finfo(a.dtype).eps) * a.double().abs().clamp(min=1)
    return np.asarray((excess / scale).numpy())


def _falls_to(name: str, case: Case) -> bool:
    """Return whether a backend runs a case, by its share of all cases, whatever other backends run."""
    return zlib.crc32(f"{name}:{case}".encode()) < BACKENDS[name].share * 2**32


def _most_rows(name: str) -> int:
    return BACKENDS[name].rows


def _keep(worst: dict[str, Any], where: str, record: dict[str, Any]) -> None:
    if where not in worst or not record["error"] <= worst[where]["error"]:
        worst[where] = record


def merge(results: Iterable[Result]) -> Result:
    """Return the result of all parts of a run."""
    merged: Result = {"rows": 0, "counts": {}, "worst": {}, "seconds": 0.0}
    for part in results:
        merged["rows"] += part["rows"]
        merged["seconds"] += part["seconds"]
        for where, tried in part["counts"].items():
            merged["counts"][where] = merged["counts"].get(where, 0) + tried
        for where, record in part["worst"].items():
            _keep(merged["worst"], where, record)
    return merged


def summarize(result: Result) -> Result:
    """Return the worst errors by backend/dtype/quantity and by family/quantity, and those beyond their limits."""
    summary: Result = {"counts": {}, "worst": {}, "families": {}, "failures": []}
    for where, tried in sorted(result["counts"].items()):
        backend_and_dtype = where.rsplit("/", 1)[0]
        summary["counts"][backend_and_dtype] = summary["counts"].get(backend_and_dtype, 0) + tried
    for where, record in sorted(result["worst"].items()):
        backend, dtype, family, quantity = where.split("/")
        full = {**record, "backend": backend}
        _keep(summary["worst"], f"{backend}/{dtype}/{quantity}", full)
        _keep(summary["families"], f"{family}/{quantity}", full)
        if not record["error"] <= QUANTITIES[quantity].limit:
            summary["failures"].append(where)
    return summary


def run_part(folder: Path, total: int, seed: int, backends: tuple[str, ...], part: int) -> None:
    """Run one part of a run, unless it was done before."""
    path = folder / f"{part}.json"
    if path.exists():
        return
    torch.set_num_threads(1)
    began = time.monotonic()
    result = run(list(plan(total, seed))[part::PARTS], backends)
    result["seconds"] = time.monotonic() - began
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(path)


def _run_parts(options: argparse.Namespace, names: tuple[str, ...]) -> Result | None:
    """Run the parts of this share in processes of their own; merge all parts unless another share is unfinished."""
    share, shares = (int(number) for number in options.shard.split("/"))
    folder = _folder(options, names)
    began = time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        arguments = (folder, int(options.rows), options.seed, names)
        parts = [pool.submit(run_part, *arguments, part) for part in range(share, PARTS, shares)]
        for done, future in enumerate(as_completed(parts), 1):
            future.result()
            if done % 10 == 0 or done == len(parts):
                print(f"{done} of {len(parts)} parts, {time.monotonic() - began:.0f} s", flush=True)
    return _finished_parts(options, names) if len(list(folder.glob("*.json"))) == PARTS else None


def _finished_parts(options: argparse.Namespace, names: tuple[str, ...]) -> Result:
    """Return the merged result of those parts of a run that are finished."""
    return merge(json.loads(path.read_text()) for path in sorted(_folder(options, names).glob("*.json")))


def _folder(options: argparse.Namespace, names: tuple[str, ...]) -> Path:
    folder: Path = options.work / f"{_digest()}-{options.rows:g}-{options.seed}-{'-'.join(names)}"
    return folder


def _digest() -> str:
    """Return a hash of the code: parts that other code has run do not count as finished."""
    digest = hashlib.sha256()
    for root in (Path(mgce.__file__).parent, Path(__file__).parent):
        for path in sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
