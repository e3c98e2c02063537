"""The files that `mgce fit` writes: the model, its report, lists of rows, and changed copies of the table."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mgce._column_types import cells_of, texts
from mgce._files import replacing, write_files
from mgce._messages import expected
from mgce.desk.cli.outputs import check_outputs, check_table
from mgce.desk.columns.embeddings import COLUMN
from mgce.desk.columns.spellings import joined, near_pairs
from mgce.desk.encoders.pictures import thumbnail
from mgce.desk.files.changed_files import changed_text, changed_workbook
from mgce.desk.files.parts import check_outside
from mgce.desk.files.reading import Reading
from mgce.desk.files.table_files import content_of, is_like, is_text_file
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.files.written_tables import to_csv, to_table_file
from mgce.desk.review.suspect_file import PICTURE, check_overwritten
from mgce.desk.tables import report
from mgce.desk.tables.annotations import Annotated
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.listing import suspects_csv
from mgce.desk.tables.suspects_report import WORST


class Change(NamedTuple):
    """What is changed in a table: rows to remove by number, and new labels by row number in the column `target`."""

    rows: Collection[int]
    labels: Mapping[int, str]
    target: str
    mends: bool = False  # whether rows may stay without a label, where none can be removed and all else stay


class Origin(NamedTuple):
    """Where a table is from: its file, the format that was asked for, and how it was read."""

    table: Path
    form: TextFormat
    reading: Reading | None = None


def changed_table(
    origin: Origin, frame: pd.DataFrame, change: Change, out: Path, *, formulas: bool
) -> tuple[bytes, list[str]]:
    """Return the content of the file `out`: the table with some rows removed and some labels changed.

    Also return notes for the user. In the format of the table's file, text files and mended Excel files keep all else
    as it is. Unless `formulas` is true, a cleaned text file may get apostrophes in front of formulas.
    """
    table, form, reading = origin
    if reading is not None:
        form = replace(form, header=reading.header, sheet=reading.sheet)
    if reading is not None and is_like(out, table):
        if is_text_file(table):
            write = partial(changed_text, content_of(table), form, change.rows, (change.target, change.labels))
            return _without_formulas(write, out, unless=change.mends or formulas)
        if change.mends:
            return _changed_workbook(origin, frame, change, out)
    changed = _changed_frame(frame, change)
    if out.suffix.lower() != ".csv":
        return to_table_file(changed, out, sheet=form.sheet), []
    return _without_formulas(partial(to_csv, changed, None), out, unless=formulas)


def _without_formulas(write: Callable[..., bytes], out: Path, *, unless: bool) -> tuple[bytes, list[str]]:
    """Return a file's content, without formulas unless `unless` is true, and a note if cells were changed for it."""
    as_they_are = write(formulas=True)
    safe = as_they_are if unless else write(formulas=False)
    what = "cells that begin with =, +, -, @ or a tab got an apostrophe in front, so that no spreadsheet runs them"
    return safe, [f"In {out}, {what}. --formulas leaves them as they are."] if safe != as_they_are else []


def _changed_workbook(origin: Origin, frame: pd.DataFrame, change: Change, out: Path) -> tuple[bytes, list[str]]:
    """Return a table's Excel file with changed labels, and notes; dropped rows stay in the file, without a label."""
    assert origin.reading is not None and origin.reading.sheet is not None
    labels = {**change.labels, **dict.fromkeys(change.rows, "")}
    rows = np.array([*labels], dtype=np.int64)
    lines = origin.reading.spreadsheet_lines(rows)
    assert lines is not None  # a sheet has lines
    cells = dict(zip(lines.tolist(), labels.values(), strict=True))
    place = frame.columns.tolist().index(change.target) + 1
    content, formulas, stored = changed_workbook(content_of(origin.table), origin.reading.sheet, place, cells)
    notes = []
    if change.rows:
        notes.append(f"In {out}, dropped rows stay in their place, without a label ({len(change.rows):,}).")
    if formulas:
        notes.append(
            f"In {out}, {len(formulas):,} labels are formulas, which stay as they are: mend them in Excel (row "
            f"{formulas[0]}, for one)."
        )
    if stored and cells:
        notes.append(
            f"In {out}, {stored:,} formulas keep the values of before, until Excel calculates again: press Ctrl+Alt+F9."
        )
    return content, notes


