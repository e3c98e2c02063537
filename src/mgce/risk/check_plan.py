"""Say which rows to look up, and how many for a bound of a wanted width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import IntArray
from mgce.risk.certificate import checked_target
from mgce.risk.concentration import check_delta, clopper_pearson_upper
from mgce.risk.looking_up import reserved
from mgce.risk.sample import checked_probs
from mgce.risk.sequential import betting_upper_sequence


def rows_to_check(
    target: Any,  # (n,)
    probs: Any,  # (n, k)
    width: float = 0.05,
    *,
    delta: float = 0.05,
    anytime: bool = False,
    generator: np.random.Generator | None = None,
) -> IntArray:
    """Return the rows to look up for a bound of a wanted width, in the order in which to look them up.

    The rows are drawn at random. Their number suffices for a bound on the error that exceeds the share of errors found
    by `width`, if as many labels disagree with the right classes as with the given ones. Fewer suffice if fewer
    disagree, or if the given labels help: then :func:`~mgce.certify` gives a narrower bound. Look up all of the rows:
    a row left out because its label is hard to tell makes the bound false.

    Args:
        target: given labels in 0..k-1, shape (n,).
        probs: the classifier's probabilities, shape (n, k).
        width: wanted distance of the bound from the share of errors found, in (0, 1).
        delta: probability in (0, 1) with which the bound may be wrong.
        anytime: whether the bound has to hold at all looks at once, with `anytime=True` in :func:`~mgce.certify`.
        generator: NumPy generator for the draw; by default one with seed 0.

    Returns:
        Rows, shape (m,): places in `target`. All rows if no number of them suffices.

    Raises:
        ValueError: if shapes or values do not fit together.

    Example:
        >>> target, probs = np.array([0, 1] * 500), np.full((1000, 2), 0.5)
        >>> rows = rows_to_check(target, probs, 0.1)
        >>> rows.size, rows[:3].tolist()
        (76, [463, 765, 601])
    """
    check_delta(delta)
    check_width(width)
    h = checked_probs(probs)
    labels = checked_target(target, *h.shape)
    n = labels.size
    enough = number_to_check(float((h.argmax(1) != labels).mean()), n, width, delta, anytime=anytime)
    draws = generator or np.random.default_rng(0)
    kept = reserved(n)
    order = np.concatenate([draws.permutation(np.flatnonzero(~kept)), draws.permutation(np.flatnonzero(kept))])
    return np.asarray(order[:enough], dtype=np.int64)


def check_width(width: float) -> None:
    """Raise an error unless the wanted width of a bound is in (0, 1)."""
    if not 0 < width < 1:
        raise ValueError(_validation.expected_share("width", "in (0, 1)", width))


def number_to_check(error: float, most: int, width: float, delta: float, *, anytime: bool = False) -> int:
    """Return how many rows to look up for a bound at most `width` above a share of errors; `most` if none suffices."""
    if anytime:
        steps = np.floor(np.arange(most + 1) * error + 0.5)
        wide = betting_upper_sequence(np.diff(steps), delta) - error
        fits = np.flatnonzero(wide <= width)
        return int(fits[0]) + 1 if fits.size else most

    def fits_at(m: int) -> bool:
        found = math.ceil(m * error)
        return clopper_pearson_upper(found, m, delta) - found / m <= width

    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits_at(middle) else (middle + 1, high)
    return low
