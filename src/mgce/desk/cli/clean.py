"""`mgce clean NAME.suspects.csv`: mend the labels of a table until few are wrong, with a proof."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from mgce._files import write_files
from mgce._messages import expected
from mgce._rounding import confidence_text, percent_up
from mgce.desk.cli.outputs import Json, Quiet, check_outputs, check_table, terminal, write_json
from mgce.desk.cli.review import ENDING
from mgce.desk.cli.shared_options import grouped, parse_names, typed
from mgce.desk.files.layout import were
from mgce.desk.files.written_tables import to_table_file
from mgce.desk.review.cleaning import Cleaning, allowance, clean_labels
from mgce.desk.review.decision_file import (
    DROP,
    ON_LOOKS,
    Decision,
    check_classes,
    check_decided,
    read_decisions,
    saved_as,
    spelt_alike,
)
from mgce.desk.review.suspect_file import Suspect, read_suspects, some_suspects

LABEL = "label"  # the column with the labels of the mended table, if the file of suspects does not name it
REMEDY = "Name the file of suspects that was reviewed, and decisions as the page of `mgce review` saved them."


@dataclass(frozen=True)
class Goal:
    """The options on how many labels may be wrong in the end."""

    at_most: Annotated[float, "Largest share of wrong labels in the mended table."] = 0.05
    drop_share: Annotated[float, "Share of the rows to leave out without a look, the most doubtful ones."] = 0.0
    delta: Annotated[float, "Probability with which more labels may be wrong."] = 0.05


@grouped
def clean(
    *,
    suspects: Annotated[Path, typer.Argument(help="A file of suspects that `mgce fit` has written.")],
    goal: Goal,
    checked: Annotated[
        str | None, "Files of decisions that the pages of `mgce review` saved, with commas between."
    ] = None,
    json_file: Json = None,
    quiet: Quiet = False,
    out: Annotated[Path | None, "File for the mended table: .csv, .xlsx or .parquet [NAME.mended.csv]."] = None,
) -> None:
    """Say which labels to look up, and write the mended table once few of its labels can be wrong.

    Call it again after each review, with all decisions. First it asks for rows drawn at random, then for the rows whose
    label is most doubtful. All other rows keep their label or take the suggestion of the model. The bound assumes
    nothing of the wrong labels, nor of the model. It assumes that the decisions are right.
    """
    name = suspects.name.removesuffix(".csv").removesuffix(ENDING)
    table = out or suspects.parent / f"{name}.mended.csv"
    check_table("out", table)
    paths = [] if checked is None else [*dict.fromkeys(Path(path) for path in parse_names(checked))]
    written = {"json": json_file, "out": table}
    check_outputs(written, [suspects, *paths])
    read = read_suspects(suspects)
    decided = _decided(read_decisions(*paths)[0], read) if paths else {}
    # Each call asks for a page of its own, so that no decisions are overwritten.
    page = f"{name}-to-check-after-{len(decided)}" if decided else f"{name}-to-check"
    asked = suspects.parent / f"{page}{ENDING}.csv"
    check_outputs({"suspects": asked, **written}, [suspects, *paths])
    review = _Review.of(read, decided)
    result = review.cleaned(goal)
    labels = review.mended(result)
    # Rows that were skipped are in the mended table, but the bound leaves them out.
    skipped = sum(not one.is_settled for row, one in review.decided.items() if row in labels)
    wanted = {review.rows[row].key for row in np.flatnonzero(result.to_check).tolist()}
    bounded = len(labels) - skipped
    share = result.wrong_left / max(1, bounded) if result.is_done else None
    dropped, n_checked = len(read) - len(labels), len(review.found)
    kept = None if result.kept is None else int(result.kept.sum())
    counts = {"to_check": len(wanted), "checked": n_checked, "kept": kept, "dropped": dropped, "skipped": skipped}
    rows = len(labels) if result.is_done else None
    document = {**counts, "delta": goal.delta, "rows": rows, "wrong_at_most": share}
    if share is None:
        write_files(asked.parent, {asked.name: some_suspects(suspects, wanted)})
        command = _again(suspects, goal, out, [*paths, asked.parent / saved_as(page, 0)])
        said, commands = _next_step(result, len(wanted), len(review.rows), asked, command)
        said += "" if paths else f" {ON_LOOKS}"
    else:
        write_files(table.parent, {table.name: _table(review.rows, labels, table)})
        commands = []
        stay = f" {were(skipped, 'row')} skipped: the given label stays, and is not among those bounded."
        said = (
            f"With confidence {confidence_text(1 - goal.delta)}, at most {result.wrong_left:,} of {bounded:,} labels "
            f"({_most(share, goal.at_most)}) in {table} are wrong. {n_checked:,} labels were looked up. "
            f"{were(dropped, 'row')} dropped and left out.{stay if skipped else ''} This assumes that the decisions "
            "are right, and that the file of suspects was made before them."
        )
        if table.suffix.lower() == ".xlsx":
            said += f" {table} is made from the file of suspects: it has no sheets, formats or formulas of yours."
    write_json(json_file, document)
    console = terminal(json_file, quiet)
    console.print(said)
    console.print_steps(commands)


@dataclass(frozen=True)
class _Review:
    """The rows of a file of suspects that are not dropped, with the decisions on them."""

    rows: list[Suspect]  # by key, so that the sample does not depend on how the file was sorted
    decided: dict[int, Decision]  # by row

    @classmethod
    def of(cls, read: Sequence[Suspect], decided: Mapping[str, Decision]) -> _Review:
        """Match decisions to the rows of a file of suspects, without the rows that earlier decisions dropped.

        Args:
            read: all rows of the file.
            decided: the decisions, by the key of their row.

        Raises:
            ValueError: if all rows are dropped.
        """
        # What was dropped before is in no sample.
        rows = sorted((one for one in read if not one.is_dropped), key=lambda one: one.key)
        if not rows:
            raise ValueError(expected("suspects", "a file with rows that are not dropped", "none"))
        return cls(rows, {row: decided[one.key] for row, one in enumerate(rows) if one.key in decided})

    @property
    def found(self) -> dict[int, bool]:
        """Whether the proposed label of each row with a decision is wrong, by row, without rows of earlier reviews."""
        new = {row: one for row, one in self.decided.items() if not self.rows[row].is_checked}
        return {row: self.rows[row].proposal[0] != one.label for row, one in new.items()}

    def cleaned(self, goal: Goal) -> Cleaning:
        """Choose the rows to check next; if none is left, bound how many labels of the mended table are wrong."""
        n = len(self.rows) - math.floor(goal.drop_share * len(self.rows))
        # Most doubtful rows are dropped, and those of earlier reviews are right.
        p_wrong = np.sort([0.0 if one.is_checked else one.proposal[1] for one in self.rows])[:n]
        may = allowance(p_wrong, sum(not one.label for one in self.decided.values()), goal.at_most, goal.delta)
        return clean_labels(
            doubts(self.rows),
            self.found,
            may.at_most,
            drop=goal.drop_share,
            known=np.array([one.is_checked for one in self.rows]),
            delta=may.delta,
            sampled=may.sampled,
        )

    def mended(self, result: Cleaning) -> dict[int, str]:
        """Return the label of each row of the mended table, by row; a skipped row keeps its given label."""
        labels = {}
        for row, one in enumerate(self.rows):
            decision = self.decided.get(row)
            if decision is None:
                label = "" if result.dropped[row] else one.given if one.is_checked else one.proposal[0]
            else:
                label = decision.label or ("" if decision.decision == DROP else one.given)
            if label:
                labels[row] = label
        return labels


def _decided(decisions: Sequence[Decision], read: Sequence[Suspect]) -> dict[str, Decision]:
    """Return decisions by the key of their row.

    Args:
        decisions: the decisions, at most one for each row.
        read: all rows of the file of suspects.

    Raises:
        ValueError: if a decision is on another row, on another given label, or for a label that is no class.
    """
    # A row that was reviewed before the file was written has its corrected label there.
    unmended = {one.key for one in read if not one.is_checked}
    place = "this file of suspects"
    classes = {label for one in read for label in (one.given, one.suggested, one.alternative)}
    decisions = spelt_alike(decisions, classes)
    check_decided(decisions, {one.key: one.given for one in read}, place, REMEDY, unmended=unmended)
    check_classes(decisions, sorted(classes), place)
    return {one.key: one for one in decisions}


def _most(share: float, at_most: float) -> str:
    """Format the bound `share` in percent, rounded up, but never above `at_most`, the share that was asked for."""
    return f"{100 * at_most:g}%" if float(percent_up(share)[:-1]) > 100 * at_most else percent_up(share)


def doubts(every: Sequence[Suspect]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the rank of each row by the doubt about its proposed label, least first, shape (n,), with ties equal."""
    places = {pair: place for place, pair in enumerate(sorted({one.proposal[1:] for one in every}))}
    return np.array([places[one.proposal[1:]] for one in every], dtype=np.float64)


