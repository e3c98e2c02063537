"""Render tables that compare methods on clean and noisy labels, with our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgce_lab.engine.methods import CHOOSING, KNOWN, MINIMAX_MAE, PAPER
from mgce_lab.engine.render import value_range
from mgce_lab.engine.result import Result
from mgce_lab.engine.select import HELD_OUT_LOSS, MEASURES, best_candidate, one_beta, summarize, tied
from mgce_lab.engine.significance import Summary
from mgce_lab.engine.summary import Pair, show
from mgce_lab.paper.agreement import Verdict, agreement, judge, notes_of
from mgce_lab.paper.published import PUBLISHED_AS, published_row

OF_PAPER = (*PAPER, "mae_published")
LABELS = {MINIMAX_MAE: "MAE (minimax)", "mae_published": "MAE (minimax), as published"}
# Which column of the paper stands beside which of our measures: its "SCE" beside ECE(h), see the caption.
COMPARED = {"accuracy": "accuracy", "ece_h": "sce"}
NAMES = {"accuracy": "accuracy", "ece_h": "calibration error"}
CAPTION = (
    "Percent; mean ± standard deviation over the seeds, at the epoch of best accuracy on the noisy validation "
    "rows, which choose β too: for each seed, and further right one for all seeds, by the mean. ECE is that of the top "
    "label, which the paper's column “SCE” is compared with, since SCE itself is at most 2/k for k classes; h: "
    "minimax, p: worst-case probabilities. “MAE (minimax), as published” has the probabilities with the sign of the "
    "normalizer reversed, with which the paper's numbers agree; its accuracy is that of “MAE (minimax)” and counts "
    "once."
)
OTHERS = (
    "The losses below the paper's have the hyperparameters published for the data set, or for CIFAR-10 where none "
    "were; those with “forward” or “trim” in their name are told the noise."
)
FEWER = "Networks had fewer epochs than the paper's 150 in some rows; its numbers are shown there without a verdict."
TEST = (
    "A number differs if Welch's test says so at 5 %, for our number of seeds and the paper's five; a single seed is "
    "taken to spread as the paper's do. One test of twenty finds a difference where there is none. Below: every "
    "number that differs, and every one of which the test cannot say whether it is 2 points off."
)
Records = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A row of the table: the results of one method on one data set at one noise rate.

    Attributes:
        dataset, noise_rate, method: the data set, noise rate and method of the row.
        chosen: summary of the networks with beta selected for each seed, from `summarize`; empty if there are none.
        fixed: summary of the networks with one beta for all seeds; empty if there was no beta to select.
        paper: the paper's pairs of mean and standard deviation, by the name of our metric; empty if it has none.
        single: whether a method with several candidates for beta was run with only one.
        setting: how the networks were trained, in words; "" if it is the same in all rows.
        short: whether training had fewer epochs than in the paper; then numbers are not compared.
    """

    dataset: str
    noise_rate: float
    method: str
    chosen: Mapping[str, Any]
    fixed: Mapping[str, Any]
    paper: Mapping[str, Pair]
    single: bool
    setting: str = ""
    short: bool = False


