r"""Bound an expectation by the mean, deviation or count of a sample: one function for each inequality.

Every bound holds with probability at least 1 - delta over independent, identically distributed draws, for every n and
every distribution on the stated range; none is asymptotic. To bound m means at once, on both sides, compute each of the
2 m bounds with `delta / (2 m)`. Their probabilities of failure then add up to delta at most.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from mgce._arrays import FloatArray, as_array
from mgce._messages import expected, expected_share


def clopper_pearson_upper(errors: int, n: int, delta: float = 0.05) -> float:
    r"""Return an upper bound on a probability of error from a count of errors, by Clopper and Pearson.

    .. math:: U = \mathrm{BetaInv}(1 - \delta;\ e + 1,\ n - e), \qquad U = 1 \text{ if } e = n

    Args:
        errors: number e of errors, an integer in 0..n.
        n: number of independent draws, at least 1.
        delta: probability in (0, 1) with which the bound may be wrong.

    Returns:
        The upper bound, in (0, 1].

    Raises:
        ValueError: if an argument is outside its range.

    Example:
        >>> round(clopper_pearson_upper(3, 100, 0.05), 12)
        0.07571079375

    Reference: Clopper and Pearson (1934), Biometrika 26.
    """
    from scipy import special

    check_delta(delta)
    if n < 1 or not 0 <= errors <= n:
        raise ValueError(expected("errors", "an integer from 0 to n, with n >= 1", (errors, n)))
    return 1.0 if errors == n else float(special.betaincinv(errors + 1, n - errors, 1 - delta))


def clopper_pearson_lower(errors: int, n: int, delta: float = 0.05) -> float:
    r"""Bound a probability of error from below, by Clopper and Pearson.

    .. math:: L = 1 - U(n - e), \qquad U \text{ the upper bound}

    Args:
        errors: number e of errors, an integer in 0..n.
        n: number of independent draws, at least 1.
        delta: probability in (0, 1) with which the bound may be wrong.

    Returns:
        The lower bound, in [0, 1).

    Raises:
        ValueError: if an argument is outside its range.

    Example:
        >>> round(clopper_pearson_lower(3, 100, 0.05), 6)
        0.008226

    Reference: Clopper and Pearson (1934), Biometrika 26.
    """
    return 1 - clopper_pearson_upper(n - errors, n, delta)


def hoeffding_radius(n: int, delta: float = 0.05, *, width: float = 1.0) -> float:
    r"""Return by how much the mean of n draws may fall below its expectation, by Hoeffding's inequality.

    .. math:: r = (b - a) \sqrt{\log(1/\delta) / (2n)}

    Args:
        n: number of independent draws, at least 1.
        delta: probability in (0, 1) with which the mean may be further below.
        width: width b - a of the range of a draw.

    Returns:
        The radius of one side; for both sides at once pass `delta / 2`.

    Raises:
        ValueError: if an argument is outside its range.

    Example:
        >>> round(hoeffding_radius(1000, 0.05), 6)
        0.038702

    Reference: Hoeffding (1963), JASA 58, theorem 2.
    """
    check_delta(delta)
    if n < 1:
        raise ValueError(expected("n", "at least 1", n))
    return width * math.sqrt(-math.log(delta) / (2 * n))


def hoeffding_upper(sample: Any, delta: float = 0.05, *, limits: tuple[float, float] = (0.0, 1.0)) -> float:
    r"""Bound the expectation of draws from a range, by Hoeffding's inequality.

    .. math:: U = \bar z + (b - a) \sqrt{\log(1/\delta) / (2n)}

    Args:
        sample: independent draws z, shape (n,), array or tensor.
        delta: probability in (0, 1) with which the bound may be wrong.
        limits: the range [a, b] of a draw, known without the sample.

    Returns:
        The upper bound, at most b.

    Raises:
        ValueError: if an argument is outside its range, or the sample outside `limits`.

    Example:
        >>> round(hoeffding_upper([0.0, 0.1, 0.2, 0.05, 0.9, 0.0, 0.3, 0.02, 0.0, 0.6], 0.05), 6)
        0.604023

    Reference: Hoeffding (1963), JASA 58, theorem 2.
    """
    unit = unit_sample(sample, limits)
    return rescaled(float(unit.mean()) + hoeffding_radius(unit.size, delta), limits)


def hoeffding_bentkus_upper(sample: Any, delta: float = 0.05, *, limits: tuple[float, float] = (0.0, 1.0)) -> float:
    r"""Bound the expectation of draws from a range by their mean, by Hoeffding (KL form) and Bentkus.

    .. math:: U = \max\Big\{m \ge \bar z : \min\big(e^{-n\,\mathrm{KL}(\bar z, m)},\;
        e \Pr[\mathrm{Bin}(n, m) \le \lceil n \bar z \rceil]\big) \ge \delta\Big\},
        \qquad \mathrm{KL}(a, b) = a \log\tfrac{a}{b} + (1 - a) \log\tfrac{1 - a}{1 - b}

    for draws in [0, 1]; other draws are scaled to this range. This is the sharpest bound here that uses only the mean.

    Args:
        sample: independent draws z, shape (n,), array or tensor.
        delta: probability in (0, 1) with which the bound may be wrong.
        limits: the range [a, b] of a draw, known without the sample.

    Returns:
        The upper bound, at most b.

    Raises:
        ValueError: if an argument is outside its range, or the sample outside `limits`.

    Example:
        >>> round(hoeffding_bentkus_upper([0.0, 0.1, 0.2, 0.05, 0.9, 0.0, 0.3, 0.02, 0.0, 0.6], 0.05), 6)
        0.59644

    Reference: Bentkus (2004), Annals of Probability 32; Bates et al. (2021), JACM 68, proposition 6.
    """
    from scipy import special

    check_delta(delta)
    unit = unit_sample(sample, limits)
    n, mean = unit.size, float(unit.mean())
    # A mean of thirds is a rounding error above its multiple of 1/n; one count more would only widen the bound.
    count = min(n, math.ceil(n * mean * (1 - 1e-12)))

    def p_value(m: float) -> float:
        """Bound the probability of a sample mean as small as the observed one, if the expectation is m."""
        divergence = float(special.rel_entr(mean, m) + special.rel_entr(1 - mean, 1 - m))
        return min(math.exp(-n * divergence), math.e * float(special.bdtr(count, n, m)))

    low, high = mean, 1.0
    for _ in range(48):  # 48 halvings of [0, 1] leave 4e-15, the rounding of a mean of float64
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) >= delta else (low, middle)
    return rescaled(high, limits)


def maurer_pontil_radius(std: Any, n: int, delta: float = 0.05, *, width: Any = 1.0) -> Any:
    r"""Return by how much the mean of n draws may fall below its expectation, by Maurer and Pontil's inequality.

    .. math:: r = s \sqrt{2 \log(2/\delta) / n} + \frac{7 (b - a) \log(2/\delta)}{3 (n - 1)}

    Args:
        std: sample standard deviation s, with denominator n - 1; a number or an array.
        n: number of independent draws, at least 2.
        delta: probability in (0, 1) with which the mean may be further below.
        width: width b - a of the range of a draw; a number or an array.

    Returns:
        The radius of one side, of the shape of `std`; for both sides at once pass `delta / 2`.

    Raises:
        ValueError: if `delta` or `n` is outside its range.

    Example:
        >>> round(maurer_pontil_radius(0.1, 1000, 0.05), 6)
        0.017205

    Reference: Maurer and Pontil (2009), Empirical Bernstein bounds, theorem 4.
    """
    check_delta(delta)
    if n < 2:
        raise ValueError(expected("n", "at least 2", n))
    log = math.log(2 / delta)
    return std * math.sqrt(2 * log / n) + 7 * width * log / (3 * (n - 1))


def maurer_pontil_upper(sample: Any, delta: float = 0.05, *, limits: tuple[float, float] = (0.0, 1.0)) -> float:
    r"""Bound the expectation of draws from a range by their mean and standard deviation, by Maurer and Pontil.

    .. math:: U = \bar z + s \sqrt{2 \log(2/\delta) / n} + \frac{7 (b - a) \log(2/\delta)}{3 (n - 1)}

    Args:
        sample: independent draws z, shape (n,) with n >= 2, array or tensor.
        delta: probability in (0, 1) with which the bound may be wrong.
        limits: the range [a, b] of a draw, known without the sample.

    Returns:
        The upper bound, at most b.

    Raises:
        ValueError: if an argument is outside its range, or the sample outside `limits`.

    Example:
        >>> round(maurer_pontil_upper([0.1, 0.3] * 500, 0.05), 6)
        0.21721

    Reference: Maurer and Pontil (2009), Empirical Bernstein bounds, theorem 4.
    """
    unit = unit_sample(sample, limits)
    if unit.size < 2:
        raise ValueError(expected("sample", "of at least 2 draws", unit.size))
    radius = maurer_pontil_radius(float(unit.std(ddof=1)), unit.size, delta)
    return rescaled(float(unit.mean()) + float(radius), limits)


def check_delta(delta: Any, name: str = "delta") -> None:
    """Raise an error unless `delta` is a number in (0, 1); the message calls it `name`."""
    if not isinstance(delta, Real):
        raise TypeError(expected(name, "a number in (0, 1)", delta))
    if not 0 < float(delta) < 1:
        raise ValueError(expected_share(name, "in (0, 1)", delta))


def unit_sample(sample: Any, limits: tuple[float, float]) -> FloatArray:
    """Check a sample of draws from [a, b], and scale it to [0, 1]."""
    low, high = limits
    z = as_array(sample, "sample")
    if not low < high:
        raise ValueError(expected("limits", "a pair (a, b) with a < b", limits))
    if z.ndim != 1 or z.size == 0:
        raise ValueError(expected("sample", "of shape (n,) with n >= 1", z.shape))
    if z.min() < low or z.max() > high:
        got = f"values from {z.min():g} to {z.max():g}"
        raise ValueError(expected("sample", f"within [{low:g}, {high:g}]", got))
    return (z - low) / (high - low)


def rescaled(unit: float, limits: tuple[float, float]) -> float:
    """Convert a bound for draws scaled to [0, 1] back to the scale of the draws, at most b."""
    return limits[0] + (limits[1] - limits[0]) * min(1.0, unit)
