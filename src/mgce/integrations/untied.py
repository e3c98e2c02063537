"""Compute probabilities for cleanlab that also rank rows whose label has probability 0: `pip install cleanlab`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from mgce._validation import check_beta, check_logits
from mgce.functional import minimax_probs
from mgce.numerics.root import DEFAULT_BETA

# What a class of h = 0 gets, at most: far below what matters to cleanlab's thresholds, which are means of
# probabilities, and far above the rounding of float64 where it is added to probabilities of order one.
TIE_BREAK = 1e-6


def untied_probs(logits: Any, *, beta: float = DEFAULT_BETA) -> NDArray[np.float64]:
    r"""Return the minimax probabilities h, with zeros replaced by positive numbers that fall with the class's margin.

    .. math:: q_y = \Bigl(1 - 10^{-6} \sum_c u_c\Bigr) h_\beta(f)_y + 10^{-6} u_y, \qquad
        u_y = \exp\Bigl(-\frac{\max_c f_c - f_y}{1 + \sigma(f)}\Bigr)

    cleanlab ranks rows by the probability of their label. With h, this probability is exactly 0 for many rows, so the
    most suspect rows tie. How far the label's logit lies below the largest one still differs between them. This
    distance is divided by :math:`1 + \sigma(f)`, with the standard deviation :math:`\sigma(f)` of the row's logits:
    otherwise rows far from the training data, whose logits all differ much, would come first. Within a row, q ranks the
    classes as their logits do.

    Args:
        logits: f, shape (n, k): n rows that the model was not trained on, k classes.
        beta: loss parameter in [1, inf] that the model was trained with.

    Returns:
        q, float64, shape (n, k): positive where the logit is finite, and rows sum to one.

    Raises:
        TypeError, ValueError, RuntimeError: as :func:`mgce.functional.minimax_probs`.

    Example:
        >>> untied_probs(torch.tensor([[3.0, 0.0, -2.0]]), beta=1.4)
        array([[9.99999431e-01, 3.74538934e-07, 1.94608416e-07]])

    Reference: paper, equation (14); Northcutt, Jiang and Chuang, "Confident learning", JAIR 2021.
    """
    f = torch.as_tensor(logits)
    beta = check_beta(beta)  # type: ignore[assignment]
    check_logits(f, -1)
    f = f.detach().double().cpu()
    below = f.amax(-1, keepdim=True) - f
    below = torch.where(below.isfinite(), below, torch.nan)  # a class whose logit is -inf stays at 0
    unit = below.nan_to_num(0.0).amax(-1, keepdim=True).clamp(min=1)  # else squares of huge distances overflow
    around = below / unit
    spread = unit * (around - around.nanmean(-1, keepdim=True)).square().nanmean(-1, keepdim=True).sqrt()
    untied = TIE_BREAK * (-below / (1 + spread)).exp().nan_to_num(0.0)
    probs: Tensor = (1 - untied.sum(-1, keepdim=True)) * minimax_probs(f, beta=beta, dim=-1) + untied
    return np.asarray(probs.numpy())


class UntiedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Wrap an estimator for `cleanlab.classification.CleanLearning`, with probabilities that do not tie at 0.

    .. math:: \text{predict\_proba}(x) = q(f(x)), \qquad \text{see :func:`untied_probs`}

    Args:
        estimator: :class:`mgce.MGCEClassifier` or another estimator of :mod:`mgce.estimators`, not fitted.

    Attributes:
        estimator_: the fitted estimator.
        classes_: labels of the k classes, shape (k,).

    Raises:
        NotFittedError: if it predicts before it is fitted.

    Example:
        >>> from mgce import MGCEClassifier
        >>> X, y = np.array([[0.0], [1.0], [8.0], [9.0]]), np.array([0, 0, 1, 1])
        >>> clf = UntiedClassifier(MGCEClassifier(lambda0=1e-5)).fit(X, y)
        >>> bool((clf.predict_proba(X) > 0).all())
        True

    Reference: paper, equation (14).
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> UntiedClassifier:
        """Fit a clone of the wrapped estimator to n rows X and their labels y."""
        self.estimator_ = clone(self.estimator).fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest margin for each row."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of :func:`untied_probs`, shape (n, k) for n rows and k classes."""
        check_is_fitted(self)
        f = self.estimator_.decision_function(X)
        if f.ndim == 1:  # scikit-learn has one margin for two classes: that of the second above the first
            f = np.stack([np.zeros_like(f), f], axis=1)
        return untied_probs(f, beta=self.estimator_.beta_)
