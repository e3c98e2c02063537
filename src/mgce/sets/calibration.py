"""Compute thresholds of conformal prediction sets from rows with right labels, or with noise of a known kind."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from mgce._arrays import FloatArray, IntArray
from mgce._messages import expected
from mgce.risk.betting import betting_refutes, n_orders, shuffled
from mgce.risk.certificate import FRESH, unseen_examples
from mgce.risk.certifying import StatedNoise
from mgce.risk.concentration import check_delta
from mgce.risk.label_noise import AnyNoise, KnownTransition, SymmetricNoise
from mgce.risk.sample import UNSEEN, Sample, checked_target
from mgce.sets.conformal import ConformalSets, checked_rows, conformal_scores

EXCHANGEABLE = unseen_examples("exchangeable with those to come")
# Thresholds tried on noisy labels, from the largest sets to the smallest. They are fixed without the sample, and dense
# at both ends, where the scores of sharp classifiers are.
CANDIDATES = 1 / (1 + np.exp(-np.linspace(14.0, -9.0, 231)))
# Of logits, whose scores have no upper end, thresholds from 1e4 to 15 are tried before these: each is a tenth below the
# one before, as the last of the others are.
LARGE_CANDIDATES = np.geomspace(1e4, 15.0, 66)
BLOCK = 2**22  # numbers that are worked on at once: 32 MB of float64


def calibrate(
    target: Any,  # (n,)
    probs: Any = None,  # (n, k)
    *,
    logits: Any = None,  # (n, k)
    alpha: float = 0.1,
    score: str = "least_ambiguous",
    per_class: bool = False,
    noise_rate: float = 0.0,
    noise_type: str = "symmetric",
    transition: Any = None,  # (k, k)
    delta: float = 0.05,
) -> ConformalSets:
    r"""Return thresholds such that prediction sets contain the right class with probability at least 1 - alpha.

    .. math:: \hat q = \text{the } \lceil (n + 1)(1 - \alpha) \rceil \text{-th smallest } s_{y_i}(x_i)

    if all n labels are right. :math:`s_y(x)` is the score of class y (:func:`conformal_scores`). The probability is
    also over the random choice of the calibration rows. If at most a share eta of the labels is wrong, no matter which
    (`noise_type="any"`), alpha is replaced by alpha - eta.

    If the right labels of some rows, drawn at random, were looked up, pass these rows alone. The guarantee then holds
    whatever the noise of all other labels. People's noise depends on the row, so stating T or a rate is often false.

    For a transition matrix T, or symmetric noise at a rate that is exactly known, the mean of

    .. math:: z_i = \sum_j (T^{-1})[y_i, j]\; 1\{s_j(x_i) > q\}

    is an unbiased estimate of the share of rows whose set misses the right class. Thresholds q are tried in descending
    order, from the largest sets on. A threshold passes if the test of :func:`~mgce.risk.betting_upper` rejects that
    this share is alpha or more. The trials end at the first threshold that fails. The share can only grow in this
    order. So the probability that any threshold passes wrongly is at most delta: the guarantee holds with confidence
    1 - delta over the calibration sample. With `per_class`, each of the k classes has its own threshold and test, with
    delta / k.

    Pass `logits` if the classifier predicts probability 0 for many classes, as MGCE does: no threshold separates such
    classes by their probability. If more than a share alpha of the right classes have probability 0, every set contains
    all classes, and a warning says so. With logits the sets of the same classifier are small.

    Args:
        target: labels in 0..k-1 of n examples that the classifier has not seen, shape (n,); -1 is none of the k
            classes.
        probs: the classifier's probabilities (p for MGCE), shape (n, k), array or tensor.
        logits: the classifier's logits instead of `probs`, shape (n, k), array or tensor; -inf masks a class.
        alpha: probability in (0, 1) with which a set may miss the right class.
        score: `"least_ambiguous"` or `"adaptive"`, as in :func:`conformal_scores`.
        per_class: whether to guarantee the coverage for the rows of each right class separately.
        noise_rate: rate of symmetric noise, or the largest share of wrong labels for `noise_type="any"`.
        noise_type: `"symmetric"` or `"any"`.
        transition: T, shape (k, k), with probabilities of given labels by right label, instead of `noise_rate`.
        delta: probability with which the guarantee may fail if `transition` or `noise_rate` is stated.

    Returns:
        The thresholds of the sets. An infinite threshold means that the sample is too small: the class is in every set.

    Raises:
        ValueError: if shapes or values do not fit together, or the noise leaves nothing to guarantee.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.dirichlet([0.3, 0.3, 0.3], 2000)
        >>> y = (p.cumsum(1) < rng.random((2000, 1))).sum(1)
        >>> sets = calibrate(y[:1000], p[:1000], alpha=0.1)
        >>> members = sets.predict(p[1000:])
        >>> float(members[np.arange(1000), y[1000:]].mean().round(2)), float(members.sum(1).mean().round(2))
        (0.89, 1.34)
        >>> sets = calibrate(y[:1000], logits=10 * np.log(p[:1000]), alpha=0.1)
        >>> float(sets.predict(logits=10 * np.log(p[1000:])).sum(1).mean().round(2))
        1.34

    Reference: Vovk, Gammerman and Shafer (2005); Bates et al. (2021), Distribution-free, risk-controlling prediction
    sets, for the confidence; the unbiased loss of Natarajan et al. (2013), as in Sesia, Wang and Tong (2024).
    """
    check_delta(delta)
    if not 0 < alpha < 1:
        raise ValueError(expected("alpha", "in (0, 1)", alpha))
    rows = checked_rows(probs, logits)
    p = rows if logits is None else np.asarray(softmax(rows, axis=1))
    y = checked_target(target, *p.shape)
    stated = StatedNoise(noise_rate, noise_type, transition)
    sample = Sample(y, p)
    assumed = stated.assume(sample)
    scores = conformal_scores(rows, score) if logits is None else conformal_scores(logits=rows, score=score)
    clauses: tuple[str, ...] = (EXCHANGEABLE, *assumed.assumptions)
    failing, inverse = None, np.eye(p.shape[1])
    if isinstance(assumed, (SymmetricNoise, KnownTransition)):
        tried = CANDIDATES if logits is None else np.concatenate([LARGE_CANDIDATES, -np.log1p(-CANDIDATES)])
        inverse, spare, failing = assumed.inverse, alpha, delta
        weight = np.where((y == UNSEEN)[:, None], 0.0, inverse[np.maximum(y, 0)])
        terms = _Terms(scores, weight, inverse, y == UNSEEN, alpha)
        thresholds = _noisy_thresholds(terms, tried, sample, per_class, delta)
        clauses = (FRESH, *(assumed.exact_assumptions if isinstance(assumed, SymmetricNoise) else assumed.assumptions))
    else:
        spare = alpha - (assumed.rate if isinstance(assumed, AnyNoise) else 0.0)
        if spare <= 0 or (per_class and isinstance(assumed, AnyNoise)):
            what = f"below alpha = {alpha:g}, and not for each class, of which any share may be wrong"
            raise ValueError(expected("noise_rate", what, noise_rate))
        thresholds = _thresholds(scores, y, spare, per_class)
    if logits is None:
        _warn_of_zeros(sample, inverse, spare, per_class)
    found = tuple(thresholds.tolist())
    return ConformalSets(found, score, 1 - alpha, per_class, failing, len(p), clauses, logits is not None)


def _warn_of_zeros(sample: Sample, inverse: FloatArray, alpha: float, per_class: bool) -> None:
    """Warn if so many right classes have probability 0 that every set must contain all classes."""
    known = sample.labels != UNSEEN
    weight = inverse[sample.labels[known]]  # its mean is the share of each right class, whatever the noise
    of_class, zero = weight.sum(0), (weight * (sample.probs[known] == 0)).sum(0)
    share = float(
        (zero / np.where(of_class > 0, of_class, np.inf)).max() if per_class else zero.sum() / max(known.sum(), 1)
    )
    if share <= alpha:
        return
    of = " of one class" if per_class else ""
    warnings.warn(
        f"The right class has probability exactly 0 on about {share:.1%} of the rows{of}, and sets may miss "
        f"{alpha:.1%}. So sets hold every class of probability 0. Give `logits` instead of `probs`, to `calibrate` and "
        "to `predict`.",
        stacklevel=3,
    )


def _thresholds(scores: FloatArray, y: IntArray, alpha: float, per_class: bool) -> FloatArray:
    """Return for each class the conformal quantile of the labels' scores, over all rows or only over its own rows."""
    k = scores.shape[1]
    own = np.where(y == UNSEEN, np.inf, scores[np.arange(len(y)), np.maximum(y, 0)])
    if per_class:
        return np.array([_quantile(own[y == label], alpha) for label in range(k)])
    return np.full(k, _quantile(own, alpha))


