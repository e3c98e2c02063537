"""From the records of networks to the numbers of a table: which beta each seed takes, and means over the seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

MEASURES = ("accuracy", "ece_h", "ece_p", "sce_h", "sce_p")


def best_beta(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep for each method and seed the record of best validation accuracy, the first one if several are equal."""
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        key = (record["method"], record["seed"])
        if key not in best or record["validation_accuracy"] > best[key]["validation_accuracy"]:
            best[key] = record
    return list(best.values())


def summarize(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give for each method a dict: the betas taken, and mean and standard deviation of every measure over the seeds.

    `betas` are pairs of a beta and the number of seeds that took it, by rising beta. The standard deviation is that of
    the sample (ddof = 1), and NaN for a single seed.
    """
    summaries = []
    for method in dict.fromkeys(record["method"] for record in records):
        chosen = [record for record in records if record["method"] == method]
        betas = Counter(record["beta"] for record in chosen)
        summary: dict[str, Any] = {"method": method, "seeds": len(chosen), "betas": sorted(betas.items())}
        for measure in MEASURES:
            values = np.array([record[measure] for record in chosen])
            summary[measure] = float(values.mean())
            summary[f"{measure}_std"] = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        summaries.append(summary)
    return summaries
