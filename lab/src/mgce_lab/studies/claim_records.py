"""Numbers of records that sentences and tables of the pages claim, by functions that `claim_list` names."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mgce_lab import losses as named_losses
from mgce_lab.engine.methods import row_name
from mgce_lab.engine.significance import LEVEL, Difference, Summary, paired_difference
from mgce_lab.engine.store import Runs
from mgce_lab.paper.agreement import judge
from mgce_lab.paper.published import published_row
from mgce_lab.soak.certificates import KINDS
from mgce_lab.soak.hardness import BAD
from mgce_lab.studies import demo_seeds, loop, loop_page

ROOT = Path(__file__).parents[4]
RESULTS = ROOT / "results"
TRIED = ("numerics", "files", "faults")  # of docs/reliability.md
COUNTED = RESULTS / "claims" / "claims.txt"  # which `mgce_lab.studies.paper_claims` writes
RATES, P1, REDUCED = (
    f"results/{name}" for name in ("losses/rates.txt", "losses-p1/p1.txt", "losses-reduced/reduced.txt")
)
# Columns of the protocols' tables, whose numbers stand right below the end of their names.
HEADS = {
    RATES: (
        "dataset",
        "loss",
        *(f"lr {rate}" for rate in ("0.001", "0.003", "0.01", "0.03")),
        "chosen",
        "valid.",
        "accuracy",
    ),
    P1: ("dataset", "noise", "loss", "seeds", "last", "best"),
    REDUCED: ("dataset", "noise", "loss", "seeds", "last", "best"),
}
SHOWN = {RATES: "accuracy", P1: "last", REDUCED: "last"}
# The columns of the pages on losses: file, data set and noise.
COLUMNS = {
    "letter, 40 %": (RATES, "letter", None),
    "adult, 40 %": (RATES, "adult", None),
    "MNIST, right labels": (P1, "mnist", "symmetric 0"),
    **{f"MNIST, {rate} %": (P1, "mnist", f"symmetric 0.{rate // 10}") for rate in (20, 40, 60, 80)},
    "MNIST, asymmetric": (P1, "mnist", "asymmetric 0.4"),
    "FashionMNIST, 40 %": (P1, "fashion_mnist", "symmetric 0.4"),
    **{f"2,000 of MNIST, {rate} %": (REDUCED, "mnist", f"symmetric 0.{rate // 10}") for rate in (20, 40, 60, 80)},
    "2,000 of MNIST, asymmetric": (REDUCED, "mnist", "asymmetric 0.4"),
    "5,000 of CIFAR-10, 40 %": (REDUCED, "cifar10", "symmetric 0.4"),
    "5,000 of CIFAR-10N": (REDUCED, "cifar10n", "worst"),
}


def page(path: str) -> str:
    """Return the text of a page."""
    return (ROOT / path).read_text(encoding="utf-8")


def marked(text: str, *names: str) -> list[str]:
    """Return what stands between the marks of some names on a page."""
    return [text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0] for name in names]


def lines(path: str | Path) -> list[dict[str, Any]]:
    """Return records, one a line."""
    return [json.loads(line) for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]


def false_at_most(row: str, _: str) -> float:
    """Return in percent how often the bounds of a row of docs/certificates.md were false at most, at delta 0.05."""
    people = json.loads((RESULTS / "certificates" / "human-noise.json").read_text())["cells"]
    if "stated right" in row:
        return 100 * max(float(cell[f"{name}: condition false"]) for cell in people for name in ("rate", "T"))
    if row.startswith("300"):
        return 100 * max(
            float(width["false"]) for cell in people for width in cell["widths"] if width["looked up"] == 300
        )
    if "share_looks" in row:
        shared = json.loads((RESULTS / "certificates" / "shared-looks.json").read_text()).values()
        return 100 * max(float(cell["false"]) / int(cell["draws"]) for cell in shared)
    cells = json.loads((RESULTS / "certificates" / "cells.json").read_text())
    own = {name: cell for name, cell in cells.items() if name.split("/")[0] in KINDS and name.endswith("/0.05")}
    return 100 * max(float(cell["misses"]) / int(cell["draws"]) for cell in own.values() if cell["draws"])


def attempts(row: str, column: str) -> float:
    """Return how often something was tried of docs/reliability.md, or how often it failed."""
    found = {name: json.loads((RESULTS / "reliability" / f"{name}.json").read_text()) for name in TRIED}
    if row.startswith("rows"):
        counted = (found["numerics"]["rows"], len(found["numerics"]["failures"]))
    elif row.startswith("damaged"):
        readers = found["files"]["after"]["readers"].values()
        parts = [part for one in readers for part in (one, one.get("guided")) if part]
        counted = (sum(one["files"] for one in parts), sum(one["outcomes"].get(bad, 0) for one in parts for bad in BAD))
    else:
        commands = found["faults"]["after"]["commands"].values()
        counted = (sum(one["kills"] + one["full disks"] for one in commands), sum(len(one["bad"]) for one in commands))
    return counted[column != "how often"]


# The protocols: the tables that `mgce-lab report` renders from the records, as a test of them compares.


@functools.cache
def rendered(path: str) -> list[dict[str, str]]:
    """Return the rows of a table of a protocol, by column."""
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()
    begins = next(number for number, line in enumerate(text) if line.split()[:1] == ["dataset"])
    return [row for row in _columns(text[begins:], HEADS[path]) if row["dataset"] in NAMED]


def _columns(text: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
    """Return rows of a table whose columns end where their names end, up to the first line that is none."""
    ends: list[int] = []
    for name in names:
        ends.append(text[0].index(name, ends[-1] if ends else 0) + len(name))
    spans = dict(zip(names, itertools.pairwise([0, *ends]), strict=True))
    return [{name: row[slice(*span)].strip() for name, span in spans.items()} for row in text[1:] if row.strip()]


NAMED = {dataset for _, dataset, _ in COLUMNS.values()}


def losses(column: str, measure: str | None = None) -> dict[str, float]:
    """Return the percentage of each loss in a column of the pages on losses."""
    path, dataset, noise = COLUMNS[column]
    return {
        row["loss"]: float(row[measure or SHOWN[path]].split()[0])
        for row in rendered(path)
        if row["dataset"] == dataset and (noise is None or row["noise"] == noise) and row[measure or SHOWN[path]]
    }


def loss(row: str, column: str) -> float:
    """Return a cell of the tables of losses by column."""
    return losses(column)[row.strip("`*")]


def without_penalty(column: str) -> dict[str, float]:
    """Return the percentages of the losses that have no added L1 penalty."""
    return {name: value for name, value in losses(column).items() if ", L1" not in name}


def nearly_best(points: float) -> bool:
    """Return whether NCE+AGCE and trimmed cross-entropy are within `points` points of the best in those columns."""
    columns = [name for name, (path, *_) in COLUMNS.items() if name.endswith(("40 %", "10N")) and path != RATES]
    behind = [
        max(without_penalty(column).values()) - losses(column)[name]
        for column in columns
        for name in ("nce+agce", "ce+trim")
    ]
    return max(behind) < points


def gain_of_rate(name: str) -> float:
    """Return what a learning rate of 0.03 in place of 0.01 gains a loss on letter, in points."""
    low, high = (losses("letter, 40 %", f"lr {rate}")[name] for rate in ("0.01", "0.03"))
    return high - low


# Training loops.


@functools.cache
def of_loops() -> loop_page.Results:
    """Return the records of training loops."""
    return loop_page.Results(loop.records("runs"))


def loop_rows(names: Sequence[str]) -> list[str]:
    """Return rows of the short table of training loops."""
    return [line for line in loop_page.summary(loop.records("runs")).splitlines() if line.split(" | ")[0][2:] in names]


def whole_trainings() -> float:
    """Return how many whole trainings `choose_recipe` costs."""
    return of_loops().cost()


def leads_over_gce() -> list[float]:
    """Return the learned correction minus GCE on further data, by kind of noise."""
    results = loop_page.Results(loop.records("unseen"))
    ends = (loop_page.PAIR, loop_page.SYMMETRIC, loop_page.RIGHT)
    return [loop_page.gap(results, end, loop_page.GCE)[0] for end in ends]


def demonstrations(name: str, reduced: Callable[[list[float]], float] = statistics.fmean) -> float:
    """Return a number of the demonstration, over its seeds."""
    own = [one for one in demo_seeds.records() if (one["dataset"], one["rate"]) == demo_seeds.SHOWN]
    return reduced([one[name] for one in own])


def printed(before: str) -> float:
    """Return the percentage that follows a text in the output of `mgce demo` in README."""
    output = " ".join(page("README.md").partition("```text\n")[2].partition("```")[0].split())
    return float(re.search(rf"{before} ([\d.]+)%", output).group(1))  # type: ignore[union-attr]


# Frozen features.


def of_features(key: str, model: str = "MGCEEmbeddingClassifier") -> list[float]:
    """Return the means over the sets of a number of a model, by kind of noise."""
    found: dict[str, list[float]] = {}
    for path in sorted((RESULTS / "embeddings").glob("*.jsonl")):
        for line in lines(path):
            if line["model"] == model:
                found.setdefault(line["noise"], []).append(line[key])
    return [statistics.fmean(values) for values in found.values()]


def first_on_features() -> bool:
    """Return whether our head has the best mean rank of the six models on the page."""
    rows = re.findall(r"^\| ([^|]+?) \|.*\| ([\d.]+) \| \d+ \|$", page("docs/lab/embeddings.md").split("## ")[0], re.M)
    return len(rows) == 6 and min(rows, key=lambda row: float(row[1]))[0] == "MGCEEmbeddingClassifier"


# Speed.


def most_between(places: Sequence[int], low: float, high: float) -> bool:
    """Return whether most losses by name take `low` to `high` times as long as cross-entropy, at each size."""
    cells = json.loads((RESULTS / "benchmarks" / "named.json").read_text())["cells"]
    for place in places:
        times = dict(cells[place]["seconds"])
        base = times.pop("F.cross_entropy")
        ratios = np.array([time / base for time in times.values()])
        if np.mean((ratios >= low - 0.5) & (ratios < high + 0.5)) <= 0.5:
            return False
    return True


# The paper.


def counted(pattern: str) -> list[float]:
    """Return the numbers that a pattern captures in the file of counts, in which runs of blanks are one blank."""
    match = re.search(pattern, " ".join(COUNTED.read_text(encoding="utf-8").split()))
    if match is None:
        raise LookupError(f"results/claims/claims.txt has no {pattern}")
    return [float(group) for group in match.groups()]


def numbers_of_table_3() -> list[float]:
    """Return how many numbers of Table 3 there are, agree, differ and are uncertain; then those of one seed."""
    kinds = r" (\d+) (\d+) agree (\d+) differ (\d+) uncertain"
    return counted(f" all{kinds}") + counted(f" one seed{kinds} five seeds")


def reached(table: str) -> float:
    """Return the epoch in which MGCE reaches the final accuracy of GCE at the same beta, right labels."""
    return counted(rf" {table} GCE, beta 1.4 [\d.]+ [\d.]+ (\d+)")[0]


def after_50(table: str, method: str) -> float:
    """Return the accuracy of a method after 50 epochs, right labels."""
    return counted(rf" {table} {method} ([\d.]+)")[0]


def compared(measure: str, other: str) -> list[float]:
    """Return in how many cases of wrong labels, five seeds, an error of MGCE is lower, higher, and not told apart."""
    return counted(rf"{measure}, than {re.escape(other)} (?:\d+ ){{5}}(\d+) (\d+) (\d+)")


def above_v(beta: float, noise: int = 0) -> list[float]:
    """Return by how many points the accuracy on each table exceeds 1 - V."""
    place = ("1", "1.05", "1.18", "1.4").index(f"{beta:g}")
    text = COUNTED.read_text(encoding="utf-8").splitlines()
    head = next(line for line in text if "wrong labels   " in line)
    ends = [match.end() for match in re.finditer(r"\S+", head)][2 + place]
    rows = [line for line in text if re.match(rf" +\w+ +{noise} % ", line)]
    return [float(line[ends - 6 : ends]) for line in rows if line[ends - 6 : ends].strip()]


def above_the_paper() -> bool:
    """Return whether all accuracies that differ from the paper's are above, and most so on covertype."""
    low, high = {}, {}
    for table in ("MNIST", "covertype", "letter", "adult"):
        low[table], high[table] = counted(rf"accuracy {table} [^(]*\(([+-][\d.]+) to ([+-][\d.]+)\)")
    return min(low.values()) > 0 and max(high, key=lambda table: high[table]) == "covertype"


