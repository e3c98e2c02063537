"""Mutated files that are guided by coverage, where atheris is installed: `mgce_lab.soak.guided READER RUNS FOLDER`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

MODULES = (
    "mgce.estimators.archive",
    "mgce.estimators.persistence",
    "mgce.desk.tables.model",
    "mgce.estimators.trees",
    "mgce.desk.files.table_files",
    "mgce.desk.files.text_tables",
    "mgce.desk.files.tables",
    "mgce_lab.data.idx",
    "mgce_lab.data.cifar",
    "mgce_lab.data.cifar_n",
    "mgce_lab.data.uci",
    "mgce_lab.engine.store",
    "mgce_lab.engine.report",
    "mgce_lab.images.image_classifier",
)
CORPUS = Path("lab/src/mgce_lab/soak/corpus")  # inputs that reached new code, small ones, from where later runs go on
LARGEST, MOST = 2048, 12  # bytes of such an input, and how many are kept for a reader
EVERY = 500  # runs after which the counts are written down


def run(name: str, runs: int, work: Path) -> dict[str, Any]:
    """Run a reader on `runs` files in a process of its own, unless that was done before; return the counts."""
    if importlib.util.find_spec("atheris") is None:
        return {"files": 0, "note": "atheris is not installed"}
    counts = work / f"guided-{name.replace(' ', '-')}.json"
    known = _counts(counts)
    if known["files"] >= runs:
        return known
    counts.parent.mkdir(parents=True, exist_ok=True)
    counts.unlink(missing_ok=True)
    arguments = [sys.executable, "-m", "mgce_lab.soak.guided", name, str(runs), str(counts)]
    done = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    result = _counts(counts)
    # What ends the process after the last file is not a reader: seen once in 160,000 files, on leaving Python.
    if done.returncode and result["files"] < runs:
        result["outcomes"]["crash"] = result["outcomes"].get("crash", 0) + 1
        result["said"] = done.stderr[-500:]
    return result


def _counts(path: Path) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"files": 0, "outcomes": {}}
    return counts


def main(name: str, runs: int, counts_file: Path) -> None:
    """Fuzz one reader; never returns."""
    import atheris

    with atheris.instrument_imports(include=list(MODULES)):
        for module in MODULES:
            importlib.import_module(module)
    from mgce_lab.soak.outcomes import BAD, outcome
    from mgce_lab.soak.readers import readers

    reader = readers()[name]
    seeds = reader.seeds()
    folder = Path(tempfile.mkdtemp())
    reader.setup(folder)
    path = folder / reader.file
    corpus = Path(tempfile.mkdtemp())
    for number, seed in enumerate(seeds):
        (corpus / f"seed{number}").write_bytes(seed)
    counts: Counter[str] = Counter()
    bad: list[str] = []

    def one(content: bytes) -> None:
        path.write_bytes(content)
        came, what = outcome(reader.read, path)
        counts[came] += 1
        if came in BAD:
            bad.append(f"{came}: {what}")
        total = sum(counts.values())
        if total % EVERY == 0 or total >= runs:
            counts_file.write_text(json.dumps({"files": total, "outcomes": dict(counts), "kinds": sorted(set(bad))}))
            _keep_corpus(name, corpus)

    stored = CORPUS / name.replace(" ", "-")
    stored.mkdir(parents=True, exist_ok=True)
    options = [f"-atheris_runs={runs}", "-rss_limit_mb=6000", "-timeout=30", "-print_final_stats=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus), str(stored)], one)
    atheris.Fuzz()


def _keep_corpus(name: str, corpus: Path) -> None:
    """Keep a few small inputs that reached new code."""
    stored = CORPUS / name.replace(" ", "-")
    known = len(list(stored.iterdir()))
    found = [path for path in corpus.iterdir() if not path.name.startswith("seed")]
    for path in sorted(found, key=lambda path: path.stat().st_size):
        if known < MOST and path.stat().st_size <= LARGEST and not (stored / path.name).exists():
            (stored / path.name).write_bytes(path.read_bytes())
            known += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
