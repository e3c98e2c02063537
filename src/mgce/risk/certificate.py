r"""Certificates: upper bounds on the errors of a fixed classifier, from labelled examples that it has not seen."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mgce import _validation
from mgce.linear.arrays import FloatArray, IntArray, as_array, as_labels
from mgce.linear.objective import trivial_value
from mgce.risk.concentration import betting_upper, check_delta, clopper_pearson_upper

FRESH = (
    "the examples are independent draws from the distribution of interest, and were not used to train, select, tune "
    "or calibrate the classifier"
)
SHUFFLED = "the order of the examples is shuffled by a fixed seed, so that a sorted sample does no harm"
TIES = "ties of the most probable class go to the lowest index"


@dataclass(frozen=True)
class RiskCertificate:
    """Upper bounds that hold all at once, with probability at least `confidence` over the draw of the examples."""

    argmax_error: float  # probability that the most probable class is wrong
    randomized_error: float  # probability that a class drawn from the probabilities h is wrong: 1 - E h_y
    alpha_risk: float | None  # expected alpha-loss, E beta (1 - h_y^(1/beta)); None if `beta` is
    confidence: float  # 1 - delta
    n: int  # examples
    n_classes: int
    beta: float | None  # that of the alpha-risk
    noise_rate: float  # share of wrong labels that the bounds are corrected for
    assumptions: tuple[str, ...]  # clauses that complete "This assumes that"

    def __str__(self) -> str:
        """Give the certificate as sentences, with what it assumes."""
        text = (
            f"With confidence {self.confidence:.4g} over n = {self.n} examples: the most probable class is wrong with "
            f"probability at most {self.argmax_error:.4f}, a class drawn from the probabilities with probability at "
            f"most {self.randomized_error:.4f}"
        )
        if self.alpha_risk is not None:
            text += f", and the alpha-risk at beta = {self.beta:g} is at most {self.alpha_risk:.4f}"
        return text + ". This assumes that " + "; ".join(self.assumptions) + "."

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain values."""
        return {**asdict(self), "assumptions": list(self.assumptions)}

    def to_json(self) -> str:
        """Give the fields as JSON; an infinite beta is the string "inf"."""
        fields = self.to_dict()
        if self.beta is not None and math.isinf(self.beta):
            fields["beta"] = "inf"
        return json.dumps(fields, allow_nan=False)


def certify(
    target: Any,  # (n,)
    probs: Any,  # (n, k)
    *,
    delta: float = 0.05,
    noise_rate: float = 0.0,
    beta: float | None = None,
) -> RiskCertificate:
    r"""Bound the errors of a fixed classifier on the distribution that the examples come from.

    .. math:: \hat U_{0\text{-}1} = \mathrm{BetaInv}(1 - \delta';\ e + 1, n - e), \qquad
        \hat U_{\text{rand}} = \mathrm{betting}(1 - h_{y_i};\ \delta'), \qquad
        \hat U_\beta = \beta\, \mathrm{betting}(1 - h_{y_i}^{1/\beta};\ \delta')

    for the error of the most probable class, of a class drawn from h, and for the alpha-risk. Here e of the n
    examples are misclassified, BetaInv is the quantile function of the Beta distribution, betting is
    :func:`~mgce.risk.betting_upper`, and delta' is delta divided by the number of bounds, two or three, so that all
    hold at once. The classifier may be any, as long as the examples had no part in its making. If one of J
    classifiers was chosen by these very examples, pass `delta / J`.

    With `noise_rate` eta, a label is taken to be replaced, with probability eta whatever the example, by one of the
    k - 1 others, all equally likely. The bounds are then on the errors against clean labels: a bound U on an error
    becomes `(U - eta) / (1 - eta k/(k-1))`, and the alpha-risk is bounded by the mean of a loss whose expectation over
    the noise is that of the clean label, `((k-1) l(y) - eta sum_j l(j)) / (k - 1 - eta k)` with l(j) the alpha-loss
    of class j. If the rate is not known, pass a lower bound of it: the bounds get smaller as eta grows, so those on the
    two errors stay valid, and that on the alpha-risk does for a classifier that is no worse than chance.

    Args:
        target: labels in 0..k-1, shape (n,), array or tensor.
        probs: the classifier's probabilities (h for MGCE), shape (n, k), array or tensor; each row is divided by its
            sum, which may differ from one by rounding.
        delta: probability in (0, 1) with which any of the bounds may be wrong.
        noise_rate: eta in [0, (k-1)/k).
        beta: float in [1, inf) of the alpha-risk, or None to leave it out.

    Returns:
        The certificate. A bound of 1 (or of beta, for the alpha-risk) says nothing: it holds for any classifier.

    Raises:
        TypeError: if `beta` is not a number.
        ValueError: if shapes or values do not fit together, or `noise_rate` leaves no signal.

    Example:
        >>> target = np.array([0, 1] * 500)
        >>> probs = np.where(np.arange(1000)[:, None] % 2 == [0, 1], 0.9, 0.1)
        >>> c = certify(target, probs)
        >>> round(c.argmax_error, 4), round(c.randomized_error, 4), c.confidence
        (0.0037, 0.1045, 0.95)

    Reference: Clopper and Pearson (1934); Waudby-Smith and Ramdas (2024); Ghosh, Kumar and Sastry (2017) for
    the correction.
    """
    check_delta(delta)
    h = _checked_probs(probs)
    n, k = h.shape
    y = as_labels(target, n, k, "target")
    _check_noise(noise_rate, k)
    if beta is not None:
        _validation.check_beta(beta)
        if math.isinf(beta):
            raise ValueError(_validation.expected("beta", "finite, since the log-loss has no upper bound", beta))
    share = delta / (2 if beta is None else 3)
    order = np.random.default_rng(0).permutation(n)
    h, y = h[order], y[order]
    own = h[np.arange(n), y]
    errors = int((h.argmax(1) != y).sum())
    return RiskCertificate(
        argmax_error=clean_error(clopper_pearson_upper(errors, n, share), noise_rate, k),
        randomized_error=clean_error(betting_upper(1 - own, share), noise_rate, k),
        alpha_risk=None if beta is None else _alpha_risk_upper(h, y, float(beta), noise_rate, share),
        confidence=1 - delta,
        n=n,
        n_classes=k,
        beta=None if beta is None else float(beta),
        noise_rate=float(noise_rate),
        assumptions=(FRESH, *_noise_assumptions(noise_rate, beta), TIES, SHUFFLED),
    )