@functools.cache
def tested_pairs(column: str) -> dict[tuple[str, str], str]:
    """Return what the table of differences says in a column, of tables with wrong labels that have five seeds."""
    names = ("dataset", "η", "seeds", "over cross-entropy", "over GCE", "over MAE (minimax)")
    rows = _columns((RESULTS / "paper" / "advantage.txt").read_text(encoding="utf-8").splitlines()[2:], names)
    return {(row["dataset"], row["η"]): row[column] for row in rows if row["seeds"] == "5" and row["η"] != "0"}


def where_ahead(column: str) -> list[tuple[str, str]]:
    """Return the tables and rates at which MGCE is significantly ahead."""
    return [where for where, said in tested_pairs(column).items() if ": ahead" in said]


def times_ahead(column: str) -> int:
    """Return the number of cases in which MGCE is significantly ahead."""
    return len(where_ahead(column))


def verdicts() -> list[float]:
    """Return how many of the claims on the page on the paper agree, differ, and do both."""
    rows = re.findall(r"^\| \*\*.*\| (.+?) \|$", page("docs/paper.md"), re.MULTILINE)
    found = Counter(("**agrees**" in row, "**differs**" in row) for row in rows)
    return [float(found[kind]) for kind in ((True, False), (False, True), (True, True))]


