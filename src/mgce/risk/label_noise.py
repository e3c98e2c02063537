r"""Assumptions on wrong labels, under which losses on given labels bound the mean loss on right labels.

Each class is one assumption. The method `upper` of a class bounds the mean loss against right labels. `upper` raises
:class:`Refuted` if the labels contradict the assumption.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mgce._arrays import ROUNDED, FloatArray, as_array
from mgce._messages import expected
from mgce._rounding import rate_down, rate_up, rounded_up
from mgce.risk.sample import Sample

# Condition number of a transition matrix above which it counts as singular: its inverse then has fewer than six
# right digits in float64, and bounds by it are far above 1 in any case.
SINGULAR = 1e10


class Refuted(Exception):  # noqa: N818  the labels are at fault, not the program
    """The error if labels contradict an assumption; its message completes "With confidence C, the labels refute"."""


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses of a classifier on n examples, for each of the k labels that an example could have."""

    table: FloatArray  # (n, k)
    beta: float | None = None  # that of the alpha-loss; None for errors, whose row sums to k - 1
    binary: bool = False  # whether every loss is 0 or 1, whatever the example

    @property
    def top(self) -> float:
        """The largest possible loss: the loss of a label with predicted probability 0."""
        return 1.0 if self.beta is None else self.beta


class LabelNoise(Protocol):
    """The interface of an assumption on wrong labels."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return clauses that complete the sentence "This assumes that"."""
        ...

    @property
    def most_agreement(self) -> FloatArray | None:
        """Return for each class the largest probability, over all right classes, that it is given; None if unknown."""
        ...

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Return an upper bound on the mean loss against right labels, valid with probability 1 - delta."""
        ...


@dataclass(frozen=True)
class RightLabels:
    """The assumption that every label is right, or that errors against the given labels are of interest."""

    assumptions: tuple[str, ...] = ()
    most_agreement = None

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Return an upper bound on the mean loss against the given labels, valid with probability 1 - delta."""
        own = sample.own(losses.table, losses.top)
        if losses.binary:
            return sample.mean_upper(own.astype(bool), delta)
        return sample.mean_upper(own, delta, (0.0, losses.top))


@dataclass(frozen=True)
class AnyNoise:
    """The assumption that at most a share of the labels is wrong, no matter which ones and how."""

    rate: float

    most_agreement = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return a clause that states the largest share of wrong labels."""
        return (f"at most a share {rate_down(self.rate)} of the labels is wrong, whichever and however",)

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Bound the mean loss against given labels, and add the share of wrong labels times the largest loss."""
        return min(losses.top, RightLabels().upper(sample, losses, delta) + self.rate * losses.top)


@dataclass(frozen=True)
class SymmetricNoise:
    r"""The assumption that a label is replaced with probability eta or more by any other class, all equally probable.

    eta does not depend on the example, and there are k classes. With D = 1 - eta k/(k-1) > 0, an error e against right
    labels becomes `eta + D e` against the given labels. For the alpha-loss l, let R be its mean for right labels y, and
    let S be the mean of its sum over all classes, `E sum_j l(j)`. For given labels y, `W = E[k l(y) - sum_j l(j)]`
    equals `D (k R - S)`, so `R = S/k + W/(k D)`. If only a lower bound of eta is known, the true D may be smaller than
    the D of this bound. Then the R computed from the bound is at least the true R if and only if W <= 0, that is R <=
    S/k.
    """

    rate: float
    n_classes: int
    origin: tuple[str, ...] = ()  # where the rate is from, if it was not stated: clauses of their own

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return clauses that state the noise rate as a lower bound."""
        return *self.origin, self._replaced(f"{self._least}, or more,")

    @property
    def exact_assumptions(self) -> tuple[str, ...]:
        """Return clauses that state the noise rate as exact, for results that would be false at a larger rate."""
        return *self.origin, self._replaced(self._least)

    @property
    def inverse(self) -> FloatArray:
        """The inverse of the transition matrix of symmetric noise at exactly this rate, shape (k, k) for k classes."""
        k = self.n_classes
        signal = 1 - self.rate * k / (k - 1)
        return np.asarray((np.eye(k) - self.rate / (k - 1)) / signal)

    def _replaced(self, probability: str) -> str:
        how = "by one of the others, all alike and whatever the example"
        return f"each label was replaced with probability {probability} {how}"

    @property
    def most_agreement(self) -> FloatArray | None:
        """Return 1 - eta for each class, since wrong labels are less probable: eta < (k-1)/k. None if eta is 0."""
        return np.full(self.n_classes, 1 - self.rate) if self.rate else None

    @property
    def _least(self) -> str:
        """Return the noise rate as text, rounded up, since the bound is proved for "this rate or more"."""
        return rate_up(self.rate)

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Bound the mean loss against right labels; raise Refuted if labels agree with the classifier too often."""
        if losses.beta is not None:
            return self._alpha_upper(sample, losses, losses.beta, delta)
        noisy = RightLabels().upper(sample, losses, delta)
        if noisy < self.rate:
            raise Refuted(
                f"that a share {self._least} of them or more is wrong at random: the classifier disagrees with at most "
                f"{rounded_up(noisy)} of them, and wrong labels would disagree with it"
            )
        return clean_error(noisy, self.rate, self.n_classes)

    def _alpha_upper(self, sample: Sample, losses: Losses, beta: float, delta: float) -> float:
        # Two statements are judged at delta each: the sign of W, and the mean of the unbiased loss. Only one of them
        # can do harm: where W > 0 it is a wrong sign, and where W <= 0 a wrong mean.
        k = self.n_classes
        excess = sample.own(k * losses.table - losses.table.sum(1, keepdims=True), 0.0)
        least, most = power_range(np.append(np.ones(k - 1), 1.0 - k), beta)
        if sample.mean_upper(excess, delta, (beta * least, beta * most)) >= 0:
            return beta
        return KnownTransition(self.inverse, None, f"a noise rate of {self._least} or more").upper(
            sample, losses, delta
        )


