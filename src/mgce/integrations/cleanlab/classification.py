"""Fit any classifier without the labels that are probably wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from mgce._arrays import FloatArray, IntArray, sorted_classes, taken
from mgce._messages import expected
from mgce.estimators.suspects import find_suspects
from mgce.integrations.cleanlab.issues import find_label_issues, issue_table, judged


class CleanLearning(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fit any classifier without the labels that are more probably wrong than right.

    Each row is judged by a clone of the classifier that was not fitted to it. :func:`find_label_issues` lists the rows
    to leave out. :class:`mgce.estimators.LabelCorrectionClassifier` corrects labels and leaves nothing out.

    Args:
        clf: a classifier with `fit`, `predict` and `predict_proba`; None for logistic regression.
        seed: seed of the folds.
        cv_n_folds: number of folds.
        find_label_issues_kwargs: arguments of :func:`find_label_issues`.
        verbose: without effect.

    Attributes:
        clf_: the classifier, fitted to the rows that are left.
        classes_: the classes, sorted, shape (k,).
        label_issues_df: a row for each label: see :meth:`find_label_issues`.
        label_issues_mask: which labels are left out, shape (n,).

    Example:
        >>> X, y = np.repeat([[0.0], [9.0]], 200, axis=0), np.repeat([0, 1], 200)
        >>> y[:5] = 1
        >>> cl = CleanLearning(seed=0).fit(X, y)
        >>> np.flatnonzero(cl.get_label_issues()["is_label_issue"]).tolist(), cl.score(X[5:], y[5:])
        ([0, 1, 2, 3, 4], 1.0)
    """

    def __init__(
        self,
        clf: Any = None,
        *,
        seed: Any = None,
        cv_n_folds: int = 5,
        find_label_issues_kwargs: Mapping[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.clf = clf
        self.seed = seed
        self.cv_n_folds = cv_n_folds
        self.find_label_issues_kwargs = find_label_issues_kwargs
        self.verbose = verbose

    def find_label_issues(
        self, X: Any = None, labels: Any = None, *, pred_probs: Any = None, clf_kwargs: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return `is_label_issue`, `label_quality`, `given_label` and `predicted_label` of each row.

        Args:
            X: rows, of any type that the classifier accepts; not needed with `pred_probs`.
            labels: given labels, shape (n,).
            pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row; None: the
                classifier is fitted to each fold.
            clf_kwargs: further arguments of the classifier's `fit`.
        """
        classes, target = sorted_classes(np.asarray(labels))

        def train(rows: IntArray, others: IntArray) -> FloatArray:
            model = self._new().fit(taken(X, rows), target[rows], **clf_kwargs or {})
            probs = np.zeros((len(others), len(classes)))
            probs[:, model.classes_] = model.predict_proba(taken(X, others))
            return probs

        if pred_probs is None:
            found = find_suspects(train, labels, n_folds=self.cv_n_folds, random_state=self.seed)
        else:
            found = judged(labels, pred_probs)
        mask = _mask(find_label_issues(labels, found.probs, **self.find_label_issues_kwargs or {}), len(target))
        self.label_issues_mask, self.label_issues_df = mask, issue_table(found, "label_quality", mask)
        return self.label_issues_df

    def fit(
        self,
        X: Any,
        labels: Any = None,
        *,
        pred_probs: Any = None,
        label_issues: Any = None,
        sample_weight: Any = None,
        clf_kwargs: Mapping[str, Any] | None = None,
        y: Any = None,
    ) -> CleanLearning:
        """Find the labels that are probably wrong, and fit the classifier to the other rows.

        Args:
            X: rows, of any type that the classifier accepts.
            labels: given labels, shape (n,).
            pred_probs: class probabilities, shape (n, k), as in :meth:`find_label_issues`.
            label_issues: rows to leave out: a mask, indices, or the table of :meth:`find_label_issues`.
            sample_weight: weights of the rows in the last fit, or None.
            clf_kwargs: further arguments of the classifier's `fit`.
            y: another name of `labels`.
        """
        labels = np.asarray(y if labels is None else labels)
        if label_issues is None:
            self.find_label_issues(X, labels, pred_probs=pred_probs, clf_kwargs=clf_kwargs)
        else:
            self.label_issues_mask = _mask(getattr(label_issues, "is_label_issue", label_issues), len(labels))
            table = (
                label_issues if isinstance(label_issues, pd.DataFrame) else {"is_label_issue": self.label_issues_mask}
            )
            self.label_issues_df = pd.DataFrame(table, copy=True)
        if self.label_issues_mask.shape != labels.shape:
            what = f"{len(labels)} values, one for each label"
            raise ValueError(expected("label_issues", what, len(self.label_issues_mask)))
        kept = np.flatnonzero(~self.label_issues_mask)
        weight = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[kept]}
        self.clf_ = self._new().fit(taken(X, kept), labels[kept], **clf_kwargs or {}, **weight)
        self.classes_ = self.clf_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row by the fitted classifier, shape (n,)."""
        check_is_fitted(self)
        return np.asarray(self.clf_.predict(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the class probabilities of each row by the fitted classifier, shape (n, k)."""
        check_is_fitted(self)
        return np.asarray(self.clf_.predict_proba(X))

    def get_label_issues(self) -> pd.DataFrame | None:
        """Return the table of :meth:`find_label_issues`; None before it was made."""
        return getattr(self, "label_issues_df", None)

    def _new(self) -> Any:
        return LogisticRegression() if self.clf is None else clone(self.clf, safe=False)


def _mask(rows: Any, n: int) -> Any:
    """Return a mask of n rows, given a mask or the indices of rows."""
    given = np.asarray(rows)
    return given if given.dtype == bool else np.isin(np.arange(n), given)