def compare_methods(
    name: str, title: str, records: Records, datasets: Sequence[str], noise_rates: Sequence[float]
) -> Result | None:
    """Render a row for each data set, noise rate and method, with the paper's numbers beside ours.

    Noise rates with neither runs nor numbers of the paper are left out. The result is None if there are no records.

    Args:
        name: name of the table, as on the command line.
        title: title of the table.
        records: records with data set, noise rate, method, beta, seed and metrics.
        datasets: the data sets of the paper, in its order.
        noise_rates: noise rates, in the order of the table.
    """
    if not records:
        return None
    rows = [
        row
        for dataset in ordered({record["dataset"] for record in records}, datasets)
        for rate in noise_rates
        for row in _rows(
            name, dataset, rate, [r for r in records if (r["dataset"], r["noise_rate"]) == (dataset, rate)]
        )
    ]
    verdicts: dict[str, Verdict] = {}
    with_one_beta: dict[str, Verdict] = {}
    for row in rows:
        verdicts |= _verdicts(row, row.chosen)
        with_one_beta |= _verdicts(row, row.fixed or row.chosen)
    found = agreement(verdicts)
    if any(row.fixed for row in rows) and found:
        found = f"With β chosen for each seed, {found}; with one β for all seeds, {agreement(with_one_beta)}"
    others = [OTHERS] * (not {row.method for row in rows} <= {*OF_PAPER})
    fewer = [FEWER] * any(row.short for row in rows)
    caption = " ".join([CAPTION, *others, _ties(records), *fewer, *([TEST] if verdicts else [])]).replace("  ", " ")
    cells, numbers = list(map(_cells, rows)), list(map(_flat, rows))
    sentence = f"{title.partition(':')[0]}: {found}." if found else ""
    return Result(name, title, caption, cells, numbers, notes=notes_of(verdicts), words=4, parts=2, agreement=sentence)


def ordered(found: set[str], datasets: Sequence[str]) -> list[str]:
    """Sort names of data sets in the order of `datasets`; names that are not in it come last, alphabetically."""

    def place(dataset: str) -> tuple[int, str]:
        name = PUBLISHED_AS.get(dataset, dataset)
        return datasets.index(name) if name in datasets else len(datasets), dataset

    return sorted(found, key=place)


def _rows(table: str, dataset: str, noise_rate: float, block: Records) -> list[Row]:
    """Return the rows of a data set and a noise rate; none if there are neither runs nor numbers of the paper.

    The methods of the paper come first, even if they were not run; then other methods that were run.
    """
    smoke = any(record.get("smoke") for record in block)
    paper = {} if smoke else {method: _paper(table, dataset, method, noise_rate) for method in OF_PAPER}
    if not block and not any(paper.values()):
        return []
    chosen = {summary["method"]: summary for summary in summarize(best_candidate(block))}
    candidates = {method: {record["beta"] for record in block if record["method"] == method} for method in CHOOSING}
    several = [record for record in block if len(candidates.get(record["method"], ())) > 1]
    fixed = {summary["method"]: summary for summary in summarize(one_beta(several))}
    return [
        Row(
            dataset,
            noise_rate,
            method,
            chosen.get(method, {}),
            fixed.get(method, {}),
            paper.get(method, {}),
            single=len(candidates.get(method, ())) == 1,
            setting=next((record.get("setting", "") for record in block), ""),
            short=any(record.get("short") for record in block),
        )
        for method in (*OF_PAPER, *other_methods(block))
    ]


def other_methods(records: Records) -> list[str]:
    """Return the methods of records that are not the paper's, in the order of `KNOWN`."""
    found = {record["method"] for record in records}
    return [name for name in KNOWN if name in found and name not in OF_PAPER]


