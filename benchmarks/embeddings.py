"""Heads on frozen features under six kinds of wrong labels: ours against five tuned baselines, on CIFAR-10.

`python -m benchmarks.embeddings --features FOLDER --cifarn FOLDER` reads parts `train-A-B-128.npz` (arrays x and y) of
the features of CIFAR-10's training rows, and `CIFAR-10_human.pt`. Five disjoint sets of 6,000 rows are trained on; the
rows from 30,000 with their right labels are the test. A run that is stopped goes on where it was; each fit is a line of
`results/embeddings/SET.jsonl`. `--page` writes `docs/embeddings.md` of the lines that are there.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from benchmarks.markdown import table
from mgce import MGCEEmbeddingClassifier, find_suspects

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "embeddings", ROOT / "docs" / "embeddings.md"
ROWS, SETS, TEST_FROM = 6000, 5, 30_000
NOISES = {
    "right": "right labels",
    "people": "people, worst labels",
    "random1": "people, random labels",
    "sym40": "symmetric 40 %",
    "sym60": "symmetric 60 %",
    "asym40": "asymmetric 40 %",
}
HUMAN = {"people": "worse_label", "random1": "random_label1"}
CONFUSED = np.array([0, 1, 0, 5, 7, 3, 6, 7, 8, 1])  # truck to automobile, bird to airplane, deer to horse, cat and dog
OURS = "MGCEEmbeddingClassifier"
FOLDS = 3


def logistic(C: float = 1e-3) -> LogisticRegression:
    """Return the logistic regression that baselines are made of."""
    return LogisticRegression(C=C, max_iter=200)


def tuned(model: Any, **grid: Any) -> GridSearchCV:
    """Return a search by accuracy on noisy folds."""
    return GridSearchCV(model, grid, cv=StratifiedKFold(FOLDS, shuffle=True, random_state=0))


def cleaned(C: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2)) -> Any:
    """Return cleanlab's CleanLearning of logistic regression, C chosen by noisy folds."""
    from cleanlab.classification import CleanLearning

    def fitted(X: Any, y: Any) -> Any:
        best = tuned(logistic(), C=list(C)).fit(X, y).best_params_["C"]
        return CleanLearning(logistic(best), cv_n_folds=FOLDS, seed=0).fit(X, y)

    return _Fitted(fitted)


class _Fitted:
    """A model whose `fit` is a function of rows and labels."""

    def __init__(self, make: Callable[[Any, Any], Any]) -> None:
        self._make = make

    def fit(self, X: Any, y: Any) -> Any:
        return self._make(X, y)


MODELS: dict[str, Callable[[], Any]] = {
    OURS: lambda: MGCEEmbeddingClassifier(random_state=0),
    "logistic regression": lambda: tuned(logistic(), C=[1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2]),
    "LDA, Ledoit-Wolf": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "CleanLearning": cleaned,
    "nearest neighbours": lambda: tuned(
        make_pipeline(Normalizer(), KNeighborsClassifier()), kneighborsclassifier__n_neighbors=[10, 20, 50, 100]
    ),
    "boosting, 50 components": lambda: tuned(
        make_pipeline(
            PCA(50, random_state=0), HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=8, random_state=0)
        ),
        histgradientboostingclassifier__learning_rate=[0.03, 0.1],
    ),
}
# Baselines of suspects: the margin of a label in probabilities of the same folds.
SUSPECTS = {"logistic regression": logistic(1e-4), "LDA, Ledoit-Wolf": MODELS["LDA, Ledoit-Wolf"]()}


