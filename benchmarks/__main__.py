"""Every benchmark, side by side: `python -m benchmarks`. Prints the ratios and writes them as JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from benchmarks import bandwidth, first_call, grid, page, scaling
from mgce.cli.env import describe


def main() -> None:
    """Run them all on the CPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each cell, at least five turns")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, default=page.JSON)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = describe()
    print(*(f"{name} {value}" for name, value in machine.items()), sep="; ")
    results = {
        "machine": machine,
        "grid": grid.run(options.seconds),
        "scaling": scaling.run(options.seconds),
        "bandwidth": bandwidth.run(options.seconds),
        "first_call": first_call.run(),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nWritten to {options.json}.")
    if options.json == page.JSON:
        page.main()


if __name__ == "__main__":
    main()
