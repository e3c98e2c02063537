"""Read the file of suspects: one line for each example with its content, the most suspect label first."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mgce._messages import NAMED, expected, listed
from mgce._text import printable, spreadsheet_cell
from mgce.desk.review.decision_file import DECISIONS, DROP, SKIP
from mgce.desk.review.keys import number_text, packed
from mgce.desk.review.rows_of_csv import count_in, one_of, probability_in, rows_of_csv

# The second column names the examples and bears a name of its own. All columns behind these are the example's content.
COLUMNS = (
    *("rank", "", "line", "key", "given", "suggested", "alternative", "p_wrong", "p_given", "p_suggested"),
    *("is_issue", "expected_precision", "checked", "draw", "draw_probability"),
)
PICTURE = "picture"  # the column of files of pictures that `mgce fit` writes for a folder of pictures
NAME = COLUMNS.index("")  # place of the column that names the examples
# How the name of the column behind `COLUMNS` begins, by which edits are noticed; files of older versions lack it. The
# rest of the name is that of the table's column of labels.
CHECK = "row_check: "
TABLE = "table: "  # before the name of a column of the table that a column of ours has too
# What nobody may edit. Of these, a spreadsheet may write labels otherwise, as 1 for 01, which is another class.
LABELS = ("given", "suggested", "alternative")
CHECKED_CELLS = ("key", *LABELS, "checked", "draw")
WHAT_TO_DO = (
    "No command reads labels that are typed into this file. Decide on the page of `mgce review`, or correct the "
    "table itself; then run `mgce fit` again."
)


@dataclass(frozen=True)
class Suspect:
    """An example, and the model's judgement of its label.

    Attributes:
        rank: position of the example, from 1 for the label that is most probably wrong.
        name: name of the example in the id column, or its number.
        line: line number of the example in the table's file, as a spreadsheet counts; "" if the file has no lines.
        key: key that identifies the example: see :mod:`mgce.desk.review.keys`.
        given: label of the example before the review.
        suggested: the most probable class of the example.
        alternative: the most probable class other than the given label.
        is_checked: whether a person has already decided on the example; skipping it is no decision.
        is_dropped: whether a person has decided to drop the example.
        draw: position of the example in a random order of all examples, from 1.
        draw_probability: probability with which the example is the first draw: see `mgce.desk.review.draws.Draws`.
        cells: content of the example, as pairs of a column's name and its value.
        p_wrong: estimated probability that the given label is wrong.
        p_given: the model's probability of the given label.
        p_suggested: the model's probability of the suggested class.
        label_column: the name of the table's column of labels; "" if the file does not say it.
    """

    rank: int
    name: str
    line: str
    key: str
    given: str
    suggested: str
    alternative: str
    is_checked: bool
    draw: int
    draw_probability: float
    cells: tuple[tuple[str, str], ...]
    p_wrong: float = 0.0
    p_given: float = 0.0
    p_suggested: float = 0.0
    is_dropped: bool = False
    label_column: str = ""

    @property
    def proposal(self) -> tuple[str, float, float]:
        """The likelier of the given and the suggested label, how probably it is wrong, and a number to break ties."""
        other = self.p_wrong * min(1.0, self.p_suggested / max(1e-6, 1 - self.p_given))
        if self.suggested != self.given and other > 1 - self.p_wrong:
            return self.suggested, 1 - other, 1 - self.p_suggested
        return self.given, self.p_wrong, 1 - self.p_given


def read_suspects(path: Path) -> list[Suspect]:
    """Read the file of suspects that `mgce fit` wrote.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if the file is not a file of suspects, or its labels or rows were edited.
    """
    head, *rows = rows_of_csv(path, "suspects") or [[]]
    n = len(COLUMNS)
    if not _is_head(head):
        what = f"a file of suspects as `mgce fit` writes it, with the columns {', '.join(filter(None, COLUMNS))}"
        raise ValueError(expected("suspects", what, f"{path.name} with {', '.join(head[:n])}"))
    if not rows:
        raise ValueError(expected("suspects", "a file with rows", "none"))
    found = [_suspect(row, head, place, path) for place, row in enumerate(rows, 2)]
    edited = _edits(head, rows)
    if edited:
        raise ValueError(f"{expected('suspects', 'a file as `mgce fit` wrote it', path.name)} {edited} {WHAT_TO_DO}")
    return found


def check_overwritten(option: str, path: Path) -> None:
    """Raise an error if there is a file of suspects at a path, and a person has edited it: edits would be lost.

    A file that was sorted, or saved with another separator, counts as not edited.

    Args:
        option: the name of the option that states where to write, for errors.
        path: the file that is to be written.

    Raises:
        ValueError: if labels, rows or columns were edited.
    """
    if not path.is_file():
        return
    try:
        head, *rows = rows_of_csv(path, option) or [[]]
    except ValueError:
        return  # no file that `mgce fit` wrote
    edited = _edits(head, rows, written_over=True) if _is_head(head) and rows else ""
    if edited:
        what = expected(option, f"a path whose {path.name} is as `mgce fit` wrote it", str(path))
        raise ValueError(f"{what} {edited} {WHAT_TO_DO} To keep the edited file, give it another name.")


def own_name(name: str) -> str:
    """Return a column's name in the file of suspects; a name that the file uses itself gets the prefix `TABLE`.

    Example:
        >>> own_name("age"), own_name("key"), own_name("table: key")
        ('age', 'table: key', 'table: table: key')
    """
    return TABLE + name if _plain(name) in COLUMNS else name


def _table_name(name: str) -> str:
    """Return a column's name in the table, given its name in the file of suspects."""
    return name.removeprefix(TABLE) if _plain(name) in COLUMNS else name


