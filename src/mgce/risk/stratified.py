r"""Bound an error rate exactly by looked-up rows of two groups: rows whose label agrees with the model, and others."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mgce._arrays import FloatArray, IntArray
from mgce._messages import check_number, expected
from mgce.risk.concentration import check_delta, clopper_pearson_upper


class Settings(NamedTuple):
    """The settings that decide how wide the bound is; :func:`stratified_upper` defines w, r, theta, zeta and T.

    Attributes:
        far: share of delta for weights w that the sizes of the cells refute by themselves, more than three standard
            deviations away. Four times as much made bounds 1 % further from the error.
        other_end: share of delta for weights that are refuted at the other end, where theta would be larger.
        implausible: share of delta for rates that the errors of one cell refute by themselves, some four standard
            deviations away.
        good: zeta, in standard deviations. A weight that makes theta smaller and is further than zeta from the observed
            share counts as zeta away: 0.6 % of delta pay for it.
        fewest: expected number of looked-up rows that a cell needs. With eight, cells of equal error rates made the
            mean bound up to 7 % larger than Clopper and Pearson's in trials of 100 draws; with 16, up to 2 %.
        weights: values of w for which r is computed, each for the true weights that are nearest to it. With r for
            w = 0.5 alone, a cell of a tenth of 1,500 rows made the bound 6 % wider than Clopper and Pearson's, with
            these 5 % narrower.
        few_rows: fewer rows cannot tell these weights apart: r is then that of w = 0.5.
        prior: errors and right rows that Jeffreys' prior adds to each cell in T, which only orders the outcomes.
    """

    far: float = 1 / 200
    other_end: float = 1 / 400
    implausible: float = 1 / 200
    good: float = 2.5
    fewest: int = 16
    weights: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
    few_rows: int = 100
    prior: float = 0.5


class Search(NamedTuple):
    """The settings of the search for the worst case: a coarser search is quicker, and its bound larger.

    Attributes:
        step: standard deviations from one weight in the table to the next: a hundredth of the smaller part of the
            width.
        tolerance: how much too large the bound may be, relatively; it is never too small.
        side: rectangles along each side at the start.
        parts: number of parts into which a division cuts each side of a rectangle, the least possible number.
        levels: largest number of divisions: by then a rectangle's side is far below the tolerance.
        most: largest number of rectangles at once, which bounds the memory.
        tried: rectangles whose lower corners are tried at each division: one of them is mostly the best.
    """

    step: float = 0.01
    tolerance: float = 5e-4
    side: int = 16
    parts: int = 2
    levels: int = 16
    most: int = 100_000
    tried: int = 64


SETTINGS = Settings()
SEARCH = Search()


def stratified_upper(
    errors: tuple[int, int],
    looked_up: tuple[int, int],
    rows: tuple[int, int],
    delta: float = 0.05,
    *,
    ratio: float | None = None,
    share: float | None = None,
    future: bool = True,
) -> float:
    r"""Bound an error rate by rows with looked-up labels from two groups (cells), and by the sizes of the groups.

    .. math:: \theta = w e_1 + (1 - w) e_2, \qquad
        U = \max\Big\{\theta : p_K(e_1, e_2) > \delta f\big(p_w(w)\big)\Big\}, \qquad
        p_K = P_{e_1, e_2}\big(T(K_1, K_2) \le T(k_1, k_2)\big)

    The cell of every row is known without its right label: for instance, whether the given label agrees with the model.
    theta is the error rate of all rows, e_1 and e_2 those of the cells, and w the weight of the first cell. T is an
    approximate bound, the quantile of a Beta distribution with the moments of theta; T only orders the outcomes.

    Why it holds, for independent rows and every n. Given the cells of all rows, the errors K_1 and K_2 are independent
    and binomial, whatever the noise. So `P(p_K <= a) <= a` at the true rates e, for every a that the cells determine
    (Buehler). The size n_1 is binomial with the weight w, so p_w, its tail in the direction that makes theta smaller,
    is at least uniform. f does not rise, and its integral is at most 1 - gamma. Hence the truth is refuted with
    probability `E[delta f(p_w)] + gamma delta <= delta`. f is that of a test of a sum of two normal deviations, that of
    p_K plus r times that of p_w. The ratio r(e) is fixed beforehand for some weights; a true weight gets the r of the
    nearest one:

    .. math:: \delta f(u) = \frac{1 - \epsilon - \gamma}{1 + u_0}\,
        \bar\Phi\big(z_\delta \sqrt{1 + r^2} - r \max(z_u, -\zeta)\big), \qquad
        u_0 = \bar\Phi(\zeta), \qquad f = 1 / \delta \text{ for } u \le \epsilon \delta

    The share gamma of delta pays for intervals of e_1 and e_2, outside of which all is refuted (Berger and Boos). It
    also pays for the end of the interval of w that p_w does not refute: weights outside of it are left out. A bad r
    makes the bound wider, never false. The maximum is searched in ever smaller rectangles of (e_1, e_2), where p_K is
    largest at the lower corner and theta at the upper one: U is rounded up, by a two-thousandth unless that takes too
    many rectangles. For a weight w below `16 / m` or above `1 - 16 / m` the test is Clopper and Pearson's of all m
    looked-up rows.

    Args:
        errors: k_1 and k_2, errors among the looked-up rows of each cell.
        looked_up: m_1 and m_2, the looked-up rows.
        rows: n_1 and n_2, all rows of each cell, looked up or not.
        delta: probability in (0, 1) with which the bound may be wrong.
        ratio: how many times as often a row of the second cell is looked up as one of the first, fixed beforehand;
            None if every row was as likely to be looked up as any other, so that Clopper and Pearson's bound holds.
        share: the share of rows that are looked up, in (0, 1], fixed beforehand. By default m / n. With `ratio` it
            determines r.
        future: whether the bound is on the error rate of rows that are drawn in the same way. Otherwise it is on the
            error rate of these rows themselves: then w is known, K_1 and K_2 are hypergeometric, and f is 1.

    Returns:
        The upper bound, in (0, 1].

    Raises:
        TypeError, ValueError: if the counts do not fit together, or `delta` or `share` is out of range.

    Example:
        >>> round(stratified_upper((2, 40), (200, 100), (2000, 1000)), 3)
        0.171
        >>> round(clopper_pearson_upper(42, 300), 3)
        0.177

    Reference: Buehler (1957), JASA 52; Kabaila and Lloyd (2003), on orders by an approximate bound;
    Berger and Boos (1994), JASA 89.
    """
    check_delta(delta)
    if share is not None:
        check_number("share", share, 0, 1, above=True)
    if ratio is not None:
        check_number("ratio", ratio, 0, above=True)
    errors, looked_up, rows = _checked_counts(errors, looked_up, rows)
    m, n = sum(looked_up), sum(rows)
    if not future:
        return _Finite(errors, looked_up, rows, delta, (m / n, m / n), rows[0] / n, (0.0, 1.0)).upper(0.0)
    low, high = _weight_range(rows[0], n, SETTINGS.far * delta / 2)
    edge = SETTINGS.fewest / m if ratio is None else 0.0
    share, ratio = m / n if share is None else share, ratio or 1.0
    bound = 0.0
    if low < edge or high > 1 - edge:
        bound = clopper_pearson_upper(sum(errors), m, delta * (1 - SETTINGS.far))
    for weight, start, end in _weight_bins(n):
        within = max(low, start, edge), min(high, end, 1 - edge)
        if within[0] <= within[1]:
            rate = share / (weight + (1 - weight) * ratio)
            bound = _Cells(errors, looked_up, rows, delta, (rate, ratio * rate), weight, within).upper(bound)
    return bound


def _checked_counts(*counts: Any) -> list[tuple[int, int]]:
    """Return errors, looked-up rows and rows of two cells as integers; raise an error if they do not fit together."""
    try:
        table = np.asarray(counts)
    except ValueError:  # of several lengths
        table = np.empty(0)
    if table.shape == (3, 2) and table.dtype.kind in "iu":
        cells = [(int(first), int(second)) for first, second in table]
        if all(0 <= k <= m <= n for k, m, n in zip(*cells, strict=True)) and sum(cells[1]) > 0:
            return cells
    raise ValueError(expected("errors, looked_up, rows", "two counts each, none above the next", counts))


@dataclass(frozen=True)
class _Cells:
    """The counts of errors and rows in two cells, and the error rates that the counts do not refute."""

    errors: tuple[int, int]
    looked_up: tuple[int, int]
    rows: tuple[int, int]
    delta: float
    shares: tuple[float, float]  # of the rows of each cell, to be looked up
    weight: float  # of the first cell, about: it determines r
    within: tuple[float, float]  # where the weight of the first cell is

    def upper(self, reached: float) -> float:
        """Return the largest error rate that is not refuted, at least `reached`, by a search in rectangles of rates."""
        starts, ends = np.array(self._plausible).T
        width = (ends - starts) / SEARCH.side
        parts = np.indices((SEARCH.parts, SEARCH.parts)).reshape(2, 1, -1)
        # The corners of a rectangle stand at two places of a grid, of which only the used ones are computed.
        grids = [np.arange(SEARCH.side), np.arange(SEARCH.side)]
        own = list(np.indices((SEARCH.side, SEARCH.side)).reshape(2, -1))
        settled = reached
        for _ in range(SEARCH.levels):
            corner = [start + grid * h for start, grid, h in zip(starts, grids, width, strict=True)]
            far = [np.minimum(end, low + h) for low, h, end in zip(corner, width, ends, strict=True)]
            p = self._p_values(*corner)[own[0], own[1]]
            top = self._largest(p, own, corner, far)
            best = np.argpartition(-top, min(SEARCH.tried, top.size - 1))[: SEARCH.tried]
            at_corner = self._largest(p[best], [x[best] for x in own], corner, corner)
            reached = max(reached, float(at_corner.max(initial=0)))
            # A rectangle that is hardly above what is reached is not divided: its own bound is near enough.
            kept = top > (1 + SEARCH.tolerance) * reached
            if not kept.any() or kept.sum() * SEARCH.parts**2 > SEARCH.most:
                break
            settled = max(settled, float(top[~kept].max(initial=0)))
            for side, part in enumerate(parts):
                used, place = np.unique(own[side][kept], return_inverse=True)
                grids[side] = (SEARCH.parts * grids[side][used, None] + np.arange(SEARCH.parts)).ravel()
                own[side] = (SEARCH.parts * place[:, None] + part).ravel()
            width /= SEARCH.parts
        return min(1.0, max(settled, float(top.max())))

    def _p_values(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return p_K for each pair of error rates, shape (len(first), len(second)).

        p_K is the probability of x errors in the first cell and at most `outcomes[x]` in the second, for any x.
        """
        x = np.flatnonzero(self.outcomes >= 0)
        at_most = self._likely(np.arange(int(self.outcomes.max()) + 1), 1, second).cumsum(1)
        return np.asarray(self._likely(x, 0, first) @ at_most[:, self.outcomes[x]].T)

    def _likely(self, count: IntArray, cell: int, rates: FloatArray) -> FloatArray:
        """Return the probability of each number of errors in a cell at each rate, shape (len(rates), len(count))."""
        return _binomial(count, self.looked_up[cell], rates)

    @cached_property
    def _plausible(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return a confidence interval of each cell's error rate; the four ends share a fraction of delta equally."""
        level = SETTINGS.implausible * self.delta / 4
        first, second = (_weight_range(k, m, level) for k, m in zip(self.errors, self.looked_up, strict=True))
        return first, second

    @cached_property
    def outcomes(self) -> IntArray:
        """For each number of errors in the first cell, the most in the second at which T is at most the observed T."""
        first = np.arange(self.looked_up[0] + 1)
        own = self._order(*(np.array([k]) for k in self.errors))[0] * (1 + 1e-12)
        low, high = np.full(first.size, -1), np.full(first.size, self.looked_up[1])
        while (low < high).any():
            middle = (low + high + 1) // 2
            within = self._order(first, middle) <= own
            low, high = np.where(within, middle, low), np.where(within, high, middle - 1)
            high = np.maximum(low, high)
        low[self.errors[0]] = max(low[self.errors[0]], self.errors[1])
        # With an outcome, all that have no more errors in either cell belong to the set: p_K then falls in both rates.
        return np.asarray(np.maximum.accumulate(low[::-1])[::-1], dtype=np.int64)

    def _order(self, first: IntArray, second: IntArray) -> FloatArray:
        """Return the approximate bound T for given numbers of errors in both cells."""
        from scipy import special

        (m1, m2), (n1, n2) = self.looked_up, self.rows
        n, w = n1 + n2, n1 / (n1 + n2)
        added = SETTINGS.prior
        p, q = (first + added) / (m1 + 2 * added), (second + added) / (m2 + 2 * added)
        mean = w * p + (1 - w) * q
        spread = w**2 * p * (1 - p) / (m1 + 2 * SETTINGS.prior + 1) + (1 - w) ** 2 * q * (1 - q) / (
            m2 + 2 * SETTINGS.prior + 1
        )
        spread = spread + (q - p) ** 2 * w * (1 - w) / n
        size = mean * (1 - mean) / spread - 1
        return np.asarray(special.betaincinv(mean * size, (1 - mean) * size, 1 - self.delta))

    def _largest(
        self, p: FloatArray, own: list[IntArray], corner: list[FloatArray], far: list[FloatArray]
    ) -> FloatArray:
        """Return for each rectangle of pairs (e_1, e_2) an upper bound on the error rates theta that are not refuted.

        e_1 and e_2 are error rates of the two cells, and theta is their weighted mean. `corner` holds the lower ends of
        the rectangles' sides, and `far` the upper ends; `own` holds the place of each rectangle's sides in these. `p`
        holds the largest value of p_K in each rectangle; :func:`stratified_upper` defines p_K.
        """
        from scipy import special

        a, b = (x[place] for x, place in zip(corner, own, strict=True))
        far_a, far_b = (x[place] for x, place in zip(far, own, strict=True))
        widest, narrowest = np.maximum(far_b - a, far_a - b), np.maximum(0, np.maximum(b - far_a, a - far_b))
        first, second = (_variances(*ends) for ends in zip(corner, far, strict=True))
        of_first, of_second = self.weight / self.shares[0], (1 - self.weight) / self.shares[1]
        least, most = (of_first * x[own[0]] + of_second * y[own[1]] for x, y in zip(first, second, strict=True))
        kept = 1 - SETTINGS.far - SETTINGS.other_end - SETTINGS.implausible  # of delta
        deviation = -special.ndtri(np.minimum(1, p * (1 + special.ndtr(-SETTINGS.good)) / kept))
        # In r the accepted deviation of the weight falls, then rises: it is largest at an end.
        ends = self._ratio(narrowest, most), self._ratio(widest, least)
        accepted = np.maximum(*(self._weight_deviation(r, deviation) for r in ends))
        lower, upper = self._weights(accepted)
        start, end = self.within
        refuted = (accepted <= -SETTINGS.good) | np.where(b >= far_a, lower > end, (a >= far_b) & (upper < start))
        w = np.where(b >= far_a, np.maximum(lower, start), np.minimum(upper, end))
        theta = np.where((b >= far_a) | (a >= far_b), w * far_a + (1 - w) * far_b, np.maximum(far_a, far_b))
        return np.where(refuted, 0.0, theta)

    def _ratio(self, gap: FloatArray, variance: FloatArray) -> FloatArray:
        """Return r: the standard deviation of theta by the sizes of the cells, over that by the errors in the cells.

        Args:
            gap: the distance of the two error rates.
            variance: n times the variance of theta by the errors in the cells; n is the number of rows.
        """
        weights, shares = np.array([self.weight, 1 - self.weight]), np.array(self.shares)
        least = float((weights / shares**2).sum()) / sum(self.rows)
        return np.asarray(np.sqrt(weights.prod()) * gap / np.sqrt(variance + least))

    def _weight_deviation(self, r: FloatArray, deviation: FloatArray) -> FloatArray:
        """Return how many standard deviations from n_1 / n a cell's weight may be, if p_K is Phi(-`deviation`)."""
        from scipy import special

        rest = -special.ndtri(self.delta) * np.sqrt(1 + r * r) - deviation
        with np.errstate(divide="ignore"):
            return np.where(rest > 0, np.inf, -np.inf) if not r.any() else np.asarray(rest / np.maximum(r, 1e-300))

    def _weights(self, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest weight within `deviation`, rounded up, of the observed share."""
        steps = (np.clip(deviation, -SETTINGS.good, self._levels[-1]) + SETTINGS.good) / SEARCH.step
        place = np.ceil(steps).astype(np.int64)
        low, high = self._table
        place = np.minimum(place, low.size - 1)
        return low[place], high[place]

    @cached_property
    def _levels(self) -> FloatArray:
        from scipy import special

        start, end = -SETTINGS.good, -float(special.ndtri(SETTINGS.far * self.delta))
        steps = np.arange(math.ceil((end - start) / SEARCH.step) + 1)
        return np.asarray(np.minimum(start + SEARCH.step * steps, end))

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        from scipy import special

        return _weight_ranges(self.rows[0], sum(self.rows), special.ndtr(-self._levels))


class _Finite(_Cells):
    """The cells for a bound on the error rate of these rows themselves: looks draw without replacement, w is known."""

    def _likely(self, count: IntArray, cell: int, rates: FloatArray) -> FloatArray:
        return _hypergeometric(count, self.looked_up[cell], self.rows[cell], rates)

    @cached_property
    def _plausible(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return for each cell the least possible error rate, and the largest possible one plus half a row."""
        cells = zip(self.errors, self.looked_up, self.rows, strict=True)
        first, second = ((k / max(1, n), (n - m + k + 0.5) / max(1, n)) for k, m, n in cells)
        return first, second

    def _largest(
        self, p: FloatArray, own: list[IntArray], corner: list[FloatArray], far: list[FloatArray]
    ) -> FloatArray:
        """Return for each rectangle the largest error rate of these rows below its upper ends; 0 if p refutes it."""
        ends = (_whole(x, n) if far is corner else np.ceil(x * n) - 1 for x, n in zip(far, self.rows, strict=True))
        most = [np.maximum(0, end) for end in ends]  # in a cell without rows, 0
        a, b = (x[place] for x, place in zip(most, own, strict=True))
        return np.where(p > self.delta, (a + b) / sum(self.rows), 0.0)


def _weight_bins(n: int) -> list[tuple[float, float, float]]:
    """Return each weight for which r is computed, with the least and the largest true weight that get this r."""
    weights = SETTINGS.weights if n >= SETTINGS.few_rows else (0.5,)
    middles = ((a + b) / 2 for a, b in itertools.pairwise(weights))
    ends = [0.0, *middles, 1.0]
    return list(zip(weights, ends, ends[1:], strict=False))


def _binomial(count: IntArray, m: int, p: FloatArray) -> FloatArray:
    """Return the probability of each count of successes in m draws, for each success probability in p.

    The shape is (len(p), len(count)).
    """
    from scipy import special

    log = _log_choose(m, count)
    return np.asarray(np.exp(log + special.xlogy(count, p[:, None]) + special.xlog1py(m - count, -p[:, None])))


def _hypergeometric(count: IntArray, m: int, n: int, p: FloatArray) -> FloatArray:
    """Return the probability of each count of errors in a sample of m of n rows, of which ceil(p n) are errors.

    The shape is (len(p), len(count)).
    """
    errors = np.minimum(_whole(p, n), n)[:, None]
    possible = (count <= errors) & (m - count <= n - errors)
    wrong = np.where(possible, errors, count)  # where it is impossible, any number that the sums are defined for
    log = _log_choose(wrong, count) + _log_choose(np.maximum(n - wrong, m - count), m - count)
    return np.asarray(np.where(possible, np.exp(log - _log_choose(n, m)), 0.0))


def _whole(p: FloatArray, n: int) -> FloatArray:
    """Return ceil(p * n), ignoring a rounding error that lifts p * n just above an integer."""
    return np.asarray(np.ceil(p * n - 1e-9))


def _log_choose(n: Any, k: Any) -> Any:
    from scipy import special

    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _variances(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest variance of a 0-1 variable whose probability is between `low` and `high`."""
    one, other = low * (1 - low), high * (1 - high)
    return np.minimum(one, other), np.where((low < 0.5) & (high > 0.5), 0.25, np.maximum(one, other))


def _weight_ranges(count: int, n: int, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Clopper and Pearson's lower and upper bounds on the weight of a cell that holds `count` of n rows.

    Each bound of a pair fails with the probability in `levels` that belongs to the pair.
    """
    from scipy import special

    low = special.betaincinv(count, n - count + 1, levels) if count else np.zeros_like(levels)
    high = 1 - special.betaincinv(n - count, count + 1, levels) if count < n else np.ones_like(levels)
    # SciPy's inverse is NaN at levels below 1e-150 or so: no weight is refuted there.
    return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)


def _weight_range(count: int, n: int, level: float) -> tuple[float, float]:
    low, high = _weight_ranges(count, n, np.array([level]))
    return float(low[0]), float(high[0])
