"""Select among the records of networks by validation accuracy, and compute means over the seeds."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

MEASURES = ("accuracy", "ece_h", "ece_p", "sce_h", "sce_p")
HELD_OUT_LOSS = "validation_brier"  # which decides where validation accuracies are equal, if the records have it


def best_candidate(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each method and seed the record with the best validation accuracy.

    Of records with equal accuracy, the one with the least loss on the validation rows is returned. If not all of them
    have this loss, the one with the smallest beta is returned, and at equal beta the one with the smallest `trim`.
    """
    by_seed: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in records:
        by_seed.setdefault((record["method"], record["seed"]), []).append(record)
    return [min(tied(candidates), key=_order(tied(candidates))) for candidates in by_seed.values()]


def tied(candidates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all records that share the best validation accuracy."""
    best = max(record["validation_accuracy"] for record in candidates)
    return [record for record in candidates if record["validation_accuracy"] == best]


def one_beta(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each method the records of the beta with the best mean validation accuracy over the seeds.

    Only betas that were run with all seeds of the method are considered. Ties are decided as in
    :func:`best_candidate`.
    """
    kept: list[dict[str, Any]] = []
    for method in dict.fromkeys(record["method"] for record in records):
        by_beta: dict[float, list[dict[str, Any]]] = {}
        for record in records:
            if record["method"] == method:
                by_beta.setdefault(record["beta"], []).append(record)
        seeds = max(map(len, by_beta.values()))
        means = [_mean(beta, group) for beta, group in by_beta.items() if len(group) == seeds]
        kept += by_beta[min(tied(means), key=_order(tied(means)))["beta"]]
    return kept


def _mean(beta: float, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the means, over the seeds, of the validation metrics by which beta is selected."""
    names = [name for name in ("validation_accuracy", HELD_OUT_LOSS) if all(name in record for record in records)]
    # Shares of equally many rows: to 12 digits, two sums of the same counts are the same number.
    return {"beta": beta, **{n: round(math.fsum(record[n] for record in records) / len(records), 12) for n in names}}


def _order(equals: Sequence[dict[str, Any]]) -> Any:
    """Return the sort key for records with equal validation accuracy; the smallest is the best."""
    if all(HELD_OUT_LOSS in record for record in equals):
        return lambda record: (record[HELD_OUT_LOSS], *_candidate(record))
    return _candidate


def _candidate(record: dict[str, Any]) -> tuple[float, float]:
    """Return the beta and the `trim` of a record; `trim` is 0 if the method leaves out no rows."""
    return record["beta"], record.get("trim") or 0.0


def summarize(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each method a dict with the mean and the standard deviation of every metric over the seeds.

    `betas` are pairs of a selected beta and the number of its seeds, sorted by beta. `trims` are such pairs for the
    fraction of rows to leave out, empty for a method that leaves out no rows. The standard deviation is that of
    the sample (ddof = 1), and NaN for a single seed.
    """
    summaries = []
    for method in dict.fromkeys(record["method"] for record in records):
        chosen = [record for record in records if record["method"] == method]
        betas = Counter(record["beta"] for record in chosen)
        trims = Counter(record["trim"] for record in chosen if record.get("trim") is not None)
        summary: dict[str, Any] = {"method": method, "seeds": len(chosen)}
        summary |= {"betas": sorted(betas.items()), "trims": sorted(trims.items())}
        for measure in MEASURES:
            values = [record[measure] for record in chosen]  # in any order: both sums below are exact
            summary[measure] = statistics.fmean(values)
            summary[f"{measure}_std"] = statistics.stdev(values) if len(values) > 1 else math.nan
        summaries.append(summary)
    return summaries