def _plain(name: str) -> str:
    while name.startswith(TABLE):
        name = name.removeprefix(TABLE)
    return name


def row_checks(cells: Mapping[str, Sequence[object]], n_columns: int) -> list[str]:
    """Return the cells of the column `CHECK`: for each row the size of the file, and a hash of cells not to be edited.

    Args:
        cells: the n cells of each column in `CHECKED_CELLS`.
        n_columns: number of columns of the file, with the column `CHECK`.

    Example:
        >>> row_checks({name: ["x"] for name in CHECKED_CELLS}, 18)
        ['n1x18-a3adc463-e1c66086']
    """
    every = zip(*(map(str, cells[name]) for name in CHECKED_CELLS), strict=True)
    rows = [dict(zip(CHECKED_CELLS, row, strict=True)) for row in every]
    size = f"n{len(rows)}x{n_columns}"
    return [f"{_row_check(row, size)}-{_label_check(row)}" for row in rows]


def _row_check(cells: Mapping[str, str], size: str) -> str:
    """Return the size and a hash of a row that does not depend on how a spreadsheet writes numbers and truth values."""
    texts = [number_text(cells[name]) for name in CHECKED_CELLS]
    return f"{size}-{_hash([size, *(text.upper() if text.upper() in ('TRUE', 'FALSE') else text for text in texts)])}"


def _label_check(cells: Mapping[str, str]) -> str:
    """Return a hash of the labels of a row as they are written."""
    return _hash([cells[name] for name in LABELS])


