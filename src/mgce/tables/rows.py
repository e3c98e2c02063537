"""Split the labelled rows of a table into training rows and rows held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mgce._validation import check_count, expected
from mgce.datasets.table_files import column_list
from mgce.datasets.tables import make_table
from mgce.tables.columns import Columns
from mgce.tables.notes import without_label

if TYPE_CHECKING:
    import pandas as pd

IntArray = NDArray[np.int64]
LABELS_IN_NOTE = 5  # labels that a note lists by name; it only counts the rest
# A table of 400 classes, 20 rows of each, takes two minutes and 3 GB: forests and what they say grow with the classes.
MOST_CLASSES = 500
MOST_PROBABILITIES = 10**8  # rows times classes, of which there are several arrays of 8 bytes at a time


@dataclass(frozen=True)
class Split:
    """The settings by which rows are held out, and the columns that are not features.

    Without `groups` and `time`, the rows to hold out are drawn at random.

    Attributes:
        target: the column of the labels.
        id: the column that names the rows.
        drop: further columns that are not used as features.
        groups: a column whose equal values mark rows that depend on one another, such as the visits of one patient:
            either all rows of a group are held out, or none.
        time: a column of numbers or dates by which rows are sorted: the last rows are held out.
        holdout: share of the rows, or of the groups, to hold out, in (0, 1).
        seed: of the random draw.
    """

    target: str
    id: str | None = None
    drop: tuple[str, ...] = ()
    groups: str | None = None
    time: str | None = None
    holdout: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.holdout < 1:
            raise ValueError(expected("holdout", "a float in (0, 1)", self.holdout))
        check_count("seed", self.seed, minimum=0)
        if self.groups is not None and self.time is not None:
            raise ValueError(expected("time", "left out where there are groups", self.time))

    @property
    def unlearnt(self) -> tuple[str, ...]:
        """The columns that are neither the target nor features."""
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
    train: IntArray  # indices of the training rows among the n rows
    held_out: IntArray  # indices of the rows held out
    groups: NDArray[Any] | None  # (n,), the group of each row, if rows were held out by groups
    unknown: pd.DataFrame  # features of further rows held out, whose label is none of the classes: errors of any model
    unknown_groups: NDArray[Any] | None  # their groups
    notes: list[str]  # sentences for the user about rows that were left out


def split_rows(frame: pd.DataFrame, split: Split) -> Rows:
    """Leave out rows without a label, hold out some of the rest, and infer the kinds of the columns from the others.

    The draw of rows to hold out is not stratified by class, since a certificate needs independent draws.

    A label that only one training row has, or none, is more likely a typing error than a class, and cannot be learnt:
    its rows are left out. Those of them that were held out still count in the certificate, as errors of the model.
    Without them, the rows of the certificate would not be a random sample of the labelled rows.

    Args:
        frame: the table.
        split: the settings.

    Raises:
        ValueError: if a column is missing, the labels are no classes, or there are too few rows.
    """
    _require(frame, split)
    labelled = frame[frame[split.target].notna()]
    if labelled.empty:
        raise ValueError(expected(split.target, "a column with labels", "none"))
    notes = without_label(len(frame) - len(labelled))
    held_out = _held_out(labelled, split)
    columns = Columns.of(labelled[~held_out], split.target, split.id, split.unlearnt)
    labels = columns.labels(labelled)
    make_table("table", columns.select(labelled), labels)  # called for its checks, before rare labels are left out
    counts = labels[~held_out].value_counts().reindex(labels.unique(), fill_value=0)
    rare = sorted(counts[counts < 2].index)
    notes += _on_rare(rare, int(labels.isin(rare).sum()))
    keep = ~labels.isin(rare).to_numpy()
    unknown = held_out & ~keep
    groups = None if split.groups is None else group_names(labelled[split.groups])
    kept, held_out = labelled[keep], held_out[keep]
    if labels[keep].nunique() < 2:
        what = "rows enough that two classes have two each to learn from, beside those held out"
        raise ValueError(expected("table", what, f"{len(labelled)} with a label"))
    table = make_table("table", columns.select(kept), labels[keep])
    _check_size(len(kept), len(table.classes))
    return Rows(
        frame=kept,
        columns=columns,
        selected=table.features,
        labels=labels[keep],
        target=table.target,
        classes=np.array(table.classes),
        names=columns.row_names(frame).loc[kept.index],
        train=np.flatnonzero(~held_out),
        held_out=np.flatnonzero(held_out),
        groups=None if groups is None else groups[keep],
        unknown=columns.select(labelled[unknown]),
        unknown_groups=None if groups is None else groups[unknown],
        notes=notes,
    )


def _check_size(n_rows: int, n_classes: int) -> None:
    """Refuse what would take hours, or more memory than there is.

    Raises:
        ValueError: if the classes, or the probabilities of all rows and classes, are too many.
    """
    if n_classes > MOST_CLASSES:
        raise ValueError(expected("target", f"a column of at most {MOST_CLASSES} classes", n_classes))
    if n_rows * n_classes > MOST_PROBABILITIES:
        most = f"of at most {MOST_PROBABILITIES // n_classes:,} rows for {n_classes} classes"
        raise ValueError(expected("table", most, n_rows))


def _require(frame: pd.DataFrame, split: Split) -> None:
    """Check that the table has the columns that the settings name, and that none of them is the target."""
    names = column_list(frame)
    for option in ("target", "id", "groups", "time"):
        name = getattr(split, option)
        if name is not None and name not in frame.columns:
            raise ValueError(expected(option, f"a column of the table ({names})", name))
        if option != "target" and name == split.target:
            raise ValueError(expected(option, "another column than the target", name))
    for name in split.drop:
        if name not in frame.columns or name == split.target:
            raise ValueError(expected("drop", f"columns of the table ({names}) other than the target", name))


def _held_out(frame: pd.DataFrame, split: Split) -> NDArray[np.bool_]:
    """Return whether each row is to be held out, shape (n,)."""
    n = round(split.holdout * len(frame))
    if not 0 < n < len(frame):
        enough = f"of so many rows that a share of {split.holdout:g} can be held out"
        raise ValueError(expected("table", enough, len(frame)))
    held_out = np.zeros(len(frame), dtype=bool)
    rng = np.random.default_rng(split.seed)
    if split.groups is not None:
        return _whole_groups(frame[split.groups], split, rng)
    if split.time is not None:
        held_out[_order_in_time(frame[split.time])[-n:]] = True
    else:
        held_out[rng.permutation(len(frame))[:n]] = True
    return held_out


def _whole_groups(column: pd.Series[Any], split: Split, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw the groups to hold out, and return whether each row is in one of them, shape (n,)."""
    groups, group_of_row = np.unique(group_names(column), return_inverse=True)
    n = round(split.holdout * len(groups))
    if not 0 < n < len(groups):
        enough = f"a column of so many groups that a share of {split.holdout:g} can be held out"
        raise ValueError(expected("groups", enough, len(groups)))
    drawn = np.zeros(len(groups), dtype=bool)
    drawn[rng.permutation(len(groups))[:n]] = True
    return np.asarray(drawn[group_of_row])