@dataclass(frozen=True, eq=False)
class KnownTransition:
    r"""The assumption that label y is replaced by z with a known probability T[y, z], whatever the example.

    The unbiased loss `sum_j (T^-1)[given label, j] l(j)` has the same expectation as l(right label) for every example.
    Its range follows from T alone.
    """

    inverse: FloatArray  # (k, k), of T; its rows sum to one
    most_agreement: FloatArray | None  # (k,), the largest entry of each column of T
    name: str  # what the labels refute if the bound falls below zero
    condition_number: float = 1.0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return a clause that states that each given label was drawn by T from the right label alone."""
        return (
            "each label was drawn by the stated transition matrix (condition number "
            f"{self.condition_number:.3g}) from the right label alone, whatever the example",
        )

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Bound the mean of the unbiased loss; raise Refuted if the bound is below zero."""
        own = sample.own(losses.table @ self.inverse.T, losses.top)
        upper = sample.mean_upper(own, delta, self._range(losses))
        if upper < 0:
            raise Refuted(
                f"{self.name}: by it, the mean loss of the classifier would be below zero, {rounded_up(upper)} at most"
            )
        return min(losses.top, upper)

    def _range(self, losses: Losses) -> tuple[float, float]:
        """Return the least and the largest value of the unbiased loss over all probabilities h and labels.

        An error is `1 - q`, where q are the probabilities h or the one-hot prediction. So the loss is linear in q, and
        its extremes are at one-hot q.
        """
        ends = np.array([power_range(row, losses.beta or 1.0) for row in self.inverse])
        return losses.top * (1 - float(ends[:, 1].max())), losses.top * (1 - float(ends[:, 0].min()))


def power_range(weights: FloatArray, beta: float) -> tuple[float, float]:
    r"""Return the least and the largest value of `sum_j a_j h_j^(1/beta)` over probabilities h.

    `a` are the weights. The vector u = h^(1/beta) is not negative and has beta-norm one. The dual norm has the order
    beta/(beta - 1). So the sum is at most the dual norm of the positive part of a, and at least minus that of the
    negative part. If a has no negative entry, the sum is least for a one-hot h, since u_j >= u_j^beta.
    """
    order = np.inf if beta == 1 else beta / (beta - 1)
    positive, negative = np.maximum(weights, 0), np.maximum(-weights, 0)
    most = np.linalg.norm(positive, order) if positive.any() else weights.max()
    least = -np.linalg.norm(negative, order) if negative.any() else weights.min()
    return float(least), float(most)


