"""What a second source of labels saves of the looks of `mgce clean`: `python -m mgce_lab.studies.cleaning_sources`.

Of 3,000 rows of `letter`, 60 % of the labels are right. A source, such as a language model, names the right class of a
share of the rows, and any other class of the rest. `mgce fit` gets the answers as a second column of labels, or as a
column like any other. They only change which label is proposed, and how doubtful that is: people's looks alone decide
what is kept. Each fit is a line of results/certificates/cleaning-sources.jsonl, with means over draws of the sample.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from mgce.desk.cli.clean import doubts
from mgce.desk.review.cleaning import sample_share
from mgce.desk.review.suspect_file import Suspect, read_suspects
from mgce_lab.data import load
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies.cleaning import AT_MOST, DELTA, N, cleaned, reader

RESULTS = Path(__file__).parents[4] / "results" / "certificates" / "cleaning-sources.jsonl"
PAGE = Path(__file__).parents[4] / "docs" / "commands" / "clean.md"
BEGIN, END = "<!-- sources -->\n", "<!-- /sources -->\n"
GIVEN_RIGHT, DRAWS = 0.6, 1000
SOURCES = (0.7, 0.85, 0.95)  # the shares of rows on which the source is right
WAYS = {
    "labels": ["--label-columns", "label,source"],
    "column": ["--target", "label"],
}


CELLS = [(None, "column"), *((source, "labels") for source in SOURCES), (0.85, "column")]


def main() -> None:
    """Fit what has no result yet, and write the table of the page."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.cleaning_sources", description=__doc__)
    parser.add_argument("--tables", type=int, default=2)
    lines = Lines(RESULTS, "table", "source", "way")
    for number in range(parser.parse_args().tables):
        for source, way in CELLS:
            cell = {"table": number, "source": source, "way": way}
            if cell not in lines:
                lines.add({**cell, **measure(*made(number, source), WAYS[way])})
    write_between(PAGE, BEGIN, f"{render(lines.read())}\n", END)


def made(number: int, source: float | None) -> tuple[pd.DataFrame, Any]:
    """Return a table whose labels are partly wrong, with the answers of a source if there is one; and right labels."""
    data, rng = load("letter"), np.random.default_rng((68, number))
    rows = rng.permutation(len(data.target))[:N]
    right, k = data.target[rows], len(data.classes)
    frame = data.features.iloc[rows].reset_index(drop=True)
    for name, share in (("label", GIVEN_RIGHT), ("source", source)):
        is_right, other = rng.random(N), (right + rng.integers(1, k, N)) % k
        if share is not None:
            frame[name] = [f"{label:02d}" for label in np.where(is_right < share, right, other)]
    return frame, right


def measure(frame: pd.DataFrame, right: Any, options: Sequence[str]) -> dict[str, Any]:
    """Fit, and return mean looks of `mgce clean`, how often more wrong labels were left, and the looks of a reader."""
    every = suspects(frame, options)
    rows = [int(one.name) - 1 for one in every]
    doubt, wrong = doubts(every), np.array([int(one.proposal[0]) for one in every]) != right[rows]
    share = sample_share([one.proposal[1] for one in every], int(AT_MOST * N), DELTA)
    looks, left, most = np.transpose([cleaned(doubt, wrong, 0.0, draw, sampled=share) for draw in range(DRAWS)])
    given = np.array([int(one.given) for one in every]) != right[rows]
    read = reader(np.array([one.p_wrong for one in every]), given)
    return {"looks": float(looks.mean()), "false": float((left > most).mean()), "reader": read}


def suspects(frame: pd.DataFrame, options: Sequence[str]) -> list[Suspect]:
    """Return the rows of the file of suspects that `mgce fit` writes for a table."""
    with TemporaryDirectory() as folder:
        frame.to_csv(Path(folder, "t.csv"), index=False)
        command = [sys.executable, "-m", "mgce", "fit", "t.csv", *options, "--quiet"]
        subprocess.run(command, cwd=folder, check=True, env=os.environ, capture_output=True)
        return read_suspects(Path(folder, "t.suspects.csv"))


def render(records: Sequence[dict[str, Any]]) -> str:
    """Return the table of docs/commands/clean.md."""

    def of(source: float | None, way: str, key: str) -> float:
        return mean(record[key] for record in records if (record["source"], record["way"]) == (source, way))

    rows = []
    for source, way in CELLS:
        name = "no source" if source is None else f"right on {source:.0%}"
        inside = ", as a column like others" if source is not None and way == "column" else ""
        saved = 1 - of(source, way, "looks") / of(None, "column", "looks")
        false = f"{of(source, way, 'false'):.1%}"
        rows.append([name + inside, f"{of(source, way, 'looks'):,.0f}", f"{saved:.0%}" if source else "", false])
    return table(["source", "rows looked up", "saved", "false"], rows)


if __name__ == "__main__":
    main()
