"""What every estimator gives once it has margins: two probabilities, certificates and suspect labels."""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from mgce import _validation, functional
from mgce._threads import SERIAL_WORK, one_torch_thread
from mgce.risk import RiskCertificate
from mgce.risk import certify as certify_probs

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LINK_WORK = 200  # operations for each number: ten steps or so to the root, of about twenty each


class RobustClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """A classifier whose outputs all follow from its margins, another name for the logits f, shape (n, k).

    A subclass gives `fit`, which sets `classes_` and `beta_`, and `_margins`.
    """

    classes_: NDArray[Any]  # (k,), sorted
    beta_: float
    n_features_in_: int

    _sparse: ClassVar[bool] = False  # whether X may be sparse (CSR)

    @abstractmethod
    def _margins(self, X: Any) -> NDArray[np.floating[Any]]:
        """Give the margins f, shape (n, k), of rows that are checked: float64 or float32, and CSR where sparse."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        return tags

    def decision_function(self, X: Any) -> FloatArray:
        """Compute the margins f.

        Args:
            X: rows, shape (n, d).

        Returns:
            f, shape (n, k); for two classes `f_1 - f_0`, shape (n,), as scikit-learn has it.
        """
        f = self._checked_margins(X)
        return f if f.shape[1] > 2 else np.asarray(f[:, 1] - f[:, 0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Give the class of the largest margin, which is the most probable one for h and p alike.

        Args:
            X: rows, shape (n, d).

        Returns:
            Labels, shape (n,).
        """
        f = self._checked_margins(X)
        return np.asarray(self.classes_[f.argmax(1)])

    def predict_proba(self, X: Any) -> FloatArray:
        r"""Compute h, the minimax probabilities: the paper's classifier, often with exact zeros.

        .. math:: h_y = \Big(\frac{f_y + \varphi_\beta(f)}{\beta} + 1\Big)_+^{\beta}

        Sharper than :meth:`worst_case_proba`, which is the calibrated output for labels like those trained on.

        Args:
            X: rows, shape (n, d).

        Returns:
            h, shape (n, k), with columns as in `classes_`.

        Reference: paper, equation (14).
        """
        return self._link(functional.minimax_probs, X)

    def worst_case_proba(self, X: Any) -> FloatArray:
        r"""Compute p, the worst-case probabilities: the calibrated output.

        .. math:: p_y = h_y^{1 - 1/\beta} \Big/ \sum_j h_j^{1 - 1/\beta}

        Args:
            X: rows, shape (n, d).

        Returns:
            p, shape (n, k), with columns as in `classes_`.

        Reference: paper, equations (15) and (17).
        """
        return self._link(functional.worst_case_probs, X)

    def _link(self, link: Callable[..., torch.Tensor], X: Any) -> FloatArray:
        """Give the probabilities of rows."""
        f = torch.from_numpy(self._checked_margins(X))
        with one_torch_thread() if f.numel() * LINK_WORK <= SERIAL_WORK else nullcontext():
            return np.asarray(link(f, beta=self.beta_).numpy())

    def certify(self, X: Any, y: Any, *, delta: float = 0.05, noise_rate: float = 0.0) -> RiskCertificate:
        """Bound the errors of this classifier from labelled rows it has never seen.

        Valid however good or bad the classifier is, if the rows are independent draws that no part of training,
        selection or calibration has used. See :func:`mgce.certify`, which this calls with h.

        Args:
            X: fresh rows, shape (n, d).
            y: their labels, shape (n,), all among `classes_`.
            delta: probability in (0, 1) with which any of the bounds may be wrong.
            noise_rate: eta in [0, (k-1)/k), the share of labels in y that were replaced by one of the others, or a
                lower bound of that share; the bounds are then on errors against clean labels.

        Returns:
            The certificate, with the bounds on the argmax error and the randomised error.

        Raises:
            ValueError: if a label is not among `classes_`, or `delta` or `noise_rate` is out of range.
        """
        h = self.predict_proba(X)
        return certify_probs(self._label_indices(y, len(h)), h, delta=delta, noise_rate=noise_rate)

    def label_quality(self, X: Any, y: Any) -> FloatArray:
        """Give the minimax probability h of each row's own label: near 0 for a label that is likely wrong.

        It is what cleanlab calls self-confidence of :meth:`predict_proba`. A row that was trained on has pulled
        the model towards its label: score held-out rows where you can, for instance by cross-validation.

        Args:
            X: rows, shape (n, d).
            y: their labels, shape (n,), all among `classes_`.

        Returns:
            Scores in [0, 1], shape (n,).

        Raises:
            ValueError: if a label is not among `classes_`.
        """
        h = self.predict_proba(X)
        return np.asarray(h[np.arange(len(h)), self._label_indices(y, len(h))])

    def suspect_labels(self, X: Any, y: Any) -> IntArray:
        r"""Rank rows by how little the model believes their label, the most suspect first.

        The order is that of falling margin loss `-f_y - phi(f)`, hence of rising :meth:`label_quality` (cleanlab's
        order by "self_confidence"), except that the loss also tells apart the rows whose label has h = 0.

        Args:
            X: rows, shape (n, d).
            y: their labels, shape (n,), all among `classes_`.

        Returns:
            Indices of all n rows; with time to look at m rows, look at the first m.

        Raises:
            ValueError: if a label is not among `classes_`.
        """
        f = self._checked_margins(X)
        target = torch.from_numpy(self._label_indices(y, len(f)))
        loss = functional.mgce_loss(torch.from_numpy(f), target, reduction="none", beta=self.beta_)
        return np.asarray(np.argsort(-loss.numpy(), kind="stable"))

    def _checked_margins(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, accept_sparse="csr" if self._sparse else False, dtype=(np.float64, np.float32)
        )
        return np.ascontiguousarray(self._margins(X), dtype=np.float64)

    def _label_indices(self, y: Any, n: int) -> IntArray:
        """Give the positions of labels in `classes_`, shape (n,)."""
        y = column_or_1d(y, warn=True)
        if y.shape != (n,):
            raise ValueError(_validation.expected("y", f"of shape ({n},), one label for each row", y.shape))
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(_validation.expected("y", "labels among `classes_`", y[unknown][0]))
        return np.asarray(np.searchsorted(self.classes_, y), dtype=np.int64)

    def _encode_training(
        self, X: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[Any, IntArray, FloatArray]:
        """Check a training set: give X, the class of each row, and its weight; sets `classes_` and the features."""
        accept_sparse = "csr" if self._sparse else False
        X, y = validate_data(self, X, y, accept_sparse=accept_sparse, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        totals = np.bincount(index, weight, minlength=self.classes_.size)
        weight = weight * class_factors(class_weight, self.classes_, totals)[index]
        check_class_count(np.bincount(index, weight))
        return X, index.astype(np.int64), np.asarray(weight)


def check_class_count(totals: NDArray[Any]) -> None:
    """Require two classes or more with rows of positive weight, given the total weight of the rows of each class."""
    present = np.count_nonzero(totals)
    if present < 2:
        what = "of at least 2 classes with rows of positive weight"
        raise ValueError(_validation.expected("y", what, f"{present} class"))


def class_factors(class_weight: Any, classes: NDArray[Any], totals: NDArray[Any]) -> FloatArray:
    """Give the factor, shape (k,), by which the weights of the rows of each class are multiplied.

    By `class_weight` it is 1 (None), what a dict has for the class, or ("balanced") such that all classes get the same
    total weight; `totals` are the total weights of their rows before, shape (k,).
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(totals.sum() / (classes.size * np.where(totals > 0, totals, math.inf)))
    return np.asarray(compute_class_weight(class_weight, classes=classes, y=classes))
