r"""Bound a model's errors, and the share of labels still wrong, from random examples that a person has checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce._arrays import FloatArray
from mgce._messages import expected
from mgce.desk.review.draws import HELD_OUT
from mgce.risk.betting import betting_upper_sequence
from mgce.risk.looks import SHARING, reserving_upper_sequence

MORE = (50, 100, 200)  # further checked rows for which a bound is foretold: half an hour's work, an hour's and two


@dataclass(frozen=True)
class ErrorBound:
    """A bound on the errors of a model against right labels.

    Attributes:
        n: number of checked examples; none was used to train or choose the model.
        errors: number of checked examples that the model classified wrongly, or that have no label.
        unsettled: number of checked examples without a label: skipped, dropped, or left open between decided ones.
        upper: with probability 1 - delta, the model errs on at most this share of future examples drawn in the same
            way. It is not below errors / n.
        delta: probability with which the bound may fail, at any time.
        after: the bound after each number in `MORE` of further checked rows, if these show errors as often as the rows
            before; shorter if too few rows are left.
    """

    n: int
    errors: int
    unsettled: int
    upper: float
    delta: float
    after: tuple[float, ...] = ()


def error_bound(
    right: Sequence[Any],
    predicted: Sequence[Any],  # (n,)
    given: Sequence[Any],  # (n,)
    delta: float = 0.05,
    *,
    is_open: Sequence[bool] | None = None,
) -> ErrorBound | None:
    """Bound the error of a model from examples drawn at random, whose labels a person has checked.

    The bound is the one of :func:`mgce.certify` with `anytime`. The given labels of two thirds of the examples, those
    of the last draws, tell how often the model disagrees. The bound assumes that the person's labels are right. In
    simulated worlds, 3 % of wrong decisions in favour of the model made such bounds at delta 0.05 false in 28 to 72 %
    of draws. The bound stays valid if you compute it again after each further example. It holds for one model only: if
    you train several models, the bound of each fails with probability delta, and the best bound may fail more often.

    Args:
        right: the right labels of the first m examples; None if the example was skipped, dropped or left open.
        predicted: the class that the model predicts for each example, in the order of the draws, shape (n,).
        given: the label of each example before the check, shape (n,).
        delta: probability in (0, 1) with which the bound may fail.
        is_open: whether each of the m examples was left open; by default none.

    Returns:
        The bound; None if no example counts.

    Raises:
        ValueError: if `delta` is out of range.

    Example:
        >>> error_bound(["a"] * 50, ["b"] + ["a"] * 599, ["a"] * 600)
        ErrorBound(n=50, errors=1, unsettled=0, upper=0.114, delta=0.05, after=(0.096, 0.074, 0.06))

    Reference: :func:`mgce.risk.looked_up_upper_sequence`.
    """
    m, n = len(right), len(predicted)
    if not m:
        return None
    wrong = np.array([label is None or label != guess for label, guess in zip(right, predicted, strict=False)])
    disagrees = np.array([label != guess for label, guess in zip(given, predicted, strict=True)])
    first = n - int(SHARING.reserved * n)

    def upper(looks: int, among: int) -> FloatArray:
        """Return the bound after each of `looks` draws, if the draws after the first `among` repeat these."""
        errors, f = (np.resize(of[:among], looks).astype(float) for of in (wrong, disagrees))
        if first == n:
            return betting_upper_sequence(errors, delta)
        others = int(disagrees[first:].sum()), n - first
        return reserving_upper_sequence(errors, f, others, delta, np.arange(looks) < first)

    bounds = upper(m, m)
    count = counted(bounds.tolist(), is_open or [False] * m)
    if not count:
        return None
    errors = int(wrong[:count].sum())
    # The bound keeps its least value so far. Beside the errors of these examples, less than their share would confuse.
    now = max(float(bounds[count - 1]), errors / count)
    further = (count + round(HELD_OUT * more) for more in MORE)
    after = tuple(float(upper(looks, count)[-1]) for looks in further if looks <= n)
    return ErrorBound(count, errors, sum(label is None for label in right[:count]), now, delta, after)


def without_label(n: int) -> str:
    """Say, if there are any, how many rows without a right label count as errors."""
    return f" Rows without a right label count as errors: {n:,} of them." if n else ""


def counted(upper: Sequence[float], is_open: Sequence[bool]) -> int:
    """Return how many draws to count if some of them are left open, that is without a decision.

    All bounds hold at once, so the tightest one may be chosen. An open draw counts as an error. After the tightest
    bound, draws are counted up to the next open one: later draws were perhaps never shown to the person.

    Args:
        upper: the bound after each draw, where open draws count as errors.
        is_open: whether each draw is left open.

    Example:
        >>> counted([0.9, 0.8, 0.7, 0.7, 0.7], [False, False, False, False, True])
        4
        >>> counted([1.0, 1.0], [True, False])
        0
    """
    best = int(np.argmin([1.0, *upper]))
    return next((place for place in range(best, len(is_open)) if is_open[place]), len(is_open))


def share_left_sequence(
    was_wrong: Sequence[bool], probability: Sequence[float], n: int, delta: float = 0.05, *, least: float
) -> FloatArray:
    r"""Bound the share of n labels that are wrong and not yet corrected, after each example drawn and checked.

    .. math:: P(\exists t: U_t < W_t / n) \le \delta, \qquad
        U_t \text{ of the draws } z_j = \frac{w_j}{n q_j}, \quad j \le t

    where U_t is the upper bound on the mean of z after t draws. w_j is 1 if the j-th draw found a wrong label that
    nobody had corrected before, and q_j is the probability of that draw. W_t is the number of wrong labels left
    uncorrected after t draws. W_t never increases, and examples are drawn without replacement. So :math:`E[z_j \mid
    z_1, \dots, z_{j-1}] \ge W_t / n` for all j up to t. A bet against a mean of :math:`W_t / n` or more is then not
    favourable, so the bounds by betting hold at all times at once. They stay valid if suspect labels are corrected
    between the draws.

    Args:
        was_wrong: whether each draw found a wrong label that was not corrected before, in the order of the draws. A
            skipped example counts as a wrong label here, and as one that is left uncorrected.
        probability: for each drawn example, the probability with which it was the first draw.
        n: number of all examples.
        delta: probability in (0, 1) with which the bound may fail at any time.
        least: the least probability, at the first draw, among all n examples.

    Raises:
        ValueError: if there is no draw, or a probability is not in [least, 1].

    Example:
        >>> share_left_sequence([False] * 50, [0.01] * 50, 100, least=0.01)[[9, 49]].tolist()
        [0.318, 0.077]
    """
    q = np.asarray(probability, dtype=float)
    if not (0 < least <= q.min(initial=1.0) and q.max(initial=least) <= 1):
        raise ValueError(expected("probability", f"within [{least:g}, 1]", probability))
    top = 1 / (n * least)
    z = np.minimum(np.asarray(was_wrong, dtype=float) / (n * q), top)
    return np.minimum(1.0, betting_upper_sequence(z, delta, limits=(0.0, top)))
