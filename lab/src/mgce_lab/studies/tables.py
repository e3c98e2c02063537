"""`mgce fit` on ten public tables, beside what people use: `mgce_lab.studies.tables` fits what has no result yet.

Every method has the same rows and the same wrong labels, and the settings that its library has by default; the test
labels are right. Results are one line each in results/tables/, seed by seed, so that a run that was stopped has whole
seeds; `python -m mgce_lab.studies.tables_page` makes docs/tables.md of them, `python -m
mgce_lab.studies.tables_picture` a picture.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from cleanlab.classification import CleanLearning
from cleanlab.rank import get_label_quality_scores
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.neural_network import MLPClassifier

from mgce import metrics, noise
from mgce._machine import describe
from mgce.desk.files import preprocessor
from mgce.desk.tables.fit import FitPlan, run
from mgce_lab.data import load
from mgce_lab.engine.lines import Lines
from mgce_lab.studies.tables_page import RESULTS, TABLES
from mgce_lab.studies.tables_page import main as write_page
from mgce_lab.studies.tables_picture import main as draw_picture

NOISES = (("symmetric", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("pair", 0.4))
# Few training rows make wrong labels harder, and let all of it end within hours on one core.
TRAIN, TEST = 1_000, 4_000
FloatArray = np.ndarray[Any, np.dtype[np.float64]]


class Rows(NamedTuple):
    """Training rows with labels partly wrong, as a table and as numbers, and test rows with right labels."""

    frame: Any
    X: FloatArray
    y: Any
    is_wrong: Any
    test_frame: Any
    X_test: FloatArray
    y_test: Any


def main() -> None:
    """Fit, measure, and write each result as it comes."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.tables", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of solvers that did not converge, and of classes too rare for the folds
    torch.set_num_threads(1)
    lines = Lines(options.results, "table", "noise", "rate", "seed", "method")
    for seed in range(options.seeds):
        for table in options.tables:
            for kind, rate in _noises(table, options.data_dir):
                cell = {"table": table, "noise": kind, "rate": rate, "seed": seed}
                left = [name for name in METHODS if cell | {"method": name} not in lines]
                if left:
                    rows = noisy_rows(table, kind, rate, seed, options.data_dir)
                    for record in _measured(rows, seed, left):
                        lines.add(cell | record | {"machine": _machine()}, unseen=["machine"])
    if options.results == RESULTS:
        write_page()
        draw_picture()


def _noises(table: str, data_dir: Path | None) -> list[tuple[str, float]]:
    """Return the kinds and rates of noise; with two classes pair noise is symmetric noise."""
    two = len(load(table, data_dir=data_dir).classes) == 2
    return [(kind, rate) for kind, rate in NOISES if not (two and kind == "pair")]


