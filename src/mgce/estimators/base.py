"""Define the base class of all estimators: it computes probabilities, certificates and suspect labels from logits."""

from __future__ import annotations

import math
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
from torch import nn

from mgce import functional
from mgce._arrays import sorted_classes
from mgce._messages import expected
from mgce._row_order import content_order
from mgce._threads import SERIAL_WORK, one_torch_thread
from mgce.losses.modules import MinimaxLink
from mgce.risk import RiskCertificate, certify_model

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LINK_WORK = 200  # operations for each number: ten steps or so to the root, of about twenty each


def link_probs(link: Callable[..., torch.Tensor], margins: NDArray[np.floating[Any]], beta: float) -> FloatArray:
    """Return the probabilities of n rows of k margins (logits), by the function `link`; use one thread for few rows."""
    f = torch.from_numpy(margins)
    with one_torch_thread() if f.numel() * LINK_WORK <= SERIAL_WORK else nullcontext():
        return np.asarray(link(f, beta=beta).numpy())


class RobustClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base class of classifiers that compute all outputs from margins f, the logits of n rows and k classes, (n, k).

    A subclass implements `_margins`, and a `fit` that sets `classes_` and `beta_`.
    """

    classes_: NDArray[Any]  # (k,), sorted
    beta_: float
    n_features_in_: int
    coef_: Any  # of the linear estimators
    intercept_: Any

    _sparse: ClassVar[bool] = False  # whether X may be sparse (CSR)
    _of_training: ClassVar[tuple[str, ...]] = ()  # attributes that say something of single training rows
    _finite: ClassVar[bool | str] = True  # scikit-learn's `ensure_all_finite`: "allow-nan" where NaN is a missing value

    @abstractmethod
    def _margins(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the margins f (logits), shape (n, k), of n validated rows in float64, float32 or sparse CSR."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a file or a copy, without those of single training rows, which stay private."""
        return {name: value for name, value in super().__getstate__().items() if name not in self._of_training}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        tags.input_tags.allow_nan = self._finite == "allow-nan"
        return tags

    def decision_function(self, X: Any) -> FloatArray:
        """Compute the margins f, also called logits.

        Args:
            X: n rows of d features, shape (n, d).

        Returns:
            f, shape (n, k) for k classes; for two classes `f_1 - f_0`, shape (n,), as scikit-learn has it.
        """
        f = self._checked_margins(X)
        return f if f.shape[1] > 2 else np.asarray(f[:, 1] - f[:, 0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return for each row the class with the largest margin (logit).

        This class is also the most probable one by :meth:`predict_proba` and by :meth:`worst_case_proba`.

        Args:
            X: n rows of d features, shape (n, d).

        Returns:
            The predicted label of each row, shape (n,).
        """
        f = self._checked_margins(X)
        return np.asarray(self.classes_[f.argmax(1)])

    def predict_proba(self, X: Any) -> FloatArray:
        r"""Compute h, the minimax probabilities, with which the paper's classifier predicts; many are exactly zero.

        .. math:: h_y = \Big(\frac{f_y + \varphi_\beta(f)}{\beta} + 1\Big)_+^{\beta}

        f are the margins (logits), and :math:`\varphi_\beta(f)` is the number for which the probabilities h sum to 1.
        The probabilities h are more extreme than those of :meth:`worst_case_proba`, which are calibrated to labels like
        those of the training set.

        Args:
            X: n rows of d features, shape (n, d).

        Returns:
            h, shape (n, k) for k classes, with columns as in `classes_`.

        Reference: paper, equation (14).
        """
        return self._link(functional.minimax_probs, X)

    def worst_case_proba(self, X: Any) -> FloatArray:
        r"""Compute p, the worst-case probabilities, calibrated to labels as noisy as those of the training set.

        .. math:: p_y = h_y^{1 - 1/\beta} \Big/ \sum_j h_j^{1 - 1/\beta}

        with h the probabilities of :meth:`predict_proba`.

        Args:
            X: n rows of d features, shape (n, d).

        Returns:
            p, shape (n, k) for k classes, with columns as in `classes_`.

        Reference: paper, equations (15) and (17).
        """
        return self._link(functional.worst_case_probs, X)

    def _link(self, link: Callable[..., torch.Tensor], X: Any) -> FloatArray:
        """Return the probabilities of n rows and k classes by `link`, a function from logits to probabilities."""
        return link_probs(link, self._checked_margins(X), self.beta_)

    def predict_random(self, X: Any, random_state: Any = None) -> NDArray[Any]:
        """Draw a class for each row at random, with the probabilities of :meth:`predict_proba`.

        :meth:`certify` bounds the error of this randomised rule too.

        Args:
            X: n rows of d features, shape (n, d).
            random_state: seed or generator of the draws.

        Returns:
            The predicted label of each row, shape (n,).
        """
        cumulative = self.predict_proba(X).cumsum(1)
        draws = check_random_state(random_state).uniform(size=len(cumulative)) * cumulative[:, -1]
        return np.asarray(self.classes_[(cumulative <= draws[:, None]).sum(1)])

    def certify(self, X: Any, y: Any, **options: Any) -> RiskCertificate:
        """Bound the errors of this classifier from labelled rows it has never seen.

        The bounds hold however good or bad the classifier is, if the rows are independent draws that no part of
        training, selection or calibration has used. This method calls :func:`mgce.certify` with the probabilities of
        :meth:`predict_proba`. Pipelines and searches lack this method: call :func:`mgce.risk.certify_model` for them.

        Args:
            X: n rows of d features that no step of training has used, shape (n, d).
            y: the label of each row, shape (n,); a label that is not among `classes_` counts as an error.
            options: options of :func:`mgce.certify`: `delta`, `bounds`, `beta`, what is known of wrong labels
                (`noise_rate`, `noise_type`, `transition`, `checked`), and `groups` of dependent rows.

        Returns:
            The certificate. Without options it has bounds on the errors of :meth:`predict` (argmax error) and of
            :meth:`predict_random` (randomised error).

        Raises:
            ValueError: if no label is among `classes_`, or an option is out of range.
        """
        return certify_model(self, X, column_or_1d(y, warn=True), **options)

    def label_quality(self, X: Any, y: Any) -> FloatArray:
        """Return the minimax probability h of each row's own label: near 0 for a label that is likely wrong.

        cleanlab calls this score self-confidence. Training pulls the model towards the labels of the training rows,
        so score held-out rows where you can, for instance by cross-validation.

        Args:
            X: n rows of d features, shape (n, d).
            y: the label of each row, shape (n,), all among `classes_`.

        Returns:
            Scores in [0, 1], shape (n,).

        Raises:
            ValueError: if a label is not among `classes_`.
        """
        h = self.predict_proba(X)
        return np.asarray(h[np.arange(len(h)), self._label_indices(y, len(h))])

    def suspect_labels(self, X: Any, y: Any) -> IntArray:
        r"""Rank rows by how far the model prefers another class to their label, the most suspect first.

        .. math:: \text{lead}(f, y) = \max_{c \ne y} f_c - f_y

        Rows are sorted by decreasing lead of their logits f and label y. The lead also ranks rows whose label has
        probability 0, which :meth:`label_quality` cannot tell apart. It ranks wrong labels higher than the MGCE loss:
        on digits with 30 % wrong labels of the next class, average precision is 0.95 instead of 0.90 for a forest.

        Args:
            X: n rows of d features, shape (n, d).
            y: the label of each row, shape (n,), all among `classes_`.

        Returns:
            Indices of all n rows. If you have time to check m rows, check the first m.

        Raises:
            ValueError: if a label is not among `classes_`.
        """
        f = self._checked_margins(X)
        label = self._label_indices(y, len(f))
        rows = np.arange(len(f))
        others = f.copy()
        others[rows, label] = -np.inf
        with np.errstate(over="ignore"):  # of huge margins
            lead = others.max(1) - f[rows, label]
            rounded = lead.round(12)
        # Rows of equal lead are ranked by their content: in a file sorted by its labels, ties broken by file order
        # would follow the labels. A lead varies by a relative 1e-16 with the batch, so 12 decimals make such leads
        # equal.
        ties = np.empty(len(f), np.intp)
        ties[content_order(self._validated(X, reset=False), label)] = rows
        return np.asarray(np.lexsort((ties, -np.where(np.isfinite(rounded), rounded, lead))))

    def to_torch(self, output: str = "minimax") -> nn.Sequential:
        r"""Return the fitted model as a PyTorch module from rows to probabilities, to serve, export or train further.

        .. math:: x \mapsto h_\beta(f(x))

        The module computes in float64 and agrees with :meth:`predict_proba` up to rounding; `.float()` converts it to
        float32. Its last part, :class:`mgce.losses.MinimaxLink`, maps margins (logits) to probabilities; `module[:-1]`
        returns margins. Every estimator of :mod:`mgce.estimators` can be converted. Modules of trees have no gradient,
        and need memory for n T k numbers with n rows, T trees and k classes.

        Args:
            output: `"minimax"` for the probabilities of :meth:`predict_proba`, or `"worst_case"` for those of
                :meth:`worst_case_proba`.

        Returns:
            A module on the CPU, from rows (n, d) to probabilities (n, k) with columns as in `classes_`.

        Raises:
            ValueError: if `output` is neither "minimax" nor "worst_case".
            TypeError: if the margins come from another library, such as XGBoost, LightGBM or a member of a vote.
        """
        check_is_fitted(self)
        return nn.Sequential(*self._margin_modules(), MinimaxLink(self.beta_, dim=-1, output=output))

    def _margin_modules(self) -> Sequence[nn.Module]:
        """Return modules that, applied in sequence, turn n rows of d features into n rows of k margins (logits)."""
        what = "of mgce.estimators, whose margins PyTorch can compute"
        raise TypeError(expected("estimator", what, type(self).__name__))

    def _checked_margins(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            f = np.ascontiguousarray(self._margins(X), dtype=np.float64)
        if not np.isfinite(f).all():
            raise ValueError(expected("X", "rows whose margins are finite in float64", largest(X)))
        return f

    def _validated(self, *data: Any, reset: bool = True, dtype: Any = (np.float64, np.float32)) -> Any:
        """Check X, or X and y, as scikit-learn does; prefix the argument's name to error messages that lack it."""
        try:
            with np.errstate(invalid="ignore"):  # it sums all values, and those of both signs may overflow
                return validate_data(
                    self,
                    *data,
                    reset=reset,
                    accept_sparse="csr" if self._sparse else False,
                    dtype=dtype,
                    ensure_all_finite=self._finite,
                )
        except (TypeError, ValueError) as error:
            if type(error) not in (TypeError, ValueError) or re.match(r"[^\[]*\b[Xy]\b", str(error)):
                raise
            name = "`X` and `y`" if "inconsistent numbers" in str(error) else "`X`"
            raise type(error)(f"{name}: {error}") from None

    def _label_indices(self, y: Any, n: int) -> IntArray:
        """Return the index in `classes_` of each of n labels, shape (n,)."""
        y = column_or_1d(y, warn=True)
        if y.shape != (n,):
            raise ValueError(expected("y", f"of shape ({n},), one label for each row", y.shape))
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(expected("y", "labels among `classes_`", y[unknown][0]))
        return np.asarray(np.searchsorted(self.classes_, y), dtype=np.int64)

    def _encode_training(
        self, X: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[Any, IntArray, FloatArray]:
        """Check a training set; return X and, for each row, its class index and weight. Set `classes_`."""
        X, y = self._validated(X, y)
        self.classes_, index = sorted_classes(y)
        weight = check_row_weights(sample_weight, X)
        totals = np.bincount(index, weight, minlength=self.classes_.size)
        weight = weight * class_factors(class_weight, self.classes_, totals)[index]
        return X, index.astype(np.int64), np.asarray(weight)

    def _sorted_training(self, *data: Any) -> tuple[Any, IntArray, FloatArray, NDArray[np.intp]]:
        """Check a training set as `_encode_training` does; return it sorted by content, with the permutation of rows.

        Splits, folds, batches and bootstrap samples then do not depend on the order of the caller's rows.
        """
        X, index, weight = self._encode_training(*data)
        order = content_order(X, index, weight)
        return X[order], index[order], weight[order], order


def largest(X: Any) -> float:
    """Return the value furthest from 0 in dense or sparse rows, with its sign; ignore NaN; return 0 without values."""
    values = X.data if hasattr(X, "tocsr") else np.asarray(X).ravel()
    values = values[~np.isnan(values)]
    return float(values[np.abs(values).argmax()]) if values.size else 0.0


def check_single(X: NDArray[Any]) -> None:
    """Require values in the range of float32: networks and forests compute in float32."""
    limit = float(np.finfo(np.float32).max)
    value = largest(X)
    if abs(value) > limit:
        raise ValueError(expected("X", f"of values in ±{limit:.2g}, the range of float32", value))


def check_row_weights(sample_weight: Any, X: Any) -> FloatArray:
    """Require finite nonnegative weights, one for each row; return them, or ones for None, shape (n,)."""
    weight = row_weights(sample_weight, X.shape[0])
    _check_weights("sample_weight", weight)
    _check_finite_sum("sample_weight", weight)
    return weight


def row_weights(sample_weight: Any, n: int) -> FloatArray:
    """Return the weights of n rows as an array; None stands for ones, and a number for equal weights."""
    if sample_weight is None or isinstance(sample_weight, Real):
        return np.full(n, 1.0 if sample_weight is None else float(sample_weight))
    weight = np.asarray(check_array(sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight"))
    if weight.shape != (n,):
        raise ValueError(expected("sample_weight", f"of shape ({n},), one for each row", weight.shape))
    if not weight.any():
        raise ValueError(expected("sample_weight", "weights that are not all zero", "zeros"))
    return weight


def class_factors(class_weight: Any, classes: NDArray[Any], totals: NDArray[Any]) -> FloatArray:
    """Return for each of k classes the factor by which the weights of its rows are multiplied, shape (k,).

    The factor is 1 if `class_weight` is None, and the value for the class if it is a dict. With "balanced", the factors
    give all classes the same total weight. `totals`, shape (k,), are the total weights of the rows of each class before
    multiplication. At least two classes must keep a positive weight.
    """
    if classes.size < 2:
        raise ValueError(expected("y", "of at least 2 classes", f"{classes.size} class"))
    _check_weight_left("sample_weight", totals)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(totals.sum() / (classes.size * np.where(totals > 0, totals, math.inf)))
    if class_weight is not None:
        _check_weights("class_weight", list(class_weight.values()))
    factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes))
    with np.errstate(over="ignore"):
        weighted = totals * factors
    _check_finite_sum("class_weight", weighted)
    _check_weight_left("class_weight", weighted)
    return factors


def _check_weights(name: str, values: Any) -> None:
    """Require weights, of rows or of classes, to be finite nonnegative numbers."""
    what = "finite numbers that are not negative"
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # words, lists of several lengths, integers beyond any float
        raise ValueError(expected(name, what, values)) from None
    wrong = ~((weights >= 0) & (weights < math.inf))  # NaN is neither
    if wrong.any() or weights.ndim != 1:
        raise ValueError(expected(name, what, weights[wrong][0].item() if wrong.any() else values))


def _check_finite_sum(name: str, weights: FloatArray) -> None:
    """Require weights with a finite sum: weighted means divide by this sum."""
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not math.isfinite(total):
        raise ValueError(expected(name, "weights with a finite sum over the rows", total))


def _check_weight_left(name: str, totals: FloatArray) -> None:
    """Require at least two classes of positive total weight; the error names the argument `name`."""
    left = np.count_nonzero(totals)
    if left < 2:
        what = "positive for rows of at least 2 classes"
        raise ValueError(expected(name, what, f"{left} class with positive weight" if left else "0 in all"))
