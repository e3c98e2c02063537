"""Render the table of a benchmark protocol on images: the accuracy of each loss by type and rate of noise."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from mgce_lab.engine.methods import Method
from mgce_lab.engine.result import Result
from mgce_lab.engine.significance import tallies
from mgce_lab.engine.store import Run
from mgce_lab.engine.summary import flat, percent, show
from mgce_lab.protocols.columns import without_empty
from mgce_lab.protocols.noise_picture import label, noise_name, noise_picture
from mgce_lab.protocols.published import published
from mgce_lab.protocols.settings import of_method

KIND = "losses"
TITLES = {
    "p1": "P1: accuracy of each loss by noise",
    "p2": "P2: accuracy of each loss on human labels",
    "reduced": "Reduced protocol: accuracy of each loss by noise",
}
CAPTION = (
    "Percent; mean ± standard deviation over the seeds. “Last” is the last epoch, “best” the epoch of best test "
    "accuracy, which nobody can choose who has no clean labels. Wins, ties and losses (w/t/l) are against all other "
    "losses of the cell with at least two seeds, at the last epoch, by Welch's test with Holm's correction for all "
    "pairs of them, at 5 %; a loss of one seed cannot be tested, and has none. “ce+forward”, “mgce+forward”, "
    "“ce+trim” and “mgce+trim” are told the noise; “trim 0.2” is one share of the rows of every label instead, “epoch "
    "1” a threshold that begins after one epoch instead of three, “L1 0.001” an L1 penalty of that size on all "
    "weights and biases, which is not the protocol's."
)
REDUCED_CAPTION = (
    " REDUCED: few images, small batches and a small network, in which cross-entropy memorises wrong labels on a "
    "processor in a minute; to be compared with one another, and not with published numbers."
)

# What the published numbers are, where there are any.
PUBLISHED_CAPTION = {
    "p1": " “Published” is the mean of three seeds at the last epoch.",
    "p2": " “Published” is of the best epoch, and forward correction may have been told an estimate there.",
}


def noise_table(protocol: str, runs: Sequence[Run]) -> Result | None:
    """Render the runs of a protocol on images as a table with a figure; return None if there are no runs."""
    records = [
        {
            **record,
            **{name: run.specification.get(name, "") for name in ("protocol", "dataset", "smoke")},
            **_penalty(run.specification),
        }
        for run in runs
        if run.specification["kind"] == KIND and run.specification["protocol"] == protocol
        for record in run.records
    ]
    return _table(protocol, records) if records else None


def _penalty(specification: Mapping[str, Any]) -> dict[str, float]:
    """Return the L1 penalty of a run as `{"penalty": l1}` if it differs from the protocol's, else an empty dict."""
    method = Method(specification["method"], float(specification["beta"]))
    own = of_method({"l1": 0.0, "weight_decay": 0.0}, specification["dataset"], method)["l1"]
    return {} if specification["l1"] == own else {"penalty": specification["l1"]}


def _table(protocol: str, records: list[dict[str, Any]]) -> Result:
    cells, numbers = [], []
    for dataset, noise in sorted({(record["dataset"], noise_name(record)) for record in records}):
        samples: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            if (record["dataset"], noise_name(record)) == (dataset, noise):
                samples.setdefault(label(record), []).append(record)
        scores = tallies({name: [r["accuracy"] for r in own] for name, own in samples.items()})
        mean = {name: statistics.fmean(record["accuracy"] for record in own) for name, own in samples.items()}
        for name, own in sorted(samples.items(), key=lambda item: (-mean[item[0]], item[0])):
            last, best, ece = (percent([r[key] for r in own]) for key in ("accuracy", "best_accuracy", "ece_h"))
            known = None if "penalty" in own[0] else published(protocol, dataset, noise, own[0]["method"])
            row = {"dataset": dataset, "noise": noise, "loss": name, "seeds": len(own)}
            cells.append(
                {
                    **{key: str(value) for key, value in row.items()},
                    **{"last": show(last), "best": show(best), "published": "" if known is None else f"{known:.2f}"},
                    **{"ECE(h)": show(ece), "w/t/l": "/".join(map(str, scores[name])) if len(own) > 1 else ""},
                }
            )
            measures = flat({"last": last, "best": best, "ece_h": ece})
            numbers.append({**row, "published": known, **scores[name]._asdict(), **measures})
    caption = CAPTION + (REDUCED_CAPTION if protocol == "reduced" else "")
    if any(row["published"] is not None for row in numbers):
        caption += PUBLISHED_CAPTION[protocol]
    picture = noise_picture(protocol, records)
    return Result(protocol, TITLES[protocol], caption, without_empty(cells), numbers, picture, words=3, parts=2)
