"""The minimax risk at scale: `python -m mgce_lab.studies.vbeta` times it in n, d and k, beside cvxpy with Clarabel.

Features are +1 or -1, five of them matter to each class, and lambda is sqrt(2 log(2 k d / .05) P(y) / n) for class y,
about that of a certified set. Each cell is stored as it is done, in `results/benchmarks/vbeta.json`; the same command
goes on with those that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from mgce._arrays import one_hot
from mgce._machine import describe
from mgce.linear.objective import moments, trivial_value
from mgce.risk import minimax_risk

RECORD = Path(__file__).parents[4] / "results" / "benchmarks" / "vbeta.json"
BETA, TOL = 2.0, 1e-4
GROWTH = [  # n, d, k; one of them is varied at a time
    *((n, 100, 5) for n in (500, 2000, 10_000, 100_000)),
    *((2000, d, 5) for d in (25, 400, 1000)),
    *((2000, 100, k) for k in (2, 20, 100)),
    (20_000, 1000, 20),
]
GOAL = (100_000, 1000, 100)
CONES = 300_000  # n k d up to which Clarabel is asked: it takes minutes for more


def problem(n: int, d: int, k: int) -> tuple[Any, Any, Any, Any]:
    """Make features with a column of ones, labels, tau and lambda."""
    rng = np.random.default_rng(0)
    x = np.ones((n, d + 1))
    x[:, :d] = rng.choice([-1.0, 1.0], (n, d))
    coef = np.zeros((k, d + 1))
    for y in range(k):
        coef[y, rng.choice(d, 5, replace=False)] = rng.normal(0, 1.5, 5)
    label = (x @ coef.T + rng.gumbel(size=(n, k))).argmax(1)
    share = np.bincount(label, minlength=k)[:, None] / n
    penalty = np.sqrt(2 * np.log(2 * k * d / 0.05) * np.maximum(share, 1 / n) / n)
    tau = moments(x, one_hot(label, k), np.full(n, 1 / n))
    return x, label, tau, np.broadcast_to(penalty, tau.shape).copy()


def ours(n: int, d: int, k: int) -> dict[str, Any]:
    """Time column generation, and L-BFGS-B on all columns where it is quick."""
    x, label, tau, penalty = problem(n, d, k)
    cell: dict[str, Any] = {"n": n, "d": d, "k": k, "load": round(os.getloadavg()[0], 1)}
    for method in ("columns", "lbfgs") if n * d * k <= 4e7 else ("columns",):
        start = time.perf_counter()
        risk = minimax_risk(x, (tau, penalty), beta=BETA, labels=label, tol=TOL, method=method)
        seconds = time.perf_counter() - start
        gap = risk.gap / trivial_value(k, BETA)
        used = int((np.abs(risk.coef).sum(0) > 0).sum())
        cell[method] = {"seconds": seconds, "value": risk.value, "gap": gap, "features": used}
    return cell


def clarabel(n: int, d: int, k: int) -> dict[str, float]:
    """Time the same problem as a cone program: at beta = 2, phi is the largest nu with ||((f + nu)/2 + 1)_+|| <= 1."""
    import cvxpy as cp

    x, _, tau, penalty = problem(n, d, k)
    start = time.perf_counter()
    mu, nu, part = cp.Variable(tau.shape), cp.Variable((n, 1)), cp.Variable((n, k), nonneg=True)
    goal = cp.sum(cp.multiply(penalty, cp.abs(mu))) - cp.sum(cp.multiply(tau, mu)) - cp.sum(nu) / n
    limits = [part >= (x @ mu.T + nu @ np.ones((1, k))) / 2 + 1, cp.norm(part, 2, axis=1) <= 1]
    value = cp.Problem(cp.Minimize(goal), limits).solve(solver=cp.CLARABEL)
    return {"seconds": time.perf_counter() - start, "value": float(value)}


def main() -> None:
    """Measure the cells that are missing."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.vbeta", description=__doc__)
    parser.add_argument("--goal", action="store_true", help="only n = 100,000, d = 1,000, k = 100; takes 2 GB")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {"cells": []}
    record["machine"] = describe()
    for size in [GOAL] if options.goal else sorted(set(GROWTH)):
        if any((cell["n"], cell["d"], cell["k"]) == size for cell in record["cells"]):
            continue
        cell = ours(*size)
        if np.prod(size) <= CONES:
            cell["clarabel"] = clarabel(*size)
        print(json.dumps(cell), flush=True)
        record["cells"].append(cell)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
