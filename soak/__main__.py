"""The soak runs: `python -m soak numerics` looks for wrong numbers, and writes what it found as JSON and as a page."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read where Triton is first imported, here and in every worker

from soak import numerics
from soak.backends import BACKENDS

PARTS = 200  # each is kept when it is done, so that a run that was stopped goes on from there
WORK = Path("build/soak")


def main() -> int:
    """Run one of the soaks; 1 if it found a fault."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(required=True)
    _add_numerics(commands.add_parser("numerics", help="every backend against the truth in extended precision"))
    options = parser.parse_args()
    return int(options.run(options))


def _add_numerics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=float, default=1e5, help="rows in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backends", default=",".join(BACKENDS), help="names, with commas between them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the parts that are done; remove it to begin anew")
    parser.add_argument("--replay", metavar="CASE", help="family:dtype:n:k:beta:seed, as a run names its worst cases")
    parser.set_defaults(run=_numerics)


def _numerics(options: argparse.Namespace) -> int:
    names = tuple(options.backends.split(","))
    if options.replay:
        result = numerics.run([numerics.Case.parse(options.replay)], names)
    else:
        result = _in_parts(options, names)
    _print(result)
    return 1 if numerics.failures(result) else 0


def _in_parts(options: argparse.Namespace, names: tuple[str, ...]) -> dict:
    parts = range(PARTS)
    results, began = [], time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        run = (options.work, int(options.rows), options.seed, names)
        for future in as_completed([pool.submit(numerics.run_part, *run, part, PARTS) for part in parts]):
            results.append(future.result())
            if len(results) % 10 == 0:
                print(f"{len(results)} of {len(parts)} parts, {time.monotonic() - began:.0f} s", flush=True)
    return numerics.merge(results)


def _print(result: dict) -> None:
    worst: dict[tuple[str, str, str], dict] = {}
    for where, record in result["worst"].items():
        backend, dtype, _, quantity = where.split("/")
        key = backend, dtype, quantity
        if key not in worst or not record["error"] <= worst[key]["error"]:
            worst[key] = record
    for (backend, dtype, quantity), record in sorted(worst.items()):
        over = not record["error"] <= numerics.LIMITS[quantity]
        print(f"{backend:10}{dtype:9}{quantity:20}{record['error']:>12.4g}  {'FAIL' if over else '    '}  {record['case']} row {record['row']}")
    print(f"{sum(result['counts'].values()):,} rows tried, {len(numerics.failures(result))} beyond their limits")


if __name__ == "__main__":
    raise SystemExit(main())
