r"""Find rows of a table that are copies of one another, as opposed to independent rows that are equal by chance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import poisson

from mgce._arrays import IntArray
from mgce.desk.files.vectors import Vector

Keys = NDArray[np.uint64]
Coded = tuple["pd.Series[Any]", IntArray]  # a column, and numbers that are equal where its values are
FEW_VALUES = 10  # a column with fewer distinct numbers is not split into intervals and digits


class Chance(NamedTuple):
    """The limits up to which equal rows are put down to chance: see :func:`copies`.

    The values were chosen by simulation. In 4,000 tables of independent draws, no row was taken for a copy (20 kinds:
    categories, dependent and recoded ones, one-hot columns, rounded numbers, counts, zeros). In all 3,400 tables with
    copies (17 kinds), the copies were found.

    Attributes:
        dependence: if columns were independent, some rows would be equal by chance; so many times as many count as
            chance.
        border: for each equal row that has similar rows, so many equal rows without similar ones count as chance too.
        alpha: probability that rows that are equal by chance pass for copies.
        parts: most parts into which the features are grouped. Neighbouring columns share a part, because recoded and
            one-hot columns usually stand side by side. Each part costs two sorts of the rows.
        intervals: number of intervals of a column of numbers; the place inside the interval is a second column.
        decimals: most decimals of the grid on which a column's numbers may lie.
    """

    dependence: float = 4.0
    border: float = 0.1
    alpha: float = 1e-3
    parts: int = 12
    intervals: int = 8
    decimals: int = 6


CHANCE = Chance()


def copies(selected: pd.DataFrame, labels: pd.Series[Any]) -> IntArray:
    r"""Return a number for each row; rows have the same number if and only if they are copies of one another.

    Copies are rows that are equal in all features and the label more often than chance explains. Two rules decide:

    1. Equal rows are ordinary draws if they have similar rows in two columns or more. A similar row in a column differs
       in that column alone, or in that column and the label. Rows of few categories have similar rows, rows of
       continuous numbers have none.
    2. All other equal rows are copies if there are too many of them. Their number, less one for each set of equal rows,
       is compared with the number that a Poisson variable exceeds with probability `alpha`. The mean of this variable
       has two terms: `dependence` times the number of equal pairs that chance makes,

       .. math:: \frac{1}{2} \sum_a \max\Big(u \prod_j f_j(a),\ \max_j N_j(a) \frac{f_j(a)}{1 - f_j(a)}\Big)

       and `border` times the number of ordinary equal rows. There are u different rows in all. The sum is over those
       rows a of them that are no ordinary draws by rule 1. :math:`f_j(a)` is the share of other rows with the value of
       a in column j, and :math:`N_j(a)` the number of rows that differ from a in column j alone. The first argument of
       max is right if columns are independent of one another, the second if a column is independent of the others near
       the row.

    Columns that determine one another are treated as one column, and so are columns of 0 and 1 that sum to one. A
    column of numbers on a grid, such as numbers with one decimal, is treated as two columns: which of eight intervals a
    number is in, and its place inside the interval. So a single column of rounded numbers has similar rows too. A table
    whose only feature is a category, or has fewer than ten different numbers, has no copies.

    The values of `alpha`, `dependence` and `border` are those of :class:`Chance`.

    The method assumes that, for rows without similar rows in two columns, columns agree at most `dependence` times as
    often as independent columns. Rows that repeat because they describe one thing, such as a product with its weight,
    its price and its class, are taken for copies. Copies of rows of few categories cannot be distinguished from draws.

    Args:
        selected: n rows of features: numbers, and categories of any type.
        labels: the label of each row, shape (n,).

    Returns:
        A number for each row, shape (n,), in 0..u-1, in the order of first appearance.

    Example:
        >>> import pandas as pd
        >>> x = np.random.default_rng(0).normal(size=20)
        >>> frame = pd.DataFrame({"x": np.r_[x, x[:3]], "kind": ["a", "b"] * 10 + ["a", "b", "a"]})
        >>> copies(frame, frame["kind"])[-4:].tolist()
        [19, 0, 1, 2]
    """
    own = np.arange(len(selected))
    columns = [_numbers_as_float(selected.iloc[:, place]) for place in range(selected.shape[1])]
    codes = [numbered(column) for column in (*columns, labels)]
    _, first, place, size = np.unique(_sum(codes), return_index=True, return_inverse=True, return_counts=True)
    if (size == 1).all():
        return own
    different = [numbered(code[first]) for code in codes]
    features = list(zip((column.iloc[first] for column in columns), different[:-1], strict=True))
    copied = _copied(_parts(features), different[-1], size)
    return numbered(np.where(copied[place], first[place], own))


def things_and_copies(selected: pd.DataFrame, labels: pd.Series[Any]) -> tuple[IntArray, IntArray]:
    """Number the things that rows describe, and the sets of copies; return both numbers for each row.

    If rows are equal in all features more often than by chance, they describe one thing that was labelled several
    times. Of these rows, those with the same label are copies, even if other labels disagree. All rows that
    :func:`copies` finds are copies too.

    Args:
        selected: n rows of features.
        labels: the label of each row, shape (n,).

    Returns:
        Two arrays of numbers 0, 1, ..., shape (n,), each in the order of first appearance.

    Example:
        >>> import pandas as pd
        >>> x = np.random.default_rng(0).normal(size=20)
        >>> frame = pd.DataFrame({"x": np.r_[x, x[:2], x[:2]]})
        >>> things, same = things_and_copies(frame, pd.Series(["a"] * 20 + ["b", "a", "b", "a"]))
        >>> things[-4:].tolist(), same[-4:].tolist()
        ([0, 1, 0, 1], [20, 1, 20, 1])
    """
    own, label = copies(selected, labels), numbered(labels)
    things = copies(selected, pd.Series(0, index=selected.index))
    several = np.bincount(things)[things] > 1
    same = np.where(several, things * (int(label.max()) + 1) + label, -1 - own)
    return numbered(np.where(several, things, -1 - own)), numbered(same)


def _numbers_as_float(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of numbers of any type as float64, and any other column unchanged."""
    if not pd.api.types.is_numeric_dtype(column):
        return column
    return pd.Series(column.to_numpy(dtype=float, na_value=np.nan), index=column.index)