def argmax_factor(beta: float) -> float:
    r"""Give the least C with `argmax error <= C R_beta` for every classifier, where R_beta is its alpha-risk.

    .. math:: C_\beta = \frac{1}{\beta (1 - 2^{-1/\beta})}

    Args:
        beta: float in [1, inf].

    Returns:
        C, from 2 at beta = 1 down to 1/log 2 at infinity.

    Raises:
        TypeError, ValueError: if `beta` is not a number in [1, inf].

    Example:
        >>> [round(argmax_factor(beta), 4) for beta in (1, 1.4, 2, 5)]
        [2.0, 1.8292, 1.7071, 1.545]

    Reference: where the most probable class is wrong, `h_y <= 1/2`, so the alpha-loss is at least
    `beta (1 - 2^(-1/beta))`.
    """
    _validation.check_beta(beta)
    return 1 / trivial_value(2, beta)  # the loss of h = (1/2, 1/2)


def clean_error(upper: float, noise_rate: float, k: int) -> float:
    """Map an upper bound on the error against noisy labels to one against clean labels, in [0, 1].

    Symmetric noise of rate eta turns a clean error E into the noisy one `eta + (1 - eta k/(k-1)) E`, which is solved
    for E. If only a lower bound of eta is known, the result must not rise with eta: it does not where `upper` is below
    chance, `(k-1)/k`, and elsewhere 1 is given.
    """
    if noise_rate == 0:
        return upper
    if upper >= (k - 1) / k:
        return 1.0
    return max(0.0, (upper - noise_rate) / (1 - noise_rate * k / (k - 1)))


def _alpha_risk_upper(h: FloatArray, y: IntArray, beta: float, eta: float, delta: float) -> float:
    k = h.shape[1]
    loss = beta * (1 - h ** (1 / beta))  # (n, k)
    scale = k - 1 - eta * k
    unbiased = ((k - 1) * loss[np.arange(y.size), y] - eta * loss.sum(1)) / scale
    # The range of that loss over all h: least at h_y = 1, where l(y) = 0 and l(j) = beta for the k - 1 others; largest
    # at h_y = 0, where l(y) = beta, with h_j = 1/(k-1) for the others, which makes the sum of the concave h_j^(1/beta)
    # largest. The inner clip undoes rounding; the outer one keeps to [0, beta], where every alpha-risk lies.
    low = -eta * beta * (k - 1) / scale
    high = (beta * (k - 1) - eta * beta * (k - (k - 1) ** (1 - 1 / beta))) / scale
    return float(np.clip(betting_upper(np.clip(unbiased, low, high), delta, bounds=(low, high)), 0, beta))


def _checked_probs(probs: Any) -> FloatArray:
    h = as_array(probs, "probs")
    if h.ndim != 2 or h.shape[0] == 0 or h.shape[1] < 2:
        raise ValueError(_validation.expected("probs", "of shape (n, k) with n >= 1 and k >= 2", h.shape))
    total = h.sum(1, keepdims=True)
    # 1e-3 is twice what float16 can do to a sum: it changes each entry by 2^-11 of itself at most.
    if h.min() < 0 or np.abs(total - 1).max() > 1e-3:
        got = f"a least entry of {h.min():g}, and sums from {total.min():g} to {total.max():g}"
        raise ValueError(_validation.expected("probs", "rows that are not negative and sum to one", got))
    return np.asarray(h / total)


def _check_noise(noise_rate: float, k: int) -> None:
    if not 0 <= noise_rate < (k - 1) / k:
        what = f"in [0, {k - 1}/{k}), since from (k-1)/k on noisy labels say nothing about clean ones"
        raise ValueError(_validation.expected("noise_rate", what, noise_rate))


def _noise_assumptions(noise_rate: float, beta: float | None) -> tuple[str, ...]:
    if noise_rate == 0:
        return ()
    text = (
        f"each label was replaced with probability {noise_rate:g}, or more, by one of the others, all alike and "
        "whatever the example"
    )
    if beta is not None:
        text += " (for the alpha-risk: or more only if the classifier is no worse than chance)"
    return (text,)
