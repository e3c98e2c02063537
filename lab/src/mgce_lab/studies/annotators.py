"""Several labels a row: our consensus against majority, crowd-kit and CROWDLAB, on CIFAR-10N and on simulated tables.

`python -m mgce_lab.studies.annotators --features FOLDER --cifarn FOLDER` reads parts `train-A-B-128.npz` (arrays x and
y) of the features of CIFAR-10's training rows, and `CIFAR-10_human.pt`. Five disjoint sets of 6,000 rows have 3, 2 and
1.6 labels a row; the rows from 30,000 with their right labels test the models. `--made N` adds N simulated tables.
CROWDLAB needs cleanlab, and Dawid-Skene needs crowd-kit. Each finished cell is a line of
`results/annotators/cells.jsonl`: a run that is stopped goes on where it was. `--page` writes the tables of
`docs/lab/annotators.md`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from mgce import ConsensusClassifier
from mgce.labels.annotators import Annotator
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table
from mgce_lab.studies.embeddings import DEVELOPED_ON, ROWS, SETS, TEST_FROM, read
from mgce_lab.studies.made_annotators import made_table

ROOT = Path(__file__).parents[4]
RESULTS, PAGE = ROOT / "results" / "annotators" / "cells.jsonl", ROOT / "docs" / "lab" / "annotators.md"
OURS = "ConsensusClassifier"
KEEPS = (3.0, 2.0, 1.6)
CROWDKIT = {"crowd-kit Dawid-Skene": "DawidSkene"}
METHODS = ("majority", *CROWDKIT, "CROWDLAB", OURS)
ASKED = {"none": 0, "ours, 1,000": 1000, "disagreement, 1,000": 1000, "random, 1,500": 1500}
TESTED = 10_000  # rows on which models are tested
BEGIN, END = "<!-- {} -->\n", "<!-- /{} -->\n"
IntArray = NDArray[np.int64]


def main() -> None:
    """Measure what has no result yet, then write the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.annotators", description=__doc__)
    parser.add_argument("--features", type=Path, help="folder of train-A-B-128.npz")
    parser.add_argument("--cifarn", type=Path, help="folder of CIFAR-10_human.pt")
    parser.add_argument("--sets", type=int, nargs="+", default=list(range(1, SETS + 1)))
    parser.add_argument("--asking", type=int, nargs="*", default=list(range(1, SETS + 1)), help="sets of item asking")
    parser.add_argument("--made", type=int, default=0, help="number of simulated tables")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/lab/annotators.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = Lines(RESULTS, "data", "number", "part", "keep")
    for cell, measure in _cells(options):
        if cell not in lines:
            lines.add(cell | measure())
    if options.page:
        PAGE.write_text(page(PAGE.read_text(), records()))


def records() -> list[dict[str, Any]]:
    """Return the finished cells."""
    return Lines(RESULTS).read()


