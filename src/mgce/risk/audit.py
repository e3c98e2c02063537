r"""Bound transition matrices by an audit: counts of rows by given label and by right label, looked up by somebody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import FloatArray, as_array
from mgce._rounding import rounded_up
from mgce.risk.concentration import check_delta
from mgce.risk.label_noise import Losses, Refuted
from mgce.risk.sample import Sample

# The share of a predicted class that is guessed to be right, when losses are chosen: a wrong guess makes the bound
# wider, never wrong. Bounds hardly change between 0.6 and 0.95.
GUESSED_ACCURACY = 0.8


def transition_region(counts: Any, delta: float = 0.05) -> tuple[FloatArray, FloatArray]:
    r"""Bound every entry of a transition matrix from audited counts; all bounds hold at once.

    .. math:: T_{yz} \in \big[\mathrm{BetaInv}(\delta';\ c_{yz},\ n_y - c_{yz} + 1),\
        \mathrm{BetaInv}(1 - \delta';\ c_{yz} + 1,\ n_y - c_{yz})\big]

    T[y, z] is the probability that an example of right class y is given the label z. n_y is the sum of row y of the
    counts. For k classes, delta' = delta / (2 k^2). For two classes delta' is delta / 4, since one entry of a row
    determines the other.

    Args:
        counts: c, shape (k, k): how many audited examples have right label y and given label z.
        delta: probability in (0, 1) with which at least one entry may be outside its bounds.

    Returns:
        Lower and upper bounds, shape (k, k) each. The bounds of a row without examples are 0 and 1.

    Raises:
        ValueError: if `counts` is not a square matrix of counts, or `delta` is out of range.

    Example:
        >>> low, high = transition_region([[90, 10], [5, 95]], 0.05)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([[0.812, 0.044], [0.014, 0.877]], [[0.956, 0.188], [0.123, 0.986]])

    Reference: Clopper and Pearson (1934), and the union of the probabilities of failure.
    """
    from scipy import special

    check_delta(delta)
    c = _checked_counts(counts)
    k, rest = len(c), c.sum(1, keepdims=True) - c
    side = delta / (2 * k * (k if k > 2 else 1))
    with np.errstate(invalid="ignore"):
        low = np.where(c > 0, special.betaincinv(np.maximum(c, 1), rest + 1, side), 0.0)
        high = np.where(rest > 0, special.betaincinv(c + 1, np.maximum(rest, 1), 1 - side), 1.0)
    return low, high


@dataclass(frozen=True, eq=False)
class AuditedTransition:
    r"""The assumption that label y becomes z with a probability T[y, z] that lies in a confidence region.

    T[y, z] does not depend on the example. A matrix g is chosen with `sum_z T[y, z] g[z, j] >= 1{y != j}` for every row
    T[y] of the region. So the mean of g[given label, predicted class] is at least the error, whichever T of the region
    is true.
    """

    surrogate: FloatArray  # g, (k, k): given label, predicted class
    n: int  # audited examples
    most_agreement: FloatArray | None = None  # (k,), the largest upper bound of each column

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return a clause that states that audited labels were drawn like all others."""
        return (
            f"the given labels of the {self.n} audited examples and of these were drawn from the right label alone, by "
            "one transition matrix, whatever the example, and the audited examples are not among these",
        )

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Bound an error by the mean of g, and the alpha-risk by beta times the error of a class drawn from h."""
        probs = 1 - losses.table if losses.beta is None else (1 - losses.table / losses.beta) ** losses.beta
        if self.surrogate.min() >= 1:  # so few were audited that nothing is known of T
            return losses.top
        own = sample.own(probs @ self.surrogate.T, max(1.0, float(self.surrogate.max())))
        ends = float(self.surrogate.min()), max(1.0, float(self.surrogate.max()))
        upper = sample.mean_upper(own, delta, ends)
        if upper < 0:
            raise Refuted(
                f"the audit: by it, the error of the classifier would be below zero, {rounded_up(upper)} at most"
            )
        return losses.top * min(1.0, upper)


def audited(counts: Any, k: int, delta: float) -> AuditedTransition:
    """Return the assumption on wrong labels that follows from audited counts, true with probability 1 - delta."""
    c = _checked_counts(counts)
    if len(c) != k:
        raise ValueError(_validation.expected("audit", f"of shape ({k}, {k})", c.shape))
    if not c.sum(1).all():
        what = "counts with an audited example of every class"
        raise ValueError(_validation.expected("audit", what, f"none of class {int(c.sum(1).argmin())}"))
    low, high = transition_region(c, delta)
    mean = c / c.sum(1, keepdims=True)
    surrogate = np.stack([_surrogate(low, high, mean, j) for j in range(k)], axis=1)
    # The solver keeps its constraints to 1e-7: a shift makes up for it, and one more for rounding.
    return AuditedTransition(surrogate + 1e-6, int(c.sum()), high.max(0))


def _surrogate(low: FloatArray, high: FloatArray, mean: FloatArray, predicted: int) -> FloatArray:
    r"""Return column `predicted` of the matrix g, for k classes; its mean is least if T equals the audited shares.

    Let a row T of the transition matrix have sum one and `low <= T <= high`. By duality, the least T.g is the largest
    `t + low.(g - t) - (high - low).(t - g)_+` over t. With s >= (t - g)_+ for each row this is a linear program.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    k = len(low)
    guess = np.full(k, (1 - GUESSED_ACCURACY) / (k - 1))
    guess[predicted] = GUESSED_ACCURACY
    eye: Any = sparse.eye_array(k)
    # Variables: g (k), t (k), s (k, k) row by row.
    blocks: list[Any] = [-low, sparse.diags_array(low.sum(1) - 1), sparse.block_diag(list((high - low)[:, None, :]))]
    floor = sparse.hstack(blocks)
    parts = sparse.hstack(
        [sparse.kron(np.ones((k, 1)), -eye), sparse.kron(eye, np.ones((k, 1))), -sparse.eye_array(k * k)]
    )
    loss = (np.arange(k) != predicted).astype(float)
    result: Any = linprog(
        np.concatenate([guess @ mean, np.zeros(k + k * k)]),
        A_ub=sparse.vstack([floor, parts], format="csr"),
        b_ub=np.concatenate([-loss, np.zeros(k * k)]),
        bounds=[(None, None)] * (2 * k) + [(0, None)] * (k * k),
        method="highs",
    )
    return np.asarray(result.x[:k])


def _checked_counts(counts: Any) -> FloatArray:
    c = as_array(counts, "audit")
    if c.ndim != 2 or c.shape[0] != c.shape[1] or len(c) < 2:
        raise ValueError(_validation.expected("audit", "of shape (k, k) with k >= 2", c.shape))
    if c.min() < 0 or (c != np.round(c)).any():
        raise ValueError(_validation.expected("audit", "counts, integers from 0", f"{c.min():g} to {c.max():g}"))
    return c
