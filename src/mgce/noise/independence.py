"""Test whether annotators err independently of one another, given the right class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, stats

from mgce.noise.annotators import AnnotatorModel

LEVEL = 0.05  # of the test
LOOKED_UP = (
    "Look up the right labels of some rows drawn at random: mgce.certify(..., checked=...) then bounds the errors "
    "without this assumption"
)


@dataclass(frozen=True)
class Independence:
    """Whether wrong labels of the same row agree as often as they would by chance.

    Attributes:
        observed: expected number of pairs of equal wrong labels, from the estimated right classes.
        by_chance: the number, if annotators erred independently given the right class.
        p_value: probability of at least this difference if they did.
        n_pairs: number of pairs of labels of the same row.
    """

    observed: float
    by_chance: float
    p_value: float
    n_pairs: int

    @property
    def refuted(self) -> bool:
        """Whether the labels contradict independent errors, or no row has two labels to test it on."""
        return self.n_pairs == 0 or self.p_value < LEVEL

    def __str__(self) -> str:
        """Return what the test says."""
        if not self.n_pairs:
            return "No row has two labels, so nothing says whether annotators err independently."
        said = (
            f"Of {self.n_pairs:,} pairs of labels of one row, about {self.observed:,.0f} are the same wrong class; "
            f"independent errors would make {self.by_chance:,.0f} (p = {self.p_value:.2g})."
        )
        if self.refuted:
            return f"{said} Annotators do not err independently. {LOOKED_UP}."
        return f"{said} This does not contradict independent errors."


def independence(model: AnnotatorModel) -> Independence:
    r"""Compare the pairs of equal wrong labels with those of independent errors, one difference for each row.

    .. math:: d_i = \sum_{j < l} \Bigl[ 1[y_{ij} = y_{il}] (1 - P_{i y_{ij}})
              - \sum_c P_{ic} \sum_{b \ne c} T_j[c, b]\, T_l[c, b] \Bigr]

    The mean difference is divided by its standard error over rows. It is zero if the errors are independent given the
    right class and the probabilities P are calibrated.

    Args:
        model: the estimates.
    """
    annotations, probs = model.annotations, model.probs
    n, _, k = annotations.shape
    ones = np.ones(len(annotations.row))
    observed, by_chance = np.zeros(n), np.zeros(n)
    pairs = np.bincount(annotations.row, minlength=n)
    for c in range(k):
        own = annotations.label == c
        count = np.bincount(annotations.row[own], minlength=n)
        observed += count * (count - 1) / 2 * (1 - probs[:, c])
        for b in range(k):
            if b != c:  # over pairs of labels of a row: (square of the sum - sum of squares) / 2
                wrong = model.transitions[annotations.annotator, c, b]
                rows = sparse.csr_array((ones, (annotations.row, np.arange(len(ones)))), shape=(n, len(ones)))
                by_chance += probs[:, c] * ((rows @ wrong) ** 2 - rows @ wrong**2) / 2
    tested = pairs >= 2
    n_pairs = int((pairs * (pairs - 1) // 2).sum())
    if not tested.any():
        return Independence(0.0, 0.0, 1.0, 0)
    difference = (observed - by_chance)[tested]
    error = difference.std(ddof=1) / np.sqrt(tested.sum()) if tested.sum() > 1 else np.inf
    z = difference.mean() / max(error, 1e-12)
    return Independence(float(observed.sum()), float(by_chance.sum()), float(2 * stats.norm.sf(abs(z))), n_pairs)
