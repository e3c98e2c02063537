"""Another checkout of this package and this one, in turns: `python -m mgce_lab.studies.against FOLDER` (of its `src`).

Each has a process of its own, which times forward and backward of its loss and of `F.cross_entropy` in turns; the two
processes take turns too, so that whatever slows the machine slows both. `ATEN_CPU_CAPABILITY=avx2` in the environment
measures the instructions that processors without AVX-512 have.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from mgce._machine import describe
from mgce.functional import mgce_loss
from mgce_lab.studies.grid import rows
from mgce_lab.studies.named import criterion
from mgce_lab.studies.page import MGCE
from mgce_lab.studies.timing import geometric_mean

# Small batches, dense rows and large vocabularies, with margins from near zero to clear.
SHAPES = ((128, 10), (128, 100), (512, 1000), (2048, 1000), (512, 32000))
SCALES = (0.01, 1.0, 3.0, 10.0)
LOSS_SHAPES = ((128, 10), (256, 100), (512, 1000))
TURNS = 5  # odd, so that the median is one of them
WORKER = """
import json, sys, torch
from mgce_lab.studies.against import contestants
from mgce_lab.studies.timing import medians
torch.set_num_threads(int(sys.argv[1]))
for line in sys.stdin:
    what, n, k, scale, seconds = json.loads(line)
    losses, logits = contestants(what, n, k, scale)
    print(json.dumps(medians(losses, [logits], seconds=seconds)), flush=True)
"""
# Beside `F.cross_entropy` with the same arguments.
ARGUMENTS = ("mgce, class weights", "mgce, label smoothing", "mgce, class probabilities")
LOSSES = ("ce", "gce", "rce", "sce", "ce+trim", "mgce+trim")


def contestants(what: str, n: int, k: int, scale: float) -> tuple[dict[str, Callable[[], Any]], torch.Tensor]:
    """Return two functions without arguments, a loss and cross-entropy of the same made-up logits, and the logits."""
    logits, target = rows(n, k, scale)
    generator = torch.Generator().manual_seed(0)
    keywords: dict[str, Any] = {}
    if what == "mgce, class weights":
        keywords["weight"] = torch.rand(k, generator=generator) + 0.5
    elif what == "mgce, label smoothing":
        keywords["label_smoothing"] = 0.1
    elif what == "mgce, class probabilities":
        target = torch.softmax(torch.randn(n, k, generator=generator), 1)
    if what == MGCE or what in ARGUMENTS:
        ours: Callable[..., Any] = functools.partial(mgce_loss, **keywords)
    else:
        ours = criterion(what, k)
    plain = functools.partial(F.cross_entropy, **keywords)
    return {"ours": lambda: ours(logits, target), "ce": lambda: plain(logits, target)}, logits


def main() -> None:
    """Measure and print for each shape and scale the time of both checkouts over cross-entropy's, and write them."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.against", description=__doc__)
    parser.add_argument("folder", type=Path, help="`src` of the other checkout")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each turn")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    root = Path(__file__).parents[4]
    workers = {
        "other": _worker(root, options.folder.resolve(), options.threads),
        "this": _worker(root, root / "src", options.threads),
    }
    todo = [(MGCE, n, k, scale) for n, k in SHAPES for scale in SCALES]
    todo += [(what, n, k, 1.0) for what in (*ARGUMENTS, *LOSSES) for n, k in LOSS_SHAPES]
    cells = []
    print(f"{'loss':>26} {'n x k':>12} {'scale':>6} {'other':>6} {'this':>6}   time over that of F.cross_entropy")
    for what, n, k, scale in todo:
        ratios = _measure(workers, what, n, k, scale, options.seconds)
        cells.append({"loss": what, "n": n, "k": k, "scale": scale, **ratios})
        print(f"{what:>26} {f'{n} x {k}':>12} {scale:>6g} {ratios['other']:>6.2f} {ratios['this']:>6.2f}", flush=True)
    means = {name: geometric_mean([cell[name] for cell in cells if cell["loss"] == MGCE]) for name in workers}
    print(f"geometric mean of mgce {means['other']:.2f} {means['this']:.2f}")
    if options.out:
        machine = {**describe(), "threads": options.threads}
        options.out.write_text(json.dumps({"machine": machine, "cells": cells, "means": means}, indent=1) + "\n")


def _worker(root: Path, source: Path, threads: int) -> subprocess.Popen[str]:
    """Start a process that imports `mgce` from `source` and these benchmarks from `root`; it measures line by line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(root)])}
    command = [sys.executable, "-c", WORKER, str(threads)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _measure(workers: dict[str, Any], what: str, n: int, k: int, scale: float, seconds: float) -> dict[str, float]:
    """Return for each checkout the median over the turns of the time of its loss over that of `F.cross_entropy`."""
    taken: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(TURNS):
        for name, worker in workers.items():
            worker.stdin.write(json.dumps([what, n, k, scale, seconds]) + "\n")
            worker.stdin.flush()
            times = json.loads(worker.stdout.readline())
            taken[name].append(times["ours"] / times["ce"])
    return {name: sorted(ratios)[TURNS // 2] for name, ratios in taken.items()}


if __name__ == "__main__":
    main()
