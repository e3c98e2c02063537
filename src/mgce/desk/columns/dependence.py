"""Report signs that rows depend on one another: certified bounds computed from such rows may be too low."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._arrays import FloatArray
from mgce.desk.columns.copies import FEW_VALUES, copies, numbered
from mgce.desk.columns.kinds import AS_WRITTEN, DATE, NUMBER
from mgce.desk.columns.texts import UNIQUE

NO_BOUND = "With --time or --groups, a review gives no bound on errors."
TIME_NAME = r"(?i)(.*[^a-z])?(date|datetime|day|month|quarter|time|timestamp|week|year)([^a-z].*)?"


class Signs(NamedTuple):
    """The limits beyond which rows look dependent: see :func:`dependence`.

    Attributes:
        rows: in fewer rows, all signs occur by chance.
        steps: numbers are nearly equal if they agree after rounding to one of so many steps of a standard deviation.
        nearly_equal: least share of nearly equal rows that is worth a note.
        in_order: least rank correlation of a column with the row number for the table to count as sorted by it.
        multiplied: standard deviations, about, by which the number of different rows that occur j times exceeds what
            independent draws allow. The excess is at most 2.0 in 600 tables of independent draws, of 20 kinds, and 6
            or more where 80 answers to three questions are each repeated.
        alike: rows are alike if they differ at most half as much as random rows: half the mean squared difference of
            numbers, half the share of different categories. Independent rows come near 1.
        columns: in tables of more columns, no column is tested for groups, since each is compared with all others.
    """

    rows: int = 50
    steps: int = 20
    nearly_equal: float = 0.01
    in_order: float = 0.95
    multiplied: float = 4.0
    alike: float = 0.5
    columns: int = 50


SIGNS = Signs()


@dataclass(frozen=True)
class Dependence:
    """A sign that rows depend on one another, described for the user."""

    what: str  # a clause that follows "rows may depend on one another, since"
    note: str  # a sentence or two: what was found, and what to do


def dependence(
    selected: pd.DataFrame, kinds: Mapping[str, str], labels: pd.Series[Any], n_copies: int, in_use: bool
) -> list[Dependence]:
    """Return signs in a table that its rows depend on one another: four kinds are looked for.

    - Rows are nearly equal if :func:`~mgce.desk.columns.copies.copies` considers them copies after numbers are rounded
      to a twentieth of their standard deviation. Dates, and columns that may name the rows, such as a counter or a
      random name, may differ between copies, so the test is also made without them.
    - Rows are multiplied if too many different rows occur exactly j times, for some j, compared with the numbers of
      rows that occur j - 1 and j + 1 times.
    - Rows are sorted in time if a column of dates, or of numbers with the name of a time, has a rank correlation of
      0.95 with the row number. If no column of dates or numbers has such a correlation, neighbouring rows with the same
      label are compared. Rows are sorted in time if these are alike in half of two or more columns of dates or numbers.
    - A column of categories or whole numbers looks like groups if two conditions hold. First, it has more different
      values than the square root of the number of rows, each in two rows or more on average. Second, rows with the same
      value are alike in half of the other columns; two or more are needed. Tables of more than 50 columns are not
      searched for groups.

    The limits 0.95 and 50, and the meaning of "alike", are those of :class:`Signs`.

    Args:
        selected: features, as :meth:`~mgce.desk.columns.kinds.Columns.select` returns them, in the order of the file.
        kinds: from the name of each feature to its kind.
        labels: the label of each row.
        n_copies: number of rows that are copies of others.
        in_use: whether rows are already held out by groups or by time; then neither time nor groups are looked for.
    """
    if len(selected) < SIGNS.rows:
        return []
    with np.errstate(over="ignore", invalid="ignore"):  # squares of numbers beyond 1e154: such columns show no sign
        found = [*_nearly_equal(selected, kinds, labels, n_copies), *_multiplied(selected, labels, n_copies)]
        if not in_use:
            found += [*_in_time(selected, kinds, labels), *_groups(selected, kinds)]
    return found


def _nearly_equal(
    selected: pd.DataFrame, kinds: Mapping[str, str], labels: pd.Series[Any], n_copies: int
) -> Iterator[Dependence]:
    numbers = [name for name, kind in kinds.items() if kind not in AS_WRITTEN]
    rounded = selected.assign(**{name: _rounded(selected[name]) for name in numbers})
    names = [name for name, kind in kinds.items() if _names_rows(selected[name], kind)]
    for but in ([], names):
        left = rounded.drop(columns=but)
        if not left.shape[1] or (but is names and not names):
            return
        same = copies(left, labels)
        n = len(same) - (int(same.max()) + 1) - n_copies
        if n >= SIGNS.nearly_equal * len(selected):
            features = f"features but {', '.join(f'`{name}`' for name in but)}" if but else "features"
            yield Dependence(
                f"{n:,} rows nearly equal another one",
                f"{n:,} of the {len(selected):,} rows nearly equal another one in all {features} and the label, more "
                "often than by chance. If they describe the same thing, the certificate is too low: pass the column "
                f"that names the things as --groups, or leave the repeated rows out. {NO_BOUND}",
            )
            return


def _multiplied(selected: pd.DataFrame, labels: pd.Series[Any], n_copies: int) -> Iterator[Dependence]:
    r"""Yield a sign if the rows of a class seem to be repeated equally often; `copies` may miss rows of few categories.

    Let :math:`N_j` different rows occur j times. For independent draws, :math:`j!\, E N_j` are moments of a measure,
    so that :math:`(E N_j)^2 \le \frac{j+1}{j} E N_{j-1} E N_{j+1}`, whatever the distribution. Where each row was
    repeated three times, :math:`N_2 = N_4 = 0`.
    """
    codes = [numbered(selected[name]) for name in selected]
    target = numbered(labels)
    _, first, size = np.unique(np.stack([*codes, target]), axis=1, return_index=True, return_counts=True)
    if len(selected) - len(size) <= n_copies:
        return
    for label in np.unique(target):
        repeated = size[target[first] == label]
        counts = np.bincount(repeated, minlength=int(repeated.max()) + 2).astype(float)
        times = np.arange(2, len(counts) - 1)
        before, here, after = np.maximum(counts[times - 1], 1), counts[times], np.maximum(counts[times + 1], 1)
        excess = (here - np.sqrt((times + 1) / times * before * after)) / np.sqrt(here + before + after)
        if times.size and excess.max() > SIGNS.multiplied:
            worst = int(excess.argmax())
            yield Dependence(
                "rows are repeated as draws are not",
                f"{here[worst]:.0f} different rows of class {labels.iloc[first[target[first] == label][0]]!r} occur "
                f"{times[worst]} times each, and hardly any once more or less, which independent draws do not. If rows "
                "were repeated to balance the classes or to have more, the certificate is too low: leave the repeated "
                "rows out.",
            )
            return


def _names_rows(column: pd.Series[Any], kind: str) -> bool:
    """Return whether copies may differ in a column: of dates, or of nearly all different texts or whole numbers."""
    if kind == DATE:
        return True
    return bool(column.nunique() > UNIQUE * len(column) and (kind in AS_WRITTEN or (column.dropna() % 1 == 0).all()))


def _rounded(column: pd.Series[Any]) -> pd.Series[Any]:
    """Round the numbers of a column to multiples of a twentieth of their standard deviation."""
    step = float(column.std()) / SIGNS.steps
    return (column / step).round() if 0 < step < np.inf and column.nunique() > FEW_VALUES else column


def _in_time(selected: pd.DataFrame, kinds: Mapping[str, str], labels: pd.Series[Any]) -> Iterator[Dependence]:
    numbers = [name for name, kind in kinds.items() if kind not in AS_WRITTEN]
    ordered = [name for name in numbers if _order(selected[name]) >= SIGNS.in_order]
    times = [name for name in ordered if kinds[name] == DATE or re.fullmatch(TIME_NAME, name)]
    for name in times:
        yield Dependence(
            f"they are sorted by `{name}`",
            f"The rows are sorted in time, by column `{name}`. If later rows are to be predicted, hold out the last "
            f"ones: --time '{name}'. A certificate on random rows says nothing about later ones. {NO_BOUND}",
        )
    if ordered or len(numbers) < 2:
        return
    target = numbered(labels)
    pairs = np.flatnonzero(target[1:] == target[:-1])
    alike = [name for name in numbers if _differ(selected[name].to_numpy(dtype=float), target, pairs) <= SIGNS.alike]
    if len(pairs) >= SIGNS.rows and 2 * len(alike) >= len(numbers):
        yield Dependence(
            "neighbouring rows of the file are alike",
            f"Neighbouring rows of the file are alike in {len(alike)} of {len(numbers)} columns of numbers, such as "
            f"`{alike[0]}`. If the rows are sorted in time or by place, they depend on one another, and the "
            "certificate is too low: pass a column of times as --time, or one that names the places as --groups. "
            f"{NO_BOUND}",
        )


def _order(column: pd.Series[Any]) -> float:
    """Return the absolute rank correlation of a column with the row number; 0 for a column of few different values."""
    ranks = column.rank()
    if ranks.nunique() < SIGNS.rows // 5:
        return 0.0
    return abs(float(ranks.corr(pd.Series(np.arange(len(column)), index=column.index))))


def _differ(values: FloatArray, target: NDArray[np.int64], pairs: NDArray[np.int64]) -> float:
    """Return the mean squared difference of neighbours with equal labels, divided by that of random rows of one label.

    `pairs` holds the numbers of the rows whose next row has the same label in `target`.
    """
    present = ~np.isnan(values)
    counts = np.bincount(target, present)
    means = np.bincount(target, np.where(present, values, 0)) / np.maximum(counts, 1)
    rest = values - means[target]
    variance = np.nanmean(rest**2) if present.any() else 0.0
    steps = (rest[1:] - rest[:-1])[pairs]
    steps = steps[~np.isnan(steps)]
    return float((steps**2).mean() / (2 * variance)) if variance > 0 and steps.size else 1.0


def _groups(selected: pd.DataFrame, kinds: Mapping[str, str]) -> Iterator[Dependence]:
    n = len(selected)
    if len(kinds) > SIGNS.columns:
        return
    for name, kind in kinds.items():
        column = selected[name]
        n_values = column.nunique()
        if kind == DATE or not np.sqrt(n) < n_values <= n / 2:
            continue
        if kind == NUMBER and (column % 1 != 0).any():  # a missing value is no whole number either
            continue
        others = [other for other in kinds if other != name and selected[other].nunique() > 1]
        group = numbered(column)
        alike = [other for other in others if _differ_within(selected[other], kinds[other], group) <= SIGNS.alike]
        if len(others) >= 2 and 2 * len(alike) >= len(others):
            yield Dependence(
                f"column `{name}` looks like groups",
                f"Column `{name}` looks like groups: it has {n_values:,} values in {n:,} rows, and rows of one value "
                f"are alike in {len(alike)} of {len(others)} other columns. If they depend on one another, such as the "
                f"visits of one patient, the certificate is too low: pass --groups '{name}'. {NO_BOUND}",
            )


def _differ_within(column: pd.Series[Any], kind: str, group: NDArray[np.int64]) -> float:
    """Return how much rows of one group differ, divided by how much random rows differ: see `Signs.alike`."""
    if kind in AS_WRITTEN:
        code = numbered(column)
        within = numbered(group * (int(code.max()) + 1) + code)
        pairs, all_pairs = _pairs(np.bincount(group)), _pairs(np.array([len(code)]))
        same, all_same = _pairs(np.bincount(within)), _pairs(np.bincount(code))
        return float((1 - same / pairs) / (1 - all_same / all_pairs)) if pairs and all_same < all_pairs else 1.0
    present = column.notna().to_numpy()
    values, group = column.to_numpy(dtype=float)[present], group[present]
    counts = np.bincount(group)
    rest = values - (np.bincount(group, values) / np.maximum(counts, 1))[group]
    free = len(values) - np.count_nonzero(counts)  # degrees of freedom inside the groups
    variance = values.var() * len(values) / max(len(values) - 1, 1)
    return float((rest**2).sum() / free / variance) if free > 0 and variance > 0 else 1.0


def _pairs(sizes: NDArray[np.int64]) -> float:
    """Return the number of pairs of elements that lie in the same set, given the sizes of all sets."""
    return float((sizes * (sizes - 1.0)).sum() / 2)
