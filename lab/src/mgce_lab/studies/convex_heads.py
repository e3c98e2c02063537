"""The convex head on frozen features: how its width, beta and features decide, and how long it takes.

`python -m mgce_lab.studies.convex_heads EMBEDDINGS CIFARN --out FILE` reads frozen features of two parts of CIFAR-10's
training set, `train-0-6000.npz` and `held-6000-9000.npz` with arrays x and y, and `CIFAR-10_human.pt`. It writes a
record, and prints the tables of its page. `--parts` alone prints the tables of a record that is there.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mgce import MGCEClassifier
from mgce._machine import describe
from mgce.estimators.linear import automatic_lambda0
from mgce.linear import EmptyUncertaintySetError, fit_linear
from mgce.linear.objective import trivial_value
from mgce_lab.engine.markdown import machine_line, table

PARTS = ("times", "theory", "corrected", "widths")
WIDTHS = (0.05, 0.03, 0.02, 0.013, 0.008, 0.003, 0.001)  # 0.013 is 1/sqrt(n)
BETAS = (1.05, 1.4, 5.0, 11.0)
BETAS_ELSEWHERE = (1.4,)  # for other features than standardised ones
RATE = 0.4
DELTA = 0.05  # of the width by Hoeffding's inequality for normal errors
TURNS = 3


def main() -> None:
    """Measure all parts, write the record, and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.convex_heads", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="EMBEDDINGS CIFARN")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, help="measure these, and keep the others")
    options = parser.parse_args()
    record = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.parts:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")  # fits that stop at their number of iterations
        for name, part in measures(*options.folders).items():
            if name in options.parts:
                record |= {"machine": describe(), name: part()}
                options.out.write_text(json.dumps(record, indent=1) + "\n")
    print_tables(record)


def measures(embeddings: Path, cifarn: Path) -> dict[str, Callable[[], Any]]:
    """Return the measurements of this study by name, each a function without arguments."""
    train, test = np.load(embeddings / "train-0-6000.npz"), np.load(embeddings / "held-6000-9000.npz")
    right, truth = train["y"].astype(int), test["y"].astype(int)
    human = torch.load(cifarn / "CIFAR-10_human.pt", weights_only=False)["worse_label"]
    labels = {"people": np.asarray(human)[: right.size].astype(int), "symmetric": symmetric(right, RATE, 10, 0)}
    rows = {name: prepared(name, train["x"], test["x"]) for name in ("standardised", "square roots", "unit rows")}
    return {
        "times": lambda: [times("CIFAR-10 features", rows["standardised"][0], labels["people"]), times(*made())],
        "theory": lambda: [theory(name, rows["standardised"][0], right, given) for name, given in labels.items()],
        "corrected": lambda: corrected(*rows["standardised"], labels["symmetric"], truth),
        "widths": lambda: [
            widths(features, noise, beta, *rows[features], given, truth)
            for features in rows
            for noise, given in labels.items()
            for beta in (BETAS if features == "standardised" else BETAS_ELSEWHERE)
        ],
    }


def symmetric(right: Any, rate: float, k: int, seed: int) -> Any:
    """Return labels of which each is wrong with probability `rate`, and then any of the others."""
    rng = np.random.default_rng(seed)
    moved = (right + rng.integers(1, k, right.size)) % k
    return np.where(rng.random(right.size) < rate, moved, right)


def prepared(name: str, train: Any, test: Any) -> tuple[Any, Any]:
    """Return features of training and test rows, standardised by the training rows after what the name says."""
    parts = [np.asarray(part, np.float64) for part in (train, test)]
    if name == "square roots":
        parts = [np.sqrt(part) for part in parts]
    if name == "unit rows":
        parts = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
    scaler = StandardScaler().fit(parts[0])
    return scaler.transform(parts[0]), scaler.transform(parts[1])


def percent(score: float) -> float:
    """Return a share in per cent, to a tenth."""
    return round(100 * float(score), 1)


def widths(features: str, noise: str, beta: float, train: Any, test: Any, given: Any, truth: Any) -> dict[str, Any]:
    """Return the accuracy for each width; each fit starts from that of the next larger width."""
    clf = MGCEClassifier(beta, tol=5e-3, max_iter=60, solver="lbfgs", warm_start=True)
    scores = {str(w): percent(clf.set_params(lambda0=w).fit(train, given).score(test, truth)) for w in WIDTHS}
    return {"features": features, "noise": noise, "beta": beta, "accuracy": scores}


