"""Estimators on tables with 40 % wrong labels: `mgce_lab.studies.noisy_tables` fits those not yet in the results.

Every estimator has the same rows, the same wrong labels and the machine to itself; the test labels are right.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cleanlab.classification import CleanLearning
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from mgce import metrics, noise
from mgce._machine import describe
from mgce.desk.files import preprocessor
from mgce.estimators import MGCEClassifierCV, MGCEMLPClassifier
from mgce_lab.data import load
from mgce_lab.engine.lines import Lines
from mgce_lab.studies import estimators_page

DATASETS = ("letter", "adult")
NOISE_RATE = 0.4
HIDDEN = (1024,)  # as the paper has
ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "MGCEClassifierCV": lambda seed: MGCEClassifierCV(),
    'MGCEMLPClassifier(beta="cv")': lambda seed: MGCEMLPClassifier(HIDDEN, beta="cv", random_state=seed),
    "LogisticRegression": lambda seed: LogisticRegression(max_iter=1000),
    "MLPClassifier": lambda seed: MLPClassifier(HIDDEN, early_stopping=True, random_state=seed),
    "HistGradientBoostingClassifier": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "CleanLearning(LogisticRegression)": lambda seed: CleanLearning(LogisticRegression(max_iter=1000), seed=seed),
    "CleanLearning(HistGradientBoostingClassifier)": lambda seed: CleanLearning(
        HistGradientBoostingClassifier(random_state=seed), seed=seed
    ),
}


def main() -> None:
    """Fit every estimator on every data set and seed that has no result yet, and write each result as it comes."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.noisy_tables", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    lines = Lines(estimators_page.NOISY_TABLES, "dataset", "seed", "estimator")
    for dataset in options.datasets:
        for seed in range(options.seeds):
            data = _noisy(dataset, seed, options.data_dir)
            for name, make in ESTIMATORS.items():
                cell = {"dataset": dataset, "seed": seed, "estimator": name}
                if cell not in lines:
                    lines.add(cell | measure(make(seed), *data) | {"machine": _machine()}, unseen=["machine"])
    estimators_page.main()


def measure(estimator: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Fit once; give the seconds it took, the test accuracy and the top-label ECE of `predict_proba`.

    Our estimators have a second output, the worst-case probabilities: `ece_p` is their ECE. Beta is the chosen one.
    """
    start = time.perf_counter()
    estimator.fit(X, y)
    result: dict[str, Any] = {"seconds": time.perf_counter() - start}
    probs = torch.as_tensor(np.asarray(estimator.predict_proba(X_test)), dtype=torch.float64)
    target = torch.from_numpy(y_test)
    result["accuracy"] = float((estimator.predict(X_test) == y_test).mean())
    result["ece"] = float(metrics.expected_calibration_error(probs, target))
    if hasattr(estimator, "worst_case_proba"):
        worst_case = torch.from_numpy(estimator.worst_case_proba(X_test))
        result["ece_p"] = float(metrics.expected_calibration_error(worst_case, target))
        result["beta"] = "inf" if math.isinf(estimator.beta_) else estimator.beta_
    return result


def _noisy(dataset: str, seed: int, data_dir: Path | None) -> tuple[Any, ...]:
    """Return training features with partly wrong labels, and test features with right ones."""
    table = load(dataset, data_dir=data_dir)
    rows = np.arange(len(table.target))
    if table.n_train is None:
        train, test = train_test_split(rows, test_size=0.2, random_state=seed, stratify=table.target)
    else:
        train, test = np.split(rows, [table.n_train])
    transform = preprocessor(table.features).fit(table.features.iloc[train])
    transition = noise.symmetric(len(table.classes), NOISE_RATE)
    labels = torch.from_numpy(table.target[train])
    noisy = noise.corrupt(labels, transition, torch.Generator().manual_seed(seed)).labels.numpy()
    X, X_test = (transform.transform(table.features.iloc[part]) for part in (train, test))
    return X, noisy, X_test, table.target[test]


def _machine() -> str:
    facts = describe()
    names = ("processor", "threads", "torch", "scikit-learn", "mgce")
    return ", ".join(f"{name} {facts[name]}" for name in names)


if __name__ == "__main__":
    main()