def _copied(parts: list[IntArray], label: IntArray, size: IntArray) -> NDArray[np.bool_]:
    """Return for each different row whether it has copies.

    `parts` and `label` code the values of the different rows, and `size` is how often each of them occurs.
    """
    if len(parts) < 2:  # one category, of which all rows are equal
        return np.zeros(len(size), bool)
    label_key, keys = _mixed(label, len(parts)), [_mixed(part, place) for place, part in enumerate(parts)]
    every = np.sum([*keys, label_key], axis=0)
    relabelled = _others(every - label_key)
    similar = np.stack([*(_others(every - key - label_key) - relabelled for key in keys), relabelled])
    ordinary: NDArray[np.bool_] = (similar > 0).sum(0) >= 2
    found = ~ordinary & (size > 1)
    extra = int((size[found] - 1).sum())
    if not extra:
        return found
    alone = np.stack([*(_others(every - key) for key in keys), relabelled])
    equal = np.stack([_others(part) for part in (*parts, label)])
    u = len(size)
    expected = np.maximum(u * (equal / (u - 1)).prod(0), (alone * equal / (u - equal)).max(0)) if u > 1 else np.zeros(1)
    chance = CHANCE.dependence * expected[~ordinary].sum() / 2 + CHANCE.border * int((size[ordinary] - 1).sum())
    return found if extra > poisson.isf(CHANCE.alpha, chance) else np.zeros_like(found)


def numbered(values: Any) -> IntArray:
    """Number different values 0, 1, ... in the order of first appearance; all missing values get one number."""
    return np.asarray(pd.factorize(values, use_na_sentinel=False)[0], dtype=np.int64)


def _mixed(code: IntArray, place: int) -> Keys:
    """Hash a column's numbers to 64 bits, so that sums of hashes over columns hardly ever agree by accident."""
    start = pd.util.hash_array(np.array([place], dtype=np.uint64))  # far from that of another place
    return np.asarray(pd.util.hash_array(code.astype(np.uint64) + start), dtype=np.uint64)


