"""Test whether annotators err independently of one another, and weaken evidence that errs on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse, stats
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from mgce._arrays import FloatArray
from mgce.labels.annotators import AnnotatorModel, transitions_of

LEVEL = 0.05  # of the test
STEPS = 10  # of expectation maximisation, from estimates that are near: more change no p-value by 0.01
NEGLIGIBLE = 1e-9  # a share of the larger variance below which a second statistic repeats the first: two classes
LOOKED_UP = (
    "Look up the right labels of some rows drawn at random: mgce.certify(..., checked=...) then bounds the errors "
    "without this assumption"
)


@dataclass(frozen=True)
class Independence:
    """Whether two labels of the same row are wrong together as often as they would be by chance.

    The test is two-sided: errors that avoid one another refute independence like errors that come together.

    Attributes:
        both_wrong: expected number of pairs of wrong labels of one row, from the estimated right classes.
        both_by_chance: the same number if annotators erred independently given the right class.
        observed: expected number of pairs of equal wrong labels of one row.
        by_chance: the same number if annotators erred independently given the right class.
        p_value: probability of differences at least as large if annotators erred independently.
        n_pairs: number of pairs of labels of the same row.
        is_testable: whether there are enough annotators, or a classifier, to test independence.
    """

    both_wrong: float
    both_by_chance: float
    observed: float
    by_chance: float
    p_value: float
    n_pairs: int
    is_testable: bool = True

    @property
    def refuted(self) -> bool:
        """Whether the labels contradict independent errors, or cannot test them."""
        return not self.is_testable or self.n_pairs == 0 or self.p_value < LEVEL

    def __str__(self) -> str:
        """Return the numbers and the conclusion of the test in sentences."""
        if not self.n_pairs:
            return "No row has two labels, so nothing says whether annotators err independently."
        if not self.is_testable:
            return (
                "Two annotators, or three with two classes, cannot show whether they err independently. Probabilities "
                "of a classifier or more annotators can."
            )
        said = (
            f"Of {self.n_pairs:,} pairs of labels of one row, about {self.both_wrong:,.0f} are both wrong, and "
            f"{self.observed:,.0f} are the same wrong class. Independent errors would make {self.both_by_chance:,.0f} "
            f"and {self.by_chance:,.0f} (p = {self.p_value:.2g})."
        )
        if self.refuted:
            return f"{said} Annotators do not err independently. {LOOKED_UP}."
        return f"{said} This does not contradict independent errors."


def as_independent(model: AnnotatorModel) -> AnnotatorModel:
    """Return the estimates of independent errors: every label counts fully, also where annotators err together.

    With many annotators, a few pairs seem to err together by chance, and the model gives their labels smaller weights.
    The tested assumption has no such weights: with them it would be refuted too often.
    """
    annotations, given = model.annotations, model.annotations.matrix()

    def evidence(matrix: Any, transitions: FloatArray) -> FloatArray:
        return np.asarray(matrix @ np.log(transitions).transpose(0, 2, 1).reshape(-1, annotations.shape[2]))

    log_probs = np.log(np.maximum(model.probs, np.finfo(float).tiny))
    log_prior = log_probs - evidence(annotations.matrix(model.weight), model.transitions)
    probs, transitions, pooled = model.probs, model.transitions, model.pooled
    for _ in range(STEPS):
        probs = np.asarray(softmax(log_prior + evidence(given, transitions), axis=1))
        transitions, pooled = transitions_of(given, probs, annotations.shape)
    return replace(
        model,
        probs=probs,
        transitions=transitions,
        pooled=pooled,
        weight=np.ones_like(model.weight),
        copying=0 * model.copying,
    )


def independence(model: AnnotatorModel, weaker: AnnotatorModel | None = None) -> Independence:
    r"""Compare pairs of wrong labels, and pairs of equal wrong labels, with those of independent errors.

    .. math:: d_i = \sum_{j < l} \sum_c P_{ic}\, \Bigl( u_{ijc} u_{ilc},\; \sum_{b \ne c} v_{ijcb} v_{ilcb} \Bigr),
              \qquad v_{ijcb} = 1[y_{ij} = b] - T_j[c, b], \qquad u_{ijc} = \sum_{b \ne c} v_{ijcb}

    If the errors are independent given the right class, both parts of d are 0 in the mean. The p-value is that of a
    chi-squared statistic: the squared mean of d over its covariance over rows. The test is two-sided.

    Without a classifier, two annotators do not test anything, nor do three with two classes: errors that depend on one
    another are explained as well by other matrices T.

    Args:
        model: the estimates. The p-value is computed from those of :func:`as_independent`.
        weaker: estimates that do not assume independent errors, from
            :func:`mgce.labels.independence.shared_evidence`. The numbers of pairs are counted by these, since
            `model` is too sure of rows on which many labels are wrong. None: the numbers are counted by `model`.
    """
    weaker = model if weaker is None else weaker
    model, annotations = as_independent(model), model.annotations
    n, _, k = annotations.shape
    each = np.arange(len(annotations.row))
    rows = sparse.csr_array((np.ones(len(each)), (annotations.row, each)), shape=(n, len(each)))
    labels = np.bincount(annotations.row, minlength=n)
    given = np.eye(k)[annotations.label]
    observed, by_chance, difference = np.zeros((3, n, 2))
    for c in range(k):
        chance, their_chance = (one.transitions[annotations.annotator, c] for one in (model, weaker))
        wrong = np.arange(k) != c
        for total, values, probs in (
            (observed, given, weaker.probs),
            (by_chance, their_chance, weaker.probs),
            (difference, given - chance, model.probs),
        ):
            total += probs[:, [c]] * _pairs(rows, values[:, wrong])
    tested = labels >= 2
    n_annotators = len(np.unique(annotations.annotator))
    (both_wrong, same), (both_by_chance, same_by_chance) = observed.sum(0), by_chance.sum(0)
    return Independence(
        both_wrong=float(both_wrong),
        both_by_chance=float(both_by_chance),
        observed=float(same),
        by_chance=float(same_by_chance),
        p_value=_p_value(difference[tested]),
        n_pairs=int((labels * (labels - 1) // 2).sum()),
        is_testable=model.has_classifier or n_annotators > (3 if k == 2 else 2),
    )


def _pairs(rows: Any, values: FloatArray) -> FloatArray:
    """Return sums over pairs of labels of each row, shape (n, 2): products of row sums of `values`, and dot products.

    Args:
        rows: a sparse matrix (n, labels), with 1 where the label is one of the row.
        values: numbers of each label, shape (labels, k - 1).
    """
    total = values.sum(1)
    products = (rows @ total) ** 2 - rows @ total**2  # twice the sum over pairs
    dots = ((rows @ values) ** 2 - rows @ values**2).sum(1)
    return np.stack([products, dots], 1) / 2


def _p_value(difference: FloatArray) -> float:
    """Return the p-value of a chi-squared test that independent rows, shape (n, 2), have the expectation zero."""
    if len(difference) < 2:
        return 1.0
    covariance = np.cov(difference.T) / len(difference)
    spread, axes = np.linalg.eigh(covariance)
    known = spread > NEGLIGIBLE * spread.max()
    if not known.any():
        return 1.0
    mean = axes.T @ difference.mean(0)
    return float(stats.chi2.sf((mean[known] ** 2 / spread[known]).sum(), known.sum()))


MOST = 3.0  # correlation of evidence at which three sources say less than one alone: no more is looked for


def shared_evidence(model: AnnotatorModel) -> tuple[AnnotatorModel, float]:
    r"""Return the estimates with probabilities that hold if all sources are wrong on the same hard rows, and rho.

    .. math:: \tilde P_{ic} \propto P_{ic}^{1 / (1 + \rho (s_i - 1))}

    s is the number of sources of a row: its labels, and the classifier if there is one. P multiplies what sources say,
    as if they erred independently. The divisor is Kish's design effect of s sources with correlation rho. The most
    probable class of each row stays the same. The annotators' matrices are estimated anew from the new probabilities.

    Rho predicts left-out labels best: the other sources of the row and the matrix of the annotator predict each label.
    It is 0 if no row has two sources beside a label.

    Args:
        model: the estimates.

    Reference: Kish, Survey sampling, 1965.

    Example:
        >>> from mgce.labels.annotators import Annotations, annotator_model
        >>> rng = np.random.default_rng(0)
        >>> hard = rng.random((500, 1)) < 0.4  # on hard rows, half of the labels of all annotators are wrong
        >>> labels = np.where(hard & (rng.random((500, 4)) < 0.5), rng.integers(3, size=(500, 4)), 0)
        >>> labels = (labels + rng.integers(3, size=(500, 1))) % 3
        >>> found = annotator_model(Annotations.of(labels, 3))
        >>> weaker, rho = shared_evidence(found)
        >>> bool(rho > 0), bool(weaker.probs.max(1).mean() < found.probs.max(1).mean())
        (True, True)
    """
    annotations, weight = model.annotations, model.weight
    log_probs = np.log(np.maximum(model.probs, np.finfo(float).tiny))
    others = np.bincount(annotations.row, minlength=len(log_probs)) - (not model.has_classifier)  # s - 1
    own = np.log(model.transitions[annotations.annotator, :, annotations.label])
    without = log_probs[annotations.row] - weight[:, None] * own
    left = np.maximum(others[annotations.row] - 1, 0)

    def lack(rho: float) -> float:
        """Return minus the log posterior of rho, by labels left out and an exponential prior with mean 1."""
        probs = log_softmax(without / (1 + rho * left)[:, None], axis=1)
        return float(rho - logsumexp(probs + own, axis=1).sum())

    best = float(minimize_scalar(lack, bounds=(0, MOST), method="bounded").x)
    rho = best if lack(best) < lack(0.0) else 0.0
    divisor = 1 + rho * np.maximum(others, 0)
    probs = np.asarray(softmax(log_probs / divisor[:, None], axis=1))
    transitions, pooled = transitions_of(annotations.matrix(), probs, annotations.shape)
    return replace(model, probs=probs, transitions=transitions, pooled=pooled), rho
