"""Boosted trees on tables with wrong labels: `python -m mgce_lab.studies.boosting` fits those not yet in the results.

The library's own cross-entropy and MGCE have the same rows, the same wrong labels, five settings each, and the same way
to choose among them and to stop: the accuracy on held-out rows whose labels are as wrong. The test labels are right.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import torch
import xgboost
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from mgce import noise
from mgce.desk.files import preprocessor
from mgce.integrations.lightgbm import MGCELGBMClassifier
from mgce.integrations.xgboost import MGCEXGBClassifier
from mgce_lab.data import load
from mgce_lab.data.idx import read_idx
from mgce_lab.engine.lines import Lines

RESULTS = Path("results/boosting/tables.jsonl")
TABLES = ("digits", "breast_cancer", "adult", "covertype", "fashion", "letter")
RATES = (0.0, 0.2, 0.4)
# Enough rows for trees, few enough that all fits take an hour or two on one core.
TRAIN, TEST = 2000, 2000
ROUNDS, PATIENCE = 300, 30
HELD_OUT = 0.2
CE_GRID = [(0.1, 1.0), (0.1, 5.0), (0.1, 20.0), (0.03, 5.0), (0.3, 5.0)]  # learning rate, min_child_weight
MGCE_GRID = [(1.4, 5.0), (1.2, 5.0), (2.0, 5.0), (5.0, 5.0), (1.4, 20.0)]  # beta, min_child_weight


class Data(NamedTuple):
    """Rows to train on and to choose by, whose labels are noisy, and clean rows to test on."""

    X: Any
    y: Any
    X_held: Any
    y_held: Any
    X_test: Any
    y_test: Any


def main() -> None:
    """Fit, measure, and write each result as it comes."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.boosting", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--table", action="store_true", help="print what is there, and fit nothing")
    options = parser.parse_args()
    if options.table:
        print(table_of(RESULTS.read_text().splitlines()))
        return
    lines = Lines(RESULTS, "table", "rate", "seed", "method")
    for seed in range(options.seeds):
        for table in TABLES:
            for rate in RATES:
                data = None
                for method, measure in METHODS.items():
                    cell = {"table": table, "rate": rate, "seed": seed, "method": method}
                    if cell in lines:
                        continue
                    data = data or noisy_data(table, rate, seed, options.data_dir)
                    start = time.perf_counter()
                    record = cell | measure(data)
                    lines.add(record | {"seconds": round(time.perf_counter() - start, 1)})


def table_of(lines: list[str]) -> str:
    """Return the mean accuracies in percent as Markdown; a cell that lacks a seed that others have is left empty."""
    accuracy: dict[tuple[str, float, str], list[float]] = {}
    for record in map(json.loads, lines):
        accuracy.setdefault((record["table"], record["rate"], record["method"]), []).append(100 * record["accuracy"])
    rows = [f"| table | wrong labels, % | {' | '.join(METHODS)} |", "|---" * (2 + len(METHODS)) + "|"]
    for name in TABLES:
        for rate in RATES:
            found = [accuracy.get((name, rate, method), []) for method in METHODS]
            most = max(map(len, found))
            cells = [f"{np.mean(values):.1f}" if values and len(values) == most else "" for values in found]
            rows.append(f"| {name} | {100 * rate:.0f} | {' | '.join(cells)} |")
    return "\n".join(rows)


