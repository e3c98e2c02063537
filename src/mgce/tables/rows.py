"""The rows of a table that have a label, and which of them are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mgce._validation import check_count, expected
from mgce.datasets.tables import make_table
from mgce.tables.columns import Columns
from mgce.tables.notes import without_label

if TYPE_CHECKING:
    import pandas as pd

IntArray = NDArray[np.int64]
SHOWN = 5  # labels that a note names, of those that it counts


@dataclass(frozen=True)
class Split:
    """Which rows are held out, and which columns are not learnt from.

    Attributes:
        target: the column of the labels.
        id: the column that names the rows.
        drop: columns to leave out.
        groups: a column whose equal values mark rows that depend on one another, such as the visits of one patient: all
            of them are held out, or none.
        time: a column that orders the rows: the last ones are held out. Else they are drawn at random.
        holdout: share of the rows to hold out.
        seed: of the draw.
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
        """The columns that are neither the target nor learnt from."""
        names = (self.id, *self.drop, self.groups, self.time)
        return tuple(name for name in names if name is not None)


@dataclass(frozen=True)
class Rows:
    """The rows of a table that have a label, with known columns, and which of them are held out."""

    frame: pd.DataFrame  # as read, n rows
    columns: Columns
    selected: pd.DataFrame  # the features, as `Columns.select` gives them
    labels: pd.Series[Any]
    target: IntArray  # (n,), places in `classes`
    classes: NDArray[np.str_]
    names: pd.Series[Any]  # by the id column, or numbers of rows in the file, from 1
    train: IntArray
    held_out: IntArray
    groups: NDArray[Any] | None  # (n,), of all rows
    unknown: pd.DataFrame  # features of rows held out whose label is none of the classes: errors of any model
    unknown_groups: NDArray[Any] | None
    notes: list[str]  # on rows left out


def split_rows(frame: pd.DataFrame, how: Split) -> Rows:
    """Leave out the rows without a label, hold out some of the others, and tell the columns' kinds from the rest.

    Rows to hold out are drawn at random, not class by class: a certificate wants independent draws. A label that fewer
    than two of the training rows have is likelier a slip of the pen than a class, and cannot be learnt: its rows are
    left out too. Those of them that are held out still count for the certificate, as errors: otherwise it would not be
    one of rows drawn like these.

    Raises:
        ValueError: if a column is missing, the labels are no classes, or there are too few rows.
    """
    _require(frame, how)
    labelled = frame[frame[how.target].notna()]
    if labelled.empty:
        raise ValueError(expected(how.target, "a column with labels", "none"))
    notes = without_label(len(frame) - len(labelled))
    held_out = _held_out(labelled, how)
    columns = Columns.of(labelled[~held_out], how.target, how.id, how.unlearnt)
    labels = columns.labels(labelled)
    make_table("table", columns.select(labelled), labels)  # for its checks, while all labels are there
    counts = labels[~held_out].value_counts().reindex(labels.unique(), fill_value=0)
    rare = sorted(counts[counts < 2].index)
    notes += _on_rare(rare, int(labels.isin(rare).sum()))
    keep = ~labels.isin(rare).to_numpy()
    strange = held_out & ~keep
    groups = None if how.groups is None else _group_names(labelled[how.groups])
    kept, held_out = labelled[keep], held_out[keep]
    table = make_table("table", columns.select(kept), labels[keep])
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
        unknown=columns.select(labelled[strange]),
        unknown_groups=None if groups is None else groups[strange],
        notes=notes,
    )


def _require(frame: pd.DataFrame, how: Split) -> None:
    names = ", ".join(map(str, frame.columns[:20]))
    for option in ("target", "id", "groups", "time"):
        name = getattr(how, option)
        if name is not None and name not in frame.columns:
            raise ValueError(expected(option, f"a column of the table ({names})", name))
        if option != "target" and name == how.target:
            raise ValueError(expected(option, "another column than the target", name))
    for name in how.drop:
        if name not in frame.columns or name == how.target:
            raise ValueError(expected("drop", f"columns of the table ({names}) other than the target", name))


def _held_out(frame: pd.DataFrame, how: Split) -> NDArray[np.bool_]:
    """Choose the rows to hold out, shape (n,)."""
    n = round(how.holdout * len(frame))
    if not 0 < n < len(frame):
        what = f"of so many rows that a share of {how.holdout:g} can be held out"
        raise ValueError(expected("table", what, len(frame)))
    held_out = np.zeros(len(frame), dtype=bool)
    rng = np.random.default_rng(how.seed)
    if how.groups is not None:
        return _whole_groups(frame[how.groups], how, rng)
    if how.time is not None:
        held_out[_order_in_time(frame[how.time])[-n:]] = True
    else:
        held_out[rng.permutation(len(frame))[:n]] = True
    return held_out


def _whole_groups(column: pd.Series[Any], how: Split, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Hold out a share of the groups."""
    groups, own = np.unique(_group_names(column), return_inverse=True)
    n = round(how.holdout * len(groups))
    if not 0 < n < len(groups):
        what = f"a column of so many groups that a share of {how.holdout:g} can be held out"
        raise ValueError(expected("groups", what, len(groups)))
    chosen = np.zeros(len(groups), dtype=bool)
    chosen[rng.permutation(len(groups))[:n]] = True
    return np.asarray(chosen[own])


def _group_names(column: pd.Series[Any]) -> NDArray[np.str_]:
    """Name the group of each row; one without a value is a group of its own, with a name that no text has."""
    named = zip(column, column.notna(), strict=True)
    return np.array([str(value) if there else f"\0{row}" for row, (value, there) in enumerate(named)])


def _order_in_time(column: pd.Series[Any]) -> IntArray:
    """Order rows by a column of numbers or dates, those without a value first."""
    columns = Columns.of(column.to_frame("time").assign(target=0), "target")
    if columns.kinds.get("time", "category") == "category":
        raise ValueError(expected("time", "a column of numbers, or of dates like 2024-05-31", column.iloc[0]))
    times = columns.select(column.to_frame("time"))["time"].to_numpy()
    return np.argsort(np.where(np.isnan(times), -np.inf, times), kind="stable")


def _on_rare(rare: list[str], n: int) -> list[str]:
    if not rare:
        return []
    shown = ", ".join(map(repr, rare[:SHOWN])) + (f" and {len(rare) - SHOWN} more" if len(rare) > SHOWN else "")
    rows = "1 row was" if n == 1 else f"{n:,} rows were"
    return [
        f"{rows} left out, with a label that fewer than two training rows have: {shown}. "
        "Those held out count as errors in the certificate."
    ]
