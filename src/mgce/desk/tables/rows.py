"""Split the labelled rows of a table into training and held-out rows, and compute keys by which to find them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mgce._column_types import cells_of, texts
from mgce._limits import CHUNK_ROWS
from mgce._messages import NAMED, check_count, expected, expected_share, listed
from mgce._row_order import content_order
from mgce._text import spreadsheet_text
from mgce.desk.columns.copies import numbered, things_and_copies
from mgce.desk.columns.kinds import Columns, names_of_rows
from mgce.desk.columns.notes import held_out_together, without_label
from mgce.desk.files.layout import were
from mgce.desk.files.table_files import require_column
from mgce.desk.files.tables import make_table
from mgce.desk.review.keys import DIGITS, example_keys, is_long, number_text, packed
from mgce.desk.tables.model import row_prints

IntArray = NDArray[np.int64]
# A table of 400 classes, 20 rows of each, takes two minutes and 3 GB: forests and what they say grow with the classes.
MOST_CLASSES = 500
MOST_PROBABILITIES = 10**8  # rows times classes, of which there are several arrays of 8 bytes at a time


@dataclass(frozen=True)
class Split:
    """The settings of a split: how to draw the held-out rows, and which columns are not features.

    Without `groups` and `time`, the rows to hold out are drawn at random. If rows are equal in all features more often
    than by chance, they are held out together or not at all, even if their labels differ.

    Attributes:
        target: the column of the labels.
        id: the column that names the rows.
        drop: further columns that are not used as features.
        groups: a column whose equal values mark rows that depend on one another, such as the visits of one patient:
            either all rows of a group are held out, or none.
        time: a column of numbers or dates by which rows are sorted: the last rows are held out.
        holdout: share of the rows, or of the groups, to hold out, in (0, 1).
        seed: seed of the random draw.
        text: columns that are text, whatever their values look like.
        category: columns that are categories, whatever their values look like.
        number: columns that are numbers, whatever their values look like.
        apart: whether labels that differ in case, blanks, hyphens, width or final points are different classes.
    """

    target: str
    id: str | None = None
    drop: tuple[str, ...] = ()
    groups: str | None = None
    time: str | None = None
    holdout: float = 0.25
    seed: int = 0
    text: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    apart: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.holdout < 1:
            raise ValueError(expected_share("holdout", "a float in (0, 1)", self.holdout))
        check_count("seed", self.seed, minimum=0)
        if self.groups is not None and self.time is not None:
            raise ValueError(expected("time", "left out where there are groups", self.time))

    def columns(self, frame: pd.DataFrame) -> Columns:
        """Return the columns of a table, with their kinds, inferred from the values or set by these settings."""
        told = {"text": self.text, "category": self.category, "number": self.number}
        return replace(Columns.of(frame, self.target, self.id, self.unlearnt, **told), apart=self.apart)

    def names_of_rows(self, frame: pd.DataFrame) -> tuple[str, ...]:
        """Return the columns that only name or number the rows, so that nothing can be learnt from them."""
        features = [name for name in frame.columns if name not in (self.target, *self.unlearnt)]
        return tuple(names_of_rows(frame, features, self.told))

    @property
    def told(self) -> tuple[str, ...]:
        """The names of the columns whose kind the user stated."""
        return (*self.text, *self.category, *self.number)

    @property
    def unlearnt(self) -> tuple[str, ...]:
        """The names of the columns that the model does not use: neither target nor feature."""
        names = (self.id, *self.drop, self.groups, self.time)
        return tuple(name for name in names if name is not None)


@dataclass(frozen=True)
class Rows:
    """The n rows of a table that have a label of a class, and their split into training rows and rows held out."""

    frame: pd.DataFrame  # the table as read, n rows
    columns: Columns  # with the kinds inferred from the training rows
    selected: pd.DataFrame  # the features, as `Columns.select` returns them, n rows
    labels: pd.Series[Any]  # (n,), as text
    target: IntArray  # (n,), the labels as indices into `classes`
    classes: NDArray[np.str_]  # (k,), sorted
    names: pd.Series[Any]  # (n,), values of the id column, or numbers of the rows in the file from 1
    train: IntArray  # indices of the training rows among the n rows, in an order that does not depend on the file's
    held_out: IntArray  # indices of the rows held out, likewise; of the copies of a row, only one is in either
    first: IntArray  # (n,), the index of the row that stands for all copies of a row: its own, if it has none
    n_copies: int  # labelled rows that are copies, not counting one row of each set of copies
    groups: NDArray[Any] | None = None  # (n,), the group of each row, if rows were held out by groups
    # Features of further rows held out, whose label is none of the classes: errors of any model; and their groups.
    unknown: pd.DataFrame = field(default_factory=pd.DataFrame)
    unknown_groups: NDArray[Any] | None = None
    notes: list[str] = field(default_factory=list)  # for the user, about rows that were left out, and about copies
    weights: NDArray[np.float64] | None = None  # of the rows, (n,), where they are not the numbers of their copies

    @property
    def distinct(self) -> IntArray:
        """The indices of the rows without their copies."""
        return np.concatenate([self.train, self.held_out])

    def weight(self, rows: IntArray) -> NDArray[np.float64] | None:
        """Return the weight of each of these rows: `weights`, or else its number of copies; None without any copies."""
        if self.weights is not None:
            return self.weights[rows]
        return np.bincount(self.first, minlength=len(self.first))[rows].astype(float) if self.n_copies else None


def split_rows(frame: pd.DataFrame, split: Split) -> Rows:
    """Leave out rows without a label, hold out some of the rest, and infer the columns' kinds from the training rows.

    The draw of rows to hold out is not stratified by class, since a certificate needs independent draws.

    A label of one training row, or none, is more likely a typing error than a class. Rows with such a label are left
    out of training. Held-out rows with such a label still count in the certificate, as errors of the model. Without
    these rows, the certificate would not be computed from a random sample of the labelled rows.

    Args:
        frame: the table.
        split: the settings.

    Raises:
        ValueError: if a column is missing, the labels are no classes, or there are too few rows.
    """
    require_columns(frame, split)
    labelled = frame[frame[split.target].notna()]
    if labelled.empty:
        raise ValueError(expected(split.target, "a column with labels", "none"))
    notes = without_label(len(frame) - len(labelled))
    draw = _Draw.of(labelled, split)
    held_out, order, first = draw.held_out, draw.order, draw.first
    columns = split.columns(labelled[~held_out])
    labels = columns.labels(labelled)
    make_table("table", columns.select(labelled), labels)  # called for its checks, before rare labels are left out
    is_first = first == np.arange(len(first))
    counts = labels[~held_out & is_first].value_counts().reindex(labels.unique(), fill_value=0)
    rare = sorted(counts[counts < 2].index)
    keep = ~labels.isin(rare).to_numpy()
    notes += _on_rare(rare, int((~keep).sum()), int((held_out & ~keep & is_first).sum()))
    n_copies = int((~is_first).sum())
    notes += held_out_together(n_copies, len(labelled))
    unknown = order[(held_out & ~keep & is_first)[order]]
    groups = draw.groups
    kept = labelled[keep]
    if labels[keep].nunique() < 2:
        what = "rows enough that two classes have two each to learn from, beside those held out"
        raise ValueError(expected("table", what, f"{len(labelled)} with a label"))
    table = make_table("table", columns.select(kept), labels[keep])
    _check_size(len(kept), len(table.classes))
    place = np.cumsum(keep) - 1  # of the kept rows, from their place among those with a label
    return Rows(
        frame=kept,
        columns=columns,
        selected=table.features,
        labels=labels[keep],
        target=table.target,
        classes=np.array(table.classes),
        names=columns.row_names(frame).loc[kept.index],
        train=place[order[(~held_out & keep & is_first)[order]]],
        held_out=place[order[(held_out & keep & is_first)[order]]],
        first=place[first[keep]],
        n_copies=n_copies,
        groups=None if groups is None else groups[keep],
        unknown=columns.select(labelled.iloc[unknown]),
        unknown_groups=None if groups is None else groups[unknown],
        notes=notes,
    )


def _check_size(n_rows: int, n_classes: int) -> None:
    """Raise an error for tables whose fit would take hours, or too much memory.

    Raises:
        ValueError: if there are too many classes, or too many probabilities for all rows and classes.
    """
    if n_classes > MOST_CLASSES:
        raise ValueError(expected("target", f"a column of at most {MOST_CLASSES} classes", n_classes))
    if n_rows * n_classes > MOST_PROBABILITIES:
        most = f"of at most {MOST_PROBABILITIES // n_classes:,} rows for {n_classes} classes"
        raise ValueError(expected("table", most, n_rows))


def require_columns(frame: pd.DataFrame, split: Split) -> None:
    """Check that the table has the columns that the settings name, that none is the target, and none has two kinds."""
    for option in ("target", "id", "groups", "time", "drop", "text", "category", "number"):
        value = getattr(split, option)
        for name in value if isinstance(value, tuple) else (value,) * (value is not None):
            require_column(frame, name, option)
            if option != "target" and name == split.target:
                raise ValueError(expected(option, "another column than the target", name))
    for option, others in (("category", split.text), ("number", (*split.text, *split.category))):
        for name in {*getattr(split, option)} & {*others}:
            other = "text" if name in split.text else "of categories"
            raise ValueError(expected(option, f"a column that is not {other} too", name))


@dataclass(frozen=True)
class _Draw:
    """The split of n labelled rows: which of them are held out."""

    held_out: NDArray[np.bool_]  # (n,)
    order: IntArray  # (n,), the rows in an order that does not depend on the file's
    first: IntArray  # (n,), the row that stands for all copies of a row: the first of them in this order
    groups: NDArray[np.int64] | None  # (n,), the group of each row, if rows are held out by groups

    @classmethod
    def of(cls, frame: pd.DataFrame, split: Split) -> _Draw:
        """Hold out random rows, random groups or the last rows; copies, and groups that share copies, stay together."""
        columns = split.columns(frame)
        times = [] if split.time is None else [_times(frame[split.time])]
        selected, labels = columns.select(frame), columns.labels(frame)
        order, things, first = copies_in_order(frame, selected, labels, split.unlearnt, *times)
        units, groups = things, None
        if split.groups is not None:
            units = groups = joined_groups(numbered(group_names(frame[split.groups].iloc[order])), things)
        drawn = _drawn(units, split)
        held_out = drawn[units]
        back = np.argsort(order)
        return cls(held_out[back], order, order[first][back], None if groups is None else groups[back])


def copies_in_order(
    frame: pd.DataFrame,
    selected: pd.DataFrame,
    labels: pd.Series[Any],
    others_named: Iterable[str],
    *times: NDArray[np.float64],
) -> tuple[IntArray, IntArray, IntArray]:
    """Sort the rows of a table by their content, and find their copies.

    Args:
        frame: the table.
        selected: its features; rows are sorted by `times`, then by hashes of features and label, then of other columns.
        labels: its labels.
        others_named: names of other columns; the table need not have them.
        *times: numbers of the rows, by which they are sorted first.

    Returns:
        Three arrays of shape (n,). The first has the indices that sort the rows. The second has, for each sorted row,
        the number of the thing that it describes: see :func:`things_and_copies`. The third has the place of the first
        of its copies. Things are numbered in the order of their first rows.
    """
    others = frame[[name for name in dict.fromkeys(others_named) if name in frame.columns]]
    prints = [row_prints(selected, labels)]
    if others.shape[1]:
        prints.append(np.asarray(pd.util.hash_pandas_object(others.astype(str), index=False), dtype=np.uint64))
    order = content_order(*times, *prints).astype(np.int64)
    things, same = things_and_copies(selected.iloc[order], labels.iloc[order])
    return order, things, np.unique(same, return_index=True)[1][same]


def _drawn(units: IntArray, split: Split) -> NDArray[np.bool_]:
    """Return for each unit 0, 1, ..., a thing or a group, whether it is held out: random units, or the last in time."""
    n_units = int(units.max()) + 1
    n = round(split.holdout * n_units)
    if not 0 < n < n_units:
        if split.groups is not None:
            enough = f"a column of so many groups that a share of {split.holdout:g} can be held out"
            raise ValueError(expected("groups", enough, n_units))
        enough = f"of so many rows that a share of {split.holdout:g} can be held out"
        raise ValueError(expected("table", enough, n_units))
    drawn = np.zeros(n_units, dtype=bool)
    if split.time is not None:
        drawn[-n:] = True
    else:
        drawn[np.random.default_rng(split.seed).permutation(n_units)[:n]] = True
    return drawn


def joined_groups(groups: IntArray, same: IntArray) -> IntArray:
    """Merge groups with rows of one number in `same`; return for each row the number of its merged group."""
    n_groups, n_same = int(groups.max()) + 1, int(same.max()) + 1
    if n_same == len(same):
        return groups
    edges = coo_array((np.ones(len(same)), (groups, n_groups + same)), shape=(n_groups + n_same,) * 2)
    return numbered(connected_components(edges, directed=False)[1][groups])


def group_names(column: pd.Series[Any]) -> NDArray[np.str_]:
    """Return the name of each row's group.

    A row without a value is a group by itself. The name of this group begins with a null character, so no value of a
    text file equals it.
    """
    values = zip(texts(column), column.notna(), strict=True)
    return np.array([value if present else f"\0{row}" for row, (value, present) in enumerate(values)])


def _times(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Return a column of numbers or dates as numbers; a missing value becomes -inf, which sorts first."""
    columns = Columns.of(column.to_frame("time").assign(target=0), "target")
    if columns.kinds.get("time", "category") == "category":
        raise ValueError(expected("time", "a column of numbers, or of dates like 2024-05-31", column.iloc[0]))
    times = columns.select(column.to_frame("time"))["time"].to_numpy()
    return np.where(np.isnan(times), -np.inf, times)


