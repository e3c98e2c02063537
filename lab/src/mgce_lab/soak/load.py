"""`mgce_lab.soak load`: large tables, many classes, many threads and many processes, in bounded time and memory."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mgce._machine import describe
from mgce_lab.soak import reliability

Result = dict[str, Any]
BURNERS = 25  # processes that keep the cores busy
THREADS, PREDICTIONS = 16, 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--scale", type=float, default=0.001, help="share of the full sizes")
    parser.add_argument("--loads", help=f"some of {','.join(LOADS)}, with commas between them; all of them")
    parser.add_argument("--record", metavar="WHEN", choices=("before", "after"), help=f"write {reliability.RESULTS}")


def main(options: argparse.Namespace) -> int:
    """Run it; 1 if something hung, failed or gave other numbers."""
    names = options.loads.split(",") if options.loads else list(LOADS)
    results: Result = {}
    for name in names:
        results[name] = _in_a_process(name, options.scale)
        print(f"{name:12}", results[name], flush=True)
    if options.record:
        stored = reliability.read("load").get(options.record, {})
        merged = {**stored.get("loads", {}), **results}
        reliability.write("load", options.record, {"machine": describe(), "loads": merged})
    return 0 if all(result.get("ok") for result in results.values()) else 1


def _in_a_process(name: str, scale: float) -> Result:
    """Run one load in a new process, whose peak of memory is that of the load."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "mgce_lab.soak.load", name, str(scale)], capture_output=True, text=True
    )
    if done.returncode:
        return {"ok": False, "said": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:200]}
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return {**result, "wall_s": round(time.monotonic() - began, 1)}


def _rows(scale: float) -> Result:
    """10^6 rows of 50 columns and two classes through `mgce fit`."""
    return _fit(max(200, int(1e6 * scale)), 50, 2)


def _classes(scale: float) -> Result:
    """5,000 classes, 20 rows of each, 20 columns, through `mgce fit`."""
    classes = max(10, int(5000 * scale))
    return _fit(20 * classes, 20, classes)


def _fit(n: int, d: int, k: int) -> Result:
    import pandas as pd

    rng = np.random.default_rng(0)
    y = rng.integers(k, size=n)
    X = rng.normal(size=(n, d)).astype(np.float32) + rng.normal(size=(k, d)).astype(np.float32)[y]
    with tempfile.TemporaryDirectory() as folder:
        pd.DataFrame(X).add_prefix("x").assign(y=[f"c{label}" for label in y]).to_parquet(Path(folder, "t.parquet"))
        command = [sys.executable, "-m", "mgce", "fit", "t.parquet", "--target", "y"]
        began = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        seconds = time.monotonic() - began
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    ok = done.returncode == 0 or (done.returncode == 2 and done.stderr.startswith("Error: "))
    said = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [""])[-1][:200]
    facts = {"rows": n, "columns": d, "classes": k, "seconds": round(seconds, 1), "mb": usage.ru_maxrss // 1024}
    return {"ok": ok, **facts, **({"said": said} if said else {})}


def _chunks(scale: float) -> Result:
    """10^7 rows through `partial_fit`, in chunks of 10,000."""
    from mgce import MGCEClassifier

    rng, n = np.random.default_rng(0), max(20_000, int(1e7 * scale))
    clf, peaks, began = MGCEClassifier(), [], time.monotonic()
    for _ in range(n // 10_000):
        X = rng.normal(size=(10_000, 20))
        clf.partial_fit(X, (X[:, 0] > 0).astype(int), classes=[0, 1])
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    grown = peaks[-1] - peaks[0]
    return {
        "ok": grown < 200,
        "rows": n,
        "seconds": round(time.monotonic() - began, 1),
        "mb": peaks[-1],
        "grown_mb": grown,
    }


def _model() -> tuple[Any, np.ndarray]:
    from mgce import MGCEClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 20))
    return MGCEClassifier(beta=1.4).fit(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)), X


def _threads(scale: float) -> Result:
    """1,000 predictions from 16 threads at once, each compared with the same prediction made alone."""
    clf, X = _model()
    alone, wrong = clf.predict_proba(X), []

    def work(count: int) -> None:
        for _ in range(count):
            if not np.array_equal(clf.predict_proba(X), alone):
                wrong.append(1)

    count = max(2, int(PREDICTIONS * min(1, scale * 100)) // THREADS)
    workers = [threading.Thread(target=work, args=(count,)) for _ in range(THREADS)]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {
        "ok": not wrong,
        "predictions": count * THREADS,
        "wrong": len(wrong),
        "seconds": round(time.monotonic() - began, 2),
    }


def _forks(scale: float) -> Result:
    """A server that has predicted once forks 8 workers, and each worker predicts: small inputs, then large inputs."""
    clf, X = _model()
    found: Result = {}
    for name, rows in (("small", X), ("large", np.tile(X, (400, 1)))):
        clf.predict_proba(rows)
        found[name] = _answers(lambda rows=rows: clf.predict_proba(rows))  # type: ignore[misc]
    return {"ok": found["small"] == 8, "workers": 8, "answered_within_20_s": found, "rows": [len(X), 400 * len(X)]}


def _answers(predict: Callable[[], Any], seconds: float = 20) -> int:
    """Fork eight processes; give how many have answered after a while, and end the others."""
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            predict()
            os._exit(0)
        children.append(child)
    deadline, answered = time.monotonic() + seconds, 0
    while children and time.monotonic() < deadline:
        for child in list(children):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                children.remove(child)
                answered += os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return answered


def _crowd(scale: float) -> Result:
    """The CPU time to fit a network alone, and beside 25 other processes that keep the cores busy."""
    from mgce.estimators import MGCEMLPClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20))
    y = (X[:, 0] > 0).astype(int)

    def fit() -> float:
        began = time.process_time()
        MGCEMLPClassifier(hidden_layer_sizes=(256,), max_iter=5, early_stopping=False, random_state=0).fit(X, y)
        return time.process_time() - began

    fit()
    alone = fit()
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BURNERS)]
    try:
        beside = fit()
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    return {"ok": beside < 3 * alone + 1, "cpu_s_alone": round(alone, 2), "cpu_s_beside_25": round(beside, 2)}


LOADS: dict[str, Callable[[float], Result]] = {
    "rows": _rows,
    "classes": _classes,
    "chunks": _chunks,
    "threads": _threads,
    "forks": _forks,
    "crowd": _crowd,
}

if __name__ == "__main__":
    print(json.dumps(LOADS[sys.argv[1]](float(sys.argv[2]))))
