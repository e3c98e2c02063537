"""Another checkout of this package and this one, in turns: `python -m benchmarks.against FOLDER` (of its `src`).

Each has a process of its own, which times forward and backward of its loss and of `F.cross_entropy` in turns; the two
processes take turns too, so that whatever slows the machine slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.timing import geometric_mean

# Small batches, dense rows and large vocabularies, with margins from near zero to clear.
SHAPES = ((128, 10), (128, 100), (512, 1000), (2048, 1000), (512, 32000))
SCALES = (0.01, 1.0, 3.0, 10.0)
TURNS = 5  # odd, so that the median is one of them
WORKER = """
import json, sys, torch
from torch.nn import functional as F
from benchmarks.grid import rows
from benchmarks.timing import medians
from mgce.functional import mgce_loss
for line in sys.stdin:
    n, k, scale, seconds = json.loads(line)
    logits, target = rows(n, k, scale)
    losses = {"ours": lambda: mgce_loss(logits, target), "ce": lambda: F.cross_entropy(logits, target)}
    print(json.dumps(medians(losses, [logits], seconds=seconds)), flush=True)
"""


def main() -> None:
    """Measure and print for each shape and scale the time of both checkouts over cross-entropy's, and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("folder", type=Path, help="`src` of the other checkout")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each turn")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    from mgce.runs.machine import describe

    root = Path(__file__).parents[1]
    workers = {"other": _worker(root, options.folder.resolve()), "this": _worker(root, root / "src")}
    cells = []
    print(f"{'n x k':>12} {'scale':>6} {'other':>6} {'this':>6}   time over that of F.cross_entropy")
    for n, k in SHAPES:
        for scale in SCALES:
            cells.append({"n": n, "k": k, "scale": scale, **_measure(workers, n, k, scale, options.seconds)})
            print(f"{f'{n} x {k}':>12} {scale:>6g} {cells[-1]['other']:>6.2f} {cells[-1]['this']:>6.2f}", flush=True)
    means = {name: geometric_mean([cell[name] for cell in cells]) for name in workers}
    print(f"geometric mean {means['other']:.2f} {means['this']:.2f}")
    if options.out:
        options.out.write_text(json.dumps({"machine": describe(), "cells": cells, "means": means}, indent=1) + "\n")


def _worker(root: Path, source: Path) -> subprocess.Popen[str]:
    """Start a process that imports `mgce` from `source` and these benchmarks from `root`; it measures line by line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(root)])}
    command = [sys.executable, "-c", WORKER]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _measure(workers: dict[str, Any], n: int, k: int, scale: float, seconds: float) -> dict[str, float]:
    """Return for each checkout the median over the turns of the time of its loss over that of `F.cross_entropy`."""
    taken: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(TURNS):
        for name, worker in workers.items():
            worker.stdin.write(json.dumps([n, k, scale, seconds]) + "\n")
            worker.stdin.flush()
            times = json.loads(worker.stdout.readline())
            taken[name].append(times["ours"] / times["ce"])
    return {name: sorted(ratios)[TURNS // 2] for name, ratios in taken.items()}


if __name__ == "__main__":
    main()