def _on_rare(rare: list[str], n: int, held_out: int) -> list[str]:
    """Report, if there are any rare labels, that the n rows with these labels were left out, some of them held out."""
    if not rare:
        return []
    labels = listed([*map(repr, rare)], NAMED)
    said = f"{were(n, 'row')} left out: fewer than two training rows have their label ({labels})."
    errors = f" The bound counts {held_out:,} of them as errors of the model, since they were held out."
    return [said + (errors if held_out else "")]


def row_keys(frame: pd.DataFrame, target: str, id: str | None = None) -> list[str]:
    """Return for each row a key that depends neither on the row's label nor on the order of rows and columns.

    If a column names the rows and has a different value in every row, the key is made from this column. Otherwise it
    is made from all cells except the label. Empty cells are ignored, so a new column without values changes no key.

    Args:
        frame: the table.
        target: the column of the labels.
        id: the column that names the rows, if any.
    """
    labels = _texts(frame[target])
    if id is not None and frame[id].notna().all() and frame[id].is_unique:
        names, is_named = [id], False
    else:
        names, is_named = sorted(name for name in frame.columns if name != target), True

    before = [packed(spreadsheet_text(name)) if is_named else "" for name in names]

    def content(table: pd.DataFrame, *, exact: bool = False) -> Iterator[str]:
        for first in range(0, len(table), CHUNK_ROWS):
            some = table.iloc[first : first + CHUNK_ROWS]
            columns = []
            for start, name in zip(before, names, strict=True):
                texts = _texts(some[name], exact=exact)
                columns.append([f"{start}{len(text)}:{text}" if text or not is_named else "" for text in texts])
            yield from map("".join, zip(*columns, strict=True)) if columns else [""] * len(some)

    return example_keys(content(frame), labels, lambda places: [*content(frame.iloc[places], exact=True)])