def _sum(codes: list[IntArray]) -> Keys:
    """Return a key of each row; two rows have equal keys if they are equal in all columns."""
    return np.asarray(np.sum([_mixed(code, place) for place, code in enumerate(codes)], axis=0))


def _others(keys: Any) -> IntArray:
    """Return for each of u rows the number of other rows with the same key, shape (u,)."""
    _, place, size = np.unique(keys, return_inverse=True, return_counts=True)
    return np.asarray(size[place] - 1)


def _parts(columns: list[Coded]) -> list[IntArray]:
    """Group the features of the different rows into parts, each coded as integers; a lone category is one part."""
    whole, digits = [], []
    columns = _one_hot_together(_without_recodes(columns))
    for column, code in columns:
        grid = _on_grid(column)
        if grid is None:
            whole.append(code)
        else:
            width = -(-(int(grid.max()) + 1) // CHANCE.intervals)
            whole.append(grid // width)
            digits.append(grid % width)
    every = [part for part in (*whole, *digits) if part.any()]
    # Of numbers on no grid, all digits tell rows apart; not where all rows are equal.
    if every and len(columns) == 1 and _density(columns[0][0]) == 0:
        every.append(np.zeros_like(every[0]))
    groups = np.array_split(np.arange(len(every)), max(1, min(CHANCE.parts, len(every))))
    return [numbered(_sum([every[place] for place in group])) for group in groups if group.size]


def _without_recodes(columns: list[Coded]) -> list[Coded]:
    """Keep only one of each set of columns that determine one another.

    The column kept is the one whose values are least likely to repeat by chance.
    """
    best: dict[bytes, tuple[float, int]] = {}
    for place, (column, code) in enumerate(columns):
        key = code.tobytes()  # numbers in the order of first appearance: the same for columns that are recodes
        best[key] = min(best.get(key, (np.inf, 0)), (_density(column), place))
    return [columns[place] for place in sorted(place for _, place in best.values())]


def _density(column: pd.Series[Any]) -> float:
    """Return the share of points on a column's grid that occur as values.

    Return 0 if the values are on no grid, and 2 if they are no numbers or have few different values.
    """
    if isinstance(column.iloc[0], Vector):
        return 0.0
    if column.dtype.kind != "f" or column.nunique() < FEW_VALUES:
        return 2.0
    grid = _on_grid(column)
    return 0.0 if grid is None else column.nunique() / (int(grid.max()) + 1)


def _one_hot_together(columns: list[Coded]) -> list[Coded]:
    """Merge adjacent columns of 0 and 1 into one column if they sum to one in every row."""
    merged: list[Coded] = []
    run = 0  # columns of 0 and 1 at the end of `merged`
    for column, code in columns:
        merged.append((column, code))
        run = run + 1 if column.dtype.kind == "f" and column.isin((0, 1)).all() else 0
        total = np.zeros(len(code))
        for length in range(1, run + 1):
            total = total + merged[-length][0].to_numpy()
            if total.max() > 1:
                break
            if length > 1 and total.min() == 1:
                place = np.stack([each.to_numpy() for each, _ in merged[-length:]]).argmax(0).astype(np.int64)
                merged[-length:] = [(pd.Series(place.astype(str)), place)]
                run = 0
                break
    return merged


def _on_grid(column: pd.Series[Any]) -> IntArray | None:
    """Convert numbers to steps on a grid of a power of ten, counted from 1; None for no grid or few different numbers.

    A missing value becomes 0.
    """
    if column.dtype.kind != "f" or column.nunique() < FEW_VALUES:
        return None
    values = column.to_numpy(dtype=float)
    for decimals in range(CHANCE.decimals + 1):
        steps = values * 10.0**decimals
        present = steps[~np.isnan(steps)]
        if np.abs(present).max() > 2**52:  # beyond, float64 has no digits behind the point
            return None
        if (np.abs(present - np.round(present)) < 1e-4).all():  # far above what rounding leaves, far below a step
            return np.where(np.isnan(steps), 0, np.round(np.nan_to_num(steps) - present.min()) + 1).astype(np.int64)
    return None
