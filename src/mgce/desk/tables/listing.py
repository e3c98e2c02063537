"""Write the file of suspects of a table: all rows with their cells, the most suspect label first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce.desk.files.reading import Reading
from mgce.desk.files.written_tables import to_csv
from mgce.desk.review.draws import Draws, draw
from mgce.desk.review.suspect_file import CHECK, CHECKED_CELLS, COLUMNS, NAME, own_name, row_checks
from mgce.desk.tables.rows import Rows, Split, row_keys
from mgce.labels.doubtful import DoubtfulLabels

# The probabilities that are told apart. With six seeds, the standard deviation of one that is about 0.5 was 0.08 on
# adult and 0.30 on letter (1,000 rows, 20 % of the labels wrong), 0.04 and 0.14 near 0.9, 0.02 and 0.05 near 0.95, and
# 0.01 near 0.99. Neighbours are at least about that far apart.
LEVELS = np.array([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])


@dataclass(frozen=True)
class Listing:
    """The columns of the file of suspects, for each of n rows, except the judgement of the row's label."""

    cells: pd.DataFrame  # (n, d), all columns but that of the labels and that of the names
    keys: list[str]  # (n,)
    lines: NDArray[np.int64] | None  # (n,), as a spreadsheet counts them; None where the table is no text file
    draws: Draws
    checked: Mapping[int, str]  # decisions by the index of the row
    target: str  # the column of the labels

    @classmethod
    def of(
        cls, frame: pd.DataFrame, rows: Rows, split: Split, reading: Reading | None, checked: Mapping[int, str]
    ) -> Listing:
        """Collect the content of those rows of a table whose label is one of the classes.

        Args:
            frame: the table as it was read, with rows numbered from 0.
            rows: the rows with a label, and which of them are held out.
            split: the settings.
            reading: the description of the table's file, if the table was read from a file.
            checked: decisions by the index of the row among `rows`.
        """
        place = rows.frame.index.to_numpy()
        every = row_keys(frame, split.target, split.id)
        keys = [every[row] for row in place]
        held_out = np.zeros(len(place), dtype=bool)
        held_out[rows.held_out] = True
        embeddings = rows.columns.kinds if rows.columns.width else ()
        others = [name for name in frame.columns if name not in (split.target, split.id, *embeddings)]
        lines = None if reading is None else reading.spreadsheet_lines(place)
        cells = rows.frame[others].copy(deep=False)
        for name in others:
            cells[name] = _whole(cells[name])
        return cls(cells, keys, lines, draw(keys, held_out, split.seed), checked, split.target)


def _whole(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of whole numbers as integers even if a number is missing: pandas reads it as floats then."""
    if column.dtype.kind != "f" or column.notna().all() or not (column.dropna() % 1 == 0).all():
        return column
    return column.astype("Int64") if column.abs().max() < 2**53 else column


def rounded(wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round probabilities to the coarse steps `LEVELS`, so that fits with different seeds mostly agree."""
    return np.asarray(LEVELS[np.abs(wrong[:, None] - LEVELS).argmin(1)])


def probability_text(wrong: float) -> str:
    """Format the probability of a wrong label, rounded to `LEVELS`, with > or < at the largest and least step.

    Example:
        >>> [probability_text(wrong) for wrong in (0.9999, 0.97, 0.6, 0.001)]
        ['>99%', '95%', '50%', '<1%']
    """
    level = f"{100 * rounded(np.array([wrong]))[0]:.0f}%"
    return f">{level}" if wrong > LEVELS[-1] else f"<{level}" if wrong < LEVELS[0] else level


def suspects_csv(judged: DoubtfulLabels, names: pd.Series[Any], listing: Listing) -> bytes:
    """Write doubtful labels as a CSV file with a line for every row of the table, the most suspect label first.

    The column `expected_precision` is the expected share of wrong labels among the lines from the first to the current
    one. The column `draw` is the row's position in a random order of all rows.

    Args:
        judged: the labels, with the probability that each is wrong.
        names: the name of each row, shape (n,); the name of the series heads the second column.
        listing: the other content of each line.

    Returns:
        The content of the file.
    """
    values = own_columns(judged, names, listing)
    return to_csv(file_of_suspects(values, listing.cells, listing.target, str(names.name)).iloc[judged.order], None)


def own_columns(judged: DoubtfulLabels, names: pd.Series[Any], listing: Listing) -> dict[str, Any]:
    """Return the columns of a file of suspects, except the cells of the table, for n rows in the order of the table."""
    n = len(judged.target)
    rows, order = np.arange(n), judged.order
    texts = np.array([str(label) for label in judged.classes], dtype=object)
    others = judged.probs.copy()
    others[rows, judged.target] = -1
    precision = np.empty(n)
    precision[order] = judged.wrong[order].cumsum() / np.arange(1, n + 1)
    return {
        "rank": np.argsort(order) + 1,
        "": names.astype(str).to_numpy(),
        "line": np.full(n, "", dtype=object) if listing.lines is None else listing.lines,
        "key": listing.keys,
        "given": texts[judged.target],
        "suggested": texts[judged.suggestion],
        "alternative": texts[others.argmax(1)],
        "p_wrong": rounded(judged.wrong),
        "p_given": judged.probs[rows, judged.target].round(2),
        "p_suggested": judged.probs[rows, judged.suggestion].round(2),
        "is_issue": judged.is_issue,
        "expected_precision": precision.round(4),
        "checked": [listing.checked.get(int(row), "") for row in rows],
        "draw": listing.draws.number,
        "draw_probability": [float(f"{value:.6g}") for value in listing.draws.probability],
    }


def file_of_suspects(values: Mapping[str, Any], cells: pd.DataFrame, target: str, name: str) -> pd.DataFrame:
    """Return the table of a file of suspects: the columns of `mgce`, a check of each row, and the columns of the table.

    Args:
        values: the columns of `mgce` by their names in `mgce.desk.review.suspect_file.COLUMNS`, each of n values.
        cells: all other columns, shape (n, d).
        target: the column of the labels in their table.
        name: the name of the column that names the rows.
    """
    own = pd.DataFrame({column: values[column] for column in COLUMNS})
    checks = row_checks({column: own[column].tolist() for column in CHECKED_CELLS}, len(COLUMNS) + 1 + cells.shape[1])
    others = cells.reset_index(drop=True).rename(columns=own_name)
    table = pd.concat([own.assign(**{CHECK + target: checks}), others], axis=1)
    return table.set_axis([*COLUMNS[:NAME], own_name(name), *table.columns[NAME + 1 :]], axis=1)
