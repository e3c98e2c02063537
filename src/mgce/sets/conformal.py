"""Compute prediction sets: all classes of a row whose score is at most a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from mgce._arrays import FloatArray, as_array
from mgce._messages import check_choice, expected
from mgce._rounding import confidence_text
from mgce.risk.sample import checked_probs

SCORES = ("least_ambiguous", "adaptive")
# Relative and absolute tolerance within which probabilities count as equal; the absolute one is for those near zero.
# The margins of a row vary with the batch, by a relative 1e-16 in float64 and 1e-7 in float32. The relative change of a
# probability is the absolute change of its margin. So in float32, margins up to a thousand stay within 1e-4.
SHARE, REST = 1e-4, 1e-12


@dataclass(frozen=True)
class ConformalSets:
    """Thresholds of prediction sets: a set contains every class whose score is at most the threshold of the class."""

    thresholds: tuple[float, ...]  # (k,); infinite where a class is in every set
    score: str
    coverage: float  # probability with which a set holds the right class, at least
    per_class: bool  # whether that is so given each right class, or on average
    delta: float | None  # probability with which the coverage fails over calibration samples; None for an average
    n: int  # calibration examples
    assumptions: tuple[str, ...]  # clauses that complete "This assumes that"
    of_logits: bool = False  # whether the scores are those of logits

    def predict(self, probs: Any = None, *, logits: Any = None) -> NDArray[np.bool_]:
        """Return for each example and class whether the class is in the example's prediction set.

        `probs` or `logits`, and the result, have shape (n, k): n examples, k classes. Pass `logits` if the thresholds
        were calibrated on logits, otherwise `probs`.

        The class of largest probability is always in the set, so no set is empty. Comparisons with the threshold have a
        relative tolerance of a ten-thousandth. Reason: the threshold is the score of a row of the calibration sample.
        In a table of categories many rows have exactly this score, and its last digit can differ between batches. The
        tolerance only makes sets larger, so the guarantee holds for all batches and every precision.
        """
        name, other = ("logits", "probs") if self.of_logits else ("probs", "logits")
        rows = checked_rows(probs, logits)
        if (logits is not None) != self.of_logits:
            raise ValueError(expected(name, f"given, since the sets were calibrated on {name}", other))
        if rows.shape[1] != len(self.thresholds):
            raise ValueError(expected(name, f"of {len(self.thresholds)} classes", rows.shape[1]))
        thresholds = np.array(self.thresholds)
        if self.of_logits:
            within = conformal_scores(logits=rows, score=self.score) <= thresholds + SHARE * np.maximum(1, thresholds)
            return np.asarray(within | (rows >= rows.max(1, keepdims=True) - SHARE))
        within = _reaches(1 - conformal_scores(rows, self.score), 1 - thresholds)
        return np.asarray(within | _reaches(rows, rows.max(1, keepdims=True)))

    def __str__(self) -> str:
        """Return sentences on the guarantee of the sets, and on its assumptions."""
        where = "whichever it is" if self.per_class else "on average over examples"
        how = (
            "and calibration samples"
            if self.delta is None
            else f"with confidence {confidence_text(1 - self.delta)} over the calibration sample"
        )
        return (
            f"A set holds the right class with probability at least {confidence_text(self.coverage)} {where}, {how} "
            f"of n = {self.n}. This assumes that {'; '.join(self.assumptions)}."
        )


def checked_rows(probs: Any, logits: Any) -> FloatArray:
    """Return the probabilities or the logits, whichever are given, as an array with a column for each class."""
    if (probs is None) == (logits is None):
        got = "neither" if probs is None else "both"
        raise ValueError(expected("probs", "given, or `logits` in place of it", got))
    if logits is None:
        return checked_probs(probs)
    rows = as_array(logits, "logits", masks=True)
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] < 2:
        raise ValueError(expected("logits", "of shape (n, k) with n >= 1 and k >= 2", rows.shape))
    if (rows.max(1) == -np.inf).any():
        raise ValueError(expected("logits", "a number in each row", "a row of -inf"))
    return rows


def conformal_scores(probs: Any = None, score: str = "least_ambiguous", *, logits: Any = None) -> FloatArray:
    r"""Return a score for each example and class: the higher the score, the less probable the class.

    .. math:: s_y = 1 - p_y \ \text{(least ambiguous)}, \qquad
        s_y = \sum_{j: p_j > p_y} p_j \ \text{(adaptive)}

    For probabilities p the scores are in [0, 1]. For logits f the scores are :math:`-\log(1 - s_y)` with the softmax of
    f as p, in [0, inf]. Both scores order classes alike. Scores of logits do not tie where probabilities round
    to 0.

    The least ambiguous sets are the smallest on average; the adaptive ones are larger for hard examples and smaller for
    easy ones, so that both have similar coverage. The published adaptive score adds p_y itself, or a random part of
    p_y. Then a right class of probability 1 would have the score 1, like all classes of probability zero.

    The adaptive score treats probabilities as equal if they differ by less than a ten-thousandth of their size, since
    rounding in a batch can decide which one is larger.

    Classes with equal scores are in a set together. MGCE's probabilities h and p are zero for many classes. If more
    than a share alpha of the right classes has probability zero, every set contains all such classes. Logits order
    these classes.

    Args:
        probs: probabilities, shape (n, k): n examples, k classes; array or tensor.
        score: `"least_ambiguous"` or `"adaptive"`.
        logits: logits instead of `probs`, shape (n, k), array or tensor; -inf masks a class, but not all classes of a
            row.

    Returns:
        Scores, shape (n, k).

    Raises:
        ValueError: if `probs` are no probabilities or `logits` no numbers, or there is no such score.

    Example:
        >>> conformal_scores([[0.5, 0.3, 0.2]], "adaptive").round(3).tolist()
        [[0.0, 0.5, 0.8]]
        >>> conformal_scores(logits=[[0.0, -100.0, -200.0]]).tolist()
        [[0.0, 100.0, 200.0]]

    Reference: Sadinle, Lei and Wasserman (2019), JASA 114; Romano, Sesia and Candes (2020), NeurIPS, with 0 in
    place of the random part.
    """
    check_choice("score", score, SCORES)
    p = checked_rows(probs, logits)
    if logits is not None:
        log_p = np.asarray(log_softmax(p, axis=1))
        return np.maximum(-(log_p if score == "least_ambiguous" else _log_of_the_rest(log_p)), 0.0)
    if score == "least_ambiguous":
        return np.asarray(1 - p)
    # Sort the probabilities of a row from above, and among them, before equal ones, the least that counts as larger
    # than each: how many probabilities come before that is how many are larger.
    k = p.shape[1]
    ranked = -np.sort(-p, axis=1)
    both = np.concatenate([(p + REST) / (1 - SHARE), ranked], axis=1)
    order = np.argsort(-both, axis=1, kind="stable")
    before = np.cumsum(order >= k, axis=1)
    larger = np.empty_like(order)
    np.put_along_axis(larger, order, before, 1)
    sums = np.concatenate([np.zeros((len(p), 1)), ranked.cumsum(1)], axis=1)
    return np.asarray(np.minimum(np.take_along_axis(sums, larger[:, :k], 1), 1.0))


def _log_of_the_rest(log_p: FloatArray) -> FloatArray:
    """Return for each class the log of the sum of all probabilities that are not larger than that of the class."""
    # Sort the probabilities of a row from below, and among them, after equal ones, the largest that counts as equal to
    # each: how many probabilities come before that is how many are in the sum.
    k = log_p.shape[1]
    ranked = np.sort(log_p, axis=1)
    order = np.argsort(np.concatenate([ranked, log_p + SHARE], axis=1), axis=1, kind="stable")
    rest = np.empty_like(order)
    np.put_along_axis(rest, order, np.cumsum(order < k, axis=1), 1)
    sums = np.logaddexp.accumulate(ranked, axis=1)
    return np.asarray(np.take_along_axis(sums, rest[:, k:] - 1, 1))


def _reaches(values: FloatArray, least: FloatArray) -> NDArray[np.bool_]:
    """Return whether each entry of `values` is at least that of `least`, up to rounding; all are in [0, 1]."""
    return np.asarray(values >= least * (1 - SHARE) - REST)