def main() -> None:
    """Fit what is not there yet, then write the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embeddings", description=__doc__)
    parser.add_argument("--features", type=Path, help="folder of train-A-B-128.npz")
    parser.add_argument("--cifarn", type=Path, help="folder of CIFAR-10_human.pt")
    parser.add_argument("--sets", type=int, nargs="+", default=list(range(1, SETS + 1)))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--noises", nargs="+", default=list(NOISES), choices=list(NOISES))
    parser.add_argument("--page", action="store_true", help="write docs/embeddings.md")
    options = parser.parse_args()
    if options.features is not None:
        if options.cifarn is None:
            parser.error("--features needs --cifarn")
        torch.set_num_threads(1)
        _run(options)
    if options.page:
        from benchmarks import embeddings_growth, embeddings_text  # which import this module

        parts = [page(records()), embeddings_text.section(), embeddings_growth.section()]
        PAGE.write_text("\n".join(part for part in parts if part))


def _run(options: argparse.Namespace) -> None:
    features, right = read(options.features)
    human = torch.load(options.cifarn / "CIFAR-10_human.pt", weights_only=False)
    RESULTS.mkdir(parents=True, exist_ok=True)
    for number in options.sets:
        done = {(line["noise"], line["model"]) for line in records() if line["set"] == number}
        for noise in options.noises:
            for name in options.models:
                if (noise, name) not in done:
                    line = {"set": number, "noise": noise, "model": name}
                    line |= measured(features, right, human, number, noise, name)
                    with (RESULTS / f"{number}.jsonl").open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    shown = {key: value for key, value in line.items() if key != "wrong"}
                    print(json.dumps(shown), flush=True)


def read(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return features and right labels of all parts, in the order of the training set."""
    parts = sorted(folder.glob("train-*-*.npz"), key=lambda path: int(re.findall(r"\d+", path.name)[0]))
    loaded = [np.load(path) for path in parts]
    right = np.concatenate([part["y"] for part in loaded]).astype(np.int64)
    return np.concatenate([part["x"] for part in loaded]).astype(np.float32), right


def corrupted(right: NDArray[np.int64], human: Any, rows: NDArray[np.int64], noise: str) -> NDArray[np.int64]:
    """Return the labels of some rows under one of the six noises."""
    if noise == "right":
        return right[rows]
    if noise in HUMAN:
        return np.asarray(human[HUMAN[noise]]).astype(np.int64)[rows]
    rng, y = np.random.default_rng([int(rows[0]), int(noise[-2:])]), right[rows]
    flipped = rng.random(len(y)) < int(noise[-2:]) / 100
    other = CONFUSED[y] if noise.startswith("asym") else (y + rng.integers(1, 10, len(y))) % 10
    return np.where(flipped, other, y)


def measured(X: Any, right: Any, human: Any, number: int, noise: str, name: str) -> dict[str, Any]:
    """Return what one model does on one set of pictures."""
    rows = np.arange((number - 1) * ROWS, number * ROWS)
    given = corrupted(right, human, rows, noise)
    return line_of(MODELS[name], SUSPECTS, name, Split(X[rows], given, right[rows], X[TEST_FROM:], right[TEST_FROM:]))


class Split(NamedTuple):
    """Training rows with given and right labels, and test rows with right ones."""

    train: Any
    given: Any
    right: Any
    test: Any
    right_test: Any


def line_of(make: Callable[[], Any], judges: dict[str, Any], name: str, split: Split) -> dict[str, Any]:
    """Return seconds of the processor, accuracy, which test rows are wrong, and the average precision of suspects."""
    train, given, right, test, right_test = split
    if name != OURS:
        scale = StandardScaler().fit(train)
        train, test = scale.transform(train), scale.transform(test)
    began = time.process_time()
    model = make().fit(train, given)
    seconds = time.process_time() - began
    wrong = model.predict(test) != right_test
    line: dict[str, Any] = {"seconds": round(seconds, 1), "accuracy": 1 - float(wrong.mean())}
    line["wrong"] = np.packbits(wrong).tobytes().hex()
    if (given != right).any() and (name == OURS or name in judges):
        probs = (
            model.oof_proba_
            if name == OURS
            else cross_val_predict(
                judges[name],
                train,
                given,
                cv=StratifiedKFold(FOLDS, shuffle=True, random_state=0),
                method="predict_proba",
            )
        )
        line["suspects"] = float(average_precision_score(given != right, score(probs, given, name == OURS)))
    return line


