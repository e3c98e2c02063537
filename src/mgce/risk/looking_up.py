r"""Bound an error rate at every look, while right labels are looked up one row after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import FloatArray, as_array
from mgce.risk.concentration import check_delta, clopper_pearson_upper
from mgce.risk.sequential import refuted_from

# Share of the rows that are never among those to look up. Their given labels tell how often the classifier disagrees.
# With two thirds of 3,000 rows, this rate is known to about a hundredth.
RESERVED = 2 / 3
# Share of delta for that rate. The stakes get the rest, which makes a bound about 0.2 % larger.
FOR_RATE = 1 / 50
# Disagreements are bet on once they explain this share of the errors' variance among the rows looked up so far. They
# cost more than they gain below about a tenth: the rate is uncertain.
EXPLAINED = 0.15
# Added to the variances of which that share is computed, so that few rows do not feign it.
PRIOR = 5.0


def looked_up_upper_sequence(wrong: Any, disagrees: Any, others: tuple[int, int], delta: float = 0.05) -> FloatArray:
    r"""Bound an error rate after every look, with the given labels as a control variate; all bounds hold at once.

    .. math:: z_j = e_j - \lambda_j (d_j - w), \qquad
        U_t = \min\Big\{m : \max_{i \le t} \sum_{j \le i} \log\big(1 + s_j (m - z_j)\big)
        \ge \log \tfrac{1}{(1 - \epsilon)\, \delta}\Big\}

    e_j tells whether the classifier errs on the j-th row that is looked up. d_j tells whether it disagrees with the
    given label, and w is the probability of that. So z_j has the mean of e_j, whatever the noise, and varies less if
    errors go with disagreements. The weights :math:`\lambda_j \ge 0` and stakes s_j depend on earlier rows alone, and
    stakes are those of :func:`betting_upper_sequence`. For the true w, the capital is a nonnegative martingale, and
    Ville's inequality holds. w itself is bounded from above by Clopper and Pearson, at :math:`\epsilon\, \delta`, from
    rows that are never looked up. A larger w makes U larger, so the upper bound serves. The weights are zero until
    disagreements clearly explain errors: then U is the anytime bound at nearly all of delta.

    Args:
        wrong: whether the classifier errs on each row that was looked up, in the order of the looks, shape (m,).
        disagrees: whether it disagrees with the given label of these rows, shape (m,).
        others: the number of disagreements, and the number of rows, among rows that are never looked up. They must be
            fixed before the first look.
        delta: probability in (0, 1) with which any of the bounds may be wrong.

    Returns:
        U_1 to U_m, shape (m,), rounded up to a thousandth.

    Raises:
        ValueError: if shapes or counts do not fit together, or `delta` is out of range.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> disagrees = rng.random(300) < 0.2
        >>> wrong = rng.random(300) < np.where(disagrees, 0.9, 0.02)
        >>> looked_up_upper_sequence(wrong, disagrees, (400, 2000))[[49, 299]].round(3).tolist()
        [0.386, 0.282]
        >>> from mgce.risk import betting_upper_sequence
        >>> betting_upper_sequence(wrong)[[49, 299]].round(3).tolist()
        [0.413, 0.309]

    Reference: Waudby-Smith and Ramdas (2024), JRSS B 86, for betting; Angelopoulos et al. (2023), Science 382, for
    predictions as a control variate.
    """
    check_delta(delta)
    errors, f = (as_array(x, name).astype(np.float64) for x, name in ((wrong, "wrong"), (disagrees, "disagrees")))
    if errors.ndim != 1 or errors.shape != f.shape or errors.size == 0:
        got = f"{errors.shape} and {f.shape}"
        raise ValueError(_validation.expected("wrong, disagrees", "of one shape (m,) with m >= 1", got))
    count, n = others
    if not 0 <= count <= n or n == 0:
        raise ValueError(_validation.expected("others", "a count and a number of rows that is not less", others))
    weight = _weights(errors, f)
    most = clopper_pearson_upper(count, n, FOR_RATE * delta)
    return refuted_from(errors - weight * (f - most), (1 - FOR_RATE) * delta, largest=1 + weight * most)


def _weights(errors: FloatArray, f: FloatArray) -> FloatArray:
    """Return the weight of each disagreement: a regression on earlier rows, or 0 if it explains little."""
    t = np.arange(1, errors.size + 1)
    sum_f, sum_e = f.cumsum(), errors.cumsum()
    both = (f * errors).cumsum() - sum_f * sum_e / t
    of_f, of_e = sum_f - sum_f**2 / t, sum_e - sum_e**2 / t
    slope = np.clip(both / (of_f + PRIOR), 0, 1)
    explained = both**2 / ((of_f + PRIOR / 4) * (of_e + PRIOR / 4))
    return np.append(0.0, np.where(explained >= EXPLAINED, slope, 0.0)[:-1])


def reserved(n: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which of n rows are looked up last, shape (n,): a random set that n alone determines."""
    order = np.random.default_rng(n).permutation(n)
    return np.asarray(np.isin(np.arange(n), order[: int(RESERVED * n)]))
