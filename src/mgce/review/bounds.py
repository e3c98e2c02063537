r"""What examples that were drawn at random and checked say about a model's errors, and about the labels left wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._validation import expected
from mgce.risk.sequential import betting_upper_sequence


@dataclass(frozen=True)
class ErrorBound:
    """A bound on the errors of a model against right labels.

    Attributes:
        n: checked examples, none of which the model was trained on or chosen by.
        errors: those that it got wrong; skipped and dropped ones count.
        unsettled: the skipped and dropped ones among them.
        upper: with probability 1 - delta, the model errs on at most this share of examples drawn like these.
        delta: probability with which the bound may fail, at any time.
    """

    n: int
    errors: int
    unsettled: int
    upper: float
    delta: float


def error_bound(right: Sequence[Any], predicted: Sequence[Any], delta: float = 0.05) -> ErrorBound:
    """Bound a model's errors by the right labels of examples drawn one after the other, valid however often one looks.

    That is for one model. Whoever trains again until the bound is good has chosen among models by these examples: each
    of the bounds then fails with probability delta.

    Args:
        right: the right label of each example in the order of the draws; None where it was skipped or dropped.
        predicted: the model's class of each.
        delta: probability in (0, 1) with which the bound may fail.

    Raises:
        ValueError: if there is no example, or `delta` is out of range.

    Example:
        >>> error_bound(["a"] * 50, ["b"] + ["a"] * 49)
        ErrorBound(n=50, errors=1, unsettled=0, upper=0.111, delta=0.05)

    Reference: :func:`mgce.risk.betting_upper_sequence`.
    """
    wrong = [label is None or label != guess for label, guess in zip(right, predicted, strict=True)]
    upper = float(betting_upper_sequence(np.array(wrong, dtype=float), delta)[-1])
    return ErrorBound(len(wrong), sum(wrong), sum(label is None for label in right), upper, delta)


def share_left_bound(
    was_wrong: Sequence[bool], probability: Sequence[float], n: int, delta: float = 0.05, *, least: float
) -> float:
    r"""Bound the share of examples whose label is wrong and not mended, among all n, by those drawn at random.

    .. math:: P(\exists t: U_t < W_t / n) \le \delta, \qquad
        U_t \text{ of the draws } z_j = \frac{w_j}{n q_j}, \quad j \le t

    with w_j = 1 if the j-th draw found a wrong label that nobody had mended before, q_j its probability, and W_t the
    number of wrong labels that nobody has mended after t draws. It only falls, and draws are without putting back. So
    :math:`E[z_j \mid z_1, \dots, z_{j-1}] \ge W_t / n` for all j up to t, and a gambler who bets against a mean of
    :math:`W_t / n` or more plays a game that is not in their favour. So the bound holds at any time, and whoever
    checks suspects in between, as many as they like, does no harm.

    Args:
        was_wrong: whether each draw found a wrong label that was not mended before, in the order of the draws. One that
            was skipped counts as wrong here, and once more among those left.
        probability: of each draw's example, if none was drawn before.
        n: number of examples.
        delta: probability in (0, 1) with which the bound may fail at any time.
        least: the least such probability among all n.

    Raises:
        ValueError: if there is no draw, or a probability is not in [least, 1].

    Example:
        >>> share_left_bound([False] * 50, [0.01] * 50, 100, least=0.01)
        0.077
    """
    q = np.asarray(probability, dtype=float)
    if not (0 < least <= q.min(initial=1.0) and q.max(initial=least) <= 1):
        raise ValueError(expected("probability", f"within [{least:g}, 1]", probability))
    top = 1 / (n * least)
    z = np.minimum(np.asarray(was_wrong, dtype=float) / (n * q), top)
    upper = betting_upper_sequence(z, delta, limits=(0.0, top))[-1]
    return min(1.0, float(upper))


def width_after(checked: int, error: float, delta: float = 0.05) -> float:
    """Return how far the bound will be above a model's error, about, once so many examples are checked.

    The errors are taken as evenly spread over the examples.

    Args:
        checked: examples, drawn at random, which the model was not trained on.
        error: the share of them that the model will get wrong.
        delta: probability in (0, 1) with which the bound may fail.

    Example:
        >>> round(width_after(100, 0.1), 3)
        0.109
    """
    steps: NDArray[np.float64] = np.floor(np.arange(checked + 1) * error + 0.5)
    errors = np.diff(steps)
    return float(betting_upper_sequence(errors, delta)[-1] - errors.mean())