@functools.cache
def images(stem: str = "", dataset: str = "fashion_mnist") -> dict[tuple[str, float], list[dict[str, Any]]]:
    """Return the records of networks on images by method and noise rate, by seed: of the ImageNet stem or another."""
    runs = Runs(RESULTS / f"paper-images{stem}").read().values()
    records = [dict(one) for run in runs if run.specification["dataset"] == dataset for one in run.records]
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for one in sorted(records, key=lambda record: int(record["seed"])):
        found.setdefault((row_name(one["method"], float(one["beta"])), one["noise_rate"]), []).append(one)
    return found


def curves_on_images(method: str) -> NDArray[np.float64]:
    """Return the test accuracy by epoch on FashionMNIST with 40 % wrong labels in percent, a row for each seed."""
    return 100 * np.array([one["test_accuracy_by_epoch"] for one in images()[method, 0.4]])


def figure_3() -> list[float]:
    """Return the best and last accuracy of cross-entropy under noise, and the last of MGCE and GCE: means."""
    mean = {method: curves_on_images(method).mean(0) for method in ("ce", "mgce", "gce")}
    return [mean["ce"].max(), mean["ce"][-1], statistics.fmean(mean[one][-1] for one in ("mgce", "gce"))]


def of_paper(method: str, measure: str, noise_rate: float = 0.4) -> list[float]:
    """Return the paper's number on FashionMNIST in percent, and its deviation."""
    row = published_row("table1", "fashion_mnist", method, noise_rate)
    found: list[float] = row["accuracy" if measure == "accuracy" else "sce"]
    return found