def _hash(texts: Sequence[str]) -> str:
    # Of 4 bytes: an edit of a row goes unnoticed with probability 2e-10.
    return blake2b(packed(*texts).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _is_head(head: Sequence[str]) -> bool:
    """Return whether these are names of columns of a file of suspects."""
    return (*head[:NAME], "", *head[NAME + 1 : len(COLUMNS)]) == COLUMNS


def _has_check(head: Sequence[str]) -> bool:
    """Return whether a file with these names of columns has the column by which edits are noticed."""
    return len(head) > len(COLUMNS) and head[len(COLUMNS)].startswith(CHECK)


def _edits(head: Sequence[str], rows: Sequence[Sequence[str]], *, written_over: bool = False) -> str:
    """Return a sentence on how a file of suspects was edited; "" if it was not, or if it lacks the column `CHECK`.

    Args:
        head: the names of its columns.
        rows: its rows.
        written_over: whether the file is to be replaced: then an added column is an edit, but not a label that a
            spreadsheet has written otherwise.
    """
    place = len(COLUMNS)
    sizes = [re.fullmatch(r"(n(\d+)x(\d+))-.*", row[place]) if len(row) > place else None for row in rows]
    if not _has_check(head):
        return ""
    whole = next((size for size in sizes if size), None)
    if whole is None:
        return f"The column {head[place]!r} was edited."
    if int(whole[2]) != len(rows):
        return f"It has {len(rows):,} of {int(whole[2]):,} rows."
    if written_over and int(whole[3]) != len(head):
        return f"It has {len(head):,} columns, and had {int(whole[3]):,}."
    edited, rewritten = [], []
    for row in rows:
        cells = dict(zip(COLUMNS, row, strict=False))
        *content, labels = [*row[place].split("-"), ""][:3]  # that of labels as they are written; older files lack it
        if "-".join(content) != _row_check(cells, whole[1]):
            edited.append(row[NAME])
        elif labels not in ("", _label_check(cells)):
            rewritten.append(row[NAME])
    if edited:
        names = f"{', '.join(CHECKED_CELLS[:-1])} or {CHECKED_CELLS[-1]}"
        return printable(f"Cells of {names} were edited in row {listed(edited, NAMED)}.")
    if rewritten and not written_over:
        how = "as a spreadsheet writes 1 for 01 or TRUE for True"
        return printable(f"Labels are written otherwise in row {listed(rewritten, NAMED)}, {how}.")
    return ""


def _suspect(row: list[str], head: list[str], place: int, path: Path) -> Suspect:
    if len(row) != len(head):
        got = f"{len(row)} in line {place} of {path.name}"
        raise ValueError(expected("suspects", f"a file of {len(head)} values in each line", got))
    cell = dict(zip(COLUMNS, row, strict=False))
    where = f"line {place} of {path.name}, row {row[NAME]}"
    checked = one_of(cell, "checked", ("", *DECISIONS), "suspects", where)
    shares = ("p_wrong", "p_given", "p_suggested", "draw_probability")
    values: dict[str, Any] = {name: probability_in(cell, name, "suspects", where) for name in shares}
    values |= {name: count_in(cell, name, "suspects", where) for name in ("rank", "draw")}
    values |= {name: cell[name] for name in ("line", "key", "given", "suggested", "alternative")}
    n = len(COLUMNS) + _has_check(head)
    content = zip(head[n:], row[n:], strict=True)
    return Suspect(
        name=row[NAME],
        is_checked=checked not in ("", SKIP),
        is_dropped=checked == DROP,
        cells=((_table_name(head[NAME]), row[NAME]), *((_table_name(name), value) for name, value in content)),
        label_column=head[n - 1].removeprefix(CHECK) if _has_check(head) else "",
        **values,
    )


def some_suspects(path: Path, keys: Set[str]) -> bytes:
    """Return the content of a file of suspects with only the examples that have one of these keys."""
    head, *rows = rows_of_csv(path, "suspects")
    rows = [row for row in rows if row[COLUMNS.index("key")] in keys]
    place = len(COLUMNS)
    if _has_check(head):
        cells = {name: [row[COLUMNS.index(name)] for row in rows] for name in CHECKED_CELLS}
        checks = row_checks(cells, len(head))
        rows = [[*row[:place], check, *row[place + 1 :]] for row, check in zip(rows, checks, strict=True)]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([spreadsheet_cell(cell) for cell in row] for row in [head, *rows])
    return buffer.getvalue().encode()
