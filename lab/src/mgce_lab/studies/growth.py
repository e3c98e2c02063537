"""What `mgce fit` takes of a growing table in parts: processor time, peak memory, and how good its suspects are.

`python -m mgce_lab.studies.growth --rows 100000 --columns 20` makes a table of three classes with 20 % wrong labels,
and measures one fit, in memory (`--memory 0`), in chunks, or on the workers of a Dask cluster (`--processes`).
`--embeddings` makes one column of lists of so many numbers, of a hundred classes. Each result is a line of
`results/growth/cells.jsonl`. `--page` writes the table of docs/large-tables.md.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from mgce._machine import describe
from mgce.desk.tables.model import TableModel
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table, write_between

RESULTS, PAGE = Path("results/growth/cells.jsonl"), Path("docs/large-tables.md")
BEGIN, END = "<!-- growth -->\n", "<!-- /growth -->"
CLASSES, WRONG = np.array(["a", "b", "c"]), 0.2
EMBEDDED = np.array([f"c{number}" for number in range(100)])  # classes of embeddings
APART = 0.15  # standard deviation of the centres of their classes, beside 1 of the rows: one row in ten is ambiguous
AT_ONCE = 50_000  # rows that are made at a time, one part
NEW = 10_000  # further rows with right labels
INFORMATIVE, HIDDEN = 10, 12  # columns that the right class depends on, by a network of so many hidden units
CLUSTER = """
import subprocess, sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers={processes}, threads_per_worker=1, processes=True, memory_limit=None) as cluster:
        sys.exit(subprocess.run([*sys.argv[1:], "--scheduler", cluster.scheduler_address]).returncode)
"""


def main() -> None:
    """Measure one cell, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.growth", description=__doc__)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--memory", default="2GB", help="of mgce fit; 0 to fit in memory")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--embeddings", action="store_true", default=None, help="make one column of lists of so many numbers"
    )
    parser.add_argument("--page", action="store_true", help="write the table of docs/large-tables.md")
    options = parser.parse_args()
    lines = Lines(RESULTS, "rows", "columns", "memory", "processes", "embeddings")
    cell = {name: getattr(options, name) for name in lines.key}
    if options.rows is not None and cell not in lines:
        lines.add(measured(cell))
    if options.page:
        write_between(PAGE, BEGIN, page(lines.read()) + "\n", END)


def made(rng: np.random.Generator, n: int, d: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return n rows of d columns with given labels, and the right classes."""
    fixed = np.random.default_rng(1)
    inner, outer = fixed.normal(size=(INFORMATIVE, HIDDEN)), fixed.normal(size=(HIDDEN, len(CLASSES)))
    X = rng.normal(size=(n, d)).astype(np.float32)
    right = (np.tanh(X[:, :INFORMATIVE] @ inner / 2) @ outer).argmax(1)
    given = np.where(rng.random(n) < WRONG, (right + rng.integers(1, len(CLASSES), n)) % len(CLASSES), right)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(d)]).assign(label=CLASSES[given]), right


def embedded(rng: np.random.Generator, n: int, d: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return n embeddings of d numbers with given labels, and the right classes."""
    k = len(EMBEDDED)
    centres = np.random.default_rng(1).normal(0, APART, (k, d)).astype(np.float32)
    right = rng.integers(0, k, n)
    X = centres[right] + rng.standard_normal((n, d), np.float32)
    given = np.where(rng.random(n) < WRONG, (right + rng.integers(1, k, n)) % k, right)
    return pd.DataFrame({"embedding": [*X], "label": EMBEDDED[given]}), right


def measured(cell: dict[str, Any]) -> dict[str, Any]:
    """Make a table, fit to it by the command, and measure."""
    make, classes = (embedded, EMBEDDED) if cell["embeddings"] else (made, CLASSES)
    with tempfile.TemporaryDirectory() as folder:
        parts, model, wrong = Path(folder, "table"), Path(folder, "model.mgce"), []
        parts.mkdir()
        rng = np.random.default_rng(0)
        for start in range(0, cell["rows"], AT_ONCE):
            frame, right = make(rng, min(AT_ONCE, cell["rows"] - start), cell["columns"])
            frame.to_parquet(parts / f"part-{start:09}.parquet", index=False)
            wrong.append(frame["label"].to_numpy() != classes[right])
        given = parts
        command = [sys.executable, "-m", "mgce", "fit", "--target", "label", "--out", str(model), "--jobs", "1"]
        if cell["memory"] == "0":  # one file is read whole where no memory is stated
            given = Path(folder, "table.parquet")
            pq.write_table(pa.concat_tables([pq.read_table(part) for part in sorted(parts.iterdir())]), given)
        else:
            command += ["--memory", cell["memory"]]
        command.append(str(given))
        if cell["processes"] > 1:
            program = Path(folder, "cluster.py")
            program.write_text(CLUSTER.format(processes=cell["processes"]))
            command = [sys.executable, str(program), *command]
        start_time = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds, used = time.monotonic() - start_time, resource.getrusage(resource.RUSAGE_CHILDREN)
        ranked = suspects(model)
        fitted = TableModel.load(model)
        new, right = make(np.random.default_rng(2), NEW, cell["columns"])
        hits = fitted.predict(fitted.columns.select(new)).label == classes[right]
        place = ranked["row"].astype(int).to_numpy() - 1
        return {
            **cell,
            "processor_seconds": round(used.ru_utime + used.ru_stime),
            "seconds": round(seconds),
            "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 2),
            "ap": round(float(average_precision_score(np.concatenate(wrong)[place], ranked["doubt"])), 4),
            "accuracy": round(float(hits.mean()), 4),
            "model_mb": round(model.stat().st_size / 1e6),
            "machine": describe(),
        }


def suspects(model: Path) -> pd.DataFrame:
    """Return the doubt in each label, from the parts of the file of suspects, or from the file itself."""
    parts = model.with_suffix(".suspects")
    named = ["row", "p_wrong", "p_given"]
    if parts.is_dir():
        found = pd.concat([pd.read_parquet(part, columns=named) for part in sorted(parts.iterdir())])
    else:
        found = pd.read_csv(model.with_suffix(".suspects.csv"), usecols=named)
    # Probabilities are rounded in the file: those of wrong labels to steps, those of given ones to two digits.
    return found.assign(doubt=found["p_wrong"] - found["p_given"] / 1000)


def page(records: list[dict[str, Any]]) -> str:
    """Return the table of all results."""
    head = ["rows", "columns", "memory", "processes", "processor seconds", "peak", "AP of suspects", "accuracy"]
    rows = [
        [
            f"{one['rows']:,}",
            f"embeddings of {one['columns']}" if one.get("embeddings") else str(one["columns"]),
            "all" if one["memory"] == "0" else one["memory"],
            str(one["processes"]),
            f"{one['processor_seconds']:,}",
            f"{one['peak_gb']:.1f} GB",
            f"{one['ap']:.3f}",
            f"{one['accuracy']:.1%}",
        ]
        for one in sorted(
            records,
            key=lambda one: (bool(one.get("embeddings")), one["columns"], one["rows"], one["processes"], one["memory"]),
        )
    ]
    return table(head, rows)


if __name__ == "__main__":
    main()
