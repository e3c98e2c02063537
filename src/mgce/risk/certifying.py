r"""Certify a classifier: bound its errors by labelled examples, of which some labels may be wrong as stated."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mgce._arrays import FloatArray, IntArray
from mgce._messages import check_choice, expected, expected_share, nearest
from mgce._validation import check_beta
from mgce.risk.certificate import FRESH, SHUFFLED, Bounds, RiskCertificate
from mgce.risk.checking import NOT_LOOKED_UP, LookedUp, error_of_these, labels_again, right_labels, shared_looks
from mgce.risk.concentration import check_delta
from mgce.risk.label_noise import (
    TEST_SHARE,
    AnyNoise,
    KnownTransition,
    LabelNoise,
    Losses,
    Refuted,
    RightLabels,
    SymmetricNoise,
    checked_transition,
    examine_noise,
)
from mgce.risk.sample import UNSEEN, Sample, checked_probs, checked_target, cluster_indices

CLUSTERED = (
    "the groups are independent draws, whatever the dependence within one, and a rate is meant for a random row of a "
    "random group"
)
ONE_HOT = "the classifier always gives one class the probability 1, as in all these examples"
UNSEEN_WRONG = "a label that is none of the classes counts as an error, and is right"
BOUNDS = ("argmax", "randomized", "alpha")
TIES = "if several classes are the most probable, the first of them counts as predicted"
MENDED = (
    "All labels that were looked up equal those of `target`. Pass `target` as it was before the looks: with the labels "
    "that were found in it, the bound is false."
)
KINDS = ("symmetric", "any")  # of noise of which a rate is stated


class MendedLabelsWarning(UserWarning):
    """The warning that `target` may already hold the labels that were looked up, which would make the bound false."""


@dataclass(frozen=True, eq=False)
class StatedNoise:
    """The arguments of :func:`~mgce.certify` that describe wrong labels."""

    rate: Any = 0.0
    kind: str = "symmetric"
    transition: Any = None  # (k, k)
    checked: bool = False  # whether right labels were looked up

    def __post_init__(self) -> None:
        check_choice("noise_type", self.kind, KINDS)
        if isinstance(self.rate, str) or np.ndim(self.rate) != 0:
            what = "a number; a matrix goes to `transition`"
            raise TypeError(expected("noise_rate", what, type(self.rate).__name__))
        others = (self.transition is not None) + self.checked
        if others > 1 or (others and not (self.kind == "symmetric" and self.rate == 0)):
            raise ValueError(expected("noise_rate, transition, checked", "stated one at a time", "several"))

    @property
    def present(self) -> bool:
        """Whether any label may be wrong."""
        return self.rate != 0 or self.kind != "symmetric" or self.by_class or self.checked

    @property
    def by_class(self) -> bool:
        """Whether the stated noise depends on the right label alone; the given labels may refute such a statement."""
        symmetric = self.rate != 0 and self.kind == "symmetric"
        return symmetric or self.transition is not None

    def assume(self, sample: Sample) -> LabelNoise:
        """Return the stated assumption on wrong labels."""
        k = sample.n_classes
        if self.checked:
            assert sample.right is not None
            again = None if sample.again is None else int((sample.again != NOT_LOOKED_UP).sum())
            return LookedUp(int((sample.right != NOT_LOOKED_UP).sum()), sample.looks is not None, again)
        if self.transition is not None:
            return checked_transition(self.transition, k)
        rate = float(self.rate)
        if self.kind == "any":
            if not 0 <= rate < 1:
                raise ValueError(expected_share("noise_rate", "in [0, 1)", rate))
            return AnyNoise(rate)
        if not 0 <= rate < (k - 1) / k:
            what = f"in [0, {k - 1}/{k}), since from (k-1)/k on noisy labels say nothing about clean ones"
            raise ValueError(expected_share("noise_rate", what, rate))
        return SymmetricNoise(rate, k) if rate else RightLabels()


def certify(
    target: Any,  # (n,)
    probs: Any,  # (n, k)
    *,
    delta: float = 0.05,
    bounds: Sequence[str] | None = None,
    beta: float | None = None,
    noise_rate: float | str = 0.0,
    noise_type: str = "symmetric",
    transition: Any = None,  # (k, k)
    checked: Any = None,
    checked_with: Any = None,  # (n,)
    checked_again: Any = None,
    anytime: bool = False,
    groups: Any = None,  # (n,)
) -> RiskCertificate:
    r"""Bound the errors of a fixed classifier on future examples, from labelled examples that it was not made from.

    .. math:: \hat U_{0\text{-}1} = \mathrm{BetaInv}(1 - \delta';\ e + 1, n - e), \qquad
        \hat U_{\text{rand}} = \mathrm{betting}(1 - h_{y_i};\ \delta'), \qquad
        \hat U_\beta = \beta\, \mathrm{betting}(1 - h_{y_i}^{1/\beta};\ \delta')

    h are the predicted probabilities. The three bounds are on the error of the most probable class, the error of a
    class drawn from h, and the alpha-risk, the mean of `beta (1 - h_y^(1/beta))`. e of the n examples are
    misclassified, BetaInv is the quantile function of the Beta distribution, and betting is
    :func:`~mgce.risk.betting_upper`. delta' is delta divided by the number of bounds, so that all hold at once. If the
    classifier always gives one class the probability 1, all errors are equal and delta is not divided. Any classifier
    can be certified, if the examples had no part in making it. If you choose one of J classifiers by these examples,
    pass `delta / J`.

    If the right labels of some rows, drawn at random, were looked up, pass them as `checked`. The bound then assumes
    nothing of the given labels. The bound on the most probable class still uses them: it treats rows whose given label
    is that class apart from other rows, see :func:`~mgce.risk.stratified_upper`. This bound is never much wider than
    Clopper and Pearson's bound of the looked-up rows. The other two bounds use only these rows. With `anytime`, bounds
    hold at all looks at once, by :func:`~mgce.risk.looked_up_upper_sequence`.

    Such bounds assume that the looks, which found these labels, are right. In simulated worlds 3 % of the looks were
    wrong, and agreed with the classifier: bounds at delta 0.05 were then false in 28 to 72 % of draws. Where given
    labels agree with the errors of the classifier, and looks at wrong labels were left out, bounds were false in 97 %
    of draws or more. So pass -1 for a look without an answer. `checked_again` takes second looks at some of the rows.

    Without `checked`, wrong labels are corrected for under one of three assumptions; docs/certificates.md says what
    breaks each.

    - `noise_rate` eta alone: a label was replaced, with probability eta or more whatever the example, by any of the
      other k - 1 classes, all equally likely. A bound U on an error becomes `(U - eta) / (1 - eta k/(k-1))`. Let l(j)
      be the alpha-loss of class j. If the labels show that the alpha-risk is at most `E sum_j l(j) / k`, it is bounded
      by the mean of an unbiased loss; otherwise by beta. Only in the first case does a larger rate lower the
      alpha-risk.
    - `noise_type="any"`: at most a share `noise_rate` of the labels is wrong, and nothing else is assumed. U becomes
      U + eta.
    - `transition` T: label y was replaced by z with probability T[y, z], whatever the example. The mean of
      `sum_j (T^-1)[y_i, j] l(j)` is bounded by betting.

    Bounds by the first and the third assumption hold only if the noise does not depend on the example. Noise by people
    does, and these bounds are then often false. So they are in `conditional`, and not under the plain names.

    Where the labels contradict the assumption, the certificate says so in `refuted`, and its bounds are against the
    labels as given. A true assumption is refuted with probability delta at most. A fiftieth of delta is for a test of
    every assumption except `noise_type="any"`: whether the right label alone determines the noise. People err less on
    easy examples.
    There a confident classifier agrees with more labels than such noise allows. `noise_tested` tells whether the labels
    were enough for any refutation.

    Args:
        target: labels in 0..k-1, shape (n,), array or tensor; -1 is a label that is none of the k classes, an error.
        probs: the classifier's probabilities (h for MGCE), shape (n, k), array or tensor; each row is divided by its
            sum, which may differ from one by 0.001, or by 2^-7 where all are numbers that a bfloat16 holds.
        delta: probability in (0, 1) with which any of the bounds may be wrong.
        bounds: which of `"argmax"`, `"randomized"` and `"alpha"` to compute; by default the first two, and the third
            if `beta` is given. Fewer bounds are tighter.
        beta: beta of the alpha-risk, a float in [1, inf), or None to leave this bound out.
        noise_rate: eta in [0, (k-1)/k), or in [0, 1) for `noise_type="any"`.
        noise_type: `"symmetric"` or `"any"`.
        transition: T, shape (k, k), rows (true classes) that sum to one.
        checked: right labels that were looked up, as `{row: label}` or a pair of arrays (rows, labels); rows are
            indices into `target`, drawn at random without regard to right labels, and -1 is a label that is no class.
            Pass `target` as it was before the looks: with the labels that were found in it, the bound is false.
        checked_with: how likely each row was looked up, relative to others, shape (n,), as
            :func:`~mgce.risk.share_looks` returns it; None if all rows had the same chance. Two values are possible
            beside 0, each for a group of rows that was fixed before the looks. Only with `bounds=["argmax"]`.
        checked_again: labels that a second look found, in the forms of `checked`, for rows drawn at random among those
            of `checked`: a tenth, say. Whoever looks again must not see what was found. Only these labels need to be
            right then: the bound is widened by the errors that the first looks hid. Not with `checked_with`, `anytime`.
        anytime: whether `checked` holds rows in the order in which they were looked up, and the bounds must hold at
            every look. Then you may certify after each look, and stop when a bound is good enough. Rows of
            :func:`~mgce.risk.rows_to_check` give the narrowest bound.
        groups: name of the cluster of each example, shape (n,), where examples of one cluster depend on one another.
            Not with `checked`. A cluster counts as one draw, its mean loss.

    Returns:
        The certificate. A bound of 1 (or of beta, for the alpha-risk) says nothing: it holds for any classifier.

    Raises:
        TypeError: if `beta` or `noise_rate` is not a number.
        ValueError: if shapes or values do not fit together, `noise_rate` leaves no signal, or `transition` is singular.

    Warns:
        UserWarning: if all labels of `checked` equal those of `target`, although the classifier errs on some of them.

    Example:
        >>> target = np.array([0, 1] * 500)
        >>> probs = np.where(np.arange(1000)[:, None] % 2 == [0, 1], 0.9, 0.1)
        >>> c = certify(target, probs)
        >>> round(c.argmax_error, 4), round(c.randomized_error, 4), c.delta
        (0.0037, 0.1045, 0.05)
        >>> certify(target, probs, bounds=["argmax"], noise_rate=0.1).refuted
        'that a share 0.1 of them or more is wrong at random: ...'

    Reference: Clopper and Pearson (1934); Waudby-Smith and Ramdas (2024); Ghosh, Kumar and Sastry (2017) for
    symmetric noise, Natarajan et al. (2013) and Patrini et al. (2017) for the unbiased loss.
    """
    h = checked_probs(probs)
    n, k = h.shape
    sample = sampled(checked_target(target, n, k), h, cluster_indices(groups, n), checked, checked_with, anytime)
    if checked_again is not None:
        if sample.right is None or checked_with is not None or anytime:
            what = "left out without `checked`, and with `checked_with` or `anytime`"
            raise ValueError(expected("checked_again", what, "labels"))
        sample = replace(sample, again=labels_again(checked_again, sample.right, k))
    stated = StatedNoise(noise_rate, noise_type, transition, checked is not None)
    return judge(sample, Request.of(h, bounds, beta, stated), delta)


def sampled(
    labels: IntArray, h: FloatArray, clusters: IntArray | None, checked: Any, checked_with: Any, anytime: bool = False
) -> Sample:
    """Return the labelled rows as a :class:`Sample`, with the right labels of the rows that a person looked up."""
    if anytime and (checked is None or checked_with is not None):
        what = "left out without `checked`, or with `checked_with`"
        raise ValueError(expected("anytime", what, anytime))
    if checked is None:
        if checked_with is not None:
            raise ValueError(expected("checked_with", "left out without `checked`", "probabilities"))
        return Sample(labels, h, clusters)
    if clusters is not None:
        raise ValueError(expected("groups", "left out where right labels are given as `checked`", "groups"))
    right, rows = right_labels(checked, *h.shape)
    if (right[rows] == labels[rows]).all() and (h[rows].argmax(1) != right[rows]).any():
        warnings.warn(MENDED, MendedLabelsWarning, stacklevel=3)
    return Sample(labels, h, None, right, shared_looks(checked_with, rows, len(h)), rows if anytime else None)


@dataclass(frozen=True, eq=False)
class Request:
    """The bounds to compute, and what is stated about wrong labels."""

    bounds: tuple[str, ...]
    beta: float | None
    stated: StatedNoise
    one_hot: bool  # whether the classifier gives one class the probability 1 wherever

    @classmethod
    def of(cls, h: FloatArray, bounds: Sequence[str] | None, beta: float | None, stated: StatedNoise) -> Request:
        """Check the arguments of :func:`certify`; find out whether the predicted probabilities h are one-hot."""
        one_hot = bool(((h == 0) | (h == 1)).all())
        return cls(_checked_bounds(bounds, beta), None if beta is None else float(beta), stated, one_hot)


def judge(sample: Sample, request: Request, delta: float) -> RiskCertificate:
    """Return the certificate that :func:`certify` describes."""
    check_delta(delta)
    beta, chosen, by_class = request.beta, request.bounds, request.stated.by_class
    if sample.shared is not None and not request.one_hot and chosen != BOUNDS[:1]:
        raise ValueError(expected("bounds", "['argmax'] with `checked_with`", list(chosen)))
    for_test = TEST_SHARE * delta if by_class and sample.clusters is None else 0.0
    assumed = request.stated.assume(sample)
    losses = _losses(sample.probs, BOUNDS[:1] if request.one_hot else chosen, beta)
    share = (delta - for_test) / len(losses)
    finding = examine_noise(sample, assumed.most_agreement, for_test)
    upper, refuted = _upper(sample, assumed, losses, share, finding.refuted)
    if request.one_hot:
        upper = {name: upper["argmax"] * (beta or 1.0 if name == "alpha" else 1.0) for name in chosen}
    found = Bounds(upper.get("argmax"), upper.get("randomized"), upper.get("alpha"))
    # No test of so few labels has the power to exclude what makes these bounds false: people's noise often does.
    conditional = by_class and refuted is None
    plain = Bounds() if conditional else found
    return RiskCertificate(
        argmax_error=plain.argmax_error,
        randomized_error=plain.randomized_error,
        alpha_risk=plain.alpha_risk,
        delta=delta,
        n=sample.labels.size,
        n_classes=sample.n_classes,
        beta=beta,
        noise_rate=assumed.rate if isinstance(assumed, (SymmetricNoise, AnyNoise)) else 0.0,
        assumptions=_assumptions(sample, RightLabels() if refuted else assumed, request.one_hot and len(chosen) > 1),
        refuted=refuted,
        condition_number=assumed.condition_number if isinstance(assumed, KnownTransition) else None,
        looked_up=assumed.n if isinstance(assumed, LookedUp) else None,
        noise_tested=finding.tested if by_class else None,
        conditional=found if conditional else None,
        looked_up_again=assumed.again if isinstance(assumed, LookedUp) else None,
        rows_error=error_of_these(sample, delta) if "argmax" in chosen else None,
        per_point=_per_point(sample, assumed, losses, share, upper) if conditional else None,
    )


def _upper(
    sample: Sample, assumed: LabelNoise, losses: dict[str, Losses], delta: float, refuted: str | None
) -> tuple[dict[str, float], str | None]:
    """Return the bounds by name, and what the labels refute, or None; if they do, labels count as right as given."""
    try:
        upper = {name: assumed.upper(sample, loss, delta) for name, loss in losses.items()}
    except Refuted as contradiction:
        refuted = str(contradiction)
    if refuted is not None:
        upper = {name: RightLabels().upper(sample, loss, delta) for name, loss in losses.items()}
    return upper, refuted


def _per_point(
    sample: Sample, assumed: LabelNoise, losses: dict[str, Losses], delta: float, upper: dict[str, float]
) -> float | None:
    """Return by how much the bound on the argmax error grows if the rate is 0.01 smaller; None without a rate."""
    if not isinstance(assumed, SymmetricNoise) or "argmax" not in losses:
        return None
    lower = replace(assumed, rate=max(0.0, assumed.rate - 0.01))
    return lower.upper(sample, losses["argmax"], delta) - upper["argmax"]


def _losses(h: FloatArray, chosen: Sequence[str], beta: float | None) -> dict[str, Losses]:
    """Return for each kind of risk an array of losses: one row for each example, one column for each possible label."""
    tables: dict[str, Losses] = {}
    for name in chosen:
        if name == "argmax":
            table = np.ones_like(h)
            table[np.arange(len(h)), h.argmax(1)] = 0
            tables[name] = Losses(table, binary=True)
        elif name == "randomized":
            tables[name] = Losses(1 - h)
        elif beta is not None:
            tables[name] = Losses(beta * (1 - h ** (1 / beta)), float(beta))
    return tables


def _checked_bounds(bounds: Sequence[str] | None, beta: float | None) -> tuple[str, ...]:
    if beta is not None:
        check_beta(beta)
        if math.isinf(beta):
            raise ValueError(expected("beta", "finite, since the log-loss has no upper bound", beta))
    if bounds is None:
        return BOUNDS[:2] if beta is None else BOUNDS
    names = (bounds,) if isinstance(bounds, str) else tuple(bounds)
    if not names or not set(names) <= set(BOUNDS):
        what = "one or more of " + ", ".join(map(repr, BOUNDS))
        asked = "".join(nearest(name, BOUNDS) for name in names if name not in BOUNDS)
        raise ValueError(expected("bounds", what, bounds) + asked)
    if ("alpha" in names) != (beta is not None):
        raise ValueError(expected("beta", "given with the bound 'alpha', and with no other choice", beta))
    return tuple(name for name in BOUNDS if name in names)


def _assumptions(sample: Sample, noise: LabelNoise, one_hot: bool) -> tuple[str, ...]:
    clauses = [FRESH if sample.clusters is None else f"{FRESH}, but for their groups", *noise.assumptions]
    if sample.clusters is not None:
        clauses.append(CLUSTERED)
    if one_hot:
        clauses.append(ONE_HOT)
    if (sample.labels == UNSEEN).any():
        clauses.append(UNSEEN_WRONG)
    return (*clauses, TIES, SHUFFLED)
