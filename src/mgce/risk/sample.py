r"""Bound the mean loss of labelled examples that are independent, or come in independent clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray, as_array, as_labels, as_probs
from mgce._messages import expected
from mgce._row_order import content_order
from mgce.risk.betting import betting_upper, cells, n_orders, shuffled
from mgce.risk.concentration import clopper_pearson_upper

UNSEEN = -1  # the target of an example whose label is none of the classes


@dataclass(frozen=True, eq=False)
class SharedLooks:
    """Two groups of rows, of which one is looked up more often, as fixed before the first look."""

    cells: IntArray  # (n,): 1 for rows that are looked up more often, 0 for others, -1 for rows that never are
    ratio: float | None  # how many times as often; None if all rows that may be looked up were as likely: all are in 0
    share: float  # of the rows that may be looked up, the share that is looked up

    def of(self, rows: Any) -> SharedLooks:
        """Return the groups of some of the rows; ratio and share stay those of all rows."""
        return replace(self, cells=self.cells[rows])


@dataclass(frozen=True, eq=False)
class Sample:
    """Labels and probabilities of examples, and which of the examples depend on one another."""

    labels: IntArray  # (n,), in 0..k-1, or UNSEEN
    probs: FloatArray  # (n, k), the classifier's
    clusters: IntArray | None = None  # (n,), in 0..c-1; None where all examples are independent
    right: IntArray | None = None  # (n,), the labels that were looked up; None if there are none
    shared: SharedLooks | None = None  # how the looks were shared out; None if all rows were as likely among these
    looks: IntArray | None = None  # the rows that were looked up, in this order, for a bound at every look; or None
    again: IntArray | None = None  # (n,), the labels of second looks; None if there are none

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.probs.shape[1])

    @cached_property
    def kinds(self) -> IntArray:
        """Four integers that describe each of n rows approximately, shape (n, 4)."""
        top, own = self.probs.max(1), self.own(self.probs, 0.0)
        return np.column_stack([self.labels, self.probs.argmax(1), cells(top), cells(own)]).astype(np.int64)

    @cached_property
    def content(self) -> bytes:
        """The approximate content of the sample as bytes, for computing a hash.

        The bytes depend neither on the order of the rows nor on the names of clusters.
        """
        if self.clusters is None:
            return self.kinds[content_order(self.kinds)].tobytes()
        rows = np.column_stack([self.clusters, self.kinds])
        rows = rows[content_order(rows)]
        ends = np.cumsum(np.bincount(self.clusters))[:-1]
        return b"".join(sorted(b"cluster" + cluster.tobytes() for cluster in np.split(rows[:, 1:], ends)))

    def own(self, losses: FloatArray, worst: float) -> FloatArray:
        """Return each example's loss for its own label, from `losses` (n, k); `worst` if the label is no class."""
        known = self.labels != UNSEEN
        values = np.full(self.labels.size, float(worst))
        values[known] = losses[known, self.labels[known]]
        return values

    def mean_upper(self, z: FloatArray, delta: float, limits: tuple[float, float] = (0.0, 1.0)) -> float:
        """Return an upper bound on the expectation of n draws z within `limits`, valid with probability 1 - delta.

        For truth values of independent examples, this is Clopper and Pearson's bound, which is exact; otherwise the
        betting bound. A cluster counts as one draw, the mean of its examples. Then the bound is on the expectation for
        a random example of a random cluster.
        """
        kinds = self.kinds
        if self.clusters is not None:
            z = np.bincount(self.clusters, z) / np.bincount(self.clusters)
            kinds = cells(z)[:, None]
        elif z.dtype == np.bool_:
            return clopper_pearson_upper(int(z.sum()), z.size, delta)
        z = np.clip(z, *limits)  # undoes rounding
        turns = range(n_orders(kinds, delta))
        return max(betting_upper(shuffled(z, self.content, turn), delta, limits=limits) for turn in turns)


def checked_probs(probs: Any) -> FloatArray:
    """Check and return probabilities: n rows that sum to one, k >= 2 classes."""
    shape = np.shape(probs)
    if len(shape) != 2 or shape[0] == 0 or shape[1] < 2:
        raise ValueError(expected("probs", "of shape (n, k) with n >= 1 and k >= 2", shape))
    return as_probs(probs)


def cluster_indices(groups: Any, n: int) -> IntArray | None:
    """Return the cluster of each of n examples as a number from 0; None if there are no clusters."""
    if groups is None:
        return None
    names = checked_names(groups, n, "groups")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def checked_names(values: Any, n: int, argument: str) -> NDArray[Any]:
    """Return the group names of n examples; require a name for each example, and names that can be sorted."""
    # A list becomes objects: as an array, NaN among texts would be the text "nan", and 1 the text "1".
    names = np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)
    if names.shape != (n,):
        raise ValueError(expected(argument, f"of shape ({n},), one name for each row", names.shape))
    for row, name in enumerate(names.tolist()):
        if name is None or (name != name) is not False:  # NaN, NaT and pandas' NA are not equal to themselves
            raise ValueError(expected(argument, "a name for each row", f"{name} in row {row}"))
    try:
        np.sort(names)
    except TypeError:
        kinds = " and ".join(sorted({type(name).__name__ for name in names.tolist()}))
        raise TypeError(expected(argument, "names of one type", kinds)) from None
    return names


def checked_target(target: Any, n: int, k: int) -> IntArray:
    """Check n labels; return them as integers in 0..k-1, or -1 for labels that are none of the k classes."""
    labels = as_array(target, "target")
    unseen = labels == UNSEEN
    known = as_labels(np.where(unseen, 0, labels), n, k, "target")
    return np.where(unseen, UNSEEN, known)