def _on_images(method: str, measure: str) -> tuple[Summary, list[float]]:
    """Return our number of FashionMNIST with 40 % wrong labels in percent, and the paper's with its deviation."""
    of_theirs = of_paper("mgce@1" if method == "mae_published" else method, measure)
    values = [100 * one[measure] for one in images()[method, 0.4]]
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    return Summary(statistics.fmean(values), deviation, len(values)), of_theirs


def beside_the_paper(method: str) -> list[float]:
    """Return the seeds, accuracy and calibration error with deviations over the seeds, if any, beside the paper's."""
    found = [_on_images(method, measure) for measure in ("accuracy", "ece_h")]
    numbers = [number for ours, paper in found for number in (ours.mean, ours.std, paper[0])]
    return [float(found[0][0].size), *(number for number in numbers if not math.isnan(number))]


def against_the_paper(measure: str) -> dict[str, str]:
    """Return for each method whether its number on FashionMNIST is above or below the paper's, or else the verdict."""
    found = {method: _on_images(method, measure) for method in ("gce", "mgce", "mae_published", "ce")}
    verdicts = {method: judge("", ours, paper) for method, (ours, paper) in found.items()}
    sides = {method: re.search("above|below", one.sentence) for method, one in verdicts.items() if one is not None}
    return {method: side[0] if side else verdicts[method].kind for method, side in sides.items()}