def _quantile(own: FloatArray, alpha: float) -> float:
    rank = math.ceil((own.size + 1) * (1 - alpha) - 1e-9)  # a product such as 100 * 0.9 is not to be rounded up
    return float(np.sort(own)[rank - 1]) if rank <= own.size else math.inf


def _noisy_thresholds(
    terms: _Terms, candidates: FloatArray, sample: Sample, per_class: bool, delta: float
) -> FloatArray:
    """Return for each class the last threshold that passes the test; inf if no threshold passes."""
    k = sample.n_classes
    if not per_class:
        return np.full(k, _last_passed(terms, candidates, sample, delta))
    return np.array([_last_passed(terms.of(j), candidates, sample, delta / k) for j in range(k)])


@dataclass(frozen=True, eq=False)
class _Terms:
    """The terms `weight (1{score > q} - alpha)`. A threshold q passes if the mean of its terms is proved below zero."""

    scores: FloatArray  # (n, classes)
    weight: FloatArray  # (n, classes)
    inverse: FloatArray  # (k, classes), the rows that a weight may be
    unseen: Any  # (n,), whether the label is none of the classes: such a row counts as missed at every threshold
    alpha: float

    def of(self, label: int) -> _Terms:
        """Return the terms of one class; a row whose label is none of the classes has the term 0."""
        scores, weight, inverse = (part[:, [label]] for part in (self.scores, self.weight, self.inverse))
        return _Terms(scores, weight, inverse, np.zeros_like(self.unseen), self.alpha)

    def at(self, q: float) -> FloatArray:
        """Return the terms `weight (1{score > q} - alpha)` for the threshold q, one for each row."""
        terms = (self.weight * ((self.scores > q) - self.alpha)).sum(1)
        return np.where(self.unseen, 1 - self.alpha, terms)

    def limits(self) -> tuple[float, float]:
        """Return the least and the largest value that a term of the mean can have in any sample."""
        positive, negative = np.maximum(self.inverse, 0), np.minimum(self.inverse, 0)
        low = float((negative * (1 - self.alpha) - positive * self.alpha).sum(1).min())
        high = float((positive * (1 - self.alpha) - negative * self.alpha).sum(1).max())
        return min(low, 0.0), max(high, 1 - self.alpha)


def _last_passed(terms: _Terms, candidates: FloatArray, sample: Sample, delta: float) -> float:
    """Test the candidate thresholds in order; return the last one before the first that fails the test."""
    low, high = terms.limits()
    passed = math.inf
    step = max(1, BLOCK // terms.weight.size)
    for start in range(0, candidates.size, step):
        some = candidates[start : start + step]
        tried = np.stack([terms.at(q) for q in some])
        unit, mean = np.clip((tried - low) / (high - low), 0, 1), -low / (high - low)
        orders = (shuffled(unit, sample.content, turn) for turn in range(n_orders(sample.kinds, delta)))
        refuted = np.all([betting_refutes(order, mean, delta) for order in orders], axis=0)
        if not refuted.all():
            first = int(refuted.argmin())
            return float(some[first - 1]) if first else passed
        passed = float(some[-1])
    return passed
