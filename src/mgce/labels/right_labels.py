"""Estimate probabilities of the right label from margins (logits), for rows whose given labels may be wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from scipy.stats import chi2

from mgce._arrays import FloatArray
from mgce._rounding import percent_down, percent_up
from mgce._validation import check_fraction, expected

# Shares of wrong labels that are compared: up to nine tenths of the share at which labels say nothing, (k - 1)/k. Steps
# of 0.01 for two classes are finer than a thousand rows can tell.
MOST, RATES = 0.9, 46
# Factors of the margins that are compared: from nearly no information to nearly certain, in steps of an eighth.
SHARPNESS = np.geomspace(0.02, 50, 67)
# The prior is the density a^20 of the share a of rows that the model is right on, as if it had been right on 20 of 20
# rows. A thousand rows with two classes and 40 % wrong labels do not tell a good model from a poor one: then the prior
# decides. Nearly all other tables have rows enough to overrule it.
PRIOR_ROWS = 20
FURTHEST = -4e4  # exp(-4e4 * 0.02), by the least factor, is 0 in float64
CONFIDENCE = 0.95  # of the interval of the share
WIDE = 0.25  # an interval of the share this wide does not tell wrong labels from overlap: nearly all or nearly none
LEAST_WEIGHT = 1e-4  # shares of wrong labels of less weight are dropped: they change no probability by more


@dataclass(frozen=True)
class RightLabels:
    r"""A map from a classifier's margins (logits) f to probabilities q of the right label.

    .. math:: q(f) = \sum_g w_g \operatorname{softmax}(a_g f)

    Attributes:
        rates: G likely rates of wrong labels, shape (G,).
        sharpness: for each rate, the factor a of the margins, (G,).
        weights: for each rate, its weight w, (G,); the weights sum to 1.
        lower, upper: confidence interval of the rate of wrong labels, from the likelihood.
        n: number of rows that the map was estimated from.
        stated: whether the caller stated the rate, so that it was not estimated.
    """

    rates: tuple[float, ...]
    sharpness: tuple[float, ...]
    weights: tuple[float, ...]
    lower: float
    upper: float
    n: int
    stated: bool = False

    @property
    def noise_rate(self) -> float:
        """The rate of wrong labels: the weighted mean of the likely rates."""
        return float(np.dot(self.rates, self.weights))

    @property
    def is_told(self) -> bool:
        """Whether the data can distinguish wrong labels from overlapping classes."""
        return self.stated or self.upper - self.lower <= WIDE

    def probs(self, margins: FloatArray) -> FloatArray:
        """Return the probabilities q of the right label, one row for each row of margins, one column for each class."""
        f = _behind(margins)
        pairs = zip(self.weights, self.sharpness, strict=True)
        return np.asarray(sum(weight * softmax(factor * f, axis=1) for weight, factor in pairs))

    def __str__(self) -> str:
        """Return sentences on the estimated rate of wrong labels, and on the assumptions behind the probabilities q."""
        what = "q is the probability of the right label, if a wrong one is any other class, all alike, whatever the row"
        if self.stated:
            return f"{what}. It takes {self.noise_rate:.1%} of the labels for wrong, as stated."
        between = f"{percent_down(self.lower)} to {percent_up(self.upper)}"
        if self.is_told:
            return (
                f"{what}. For q alone, a noise rate of about {self.noise_rate:.1%} ({between}) was fitted to "
                f"{self.n:,} rows."
            )
        return (
            f"{what}. These labels do not tell wrong ones from classes that overlap: {between} of them may be wrong. q "
            "is a mean over these shares, and may be far too low or too high."
        )


def estimate_right_labels(
    margins: FloatArray, target: NDArray[np.int64], noise_rate: float | None = None
) -> RightLabels:
    r"""Estimate under symmetric noise a map from margins (logits) to probabilities q of the right label.

    A label is wrong with probability eta; each of the other k - 1 classes is then equally likely. With margins f, a
    given label y has the probability

    .. math:: (1 - \eta) q_y + \frac{\eta}{k - 1} (1 - q_y), \qquad q = \operatorname{softmax}(a f).

    For each rate eta on a grid, the factor a has the largest likelihood. Rows with large margins distinguish wrong
    labels from overlapping classes: on such rows, a share eta of labels disagrees with the model only if labels are
    wrong. Each rate has a weight, its likelihood times a prior that prefers separable classes. q is the
    weighted mean over the rates.

    Args:
        margins: f, shape (n, k): n rows that the model was not fitted to, k classes.
        target: given labels of these rows, shape (n,), in 0..k-1.
        noise_rate: eta, in [0, 1 - 1/k), if it is known; None to estimate it.

    Raises:
        ValueError: if there are no rows, or `noise_rate` is out of range.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> f = 3 * rng.normal(size=(2000, 3))
        >>> right = (f + rng.gumbel(size=f.shape)).argmax(1)  # drawn from softmax(f)
        >>> given = np.where(rng.random(2000) < 0.3, (right + rng.integers(1, 3, 2000)) % 3, right)
        >>> found = estimate_right_labels(f, given)
        >>> round(found.noise_rate, 1), found.is_told
        (0.3, True)
        >>> bool(abs(found.probs(f) - np.exp(f) / np.exp(f).sum(1, keepdims=True)).mean() < 0.02)
        True
    """
    n, k = margins.shape
    if not n:
        raise ValueError(expected("margins", "of at least one row", n))
    if noise_rate is None:
        rates = np.linspace(0, MOST * (k - 1) / k, RATES)
    else:
        check_fraction("noise_rate", noise_rate)
        if noise_rate >= 1 - 1 / k:
            raise ValueError(expected("noise_rate", f"a share below {1 - 1 / k:.3g}, that of chance", noise_rate))
        rates = np.array([noise_rate])
    f = _behind(margins)
    given = f[np.arange(n), target]
    q = np.array([np.exp(a * given - logsumexp(a * f, axis=1)) for a in SHARPNESS])
    likelihood = np.stack([np.log((1 - eta) * q + eta / (k - 1) * (1 - q) + 1e-300).sum(1) for eta in rates])
    best = likelihood.argmax(1)
    profile, sharpness = likelihood.max(1), SHARPNESS[best]
    right = np.array([softmax(a * f, axis=1).max(1).mean() for a in SHARPNESS])[best]
    weights = softmax(profile + PRIOR_ROWS * np.log(right))
    likely = rates[profile >= profile.max() - chi2.ppf(CONFIDENCE, 1) / 2]
    kept = weights >= min(LEAST_WEIGHT, weights.max())
    return RightLabels(
        rates=tuple(rates[kept].tolist()),
        sharpness=tuple(sharpness[kept].tolist()),
        weights=tuple((weights[kept] / weights[kept].sum()).tolist()),
        lower=float(likely.min()),
        upper=float(likely.max()),
        n=n,
        stated=noise_rate is not None,
    )


def _behind(margins: FloatArray) -> FloatArray:
    """Return margins minus the largest margin of their row, clipped from below where probabilities are 0 anyway."""
    with np.errstate(over="ignore"):
        return np.asarray(np.maximum(margins - margins.max(1, keepdims=True), FURTHEST))
