"""What `mgce demo` finds on several data sets and seeds: `mgce_lab.studies.demo_seeds` fits what has no record.

Each demonstration is a line of `results/demo/seeds.jsonl`: a run that was stopped goes on where it was. `--page` writes
the two tables of `docs/lab/demo.md`.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mgce._machine import describe
from mgce.desk.cli.demo import NOISE_RATE
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.known_table import FIRST, LABEL, found, known_table
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table

ROOT = Path(__file__).parents[4]
RESULTS, PAGE = ROOT / "results" / "demo" / "seeds.jsonl", ROOT / "docs" / "lab" / "demo.md"
# What is tried: data set, share of wrong labels, seeds. One seed of digits, where a fit takes minutes.
CELLS = (
    *(("breast_cancer", rate, 5) for rate in (0.2, NOISE_RATE, 0.4)),
    ("digits", NOISE_RATE, 1),
    ("wine", NOISE_RATE, 5),
)
SHOWN = ("breast_cancer", NOISE_RATE)  # the demonstration itself
BEGIN, END = "<!-- means -->\n", "\n\n<!-- /means -->"
Records = Sequence[dict[str, Any]]


def main() -> None:
    """Fit what has no record yet, write each as it comes, and the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.demo_seeds", description=__doc__)
    parser.add_argument("--page", action="store_true", help="fit nothing, and write the tables of the page")
    if parser.parse_args().page:
        PAGE.write_text(page(PAGE.read_text(), records()))
        return
    lines = Lines(RESULTS, "dataset", "rate", "seed")
    for dataset, rate, seeds in CELLS:
        for seed in range(seeds):
            cell = {"dataset": dataset, "rate": rate, "seed": seed}
            if cell not in lines:
                lines.add(cell | measured(dataset, rate, seed))


def records() -> list[dict[str, Any]]:
    """Return the demonstrations that are there."""
    return Lines(RESULTS).read()


def measured(dataset: str, noise_rate: float, seed: int) -> dict[str, Any]:
    """Return what one demonstration finds."""
    known = known_table(dataset, noise_rate, seed)
    what = found(known, run(known.table, FitPlan(LABEL)))
    wrong = {f"wrong of first {first}": wrong for first, (wrong, _) in zip(FIRST, what.wrong_among, strict=True)}
    accuracy = {name: 100 * share for name, share in what.accuracy.items()}
    machine = describe()
    software = {name: machine[name] for name in ("processor", "kernel", "torch", "scikit-learn", "mgce")}
    return {**accuracy, **wrong, "bound held": what.held, "threads": torch.get_num_threads(), **software}


def columns(results: Records) -> list[str]:
    """Return the names of the methods and of the counts of wrong labels."""
    return [name for name in results[0] if name.startswith(("mgce fit", "random", "gradient", "wrong of first"))]


def means(results: Records) -> str:
    """Return a row of means for each data set and rate, and how many of the bounds held."""
    rows = []
    for dataset, rate in dict.fromkeys((one["dataset"], one["rate"]) for one in results):
        own = [one for one in results if (one["dataset"], one["rate"]) == (dataset, rate)]
        found = [f"{statistics.fmean(one[name] for one in own):.1f}" for name in columns(results)]
        held = f"{sum(one['bound held'] for one in own)} of {len(own)}"
        rows.append([dataset, f"{rate:.0%}", *found, held])
    return table(["data set", "wrong", *columns(results), "bounds that held"], rows)


def page(text: str, results: Records) -> str:
    """Return docs/lab/demo.md with its table written anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{means(results)}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    main()