def _changed_frame(frame: pd.DataFrame, change: Change) -> pd.DataFrame:
    """Return the table with some rows removed and labels changed; the type of the label column is kept if possible."""
    if change.labels:
        frame = frame.assign(**{change.target: _relabelled(frame[change.target], change.labels)})
    return frame.drop(index=list(change.rows))


def _relabelled(column: pd.Series[Any], labels: Mapping[int, str]) -> pd.Series[Any]:
    """Return a column with some labels changed; the column becomes text if its type has no value for a new label.

    Args:
        column: the labels.
        labels: the new labels as texts, by row number.
    """
    rows, wanted, cells, dtype = list(labels), texts(column), cells_of(column), column.dtype
    wanted.iloc[rows] = list(labels.values())
    known = dict(zip(texts(column), cells, strict=True))
    new = [label for label in dict.fromkeys(labels.values()) if label not in known]
    if new and not (_of_one_type(dtype) or {*map(type, column.dropna())} <= {str}):
        return wanted  # a file has no column of dates and texts
    try:
        if isinstance(dtype, pd.CategoricalDtype) and new:
            added = pd.Index(new).astype(dtype.categories.dtype)
            known |= dict(zip(new, added, strict=True))
            dtype = pd.CategoricalDtype(dtype.categories.union(added, sort=False), dtype.ordered)
        cells[rows] = [known.get(label, label) for label in labels.values()]
        found = pd.Series(cells, index=column.index, name=column.name).astype(dtype)
    except (TypeError, ValueError):  # no number, date or truth value is written like this
        return wanted
    return found if texts(found).equals(wanted) else wanted


def _of_one_type(dtype: Any) -> bool:
    """Return whether a column's dtype stands for values of one type, unlike the dtype object."""
    return not pd.api.types.is_object_dtype(dtype.categories if isinstance(dtype, pd.CategoricalDtype) else dtype)