def _cells(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    if options.features is not None:
        world = _World(options.features, options.cifarn)
        for number in options.sets:
            for keep in KEEPS:
                yield (
                    {"data": "CIFAR-10N", "number": number, "part": "consensus", "keep": keep},
                    lambda number=number, keep=keep: world.consensus(number, keep),
                )
    for number in range(options.made):
        yield {"data": "made", "number": number, "part": "consensus"}, lambda number=number: measured_made(number)
    for number in options.asking if options.features is not None else ():
        yield {"data": "CIFAR-10N", "number": number, "part": "asking"}, lambda number=number: world.asking(number)


class _World:
    """CIFAR-10N with features."""

    def __init__(self, features: Path, cifarn: Path) -> None:
        self._x, self._y = read(features)
        human = torch.load(cifarn / "CIFAR-10_human.pt", weights_only=False)
        self._labels = np.stack([np.asarray(human[f"random_label{i}"], dtype=np.int64) for i in (1, 2, 3)], 1)
        self._test = slice(TEST_FROM, TEST_FROM + TESTED)

    def consensus(self, number: int, keep: float) -> dict[str, Any]:
        """Return the share of right consensus labels of each method, and of the rows that models predict right."""
        rows = slice((number - 1) * ROWS, number * ROWS)
        x, y = self._x[rows], self._y[rows]
        labels = thinned(self._labels[rows], keep, np.random.default_rng(0))
        scale = StandardScaler().fit(np.sqrt(x))
        found, seconds, ours = consensus_by(np.sqrt(x), x, labels, scale, np.random.default_rng(number))
        result: dict[str, Any] = {"right": {}, "model": {}, "seconds": seconds}
        test, truth = scale.transform(np.sqrt(self._x[self._test])), self._y[self._test]
        for name, given in {**found, "right labels": y}.items():
            if name != "right labels":
                result["right"][name] = float((given == y).mean())
            if name in ("majority", "CROWDLAB", "right labels"):
                model = logistic().fit(scale.transform(np.sqrt(x)), given)
                result["model"][f"logistic regression, {name}"] = float((model.predict(test) == truth).mean())
        result["model"][OURS] = float((ours.predict(self._x[self._test]) == truth).mean())
        if keep == KEEPS[0]:
            right = ConsensusClassifier(random_state=0).fit(x, y[:, None].repeat(3, 1))
            result["model"][f"{OURS}, right labels"] = float((right.predict(self._x[self._test]) == truth).mean())
        return result

    def asking(self, number: int) -> dict[str, Any]:
        """Return the share of right consensus labels after further labels of rows that are chosen in some way."""
        rows = slice((number - 1) * ROWS, number * ROWS)
        x, y, labels = self._x[rows], self._y[rows], self._labels[rows]
        rng = np.random.default_rng(number)
        place = rng.permuted(np.tile([0, 1, 2], (len(y), 1)), axis=1)  # which label each row has first, second, third
        one = np.full_like(labels, -1)
        every = np.arange(len(y))
        one[every, place[:, 0]] = labels[every, place[:, 0]]
        before = ConsensusClassifier(random_state=0).fit(x, one)
        given = one.max(1)
        doubt = before.oof_proba_[every, np.searchsorted(before.classes_, given)]
        chosen = {"ours": before.consensus_.rows_to_label(1000), "disagreement": np.argsort(doubt)[:1000]}
        right = {}
        for name, n in ASKED.items():
            asked = chosen.get(name.split(",")[0], rng.permutation(len(y))[:n])
            after = one.copy()
            if n:
                after[asked, place[asked, 1]] = labels[asked, place[asked, 1]]
            fitted = before if not n else ConsensusClassifier(random_state=0).fit(x, after)
            right[name] = float((fitted.consensus_.labels == y).mean())
        return {"right": right}


def measured_made(number: int) -> dict[str, Any]:
    """Return shares of right consensus labels of a simulated table, and whether each range of an accuracy holds."""
    x, y, labels, accuracy = made_table(number)
    found, _, ours = consensus_by(x, x, labels, StandardScaler().fit(x), np.random.default_rng(number))
    inside = [within(one, accuracy[int(one.name)]) for one in ours.consensus_.annotators]
    return {"right": {name: float((given == y).mean()) for name, given in found.items()}, "inside": inside}


def within(one: Annotator, accuracy: float) -> bool:
    """Return whether an accuracy is in the range that is estimated of an annotator."""
    lower, upper = one.estimated_range
    return bool(lower <= accuracy <= upper)


def thinned(labels: IntArray, keep: float, rng: np.random.Generator) -> IntArray:
    """Return labels of which some are -1, so that a row has `keep` labels: 3, 2, or 1 to 3 and 1.6 on average."""
    n, kept = len(labels), labels.copy()
    if keep == 2:
        kept[np.arange(n), rng.integers(3, size=n)] = -1
    elif keep < 2:
        for row, count in enumerate(rng.choice([1, 2, 3], n, p=[0.5, 0.4, 0.1])):
            kept[row, rng.permutation(3)[count:]] = -1
    return kept


def consensus_by(
    rooted: NDArray[Any], x: NDArray[Any], labels: IntArray, scale: StandardScaler, rng: np.random.Generator
) -> tuple[dict[str, IntArray], dict[str, float], ConsensusClassifier]:
    """Return the consensus labels and the seconds of each method, and our classifier."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    k = int(labels.max()) + 1
    votes = np.stack([(labels == c).sum(1) for c in range(k)], 1)
    found: dict[str, IntArray] = {"majority": (votes + 0.01 * rng.random(votes.shape)).argmax(1)}
    seconds: dict[str, float] = {}
    task, worker = np.nonzero(labels >= 0)
    long = pd.DataFrame({"task": task, "worker": worker, "label": labels[task, worker]})
    for name, method in CROWDKIT.items():
        start = time.process_time()
        import crowdkit.aggregation as crowdkit

        fitted = getattr(crowdkit, method)().fit(long)
        found[name] = fitted.labels_.reindex(range(len(labels))).to_numpy().astype(np.int64)
        seconds[name] = time.process_time() - start
    start = time.process_time()
    probs = np.full((len(labels), k), 1e-9)
    known = np.unique(found["majority"])
    probs[:, known] = cross_val_predict(
        logistic(), scale.transform(rooted), found["majority"], cv=3, method="predict_proba"
    )
    given = pd.DataFrame(np.where(labels < 0, np.nan, labels)).astype("Int64")
    quality = get_label_quality_multiannotator(given, probs / probs.sum(1, keepdims=True), verbose=False)
    found["CROWDLAB"] = quality["label_quality"]["consensus_label"].to_numpy().astype(np.int64)
    seconds["CROWDLAB"] = time.process_time() - start
    start = time.process_time()
    ours = ConsensusClassifier(random_state=0).fit(x, labels)
    found[OURS] = ours.consensus_.labels
    seconds[OURS] = time.process_time() - start
    return found, seconds, ours


def logistic() -> LogisticRegression:
    """Return the logistic regression that CROWDLAB gets its probabilities from."""
    return LogisticRegression(C=1e-3, max_iter=300)


def page(text: str, cells: list[dict[str, Any]]) -> str:
    """Return the page with its tables written anew."""
    for name, content in (("consensus", _consensus(cells)), ("asking", _asking(cells)), ("made", _made(cells))):
        before, _, rest = text.partition(BEGIN.format(name))
        text = f"{before}{BEGIN.format(name)}{content}\n{END.format(name)}{rest.partition(END.format(name))[2]}"
    return text


def _consensus(cells: list[dict[str, Any]]) -> str:
    rows = []
    for keep in KEEPS:
        own = [cell for cell in cells if cell["part"] == "consensus" and cell.get("keep") == keep]
        if not own:
            continue
        shares = {name: np.array([cell["right"][name] for cell in own]) for name in METHODS}
        ahead = 100 * (shares[OURS] - shares["CROWDLAB"])
        others = ahead[[cell["number"] != DEVELOPED_ON for cell in own]]
        p = f"{stats.ttest_1samp(others, 0).pvalue:#.2g}" if len(others) > 1 else "-"
        models = [_mean(cell["model"].get(name) for cell in own) for name in (OURS, f"{OURS}, right labels")]
        figures = [f"{100 * share.mean():.1f}" for share in shares.values()]
        rows.append([f"{keep:g}", str(len(own)), *figures, f"{ahead.mean():+.2f}", p, *models])
    head = [
        "labels a row",
        "sets",
        *METHODS,
        "ours - CROWDLAB",
        "p without the third set",
        "our model",
        "the same, right labels",
    ]
    return table(head, rows)


def _mean(shares: Iterator[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{100 * np.mean(known):.1f}" if known else ""


def _asking(cells: list[dict[str, Any]]) -> str:
    own = [cell["right"] for cell in cells if cell["part"] == "asking"]
    return table(["labels asked for", "right consensus labels, %"],
                 [[name, f"{100 * np.mean([right[name] for right in own]):.2f}"] for name in ASKED])  # fmt: skip


def _made(cells: list[dict[str, Any]]) -> str:
    own = [cell for cell in cells if cell["data"] == "made"]
    inside = np.concatenate([cell["inside"] for cell in own])
    rows = [[name, f"{100 * np.mean([cell['right'][name] for cell in own]):.1f}"] for name in METHODS]
    rows.append(["ranges of accuracies that hold", f"{100 * inside.mean():.1f}"])
    return table([f"{len(own)} simulated tables", "%"], rows)


if __name__ == "__main__":
    main()