def noisy_data(table: str, rate: float, seed: int, data_dir: Path) -> Data:
    """Draw the rows of a seed, and make the labels to train on and to choose by wrong at a rate."""
    X, y = read(table, data_dir)
    rows = np.random.default_rng(seed).permutation(len(y))[: TRAIN + TEST]
    n_test = min(TEST, len(rows) // 3)
    X, X_test, y, y_test = train_test_split(X[rows], y[rows], test_size=n_test, random_state=seed, stratify=y[rows])
    transition = noise.symmetric(int(y.max()) + 1, rate)
    y = noise.corrupt(torch.from_numpy(y), transition, torch.Generator().manual_seed(seed)).labels.numpy()
    X, X_held, y, y_held = train_test_split(X, y, test_size=HELD_OUT, random_state=seed)
    return Data(X, y, X_held, y_held, X_test, y_test)


def read(table: str, data_dir: Path) -> tuple[Any, Any]:
    """Return all rows of a table as numbers."""
    if table in ("digits", "breast_cancer"):
        return {"digits": load_digits, "breast_cancer": load_breast_cancer}[table](return_X_y=True)
    if table == "covertype":
        rows = np.loadtxt(data_dir / "uci/covtype_random176997.data.gz", delimiter=",", max_rows=20000)
        return rows[:, :-1], rows[:, -1].astype(np.int64) - 1
    if table == "fashion":  # 7 x 7 means of 4 x 4 pixels
        folder = data_dir / "FashionMNIST/raw"
        images = np.asarray(read_idx(folder / "train-images-idx3-ubyte.gz"), dtype=np.float32)[:10000]
        labels = np.asarray(read_idx(folder / "train-labels-idx1-ubyte.gz"), dtype=np.int64)[:10000]
        return images.reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(-1, 49), labels
    frame = load(table, data_dir=data_dir)
    return preprocessor(frame.features).fit_transform(frame.features), frame.target


def _choose(data: Data, fits: Callable[[Any], tuple[Any, float]], grid: list[Any]) -> dict[str, Any]:
    """Fit each setting; give the test accuracy of the first, and of the one that is best on the held-out rows."""
    tested, held, chosen = [], [], []
    for setting in grid:
        predict, score = fits(setting)
        tested.append(float((predict(data.X_test) == data.y_test).mean()))
        held.append(score)
        chosen.append(setting)
    best = int(np.argmax(held))
    return {"accuracy": tested[best], "setting": chosen[best], "first": tested[0], "all": tested}


def xgboost_ce(data: Data) -> dict[str, Any]:
    """Measure XGBoost's cross-entropy."""
    k = int(max(data.y.max(), data.y_held.max())) + 1
    train, held = xgboost.DMatrix(data.X, data.y), xgboost.DMatrix(data.X_held, data.y_held)

    def fit(setting: tuple[float, float]) -> tuple[Any, float]:
        params = {
            "objective": "multi:softprob",
            "num_class": k,
            "learning_rate": setting[0],
            "min_child_weight": setting[1],
            "eval_metric": "merror",
            "nthread": 1,
        }
        early = xgboost.callback.EarlyStopping(rounds=PATIENCE, metric_name="merror")
        trees = xgboost.train(params, train, ROUNDS, [(held, "held_out")], callbacks=[early], verbose_eval=False)
        last = (0, trees.best_iteration + 1)
        return lambda X: trees.predict(xgboost.DMatrix(X), iteration_range=last).argmax(1), -trees.best_score

    return _choose(data, fit, CE_GRID)


def xgboost_default(data: Data) -> dict[str, Any]:
    """Measure XGBoost with its defaults: 100 rounds at a learning rate of 0.3, without early stopping."""
    clf = xgboost.XGBClassifier(n_jobs=1).fit(data.X, data.y)
    return {"accuracy": float((clf.predict(data.X_test) == data.y_test).mean())}


def lightgbm_ce(data: Data) -> dict[str, Any]:
    """Measure LightGBM's cross-entropy."""
    k = int(max(data.y.max(), data.y_held.max())) + 1

    def fit(setting: tuple[float, float]) -> tuple[Any, float]:
        # LightGBM's own least sum of second derivatives is 0.001, and that of XGBoost 1: both are among these.
        params = {
            "objective": "multiclass",
            "num_class": k,
            "learning_rate": setting[0],
            "min_sum_hessian_in_leaf": 0.001 if setting[1] == 1.0 else setting[1],
            "metric": "multi_error",
            "verbosity": -1,
            "num_threads": 1,
        }
        train = lightgbm.Dataset(data.X, data.y)
        held = lightgbm.Dataset(data.X_held, data.y_held, reference=train)
        early = lightgbm.early_stopping(PATIENCE, verbose=False)
        trees = lightgbm.train(params, train, ROUNDS, [held], callbacks=[early])
        score = -trees.best_score["valid_0"]["multi_error"]
        return lambda X: np.asarray(trees.predict(X, num_iteration=trees.best_iteration)).argmax(1), score

    return _choose(data, fit, CE_GRID)


def _mgce(family: Any) -> Callable[[Data], dict[str, Any]]:
    def measure(data: Data) -> dict[str, Any]:
        def fit(setting: tuple[float, float]) -> tuple[Any, float]:
            clf = family(
                setting[0],
                min_child_weight=setting[1],
                n_estimators=ROUNDS,
                n_iter_no_change=PATIENCE,
                validation_fraction=HELD_OUT,
                n_jobs=1,
                random_state=0,
            )
            clf = _fit(clf, data)
            return clf.predict, float((clf.predict(data.X_held) == data.y_held).mean())

        return _choose(data, fit, MGCE_GRID)

    return measure


def _fit(clf: Any, data: Data) -> Any:
    """Fit with the held-out rows by which cross-entropy stops early too."""
    n = len(data.y)
    clf._split = lambda rows, index, random_state: (rows[rows < n], rows[rows >= n])
    stack = np.concatenate if isinstance(data.X, np.ndarray) else sparse.vstack
    return clf.fit(stack([data.X, data.X_held]), np.concatenate([data.y, data.y_held]))


METHODS: dict[str, Callable[[Data], dict[str, Any]]] = {
    "XGBoost, its default": xgboost_default,
    "XGBoost, cross-entropy": xgboost_ce,
    "XGBoost, MGCE": _mgce(MGCEXGBClassifier),
    "LightGBM, cross-entropy": lightgbm_ce,
    "LightGBM, MGCE": _mgce(MGCELGBMClassifier),
}


if __name__ == "__main__":
    main()