@dataclass(frozen=True)
class FitFiles:
    """Paths of the files that `mgce fit` writes: model, report and lists in one folder, and changed tables."""

    model: Path
    cleaned: Path | None
    mended: Path | None
    several: bool = False  # whether the table has several labels a row, so that their consensus is written
    of_pictures: bool = False  # whether it is a folder of pictures, so that their features are written
    in_chunks: bool = False  # whether it was fitted to in chunks, so that the file of suspects has parts

    @property
    def report(self) -> Path:
        """The path of the HTML report, beside the model."""
        return self.model.with_suffix(".html")

    @property
    def features(self) -> Path:
        """The path of the features of a folder of pictures."""
        return self.model.with_suffix(".features.npz")

    @property
    def suspects(self) -> Path:
        """The path of the CSV file that lists all rows, the most suspect label first."""
        return self.model.with_suffix(".suspects.csv")

    @property
    def suspect_parts(self) -> Path:
        """The folder for the file of suspects in parts, if the table is fitted to in chunks."""
        return self.model.with_suffix(".suspects")

    def steps(self, steps: Mapping[str, str], decisions: str) -> dict[str, str]:
        """Return what to do next, each with its command; on a table in chunks, only `mgce clean` takes decisions."""
        clean = shlex.join(["mgce", "clean", str(self.suspect_parts), "--checked", decisions])
        mend = "Take the decisions, and say which rows to look up so that few labels are still wrong."
        each = ((mend, clean) if "--checked" in command else (said, command) for said, command in steps.items())
        return dict(each) if self.in_chunks else {**steps}

    @contextmanager
    def chunks(self, table: Path) -> Iterator[tuple[Path, Path]]:
        """Yield two empty folders: one for the chunks, removed at the end, and one that becomes `suspect_parts`.

        Raises:
            ValueError: if `suspect_parts` is something else already, or the model lies in the folder of the table.
        """
        check_outside("out", self.model, table)
        place = self.suspect_parts
        ours = place.is_dir() and all(one.match("part-*.parquet") for one in place.iterdir())
        if place.exists() and not ours:
            raise ValueError(expected("out", f"a path beside which {place.name} can be written", str(self.model)))
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as parts:
            chunks = parts.parent / "chunks"
            for folder in (chunks, parts):
                folder.mkdir()
            yield chunks, parts
            if ours:
                shutil.rmtree(place)

    @property
    def consensus(self) -> Path:
        """The path of the CSV file of the consensus of several labels a row."""
        return self.model.with_suffix(".consensus.csv")

    @property
    def beside(self) -> list[Path]:
        """The paths of the files beside the model that every fit to such a table writes."""
        return [self.report, self.suspects, *[self.consensus] * self.several, *[self.features] * self.of_pictures]

    def check(self, json_file: Path | None, read: Iterable[Path | None], table: Path) -> None:
        """Raise an error before fitting if a file cannot be written, or if an output is an input or another output too.

        Args:
            json_file: the file for the results as JSON, if there is one.
            read: the files that the command reads; None for an option that was left out.
            table: the file with the table that is read.
        """
        changed = {"cleaned": self.cleaned, "mended": self.mended}
        check_outputs({"out": self.model}, read)  # first, since no file has a name beside a folder such as `.`
        check_outputs({"out": [self.model, *self.beside], **changed, "json": json_file}, read)
        check_overwritten("out", self.suspects)
        for option, path in changed.items():
            if path is not None:
                check_table(option, path, table)

    def contents(
        self,
        result: TableFit,
        table: str,
        n_suspects: int,
        steps: Mapping[str, str],
        labelled: Annotated | None = None,
    ) -> dict[str, bytes]:
        """Return the content of the model, the report and the files of suspects and consensus, by file name."""
        pictures = _thumbnails(result, self.model.parent)
        page = report.page(result, table, self.model.name, n_suspects, steps, pictures)
        return {
            **({} if labelled is None else {self.consensus.name: labelled.to_csv()}),
            self.model.name: result.model.to_bytes(),
            self.report.name: page,
            self.suspects.name: suspects_csv(result.judgement, result.row_names, result.listing),
        }

    def write_changed(self, result: TableFit, frame: pd.DataFrame, origin: Origin, *, formulas: bool) -> list[str]:
        """Write the changed tables, and return notes on their cells.

        Args:
            result: the fit.
            frame: the table that was read.
            origin: where the table is from.
            formulas: whether to write cells as they are, even if a spreadsheet would run them.
        """
        notes = []
        for path, change in self._changed(result):
            cells = frame.drop(columns=[COLUMN, PICTURE], errors="ignore")
            content, marked = changed_table(origin, cells, change, path, formulas=formulas)
            write_files(path.parent, {path.name: content})
            notes += marked
            if change.mends and not result.plan.apart:
                notes += _on_spellings(texts(frame[change.target]).drop([*change.labels, *change.rows]), path)
        return notes

    def _changed(self, result: TableFit) -> list[tuple[Path, Change]]:
        """Return for each changed table its path and what is changed."""
        changed, target = [], result.plan.target
        labels: Mapping[int, str] = {} if result.checked is None else result.checked.labels
        dropped = [] if result.checked is None else result.checked.dropped
        if self.cleaned is not None:
            wrong = result.row_names.index[result.judgement.is_issue].tolist()
            changed.append((self.cleaned, Change(sorted({*wrong, *dropped}), labels, target)))
        if self.mended is not None:
            changed.append((self.mended, Change(dropped, labels, target, mends=True)))
        return changed

    def __str__(self) -> str:
        more = [
            (self.several, f"The consensus of the labels, the most doubtful first, is in {self.consensus}."),
            (self.cleaned, f"The rows whose label does not look wrong are in {self.cleaned}."),
            (self.mended, f"The table with all decisions is in {self.mended}."),
        ]
        rows, where = "all rows, those with the most suspect label first,", f"in {self.suspects}"
        if self.in_chunks:
            rows, where = "all rows", f"in parts in {self.suspect_parts}, the most suspect ones in {self.suspects}"
        said = f"The model is in {self.model}, the report in {self.report}, and {rows} {where}."
        return " ".join([said, *(sentence for written, sentence in more if written)])


def _on_spellings(labels: pd.Series[Any], out: Path) -> list[str]:
    """Say how many labels without a decision are spelt otherwise than the class that they equal or resemble."""
    others = {**joined(labels), **dict(near_pairs(labels.value_counts().to_dict()))}
    n = int(labels.isin([*others]).sum())
    if not n:
        return []
    return [f"In {out}, {n:,} labels that nobody decided on keep their spelling ({next(iter(others))!r}, for one)."]


def _thumbnails(result: TableFit, folder: Path) -> dict[int, bytes]:
    """Return small pictures of the most suspect rows, by row; none where the table has no column of pictures."""
    cells = result.listing.cells
    if PICTURE not in cells.columns:
        return {}
    return {row: thumbnail(folder / str(cells[PICTURE].iloc[row])) for row in result.judgement.suspects(WORST).tolist()}