def checked_transition(transition: Any, k: int) -> KnownTransition:
    """Check the transition matrix of k classes; return the assumption that wrong labels follow this matrix."""
    matrix = as_array(transition, "transition")
    if matrix.shape != (k, k):
        raise ValueError(expected("transition", f"of shape ({k}, {k})", matrix.shape))
    sums = matrix.sum(1)
    if matrix.min() < 0 or np.abs(sums - 1).max() > ROUNDED:
        got = f"a least entry of {matrix.min():g}, and sums from {sums.min():g} to {sums.max():g}"
        raise ValueError(expected("transition", "rows that are not negative and sum to one", got))
    matrix = matrix / sums[:, None]
    condition = float(np.linalg.cond(matrix))
    if not condition < SINGULAR:
        what = "invertible, since otherwise the given labels cannot tell some of the right ones apart"
        raise ValueError(expected("transition", what, f"a condition number of {condition:.3g}"))
    return KnownTransition(np.linalg.inv(matrix), matrix.max(0), "the stated transition matrix", condition)


def clean_error(upper: float, noise_rate: float, k: int) -> float:
    """Convert an upper bound on the error against noisy labels to an upper bound on the error against clean labels.

    Symmetric noise of rate eta turns a clean error E into the noisy error `eta + (1 - eta k/(k-1)) E`. This equation is
    solved for E. k is the number of classes. The result must stay valid if eta is only a lower bound of the rate, so
    the result must not rise with eta. If `upper` is below the error of guessing, `(k-1)/k`, the result does not rise;
    otherwise 1 is returned.
    """
    if upper >= (k - 1) / k:
        return 1.0
    return max(0.0, (upper - noise_rate) / (1 - noise_rate * k / (k - 1)))


# Shares of the examples, the surest first, whose agreements are counted: a few rows that people hardly get wrong, or
# many that they get wrong a little less often. Chosen by one trial on labels of CIFAR-10N.
SURE = (0.05, 0.1, 0.2, 0.4, 0.7)
SAME = 1e-12  # probabilities that differ by no more are tied, as in `noise_rate`
TEST_SHARE = 1 / 50  # of delta, for the test: bounds become about half a per cent wider


@dataclass(frozen=True)
class Finding:
    """The result of a test of an assumption on wrong labels."""

    tested: bool  # whether any labels could have refuted it
    refuted: str | None = None  # completes "the labels refute"


def examine_noise(sample: Sample, most_agreement: FloatArray | None, delta: float) -> Finding:
    r"""Test whether noise depends on the class alone, by how often labels agree with the most confident predictions.

    .. math:: P(\text{given label} = j \mid x) = \sum_y P(y \mid x)\, T_{yj} \le \max_y T_{yj} = c_j

    for every example x, if the right label y alone determines the noise: T_yj is the probability that y becomes j.
    Among m examples that are chosen by the predicted probabilities alone, the agreements with predictions j_i are then
    independent, each with probability `c_{j_i}` at most. So the number A of agreements has, with c the mean of the
    `c_{j_i}`,

    .. math:: P(A \ge a) \le P\big(\mathrm{Bin}(m, c) \ge a\big), \qquad a \ge m c + 1

    (Hoeffding). The assumption is refuted if one of five parts of the examples refutes it, each tested with a fifth of
    delta. People err less on easy examples. On these the classifier agrees with more labels than c allows.

    Args:
        sample: independent examples.
        most_agreement: c, shape (k,) for k classes; None if nothing can be tested.
        delta: probability with which a true assumption may be refuted.

    Returns:
        The result.

    Reference: Hoeffding (1956), Annals of Mathematical Statistics 27, theorem 5.
    """
    from scipy import special

    if most_agreement is None or sample.clusters is not None:
        return Finding(False)
    predicted, top = sample.probs.argmax(1), sample.probs.max(1)
    ordered, tested = np.sort(top), False
    for share in SURE:
        sure = top >= ordered[-math.ceil(share * top.size)] - SAME
        m, c = int(sure.sum()), float(np.minimum(1, most_agreement)[predicted[sure]].mean())
        tested = tested or c**m <= delta / len(SURE)
        agree = int((sample.labels[sure] == predicted[sure]).sum())
        if agree >= m * c + 1 and float(special.bdtrc(agree - 1, m, c)) <= delta / len(SURE):
            return Finding(
                True,
                "that labels are wrong as assumed whatever the example: the classifier agrees with "
                f"{agree:,} of {m:,} labels where it is most sure, and a share of {rounded_up(c - SAME)} at most is "
                "expected",
            )
    return Finding(tested)
