"""Every benchmark, side by side: `python -m benchmarks` prints the ratios, and writes them as JSON and as a page."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks import bandwidth, first_call, gpu, grid, head, memory, page, scaling
from mgce.cli.env import describe


def main() -> None:
    """Run the benchmarks of the CPU, and those of the GPU where there is one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each cell, at least five turns")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", choices=("cpu", "gpu"), help="leave out the other")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = describe()
    print(*(f"{name} {value}" for name, value in machine.items()), sep="; ")
    if options.only != "gpu":
        _write(page.CPU, {"machine": machine, **_on_cpu(options.seconds)})
    if torch.cuda.is_available() and options.only != "cpu":
        _write(page.GPU, gpu.run())
    page.main()


def _on_cpu(seconds: float) -> dict[str, Any]:
    return {
        "grid": grid.run(seconds),
        "scaling": scaling.run(seconds),
        "bandwidth": bandwidth.run(seconds),
        "head": head.run(seconds),
        "memory": memory.run(),
        "first_call": first_call.run(),
    }


def _write(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nWritten to {path}.")


if __name__ == "__main__":
    main()