def _again(suspects: Path, goal: Goal, out: Path | None, decisions: Sequence[Path]) -> str:
    """Return the `mgce clean` command to type after the review, with `decisions`, the files of all decisions."""
    options = ["--at-most", str(goal.at_most), *typed(replace(goal, at_most=Goal.at_most))]
    options += [] if out is None else ["--out", str(out)]
    return shlex.join(["mgce", "clean", str(suspects), *options, "--checked", ",".join(map(str, decisions))])


def _next_step(result: Cleaning, n: int, most: int, asked: Path, command: str) -> tuple[str, list[str]]:
    """Say which `n` of all `most` rows to check next, and return the commands for the review and for after it."""
    why = "drawn at random" if result.kept is None else "whose labels are most doubtful"
    which = f"all {n:,} rows" if n == most else f"{n:,} rows, {why}"
    review = shlex.join(["mgce", "review", str(asked), "--suspects", "0", "--random", str(n)])
    return f"Look up {which}. They are in {asked}.", [review, command]


def _table(every: Sequence[Suspect], labels: Mapping[int, str], table: Path) -> bytes:
    """Return the mended table as the content of a file, in the order of the original lines if these are known."""
    head = [name for name, _ in every[0].cells]
    column = every[0].label_column or LABEL
    while column in head:
        column += "_"
    order = sorted(labels, key=lambda row: (int(every[row].line or 0), every[row].key))
    rows = [[*(value for _, value in every[row].cells), labels[row]] for row in order]
    frame = pd.DataFrame(rows, columns=[*head, column], dtype=object)
    return to_table_file(frame if table.suffix.lower() == ".csv" else frame.apply(_numbers), table)


def _numbers(column: pd.Series[str]) -> pd.Series[Any]:
    """Return a column of texts as numbers if the numbers, written as texts, are the same texts again."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.map(str).tolist() == column.tolist() else column
