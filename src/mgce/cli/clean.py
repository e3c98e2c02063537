"""`mgce clean NAME.suspects.csv`: mend the labels of a table until few are wrong, with a proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from mgce._files import write_files
from mgce._rounding import confidence_text, rounded_up
from mgce._validation import expected
from mgce.cli.list_options import parse_names
from mgce.cli.outputs import STDOUT, Json, Quiet, check_json, check_output, check_table, write_json
from mgce.cli.review import ENDING
from mgce.cli.terminal import Terminal
from mgce.datasets.table_files import to_table_file
from mgce.review.cleaning import Cleaning, clean_labels
from mgce.review.decision_file import Decision, read_decisions, saved_as
from mgce.review.suspect_file import Suspect, read_suspects, some_suspects

LABEL = "label"  # the column with the labels of the mended table, if the file of suspects does not name it


def clean(
    suspects: Annotated[Path, typer.Argument(help="A file of suspects that `mgce fit` has written.")],
    at_most: Annotated[float, typer.Option(help="Largest share of wrong labels in the mended table.")] = 0.05,
    checked: Annotated[
        str | None, typer.Option(help="Files of decisions that the pages of `mgce review` saved, with commas between.")
    ] = None,
    drop_share: Annotated[
        float, typer.Option(help="Share of the rows to leave out without a look, the most doubtful ones.")
    ] = 0.0,
    delta: Annotated[float, typer.Option(help="Probability with which more labels may be wrong.")] = 0.05,
    json_file: Json = None,
    quiet: Quiet = False,
    out: Annotated[
        Path | None, typer.Option(help="File for the mended table: .csv, .xlsx or .parquet [NAME.mended.csv].")
    ] = None,
) -> None:
    """Say which labels to look up, and write the mended table once few of its labels can be wrong.

    Call it again after each review, with all decisions. First it asks for rows drawn at random, then for the rows whose
    label is most doubtful. All other rows keep their label or take the suggestion of the model. The bound assumes
    nothing of the wrong labels, nor of the model. It assumes that the decisions are right.
    """
    name = suspects.name.removesuffix(".csv").removesuffix(ENDING)
    table, asked = out or suspects.parent / f"{name}.mended.csv", suspects.parent / f"{name}-to-check{ENDING}.csv"
    check_json(json_file, suspects, table, asked)
    check_output("out", table, suspects, asked)
    check_table("out", table)
    # By key, so that the sample does not depend on how the file was sorted.
    every = sorted(read_suspects(suspects), key=lambda one: one.key)
    paths = [] if checked is None else [Path(path) for path in parse_names(checked)]
    decided = {one.key: one for one in read_decisions(*paths)[0]} if paths else {}
    lost = sum(key not in {one.key for one in every} for key in decided)
    if lost:
        raise ValueError(expected("checked", "decisions on rows of this file of suspects", f"{lost:,} on other rows"))
    found = {
        row: one.proposal[0] != decided[one.key].label
        for row, one in enumerate(every)
        if one.key in decided and not one.is_checked
    }
    result = clean_labels(
        _doubt(every),
        found,
        at_most,
        drop=drop_share,
        known=np.array([one.is_checked for one in every]),
        delta=delta,
    )
    console = Terminal(quiet=quiet or json_file == STDOUT)
    wanted = {every[row].key for row in np.flatnonzero(result.to_check).tolist()}
    document = {
        "to_check": len(wanted),
        "checked": len(found),
        "kept": None if result.kept is None else int(result.kept.sum()),
        "dropped": int(result.dropped.sum()),
        "delta": delta,
    }
    if not result.is_done:
        write_files(asked.parent, {asked.name: some_suspects(suspects, wanted)})
        write_json(json_file, {**document, "rows": None, "wrong_at_most": None})
        console.print(_next_step(result, len(wanted), asked, paths), markup=False)
        return
    rows = _mended(every, result, decided)
    write_files(table.parent, {table.name: _table(every, rows, table)})
    share = min(1.0, result.wrong_left / max(1, len(rows)))
    write_json(json_file, {**document, "rows": len(rows), "wrong_at_most": share})
    console.print(
        f"With confidence {confidence_text(1 - delta)}, at most {rounded_up(share)} of the {len(rows):,} labels in "
        f"{table} are wrong. {len(found):,} labels were looked up, and {len(every) - len(rows):,} rows were left out. "
        "This assumes that the decisions are right, and that the file of suspects was made before them.",
        markup=False,
    )


def _doubt(every: Sequence[Suspect]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the place of each proposal in the order of doubt, shape (n,); equal ones share a place."""
    places = {pair: place for place, pair in enumerate(sorted({one.proposal[1:] for one in every}))}
    return np.array([places[one.proposal[1:]] for one in every], dtype=np.float64)


def _next_step(result: Cleaning, n: int, asked: Path, paths: Sequence[Path]) -> str:
    """Say what to look up, and the commands for it."""
    why = "drawn at random" if result.kept is None else "whose labels are most doubtful; then no more will be asked for"
    page = asked.name.removesuffix(".csv").removesuffix(ENDING)
    files = ",".join([*map(str, paths), saved_as(page, 0)])
    return (
        f"Look up {n:,} rows, {why}. They are in {asked}:\n"
        f"  mgce review {asked} --suspects 0 --random {n}\n"
        f"Save the decisions under a name of their own, and call mgce clean again with --checked {files}"
    )


def _mended(every: Sequence[Suspect], result: Cleaning, decided: Mapping[str, Decision]) -> dict[int, str]:
    """Return the label of each row of the mended table."""
    labels = {}
    for row, one in enumerate(every):
        if one.key in decided and not one.is_checked:
            label = decided[one.key].label  # empty if the row was dropped or skipped
        else:
            label = "" if result.dropped[row] else one.given if one.is_checked else one.proposal[0]
        if label:
            labels[row] = label
    return labels


def _table(every: Sequence[Suspect], labels: Mapping[int, str], table: Path) -> bytes:
    """Return the mended table as the content of a file, in the order of the table's lines where these are known."""
    head = [name for name, _ in every[0].cells]
    column = every[0].label_column or LABEL
    while column in head:
        column += "_"
    order = sorted(labels, key=lambda row: (int(every[row].line or 0), every[row].key))
    rows = [[*(value for _, value in every[row].cells), labels[row]] for row in order]
    frame = pd.DataFrame(rows, columns=[*head, column], dtype=object)
    return to_table_file(frame if table.suffix.lower() == ".csv" else frame.apply(_numbers), table)


def _numbers(column: pd.Series[str]) -> pd.Series[Any]:
    """Return a column of texts as numbers if these are written as exactly the same texts."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.map(str).tolist() == column.tolist() else column