def _ties(records: Records) -> str:
    """Return a sentence that says how many selections of beta were ties, and how these were decided."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        if record["method"] in CHOOSING:
            groups.setdefault(tuple(record[key] for key in ("dataset", "noise_rate", "method", "seed")), []).append(
                record
            )
    choices = [group for group in groups.values() if len(group) > 1]
    equal = [tied(group) for group in choices if len(tied(group)) > 1]
    if not equal:
        return ""
    by_loss = sum(all(HELD_OUT_LOSS in record for record in group) for group in equal)
    return (
        f"{len(equal)} of {len(choices)} choices of β for a seed are ties of validation accuracy: the Brier score of h "
        f"on the validation rows decided {by_loss}, and {len(equal) - by_loss}, of runs whose records do not have it, "
        "went to the smallest β."
    )


def _paper(table: str, dataset: str, method: str, noise_rate: float) -> dict[str, Pair]:
    """Return the paper's pairs of mean and standard deviation, by the name of our metric.

    The paper's calibration errors of MAE belong to the method "mae_published", whose probabilities have a sign
    reversed: the paper's numbers agree with these, not with the corrected probabilities. The accuracy is the same for
    both.
    """
    row = published_row(table, dataset, MINIMAX_MAE if method == "mae_published" else method, noise_rate)
    measures = [measure for measure in COMPARED if (method, measure) != (MINIMAX_MAE, "ece_h")]
    return {measure: tuple(row[COMPARED[measure]]) for measure in measures if row}


def _pair(summary: Mapping[str, Any], measure: str) -> Pair | None:
    """Return mean and standard deviation of a metric in percent; None for an empty summary."""
    return (100 * summary[measure], 100 * summary[f"{measure}_std"]) if summary else None


def _verdicts(row: Row, summary: Mapping[str, Any]) -> dict[str, Verdict]:
    """Compare the metrics of a row with the paper's; return the verdicts by the keys of `Result.notes`."""
    where = f"{row.dataset}, η = {row.noise_rate:g}, {LABELS.get(row.method, row.method)}"
    if row.short:
        return {}
    verdicts = {}
    for measure in COMPARED:
        pair, paper = _pair(summary, measure), row.paper.get(measure)
        if (row.method, measure) == ("mae_published", "accuracy") or pair is None:  # that is MAE's, which counts there
            continue
        verdict = judge(f"{where}, {NAMES[measure]}", Summary(pair[0], pair[1], summary["seeds"]), paper)
        if verdict is not None:
            verdicts[f"{row.dataset}/{row.noise_rate:g}/{row.method}/{measure}"] = verdict
    return verdicts


def _flat(row: Row) -> dict[str, Any]:
    """Return a row for programs: unrounded numbers, with means and standard deviations in separate columns."""
    flat: dict[str, Any] = {"dataset": row.dataset, "noise_rate": row.noise_rate, "method": row.method}
    flat |= {"setting": row.setting} if row.setting else {}
    flat["seeds"] = row.chosen.get("seeds")
    flat["betas"] = " ".join(f"{beta:g}" for beta, count in row.chosen.get("betas", ()) for _ in range(count))
    for measure in MEASURES:
        flat[measure], flat[f"{measure}_std"] = _pair(row.chosen, measure) or (None, None)
    for measure in COMPARED:
        flat[f"paper_{measure}"], flat[f"paper_{measure}_std"] = row.paper.get(measure, (None, None))
    flat["one_beta"] = row.fixed["betas"][0][0] if row.fixed else None
    for measure in MEASURES:
        flat[f"one_beta_{measure}"], flat[f"one_beta_{measure}_std"] = _pair(row.fixed, measure) or (None, None)
    return flat


def _cells(row: Row) -> dict[str, str]:
    """Return a row for readers; a beta that was not selected by validation is marked as fixed."""
    betas = row.chosen.get("betas")
    return {
        "dataset": row.dataset,
        "η": f"{row.noise_rate:g}",
        "method": LABELS.get(row.method, row.method),
        **({"network": row.setting} if row.setting else {}),
        "β": "" if betas is None else value_range(betas) + " (fixed)" * row.single,
        "seeds": str(row.chosen.get("seeds", "")),
        "accuracy": show(_pair(row.chosen, "accuracy")),
        "paper's": show(row.paper.get("accuracy")),
        "ECE(h)": show(_pair(row.chosen, "ece_h")),
        "paper's “SCE”": show(row.paper.get("ece_h")),
        "one β": f"{row.fixed['betas'][0][0]:g}" if row.fixed else "",
        "its accuracy": show(_pair(row.fixed, "accuracy")),
        "its ECE(h)": show(_pair(row.fixed, "ece_h")),
        "ECE(p)": show(_pair(row.chosen, "ece_p")),
        "SCE(h)": show(_pair(row.chosen, "sce_h")),
        "SCE(p)": show(_pair(row.chosen, "sce_p")),
    }