def score(probs: Any, given: Any, ours: bool) -> Any:
    """Return how suspect each label is: by `find_suspects`, or by the margin of the label, the best of a library."""
    if ours:
        return find_suspects(probs, given, given="probs").score
    rows = np.arange(len(given))
    others = probs.copy()
    others[rows, given] = -1
    return others.max(1) - probs[rows, given]


def records() -> list[dict[str, Any]]:
    """Return the lines that are there."""
    return [json.loads(line) for path in sorted(RESULTS.glob("*.jsonl")) for line in path.read_text().splitlines()]


def page(lines: list[dict[str, Any]]) -> str:
    """Return docs/embeddings.md."""
    cells = {(line["noise"], line["model"], line["set"]): line for line in lines}
    sets = sorted({line["set"] for line in lines})

    def values(noise: str, name: str, key: str) -> list[float]:
        return [cells[noise, name, s][key] for s in sets if key in cells.get((noise, name, s), {})]

    def mean(noise: str, name: str, key: str, digits: str) -> str:
        found = values(noise, name, key)
        return format(np.mean(found), digits) if found else ""

    accuracy = [[name, *(mean(noise, name, "accuracy", ".1%").rstrip("%") for noise in NOISES)] for name in MODELS]
    seconds = [[name, *(mean(noise, name, "seconds", ".0f") for noise in NOISES)] for name in MODELS]
    suspects = [
        [name, *(mean(noise, name, "suspects", ".3f") for noise in NOISES if noise != "right")]
        for name in (OURS, *SUSPECTS)
    ]
    paired = [[NOISES[noise], *difference(cells, sets, noise, list(MODELS))] for noise in NOISES]
    return "\n".join(
        [
            "# Heads on frozen features",
            "",
            "Percent right on 20,000 test rows of CIFAR-10.",
            f"Each figure is the mean of {len(sets)} disjoint training sets of 6,000 rows.",
            "The features come from EfficientNet-Lite0, which was trained on ImageNet.",
            "All penalties and counts are chosen by accuracy on noisy folds. One thread.",
            "",
            table(["model", *NOISES.values()], accuracy),
            "",
            "## Differences",
            "",
            f"`{OURS}` minus the baseline that is best on the test rows, in points, on the same sets.",
            "The interval is Student's over the sets at 95 %; a single set has that of McNemar over test rows.",
            "",
            table(["labels", "best baseline", "difference", "interval"], paired),
            "",
            "## Suspects",
            "",
            "Average precision of the ranking of wrong labels, from probabilities out of fold.",
            "",
            table(["model", *[NOISES[noise] for noise in NOISES if noise != "right"]], suspects),
            "",
            "## Seconds of one thread, the choice included",
            "",
            table(["model", *NOISES.values()], seconds),
            "",
        ]
    )


def difference(cells: dict[Any, Any], sets: list[int], noise: str, names: list[str]) -> list[str]:
    """Return the best baseline of some models, the mean difference to it in points, and an interval of 95 %."""
    complete = [s for s in sets if all((noise, name, s) in cells for name in names)]
    if not complete:
        return ["", "", ""]
    means = {name: np.mean([cells[noise, name, s]["accuracy"] for s in complete]) for name in names if name != OURS}
    best = max(means, key=lambda name: means[name])
    gaps = np.array([cells[noise, OURS, s]["accuracy"] - cells[noise, best, s]["accuracy"] for s in complete]) * 100
    if len(gaps) > 1:
        half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
    else:
        ours, other = (_wrong(cells[noise, name, complete[0]]) for name in (OURS, best))
        paired = other.astype(float) - ours
        half = 100 * stats.norm.ppf(0.975) * paired.std() / np.sqrt(len(paired))
    return [best, f"{gaps.mean():+.1f}", f"{gaps.mean() - half:+.1f} to {gaps.mean() + half:+.1f}"]


def _wrong(line: dict[str, Any]) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(bytes.fromhex(line["wrong"]), np.uint8))


if __name__ == "__main__":
    main()
