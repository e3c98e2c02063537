"""`mgce predict MODEL TABLE`: classify new rows; write predicted classes with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from mgce._files import replacing, write_files
from mgce._messages import expected
from mgce.desk.cli.embedded import PredictForm, files_of, files_of_encoder, files_of_features, read_new
from mgce.desk.cli.outputs import Json, Quiet, check_outputs, check_table, terminal, write_json
from mgce.desk.cli.shared_options import TABLE, grouped
from mgce.desk.cli.terminal import Terminal, nothing_written_if_interrupted
from mgce.desk.columns.kinds import unlike_their_column
from mgce.desk.files.layout import counted
from mgce.desk.files.parts import Parts, check_outside, is_parts
from mgce.desk.files.table_files import accounted, answer_suffix, frame_as_written, is_table, is_text_file, table_name
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.files.written_tables import to_table_file
from mgce.desk.tables.model import TableModel, predictions_frame

DIGITS = 6  # significant digits of probabilities in a CSV file


@dataclass(frozen=True)
class Result:
    """The options on the table of predictions."""

    out: Annotated[
        Path | None,
        "File for the result: .csv, .xlsx or .parquet [NAME-predictions, as TABLE is]; for a folder of parts, "
        "a new folder.",
    ] = None
    keep_columns: Annotated[bool, "Write the columns of the table too, before the predictions."] = False
    probabilities: Annotated[bool, "Add the probabilities of every class."] = False
    sets: Annotated[bool, "Add a set of classes that contains the label with the coverage of mgce fit."] = False
    formulas: Annotated[bool, "Write names and labels as they are, even if a spreadsheet would run them."] = False


@grouped
def predict(
    *,
    model: Annotated[Path, typer.Argument(help="A file that `mgce fit` has written.")],
    table: Annotated[
        Path,
        typer.Argument(
            help=f"{TABLE} It needs the columns that the model was fitted to. Or a file of features, or a folder of "
            "pictures."
        ),
    ],
    asked: Result,
    form: PredictForm,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Predict the classes of the rows of a table.

    Writes a table: the id of each row, or its number from 1; the predicted class; and its probabilities. q is the
    estimated probability that the class is the right one; models of uncorrected labels have none. h is the minimax
    probability with which the model predicts the class. p is the worst-case probability, for labels as noisy as those
    of the training rows. Where there is q, all three are equal. In a CSV file, an id or class that begins like a
    spreadsheet formula (=, +, -, @) and is not a number gets an apostrophe in front.
    """
    in_parts = is_parts(table)
    out = asked.out or Path(f"{table_name(table)}-predictions{'' if in_parts else answer_suffix(table)}")
    read = [model, *files_of(table), *files_of_features(form.embeddings), *files_of_encoder(form.encoder)]
    check_outputs({"out": out, "json": json_file}, read)
    console, fitted = terminal(json_file, quiet), TableModel.load(model)
    if in_parts:
        check_outside("out", out, table)
    if in_parts and not fitted.columns.width:
        _predict_parts(console, fitted, Parts.of(table), out, asked, json_file)
        return
    check_table("out", out)
    source = read_new(console, fitted, table, fitted.columns.text, (), form)
    frame = source.frame
    fitted.require_room(len(frame))
    found = _Found.of(fitted, frame, fitted.columns.row_names(frame), asked)
    result = found.table
    if asked.keep_columns:
        result = _beside(result, _other_columns(table, frame, fitted, out, form))
    digits = None if asked.keep_columns else DIGITS
    write_files(out.parent, {out.name: to_table_file(result, out, digits, formulas=asked.formulas)})
    _say(console, fitted, out, asked, json_file, [replace(found, notes=[*source.all_notes, *found.notes])])


@dataclass(frozen=True)
class _Found:
    """What is predicted of some rows."""

    table: pd.DataFrame
    counts: dict[str, int]  # numbers of rows by predicted class
    unsure: int  # rows in which no class is likelier than not
    notes: list[str]

    @classmethod
    def of(cls, fitted: TableModel, frame: pd.DataFrame, names: pd.Series[Any], asked: Result) -> _Found:
        """Predict the rows of a table."""
        selected = fitted.columns.select(frame)
        predictions = fitted.predict(selected)
        table = predictions_frame(fitted, predictions, names, every_class=asked.probabilities, sets=asked.sets)
        probs = predictions.p if predictions.q is None else predictions.q
        counts = {str(label): int((predictions.label == label).sum()) for label in fitted.classes}
        notes = [*unlike_their_column(frame, selected, fitted.columns.kinds), *fitted.unseen(selected)]
        return cls(table, counts, int((probs.max(1) < 0.5).sum()), notes)


