"""Read the file of suspects: one line for each example with its content, the most suspect label first."""

from __future__ import annotations

import csv
import io
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from mgce._text import spreadsheet_cell
from mgce._validation import expected
from mgce.review.decision_file import DROP, SKIP
from mgce.review.rows_of_csv import number, rows_of_csv

# The second column names the examples and bears a name of its own. All columns behind these are the example's content.
COLUMNS = (
    *("rank", "", "line", "key", "given", "suggested", "alternative", "p_wrong", "p_given", "p_suggested"),
    *("is_issue", "expected_precision", "checked", "draw", "draw_probability"),
)
PICTURE = "picture"  # the column of files of pictures that `mgce fit` writes for a folder of pictures
NAME = 1  # place of the column that names the examples


@dataclass(frozen=True)
class Suspect:
    """An example, and the model's judgement of its label.

    Attributes:
        rank: position of the example, from 1 for the label that is most probably wrong.
        name: name of the example in the id column, or its number.
        line: line number of the example in the table's file, as a spreadsheet counts; "" if the file has no lines.
        key: key that identifies the example: see :mod:`mgce.review.keys`.
        given: label of the example before the review.
        suggested: the most probable class of the example.
        alternative: the most probable class other than the given label.
        is_checked: whether a person has already decided on the example; skipping it is no decision.
        is_dropped: whether a person has decided to drop the example.
        draw: position of the example in a random order of all examples, from 1.
        draw_probability: probability with which the example is the first draw: see :class:`mgce.review.draws.Draws`.
        cells: content of the example, as pairs of a column's name and its value.
        p_wrong: estimated probability that the given label is wrong.
        p_given: the model's probability of the given label.
        p_suggested: the model's probability of the suggested class.
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

    @property
    def proposal(self) -> tuple[str, float, float]:
        """The likelier one of the given and the suggested label; how probably it is wrong; and what breaks ties."""
        other = self.p_wrong * min(1.0, self.p_suggested / max(1e-6, 1 - self.p_given))
        if self.suggested != self.given and other > 1 - self.p_wrong:
            return self.suggested, 1 - other, 1 - self.p_suggested
        return self.given, self.p_wrong, 1 - self.p_given


def read_suspects(path: Path) -> list[Suspect]:
    """Read the file of suspects that `mgce fit` wrote.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if the file is not a file of suspects.
    """
    head, *rows = rows_of_csv(path, "suspects") or [[]]
    n = len(COLUMNS)
    named = [*head[:NAME], "", *head[NAME + 1 : n]]
    if tuple(named) != COLUMNS:
        what = f"a file of suspects as `mgce fit` writes it, with the columns {', '.join(filter(None, COLUMNS))}"
        raise ValueError(expected("suspects", what, f"{path.name} with {', '.join(head[:n])}"))
    if not rows:
        raise ValueError(expected("suspects", "a file with rows", "none"))
    return [_suspect(row, head, place, path) for place, row in enumerate(rows, 2)]


def _suspect(row: list[str], head: list[str], place: int, path: Path) -> Suspect:
    if len(row) != len(head):
        got = f"{len(row)} in row {place} of {path.name}"
        raise ValueError(expected("suspects", f"a file of {len(head)} values in each row", got))
    cell = dict(zip(COLUMNS, row, strict=False))
    try:
        rank, drawn, probability = int(cell["rank"]), int(cell["draw"]), number(cell["draw_probability"])
        opinion = {name: number(cell[name]) for name in ("p_wrong", "p_given", "p_suggested")}
    except ValueError:
        what = "a file with numbers in the columns rank, draw, draw_probability, p_wrong, p_given and p_suggested"
        raise ValueError(expected("suspects", what, f"row {place} of {path.name}")) from None
    content = zip(head[len(COLUMNS) :], row[len(COLUMNS) :], strict=True)
    return Suspect(
        rank=rank,
        name=row[NAME],
        line=cell["line"],
        key=cell["key"],
        given=cell["given"],
        suggested=cell["suggested"],
        alternative=cell["alternative"],
        is_checked=cell["checked"] not in ("", SKIP),
        is_dropped=cell["checked"] == DROP,
        draw=drawn,
        draw_probability=probability,
        cells=((head[NAME], row[NAME]), *content),
        **opinion,
    )


def some_suspects(path: Path, keys: Set[str]) -> bytes:
    """Return the content of a file of suspects with only the examples that have one of these keys."""
    head, *rows = rows_of_csv(path, "suspects")
    place = COLUMNS.index("key")
    buffer = io.StringIO()
    lines = csv.writer(buffer, lineterminator="\n")
    lines.writerows([spreadsheet_cell(cell) for cell in row] for row in [head, *(r for r in rows if r[place] in keys)])
    return buffer.getvalue().encode()