def _differences(other: str) -> list[Difference]:
    """Return by how much MGCE exceeds a method on FashionMNIST with 40 % wrong labels, in three measures."""
    measures = ("accuracy", "ece_h", "ece_p")
    ours, theirs = ([[one[name] for one in images()[method, 0.4]] for name in measures] for method in ("mgce", other))
    return list(map(paired_difference, ours, theirs))


def differences_on_images(other: str) -> list[float]:
    """Return the differences in points, each with its p-value."""
    return [number for one in _differences(other) for number in (100 * one.value, one.p)]


def verdicts_on_images() -> dict[str, str]:
    """Return for two methods whether MGCE is higher or lower in each measure, or level."""
    sides = {False: "lower", True: "higher"}
    return {
        other: " ".join(sides[one.value > 0] if one.p < LEVEL else "level" for one in _differences(other))
        for other in ("ce", "gce")
    }


def n_losses() -> float:
    """Return the number of losses of which the comparisons have records."""
    return float(len({record["method"] for run in Runs(RESULTS / "losses").read().values() for record in run.records}))


def n_named() -> list[float]:
    """Return the number of losses that `robust_loss` makes, without those of the lab and with them."""
    return [float(len(named_losses.NAMED) - len(named_losses.HERE)), float(len(named_losses.NAMED))]


# What `mgce-lab compare digits --json results/compare/NAME.json` writes.


def compared_losses(name: str, row: str, column: str) -> list[float]:
    """Return a cell of a table of `mgce-lab compare`: the betas, or the mean and the standard deviation in percent."""
    methods = json.loads(page(f"results/compare/{name}.json"))["methods"]
    found = next(one for one in methods if one["method"] == row.strip("`"))
    if column == "beta":
        return [beta for beta, _ in found["betas"] if beta != "inf"]
    key = column.lower().replace(" of ", "_")
    return [100 * found[key], 100 * found[f"{key}_std"]]


def welch_on_digits() -> list[float]:
    """Return the least and the largest p-value of Welch's test of cross-entropy against each other loss on digits."""
    found = {one["method"]: one for one in json.loads(page("results/compare/digits.json"))["methods"]}
    of_losses = {name: (one["accuracy"], one["accuracy_std"], one["seeds"]) for name, one in found.items()}
    ce = of_losses.pop("ce")
    values = [stats.ttest_ind_from_stats(*ce, *one, equal_var=False).pvalue for one in of_losses.values()]
    return [min(values), max(values)]
