"""Every benchmark, side by side: `python -m mgce_lab.studies` prints the ratios, and writes them as JSON and as a page.

`python -m mgce_lab.studies gpu` is for a machine with a GPU: four stages, of which each goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch

from mgce._machine import describe
from mgce_lab.studies import claim_list, claims, grid, head, memory, page

STAGES = "1 tests, 2 linear heads, 3 losses, 4 training"


def main() -> None:
    """Run the benchmarks of the CPU, or those of the GPU, and write the page; or check what pages claim."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies", description=__doc__)
    devices = parser.add_subparsers(dest="device")
    on_cpu = devices.add_parser("cpu", help="what is measured without a GPU; the same as no command")
    for place in (parser, on_cpu):
        place.add_argument("--seconds", type=float, default=0.5, help="time for each cell, at least five turns")
        place.add_argument("--threads", type=int, default=torch.get_num_threads())
    on_gpu = devices.add_parser("gpu", help="what needs a GPU")
    on_gpu.add_argument("--stage", type=int, choices=(1, 2, 3, 4), action="append", help=STAGES)
    on_gpu.add_argument("--minutes", type=float, default=9.0, help="time for each stage")
    on_gpu.add_argument("--out", type=Path, default=page.GPU, help="folder of the results")
    devices.add_parser("claims", help="every figure of README and of the pages, beside its record")
    options = parser.parse_args()
    if options.device == "claims":
        claims.main(claim_list.ENTRIES)
        return
    if options.device == "gpu":
        _on_gpu(options.stage or [1, 2, 3, 4], 60 * options.minutes, options.out)
    else:
        _on_cpu(options.seconds, options.threads)
    page.main()


def _on_cpu(seconds: float, threads: int) -> None:
    torch.set_num_threads(threads)
    machine = describe()
    print(*(f"{name} {value}" for name, value in machine.items()), sep="; ")
    results: dict[str, Any] = {
        "machine": machine,
        "grid": grid.run(seconds),
        "head": head.run(seconds),
        "memory": memory.run(),
    }
    page.CPU.parent.mkdir(parents=True, exist_ok=True)
    page.CPU.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nWritten to {page.CPU}.")


def _on_gpu(numbers: list[int], seconds: float, out: Path) -> None:
    if not torch.cuda.is_available():
        raise SystemExit("Expected a machine with a GPU, but PyTorch finds none.")
    from mgce_lab.studies.gpu import device, heads, kernels, losses, stages, training

    named = os.environ.get("MGCE_DATA_DIR")  # as the tests have it
    data_dir = Path(named) if named else None
    every = {
        1: ("tests", kernels.cells),
        2: ("heads", heads.cells),
        3: ("losses", losses.cells),
        4: ("training", lambda: training.cells(data_dir)),
    }
    for number in numbers:
        name, cells = every[number]
        stages.run(name, cells(), out / f"{name}.json", seconds, device.describe)


if __name__ == "__main__":
    main()