def noisy_rows(table: str, kind: str, rate: float, seed: int, data_dir: Path | None) -> Rows:
    """Draw training and test rows, and make training labels wrong at a rate."""
    data = load(table, data_dir=data_dir)
    k = len(data.classes)
    order = np.random.default_rng(seed).permutation(len(data.target))
    n_test = min(TEST, len(order) // 4)
    test, train = order[:n_test], order[n_test : n_test + TRAIN]
    transition = noise.symmetric(k, rate) if kind == "symmetric" else noise.pair_flip(k, rate)
    right = torch.from_numpy(data.target[train])
    y = noise.corrupt(right, transition, torch.Generator().manual_seed(seed)).labels.numpy()
    transform = preprocessor(data.features).fit(data.features.iloc[train])
    # Two digits, so that their order as text is that of the classes.
    frame = data.features.iloc[train].assign(label=[f"{label:02d}" for label in y]).reset_index(drop=True)
    X, X_test = (transform.transform(data.features.iloc[part]) for part in (train, test))
    return Rows(frame, X, y, y != right.numpy(), data.features.iloc[test], X_test, data.target[test])


def _measured(rows: Rows, seed: int, names: list[str]) -> Any:
    for name in names:
        yield {"method": name} | METHODS[name](rows, seed)


def _fit(rows: Rows, seed: int) -> dict[str, Any]:
    """`mgce fit` by default: it holds out a quarter of the rows for its certificate, and fits to all in the end."""
    start = time.process_time()
    fit = run(rows.frame, FitPlan("label", seed=seed))
    seconds = time.process_time() - start
    predictions = fit.model.predict(fit.model.columns.select(rows.test_frame))
    found = np.empty(len(rows.y))
    found[fit.judgement.order] = -np.arange(len(rows.y))  # the most suspect has the highest score
    share, right = fit.share, fit.model.right_labels
    assert right is not None  # as the metric is accuracy
    return {
        **_quality(predictions.h, rows, seconds),
        "ece_p": _ece(predictions.p, rows),
        "ece_q": _ece(right.probs(predictions.margins), rows),
        **_ranking(found, rows),
        "share_wrong": [share.share, share.lower, share.upper],
        "noise_rate": [round(value, 4) for value in (right.noise_rate, right.lower, right.upper)],
        "chosen": fit.choice.trial.name,
    }


def _by_scikit_learn(make: Callable[[int], Any], suspects: bool = False) -> Callable[..., dict[str, Any]]:
    """Measure a classifier, and if asked how cleanlab ranks the labels by its probabilities out of five folds."""

    def measure(rows: Rows, seed: int) -> dict[str, Any]:
        start = time.process_time()
        model = make(seed).fit(rows.X, rows.y)
        result = _quality(_all_classes(model, rows), rows, time.process_time() - start)
        if suspects:
            probs = cross_val_predict(make(seed), rows.X, rows.y, cv=5, method="predict_proba")
            result |= _ranking(-get_label_quality_scores(rows.y, probs, method="normalized_margin"), rows)
        return result

    return measure


def _clean_learning(rows: Rows, seed: int) -> dict[str, Any]:
    """Cleanlab's classifier: it finds wrong labels by five folds, leaves their rows out, and fits to the others."""
    start = time.process_time()
    model = CleanLearning(HistGradientBoostingClassifier(random_state=seed), seed=seed).fit(rows.X, rows.y)
    result = _quality(_all_classes(model.clf, rows), rows, time.process_time() - start)
    return result | _ranking(-model.get_label_issues()["label_quality"].to_numpy(), rows)


def _all_classes(model: Any, rows: Rows) -> FloatArray:
    """Return the probabilities of all classes, also of those that the model was not shown a row of."""
    probs = np.zeros((len(rows.X_test), int(max(rows.y.max(), rows.y_test.max())) + 1))
    probs[:, model.classes_] = model.predict_proba(rows.X_test)
    return probs


def _quality(probs: FloatArray, rows: Rows, seconds: float) -> dict[str, Any]:
    accuracy = float((probs.argmax(1) == rows.y_test).mean())
    return {"accuracy": round(accuracy, 5), "ece": _ece(probs, rows), "seconds": round(seconds, 2)}


def _ece(probs: FloatArray, rows: Rows) -> float:
    probs = probs / probs.sum(1, keepdims=True)  # rounding, of boosting in single precision
    target = torch.from_numpy(rows.y_test)
    return round(float(metrics.expected_calibration_error(torch.from_numpy(probs), target)), 5)


def _ranking(score: FloatArray, rows: Rows) -> dict[str, Any]:
    """Measure how well a score ranks wrong labels before right ones; nothing where none is wrong."""
    if not rows.is_wrong.any():
        return {}
    ap, auroc = average_precision_score(rows.is_wrong, score), roc_auc_score(rows.is_wrong, score)
    return {"ap": round(float(ap), 4), "auroc": round(float(auroc), 4)}


def _machine() -> str:
    facts = describe()
    return ", ".join(f"{name} {facts[name]}" for name in ("processor", "threads", "torch", "scikit-learn", "mgce"))


METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    "mgce fit": _fit,
    "logistic regression": _by_scikit_learn(lambda seed: LogisticRegression(max_iter=1000), suspects=True),
    "gradient boosting": _by_scikit_learn(lambda seed: HistGradientBoostingClassifier(random_state=seed)),
    "random forest": _by_scikit_learn(lambda seed: RandomForestClassifier(random_state=seed), suspects=True),
    "multilayer perceptron": _by_scikit_learn(lambda seed: MLPClassifier(random_state=seed)),
    "CleanLearning(boosting)": _clean_learning,
}


if __name__ == "__main__":
    main()
