r"""Bounds on the mean loss of labelled examples that are independent one by one, or cluster by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mgce import _validation
from mgce.linear.arrays import FloatArray, IntArray, as_probs
from mgce.risk.betting import betting_upper
from mgce.risk.concentration import clopper_pearson_upper

UNSEEN = -1  # the target of an example whose label is none of the classes


@dataclass(frozen=True, eq=False)
class Sample:
    """Labels of examples, and which of the examples depend on one another."""

    labels: IntArray  # (n,), in 0..k-1, or UNSEEN
    n_classes: int
    clusters: IntArray | None = None  # (n,), in 0..c-1; None where all examples are independent

    @cached_property
    def order(self) -> IntArray:
        """An order of the independent draws, by a fixed seed, so that a sorted sample does no harm."""
        return np.random.default_rng(0).permutation(self.n_independent)

    @property
    def n_independent(self) -> int:
        """The number of independent draws: clusters, or examples."""
        return self.labels.size if self.clusters is None else int(self.clusters.max()) + 1

    def own(self, losses: FloatArray, worst: float) -> FloatArray:
        """Give each example the entry of its label, shape (n,), from losses (n, k); `worst` where it is unseen."""
        known = self.labels != UNSEEN
        values = np.full(self.labels.size, float(worst))
        values[known] = losses[known, self.labels[known]]
        return values

    def mean_upper(self, z: FloatArray, delta: float, bounds: tuple[float, float] = (0.0, 1.0)) -> float:
        """Bound the expectation of z, shape (n,), which lies within `bounds`, with probability 1 - delta.

        Truth values of independent examples take Clopper and Pearson's bound, which is exact, all else the betting
        bound. A cluster is one draw, the mean of its examples: the bound is then on the expectation for a random
        example of a random cluster.
        """
        if self.clusters is not None:
            z = np.bincount(self.clusters, z) / np.bincount(self.clusters)
        elif z.dtype == np.bool_:
            return clopper_pearson_upper(int(z.sum()), z.size, delta)
        z = np.clip(z, *bounds)  # undoes rounding
        return betting_upper(z[self.order], delta, bounds=bounds)


def checked_probs(probs: Any) -> FloatArray:
    """Give probabilities of shape (n, k) of two classes or more, whose rows sum to one."""
    shape = np.shape(probs)
    if len(shape) != 2 or shape[0] == 0 or shape[1] < 2:
        raise ValueError(_validation.expected("probs", "of shape (n, k) with n >= 1 and k >= 2", shape))
    return as_probs(probs)


def cluster_indices(groups: Any, n: int) -> IntArray | None:
    """Give the names of clusters, shape (n,), as integers 0..c-1; None if there are none."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n,):
        raise ValueError(_validation.expected("groups", f"of shape ({n},), one name for each row", names.shape))
    return np.unique(names, return_inverse=True)[1].astype(np.int64)
