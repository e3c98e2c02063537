"""`mgce fit` on tables that nothing was chosen on, beside tuned opponents: `mgce_lab.studies.unseen --data FOLDER`.

The folder has the wheel of `mgce_lab.studies.unseen_tables`. LightGBM, XGBoost and CatBoost are needed beside the
extras of development: `pip install lightgbm xgboost-cpu catboost`. Results are one line each in results/unseen/, table
by table, so that a run that was stopped has whole tables. `python -m mgce_lab.studies.tables_page` writes
docs/tables.md of them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score, log_loss

from mgce import metrics
from mgce._machine import describe
from mgce.desk.tables.fit import FitPlan, run
from mgce_lab.engine.lines import Lines
from mgce_lab.studies.opponents import OPPONENTS, Fit
from mgce_lab.studies.tables import FloatArray, Rows
from mgce_lab.studies.unseen_tables import UNSEEN, noises, noisy_rows, read

RESULTS = Path("results/unseen/tables.jsonl")
OURS = "mgce fit"
SEED = 0
# Less is counted as this much in log-loss: 1,000 rows cannot tell that a class is rarer than 1 in 10,000, and a single
# zero would decide the mean.
LEAST = 1e-4


def main() -> None:
    """Fit, measure, and write each result as it comes."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.unseen", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the wheel with the tables")
    parser.add_argument("--tables", nargs="+", default=[*UNSEEN])
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of solvers that did not converge, and of classes too rare for the folds
    torch.set_num_threads(1)
    for name in options.tables:
        data = read(name, options.data)
        for kind, rate in noises(data):
            cell = {"table": name, "noise": kind, "rate": rate, "seed": SEED}
            complete(cell, lambda: noisy_rows(data, kind, rate, SEED), METHODS, options.results)  # noqa: B023


def complete(cell: dict[str, Any], rows: Callable[[], Rows], methods: dict[str, Any], results: Path) -> None:
    """Measure the methods that have no result in a cell yet."""
    lines = Lines(results, *cell, "method")
    left = [method for method in methods if cell | {"method": method} not in lines]
    drawn = rows() if left else None
    for method in left:
        assert drawn is not None
        record = cell | {"method": method} | methods[method](drawn, cell["seed"])
        lines.add(record | {"machine": _machine()}, unseen=["machine"])


def ours(rows: Rows, seed: int) -> dict[str, Any]:
    """`mgce fit` by default; log-loss and ECE are of q, what `--clean-probs` writes, and beside it of p and h."""
    start = time.process_time()
    fit = run(rows.frame, FitPlan("label", seed=seed))
    seconds = time.process_time() - start
    predictions = fit.model.predict(fit.model.columns.select(rows.test_frame))
    classes, right = fit.model.classes.astype(int), fit.model.right_labels
    assert predictions.q is not None and right is not None  # as the metric is accuracy
    q, p, h = (_all_classes(probs, classes, rows) for probs in (predictions.q, predictions.p, predictions.h))
    return {
        **quality(predictions.label.astype(int), q, rows, seconds),
        **{f"{key}_{of}": score(probs, rows) for of, probs in (("p", p), ("h", h)) for key, score in SCORES.items()},
        "n_train": len(rows.y),
        "share_wrong": round(float(rows.is_wrong.mean()), 4),
        "noise_rate": [round(value, 4) for value in (right.noise_rate, right.lower, right.upper)],
        "chosen": fit.choice.trial.name,
        "trials": {trial.name: round(trial.accuracy, 4) for trial in fit.choice.trials},
    }


def by_opponent(fit: Fit) -> Callable[[Rows, int], dict[str, Any]]:
    """Measure an opponent; classes without a row are left out of what it is fitted to."""

    def measure(rows: Rows, seed: int) -> dict[str, Any]:
        classes, y = np.unique(rows.y, return_inverse=True)
        start = time.process_time()
        model = fit(rows.X, y, seed)
        seconds = time.process_time() - start
        probs = _all_classes(model.predict_proba(rows.X_test), classes[model.classes_], rows)
        return quality(probs.argmax(1), probs, rows, seconds)

    return measure


def _all_classes(probs: FloatArray, classes: Any, rows: Rows) -> FloatArray:
    """Return the probabilities of all classes, also of those that the model was not shown a row of."""
    result = np.zeros((len(probs), int(max(rows.y.max(), rows.y_test.max())) + 1))
    result[:, classes] = probs
    return result / result.sum(1, keepdims=True)  # rounding, of boosting in single precision


def quality(label: Any, probs: FloatArray, rows: Rows, seconds: float) -> dict[str, Any]:
    """Compare with the right labels of the test rows."""
    return {
        "accuracy": round(float((label == rows.y_test).mean()), 5),
        "balanced": round(float(balanced_accuracy_score(rows.y_test, label)), 5),
        **{key: score(probs, rows) for key, score in SCORES.items()},
        "seconds": round(seconds, 2),
    }


def _log_loss(probs: FloatArray, rows: Rows) -> float:
    probs = probs.clip(LEAST)
    probs /= probs.sum(1, keepdims=True)
    return round(float(log_loss(rows.y_test, probs, labels=np.arange(probs.shape[1]))), 5)


def _ece(probs: FloatArray, rows: Rows) -> float:
    target = torch.from_numpy(rows.y_test)
    return round(float(metrics.expected_calibration_error(torch.from_numpy(probs), target)), 5)


def _machine() -> str:
    facts = describe()
    return ", ".join(f"{name} {facts[name]}" for name in ("processor", "threads", "torch", "scikit-learn", "mgce"))


SCORES = {"log_loss": _log_loss, "ece": _ece}
METHODS = {OURS: ours} | {name: by_opponent(fit) for name, fit in OPPONENTS.items()}

if __name__ == "__main__":
    main()