def theory(noise: str, features: Any, right: Any, given: Any) -> dict[str, Any]:
    """Return by how much wrong labels move the moments, in units of their deviations, beside two widths of sampling."""
    psi = np.hstack([features, np.ones((right.size, 1))])
    k = 10
    clean, noisy = (np.eye(k)[y].T @ psi / right.size for y in (right, given))
    deviation = np.sqrt(np.eye(k)[given].T @ psi**2 / right.size - noisy**2)
    moved = np.abs(noisy - clean) / deviation
    expected = RATE / (k - 1) * np.abs(k * clean - psi.mean(0)) / deviation  # of symmetric noise, balanced classes
    return {
        "noise": noise,
        "rate": percent((right != given).mean()),
        "moved": {str(q): round(float(np.quantile(moved, q)), 4) for q in (0.5, 0.9, 0.99, 1.0)},
        "expected_if_symmetric": {str(q): round(float(np.quantile(expected, q)), 4) for q in (0.5, 0.9, 0.99, 1.0)},
        "one_standard_error": round(right.size**-0.5, 4),
        "all_with_95": round(math.sqrt(2 * math.log(2 * psi.shape[1] * k / DELTA) / right.size), 4),
    }


def corrected(train: Any, test: Any, given: Any, truth: Any) -> dict[str, Any]:
    """Return the accuracy by width where the moments are corrected for symmetric noise of the known rate, or "empty".

    The moments of noisy labels are (1 - c) tau + c psi_mean / k, with c = rate k / (k - 1). Corrected moments have
    1 / (1 - c) times the error, and their width is as much larger.
    """
    k = 10
    psi, held = (np.hstack([x, np.ones((len(x), 1))]) for x in (train, test))
    noisy, share = np.eye(k)[given].T @ psi / len(psi), RATE * k / (k - 1)
    deviation = np.sqrt(np.eye(k)[given].T @ psi**2 / len(psi) - noisy**2)
    tau, coef = (noisy - share * psi.mean(0) / k) / (1 - share), None
    scores: dict[str, Any] = {}
    for width in WIDTHS[:5]:
        lambda_ = width * deviation / (1 - share)
        try:
            fit = fit_linear(psi, tau=tau, beta=1.4, lambda_=lambda_, mu0=coef, tol=1e-3, max_iter=100, method="lbfgs")
        except EmptyUncertaintySetError:
            scores[str(width)] = "empty"
            continue
        coef = fit.coef
        scores[str(width)] = percent(((held @ coef.T).argmax(1) == truth).mean())
    return scores


def times(name: str, X: Any, y: Any) -> dict[str, Any]:
    """Return median seconds of fits by turns, and the gap that ours end with as a share of the trivial value."""
    n, d = X.shape
    k = int(y.max()) + 1
    width = automatic_lambda0(n, k, d + 1)
    settings = {"automatic width": width, "0.01": 0.01, "0.001": 0.001}
    taken: dict[str, list[float]] = {}
    gaps = {}
    for _ in range(TURNS):
        start = time.process_time()
        LogisticRegression().fit(X, y)
        taken.setdefault("LogisticRegression", []).append(time.process_time() - start)
        for label, lambda0 in settings.items():
            start = time.process_time()
            clf = MGCEClassifier(lambda0=lambda0, tol=1e-3).fit(X, y)
            taken.setdefault(label, []).append(time.process_time() - start)
            gaps[label] = [clf.duality_gap_ / trivial_value(k, 1.4), clf.n_iter_, lambda0]
    medians = {label: round(statistics.median(seconds), 2) for label, seconds in taken.items()}
    return {"data": name, "n": n, "d": d, "k": k, "seconds": medians, "gaps": gaps}


def made() -> tuple[str, Any, Any]:
    """Return a name, rows and labels of a made problem with many rows."""
    X, y = make_classification(
        20_000, 512, n_informative=40, n_classes=10, n_clusters_per_class=2, class_sep=1.5, random_state=0
    )
    return "made classes", X, y


def print_tables(record: dict[str, Any]) -> None:
    """Print the tables of the page."""
    header = ["features, labels", "beta", *(f"{w:g}" for w in WIDTHS)]
    rows = [
        [f"{r['features']}, {r['noise']}", f"{r['beta']:g}", *(f"{a:.1f}" for a in r["accuracy"].values())]
        for r in record["widths"]
    ]
    print(table(header, rows), end="\n\n")
    rows = [[r["noise"], *(f"{v:g}" for v in r["moved"].values())] for r in record["theory"]]
    print(table(["labels", "half", "9 of 10", "99 of 100", "all"], rows), end="\n\n")
    rows = [["corrected moments", *(f"{a}" for a in record["corrected"].values())]]
    print(table(["width", *record["corrected"]], rows), end="\n\n")
    rows = []
    for r in record["times"]:
        base = r["seconds"]["LogisticRegression"]
        for label, (gap, n_iter, width) in r["gaps"].items():
            ratio = f"{r['seconds'][label] / base:.1f}"
            rows.append([f"{r['data']}, n {r['n']:,}, d {r['d']:,}", f"{width:.2g}", ratio, f"{n_iter}", f"{gap:.1g}"])
    print(table(["data", "width", "times LogisticRegression", "iterations", "gap"], rows), end="\n\n")
    print(machine_line(record["machine"]))


if __name__ == "__main__":
    main()
