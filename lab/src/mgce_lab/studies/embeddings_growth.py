"""Time and memory of MGCEEmbeddingClassifier as rows, features and classes grow, on made features.

`python -m mgce_lab.studies.embeddings_growth` fits what is not in `results/embeddings/growth.json` yet, each fit in a
process of its own, and prints the table. A fifth of the labels are wrong, by symmetric noise. `--table` only prints.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce import MGCEEmbeddingClassifier
from mgce._machine import describe
from mgce_lab.engine.markdown import machine_line, table

GROWTH = Path(__file__).parents[4] / "results" / "embeddings" / "growth.json"
N, D, K = 5000, 256, 20
SIZES = (
    *((n, D, K) for n in (N, 2 * N, 4 * N)),
    *((N, d, K) for d in (2 * D, 4 * D)),
    *((N, D, k) for k in (2 * K, 4 * K)),
    (100_000, 768, 100),
)
TEST_ROWS = 10_000
SHARED = 32  # directions in which the classes share a large variance
SPREAD = 4.0  # length of a mean, in deviations of a feature: about nine in ten rows can be told apart
NOISE = 0.2
GIB = 2**30


def main() -> None:
    """Fit the sizes that are missing, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.embeddings_growth", description=__doc__)
    parser.add_argument("--one", type=int, nargs=3, metavar=("N", "D", "K"), help="fit one size, print it as JSON")
    parser.add_argument("--table", action="store_true", help="print the table of the sizes that are there")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measured(*options.one)))
        return
    found: dict[str, Any] = json.loads(GROWTH.read_text()) if GROWTH.exists() else {"machine": describe(), "fits": []}
    done = {(fit["n"], fit["d"], fit["k"]) for fit in found["fits"]}
    for size in () if options.table else [size for size in SIZES if size not in done]:
        command = [sys.executable, "-m", "mgce_lab.studies.embeddings_growth", "--one", *map(str, size)]
        found["fits"].append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(json.dumps(found["fits"][-1]), flush=True)
        GROWTH.parent.mkdir(parents=True, exist_ok=True)
        GROWTH.write_text(json.dumps(found, indent=1) + "\n")
    print(section())


def made(n: int, d: int, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return rows (n, d) and right labels (n,): Gaussian classes with a shared covariance of low rank plus identity."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    means = rng.normal(0, SPREAD / np.sqrt(d), (k, d)).astype(np.float32)
    factors = rng.normal(0, 2 / np.sqrt(SHARED), (SHARED, d)).astype(np.float32)
    X = rng.standard_normal((n, d), np.float32)
    X += means[y]
    X += rng.standard_normal((n, SHARED), np.float32) @ factors
    return X, y


def measured(n: int, d: int, k: int) -> dict[str, Any]:
    """Return processor seconds of a fit, the peak of memory with the rows and without, and the accuracy."""
    X, y = made(n + TEST_ROWS, d, k)
    rng = np.random.default_rng(1)
    noisy = np.where(rng.random(n) < NOISE, (y[:n] + rng.integers(1, k, n)) % k, y[:n])
    before, began, start = _peak(), time.process_time(), time.perf_counter()
    clf = MGCEEmbeddingClassifier(random_state=0).fit(X[:n], noisy)
    seconds, wall = time.process_time() - began, time.perf_counter() - start
    return {
        "n": n,
        "d": d,
        "k": k,
        "processor_seconds": round(seconds, 1),
        "wall_seconds": round(wall, 1),
        "peak_gib": round(_peak(), 2),
        "before_gib": round(before, 2),
        "heads": len(clf.cv_results_["l2"]),
        "accuracy": clf.score(X[n:], y[n:]),
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB  # ru_maxrss is in KiB on Linux


def section() -> str:
    """Return the part of the page on time and memory; "" before there are results."""
    if not GROWTH.exists():
        return ""
    found = json.loads(GROWTH.read_text())
    rows = [
        [
            *(f"{fit[name]:,}" for name in "ndk"),
            f"{fit['processor_seconds']:.1f}",
            f"{fit['peak_gib']:.2f}",
            f"{fit['before_gib']:.2f}",
            f"{fit['accuracy']:.1%}".rstrip("%"),
        ]
        for fit in sorted(found["fits"], key=lambda fit: (fit["d"], fit["k"], fit["n"]))[::2]
    ]
    header = ["n", "d", "k", "processor seconds", "peak, GiB", "rows alone, GiB", "right, %"]
    parts = [
        "## Time and memory",
        "The data are simulated: n rows of d features, in k classes. A fifth of the labels are wrong.\n"
        "Memory counts the whole process, libraries included.",
        table(header, rows),
        machine_line(found["machine"]),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