def group_names(column: pd.Series[Any]) -> NDArray[np.str_]:
    """Return the name of each row's group.

    A row without a value is a group by itself. Its name begins with a null character, as no value of a text file does.
    """
    values = zip(column, column.notna(), strict=True)
    return np.array([str(value) if present else f"\0{row}" for row, (value, present) in enumerate(values)])


def _order_in_time(column: pd.Series[Any]) -> IntArray:
    """Return the indices of the rows sorted by a column of numbers or dates, rows without a value first."""
    columns = Columns.of(column.to_frame("time").assign(target=0), "target")
    if columns.kinds.get("time", "category") == "category":
        raise ValueError(expected("time", "a column of numbers, or of dates like 2024-05-31", column.iloc[0]))
    times = columns.select(column.to_frame("time"))["time"].to_numpy()
    return np.argsort(np.where(np.isnan(times), -np.inf, times), kind="stable")


def _on_rare(rare: list[str], n: int) -> list[str]:
    """Report, if there are any rare labels, that their n rows were left out."""
    if not rare:
        return []
    shown = ", ".join(map(repr, rare[:LABELS_IN_NOTE]))
    if len(rare) > LABELS_IN_NOTE:
        shown += f" and {len(rare) - LABELS_IN_NOTE} more"
    rows = "1 row was" if n == 1 else f"{n:,} rows were"
    return [
        f"{rows} left out, with a label that fewer than two training rows have: {shown}. "
        "Those held out count as errors in the certificate."
    ]
