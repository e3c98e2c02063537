r"""Bound the share of wrong labels from above by how often a model disagrees with the given labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.stats import beta, binomtest

from mgce._arrays import IntArray, as_labels, as_probs
from mgce._validation import expected, expected_share

ASSUMPTION = "on every row the right label is at least as likely as any one wrong label"


@dataclass(frozen=True)
class NoiseShare:
    """An upper bound on the share of wrong labels among n rows. The lower end is 0, and there is no estimate.

    Hard rows and wrong labels look alike: where classes overlap, a model that learnt right labels disagrees with them
    as often. An interval by a fitted curve of errors was given up: on the tables of the suite it held less often than
    it said.

    Attributes:
        upper: the bound. It holds with a probability of 1 - `delta`, if :data:`ASSUMPTION` does.
        disagreement: share of rows whose given label is not the predicted class.
        n: number of rows.
        delta: probability in (0, 1) with which the truth may be above.
    """

    upper: float
    disagreement: float
    n: int
    delta: float

    def width_after(self, checked: int) -> float:
        """Return the width of the interval that this many rows would give, drawn at random and checked.

        The width is that of a Clopper-Pearson interval, if as many checked labels are wrong as the upper end says, or
        half of them where that is more.
        """
        wrong = round(checked * min(self.upper, 0.5))
        ends = binomtest(wrong, checked).proportion_ci(1 - self.delta)
        return float(ends.high - ends.low)


def noise_share(target: Any, probs: Any, *, delta: float = 0.05) -> NoiseShare:
    r"""Bound the share of wrong labels, from class probabilities of rows that the model was not fitted to.

    .. math:: \mathrm{BetaInv}(1 - \delta;\ d + 1, n - d)

    d of n labels differ from the most probable class. If no wrong label is likelier than the right one on any row, no
    model agrees with given labels more often than right labels do. So the share of wrong labels is at most the
    probability that a label differs from the prediction, which the bound of Clopper and Pearson limits.

    Args:
        target: given labels in 0..k-1, shape (n,), array or tensor.
        probs: class probabilities, shape (n, k), each row's by a model that was not fitted to it.
        delta: probability in (0, 1) with which the truth may be above.

    Raises:
        ValueError: if shapes or values do not fit together, or there are fewer than two classes.

    Example:
        >>> import numpy as np
        >>> found = noise_share(np.repeat([0, 1], 50), np.eye(2)[np.repeat([0, 1], [60, 40])])  # 10 of 100 differ
        >>> round(found.upper, 2)
        0.16

    Reference: Clopper and Pearson (1934), The use of confidence or fiducial limits, Biometrika 26.
    """
    if not 0 < delta < 1:
        raise ValueError(expected_share("delta", "in (0, 1)", delta))
    p = as_probs(probs)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(expected("probs", "of shape (n, k) with k of at least 2", p.shape))
    return share_of_predictions(as_labels(target, len(p), p.shape[1], "target"), p.argmax(1), delta=delta)


def share_of_predictions(target: IntArray, predicted: IntArray, *, delta: float = 0.05) -> NoiseShare:
    """Bound the share of wrong labels as :func:`noise_share` does, from predicted classes, shape (n,)."""
    return bounded_share(int((target != predicted).sum()), len(target), delta=delta)


def bounded_share(differing: int, n: int, *, delta: float = 0.05) -> NoiseShare:
    """Bound the share of wrong labels as :func:`noise_share` does, if so many of n labels differ from predictions."""
    upper = float(beta.ppf(1 - delta, differing + 1, n - differing)) if differing < n else 1.0
    return NoiseShare(upper, differing / n, n, delta)
