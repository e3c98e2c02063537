r"""Choose rows whose right label a person looks up, and bound an error rate after every such check, called a look."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray, as_array
from mgce._messages import expected
from mgce.risk.betting import betting_upper_sequence, refuted_from
from mgce.risk.concentration import check_delta, clopper_pearson_upper
from mgce.risk.sample import checked_probs, checked_target


class Sharing(NamedTuple):
    """The settings of the draw of rows to look up, and of the bound that holds at every look.

    Attributes:
        reserved: share of the rows that are looked up last. Their given labels tell how often the classifier disagrees
            with a given label. With two thirds of 3,000 rows, this rate is known to about a hundredth.
        for_rate: share of delta for the bound on that rate. The bets get the rest of delta, which makes the bound at
            every look about 0.2 % larger.
        explained: disagreements are bet on once they explain this share of the errors' variance among the rows looked
            up so far. They cost more than they gain below about a tenth: the rate is uncertain.
        prior: added to the variances of which that share is computed, so that few rows do not feign it.
        apart: share of the rows that determine what is doubtful; it makes the bound less than 1 % wider.
        often: how many times as often a doubtful row is looked up as another row. Where errors are as frequent in both
            groups, 2 makes the distance of the bound from the error some 5 % larger, and 3 some 13 %; on CIFAR-10N
            three is hardly better than two.
        doubtful: least and largest share of doubtful rows. Between the two, the share is that of the labels that
            disagree. Where a thousandth was doubtful, bounds from 50 to 100 looks were some 10 % wider than Clopper and
            Pearson's. On CIFAR-10N a third to two fifths are best where many labels disagree.
    """

    reserved: float = 2 / 3
    for_rate: float = 1 / 50
    explained: float = 0.15
    prior: float = 5.0
    apart: float = 0.1
    often: float = 2.0
    doubtful: tuple[float, float] = (0.1, 0.375)


SHARING = Sharing()


class Looks(NamedTuple):
    """Which rows to look up, and how likely each row is looked up."""

    rows: IntArray  # in the order in which to look them up
    chance: FloatArray  # (n,), of any row, relative to others; 0 if it is never looked up


def share_looks(
    target: Any,  # (n,)
    probs: Any,  # (n, k)
    *,
    generator: np.random.Generator | None = None,
) -> Looks:
    r"""Draw rows to look up: rows whose prediction is doubtful are looked up twice as often as others.

    A prediction is doubtful if the given label or the confidence c of the classifier speaks against it. The chance of
    an error is guessed to be (1 - c) / 2 if the label agrees, and otherwise 1 - 3c/4. The rows of the largest guesses
    are doubtful, about as many as labels that disagree. A tenth of the rows determines the threshold of guesses. These
    rows are never looked up, so no look decides which rows are doubtful. Look up the first m of `rows`, for any m fixed
    beforehand. Pass the labels that were found to :func:`~mgce.certify` as `checked`, and `chance` as `checked_with`.

    Args:
        target: given labels in 0..k-1, shape (n,); -1 is a label that is none of the classes.
        probs: the classifier's probabilities, shape (n, k).
        generator: NumPy generator for the draw; by default one with seed 0.

    Returns:
        The rows in the order in which to look them up, and the relative chance of each row, shape (n,).

    Raises:
        ValueError: if shapes or values do not fit together.

    Example:
        >>> from mgce import certify
        >>> rng = np.random.default_rng(0)
        >>> right, hard = rng.integers(0, 2, 2000), rng.random(2000) < 0.4
        >>> given, guess = (np.where(hard & (rng.random(2000) < 0.4), 1 - right, right) for _ in range(2))
        >>> probs = np.where(np.eye(2)[guess] > 0, 0.9 - 0.3 * hard[:, None], 0.1 + 0.3 * hard[:, None])
        >>> rows, chance = share_looks(given, probs)
        >>> found = right[rows[:200]]
        >>> c = certify(given, probs, bounds=["argmax"], checked=(rows[:200], found), checked_with=chance)
        >>> round(float((guess != right).mean()), 3), round(c.argmax_error, 3)
        (0.172, 0.251)

    Reference: Neyman (1934), JRSS 97, on how to share out a sample.
    """
    h = checked_probs(probs)
    labels = checked_target(target, *h.shape)
    agrees = h.argmax(1) == labels
    guess = np.where(agrees, (1 - h.max(1)) / 2, 1 - 0.75 * h.max(1)).round(9)  # equal ones stay together
    order = (generator or np.random.default_rng(0)).permutation(labels.size)
    apart, rest = np.split(order, [max(1, int(SHARING.apart * labels.size))])
    share = float(np.clip(1 - agrees[apart].mean(), *SHARING.doubtful))
    threshold = np.sort(guess[apart])[-max(1, int(share * apart.size))]
    chance = np.where(guess >= threshold, SHARING.often, 1.0)
    chance[apart] = 0.0
    place = np.empty(rest.size)
    for value in (1.0, SHARING.often):
        own = chance[rest] == value
        place[own] = (np.arange(own.sum()) + 0.5) / (value * max(1, own.sum()))
    return Looks(rest[np.argsort(place, kind="stable")], chance)


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

    The rows are drawn at random. Their number suffices for a bound that exceeds the share of errors found by `width`,
    if as many predictions disagree with right labels as with given labels. Fewer rows suffice if fewer predictions are
    wrong, or if the given labels help: then :func:`~mgce.certify` returns a narrower bound. Look up all of the rows: a
    row left out because its label is hard to tell makes the bound false.

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
    check_delta(width, "width")
    h = checked_probs(probs)
    labels = checked_target(target, *h.shape)
    enough = number_to_check(float((h.argmax(1) != labels).mean()), labels.size, width, delta, anytime=anytime)
    return random_order(labels.size, generator)[:enough]


def random_order(n: int, generator: np.random.Generator | None = None) -> IntArray:
    """Return the indices of n rows in a random order, the reserved rows last; the default generator has seed 0."""
    draws, kept = generator or np.random.default_rng(0), reserved(n)
    return np.concatenate([draws.permutation(np.flatnonzero(some)) for some in (~kept, kept)]).astype(np.int64)


def foretold_widths(error: float, most: int, delta: float) -> FloatArray:
    """Estimate after each of `most` looks how far a bound that holds at every look will be above a share of errors.

    The looks are taken to find errors at even intervals, and the given labels to say nothing of the errors.

    Example:
        >>> foretold_widths(0.1, 100, 0.05)[[49, 99]].round(3).tolist()
        [0.15, 0.109]
    """
    steps = np.floor(np.arange(most + 1) * error + 0.5)
    return betting_upper_sequence(np.diff(steps), delta) - error


def number_to_check(error: float, most: int, width: float, delta: float, *, anytime: bool = False) -> int:
    """Return how many rows to look up for a bound at most `width` above the share `error`; `most` if none suffices."""
    if anytime:
        fits = np.flatnonzero(foretold_widths(error, most, delta) <= width)
        return int(fits[0]) + 1 if fits.size else most

    def fits_at(m: int) -> bool:
        found = math.ceil(m * error)
        return clopper_pearson_upper(found, m, delta) - found / m <= width

    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits_at(middle) else (middle + 1, high)
    return low


def looked_up_upper_sequence(wrong: Any, disagrees: Any, others: tuple[int, int], delta: float = 0.05) -> FloatArray:
    r"""Bound an error rate after every look, with the given labels as a control variate; all bounds hold at once.

    .. math:: z_j = e_j - \lambda_j (d_j - w), \qquad
        U_t = \min\Big\{m : \max_{i \le t} \sum_{j \le i} \log\big(1 + s_j (m - z_j)\big)
        \ge \log \tfrac{1}{(1 - \epsilon)\, \delta}\Big\}

    e_j tells whether the classifier errs on the j-th row that is looked up. d_j tells whether it disagrees with the
    row's given label, and w is the mean of d_j. So z_j has the mean of e_j, whatever the noise, and varies less if
    errors go with disagreements. The weights :math:`\lambda_j \ge 0` and stakes s_j depend on earlier rows alone, and
    stakes are those of :func:`betting_upper_sequence`. For the true w, the capital is a nonnegative martingale, and
    Ville's inequality holds. w itself is bounded from above by Clopper and Pearson, at :math:`\epsilon\, \delta`, from
    rows that are never looked up. A larger w makes U larger, so the upper bound serves. The weights are zero until
    disagreements clearly explain errors: then U is the anytime bound at nearly all of delta.

    Args:
        wrong: whether the classifier errs on each row that was looked up, in the order of the looks, shape (m,).
        disagrees: whether the classifier disagrees with the given label of each of these rows, shape (m,).
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
        raise ValueError(expected("wrong, disagrees", "of one shape (m,) with m >= 1", got))
    if not np.isin((errors, f), (0, 1)).all():
        raise ValueError(expected("wrong, disagrees", "truth values, or 0 and 1", "others"))
    count, n = others
    if not 0 <= count <= n or n == 0:
        raise ValueError(expected("others", "a count and a number of rows that is not less", others))
    return reserving_upper_sequence(errors, f, others, delta, np.ones(errors.size, bool))