def _texts(column: pd.Series[Any], *, exact: bool = False) -> list[str]:
    """Return the cells as texts that do not depend on the type with which the column was read.

    Args:
        column: the cells.
        exact: whether different cells have different texts; otherwise texts are in standard form.
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f" and not exact and _are_short(column):
        return ["" if number != number else f"{number:.{DIGITS}g}" for number in column.tolist()]
    cells = cells_of(column)
    if column.dtype.kind in "iuf":
        form = _exact_number if exact else _number
        return ["" if number != number else form(number) for number in cells.tolist()]
    # Of a day without a time, only the day, as other programs write no midnight; and no apostrophe before a formula.
    texts = (spreadsheet_text(str(cell).removesuffix(" 00:00:00")) for cell in cells)
    whole = (text if exact else number_text(text) for text in texts)
    return [text if there else "" for text, there in zip(whole, column.notna(), strict=True)]


def _are_short(numbers: pd.Series[Any]) -> bool:
    """Return whether all numbers are so small that :func:`mgce.desk.review.keys.is_long` is false of each."""
    return not bool((numbers.abs() >= 10**DIGITS).any())


def _number(number: float) -> str:
    return str(int(number)) if isinstance(number, int) or is_long(number) else f"{number:.{DIGITS}g}"


def _exact_number(number: float) -> str:
    return repr(int(number) if number == number // 1 else number)
