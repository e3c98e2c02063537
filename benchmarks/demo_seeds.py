"""What `mgce demo` finds on several data sets and seeds: `python -m benchmarks.demo_seeds` prints a table of means."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.markdown import table
from mgce.cli.demo import NOISE_RATE
from mgce.experiments.demo import FIRST, LABEL, found, known_table
from mgce.tables.fit import FitPlan, run


def main() -> None:
    """Fit, print each result as it comes, and then the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo_seeds", description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["breast_cancer", "digits", "wine"])
    parser.add_argument("--noise-rates", nargs="+", type=float, default=[NOISE_RATE])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    results = []
    for dataset in options.datasets:
        for rate in options.noise_rates:
            for seed in range(options.seeds):
                results.append({"dataset": dataset, "rate": rate, "seed": seed} | measured(dataset, rate, seed))
                print(json.dumps(results[-1]), flush=True)
    print(render(results))


def measured(dataset: str, noise_rate: float, seed: int) -> dict[str, Any]:
    """Return what one demonstration finds."""
    known = known_table(dataset, noise_rate, seed)
    what = found(known, run(known.table, FitPlan(LABEL)))
    wrong = {f"wrong of first {first}": wrong for first, (wrong, _) in zip(FIRST, what.wrong_among, strict=True)}
    return {**{name: 100 * share for name, share in what.accuracy.items()}, **wrong, "bound held": what.held}


def render(results: Sequence[dict[str, Any]]) -> str:
    """Return a row of means for each data set and rate, and how many of the bounds held."""
    columns = [name for name in results[0] if name not in ("dataset", "rate", "seed", "bound held")]
    rows = []
    for dataset, rate in dict.fromkeys((one["dataset"], one["rate"]) for one in results):
        own = [one for one in results if (one["dataset"], one["rate"]) == (dataset, rate)]
        means = [f"{statistics.fmean(one[name] for one in own):.1f}" for name in columns]
        held = f"{sum(one['bound held'] for one in own)} of {len(own)}"
        rows.append([dataset, f"{rate:.0%}", *means, held])
    return table(["data set", "wrong", *columns, "bounds that held"], rows)


if __name__ == "__main__":
    main()