def reserving_upper_sequence(
    errors: FloatArray, f: FloatArray, others: tuple[int, int], delta: float, apart: NDArray[np.bool_]
) -> FloatArray:
    """Compute the bounds of :func:`looked_up_upper_sequence`, where some looked-up rows are among `others`.

    Args:
        errors: whether the classifier errs on each row that was looked up, shape (m,).
        f: whether the classifier disagrees with the given label of each of these rows, shape (m,).
        others: as in :func:`looked_up_upper_sequence`.
        delta: as in :func:`looked_up_upper_sequence`.
        apart: whether each looked-up row is none of `others`, shape (m,). A row that is one of them has the weight 0.
    """
    weight = np.where(apart, _weights(errors, f), 0.0)
    most = clopper_pearson_upper(*others, SHARING.for_rate * delta)
    return refuted_from(errors - weight * (f - most), (1 - SHARING.for_rate) * delta, largest=1 + weight * most)


def _weights(errors: FloatArray, f: FloatArray) -> FloatArray:
    """Return the weights lambda_j: slopes of errors on disagreements in earlier rows, 0 where these explain little."""
    t = np.arange(1, errors.size + 1)
    sum_f, sum_e = f.cumsum(), errors.cumsum()
    both = (f * errors).cumsum() - sum_f * sum_e / t
    of_f, of_e = sum_f - sum_f**2 / t, sum_e - sum_e**2 / t
    slope = np.clip(both / (of_f + SHARING.prior), 0, 1)
    explained = both**2 / ((of_f + SHARING.prior / 4) * (of_e + SHARING.prior / 4))
    return np.append(0.0, np.where(explained >= SHARING.explained, slope, 0.0)[:-1])


def reserved(n: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which of n rows are looked up last, shape (n,): a random set that n alone determines."""
    order = np.random.default_rng(n).permutation(n)
    return np.asarray(np.isin(np.arange(n), order[: int(SHARING.reserved * n)]))