def _predict_parts(
    console: Terminal, fitted: TableModel, parts: Parts, out: Path, asked: Result, json_file: Path | None
) -> None:
    """Predict the rows of a table in parts, and write a part for each batch of rows; if interrupted, write nothing."""
    if out.exists():
        raise ValueError(expected("out", "the path of a folder that does not exist yet", str(out)))
    found: list[_Found] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    with nothing_written_if_interrupted(console), replacing(out) as folder:
        folder.mkdir()
        for unit in parts.units:
            for first, table in unit.batches():
                frame = accounted(table)[0]
                names = fitted.columns.row_names(frame)
                if names.name == "row":
                    names = pd.Series(map(str, range(first + 1, first + 1 + len(frame))), name="row")
                one = _Found.of(fitted, frame, names, asked)
                result = _beside(one.table, frame) if asked.keep_columns else one.table
                result.to_parquet(folder / f"part-{len(found):05}.parquet", index=False)
                told = [f"In {unit.name}: {note}" for note in one.notes]
                found.append(replace(one, table=one.table.iloc[:0], notes=told))
    _say(console, fitted, out, asked, json_file, found)


def _say(
    console: Terminal, fitted: TableModel, out: Path, asked: Result, json_file: Path | None, found: Sequence[_Found]
) -> None:
    """Print what was predicted, and write it as JSON."""
    counts = {label: sum(one.counts[label] for one in found) for label in found[0].counts}
    unsure, notes = sum(one.unsure for one in found), [note for one in found for note in one.notes]
    read = 10  # notes on parts: nobody reads more
    if len(notes) > read and len(found) > 1:
        notes = [*notes[:read], f"There are {len(notes) - read:,} more such notes on other parts."]
    facts = {"rows": sum(counts.values()), "predictions": counts, "unsure": unsure, "notes": notes}
    write_json(json_file, {"file": out.name, **facts})
    if asked.sets:
        console.print(str(fitted.sets))
    console.print_notes(notes)
    console.print(_summary(counts, out, "q" if fitted.corrects else "p", unsure))


def _summary(counts: Mapping[str, int], out: Path, what: str, unsure: int) -> str:
    """Say how many rows were predicted to be of each class, and which column of the file to read.

    Args:
        counts: numbers of rows by predicted class.
        out: the file.
        what: the column of probabilities to read: "q", or "p" if the model has no q.
        unsure: number of rows in which this probability is below one half for every class.
    """
    by_class = ", ".join(f"{label} {count:,}" for label, count in counts.items())
    said = {
        "q": "Read the column q: the estimated probability that the prediction is right.",
        "p": "Read the column p: the estimated probability that the label is the predicted class. h is the probability "
        "with which the model predicts the class.",
    }
    doubt = f" In {counted(unsure, 'row')}, {what} is below 0.5 for every class."
    return f"{sum(counts.values()):,} rows: {by_class}. They are in {out}. {said[what]}{doubt if unsure else ''}"


def _other_columns(table: Path, frame: pd.DataFrame, fitted: TableModel, out: Path, form: TextFormat) -> pd.DataFrame:
    """Return the columns to write beside predictions; from text file to text file, cells are copied as written."""
    as_written = out.suffix.lower() == ".csv" and is_table(table) and is_text_file(table)
    columns = frame_as_written(table, form) if as_written else frame
    return columns.drop(columns=fitted.columns.kinds if fitted.columns.width else [])


def _beside(result: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the table, then their predictions; the names of the rows come first, and only once.

    Numbers of the predictions are rounded as in a file without these columns. All other cells are as they were read.

    Raises:
        ValueError: if the table has a column of the same name as one of the predictions.
    """
    name, *added = result.columns
    both = [column for column in added if column in frame.columns]
    if both:
        raise ValueError(expected("keep_columns", f"left out for a table with a column {both[0]!r}", "given"))
    rounded = result.iloc[:, 1:].map(lambda cell: float(f"{cell:.{DIGITS}g}") if isinstance(cell, float) else cell)
    return pd.concat([result.iloc[:, :1], frame.drop(columns=name, errors="ignore"), rounded], axis=1)
