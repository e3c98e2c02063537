"""Define a scikit-learn classifier that trains LightGBM's trees with the MGCE loss: `pip install lightgbm`."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
from scipy import sparse

from mgce._messages import expected
from mgce.estimators.base import FloatArray
from mgce.integrations.boosting import BoostedClassifier, Rows


class MGCELGBMClassifier(BoostedClassifier):
    r"""Classify with trees that LightGBM boosts on the minimax generalized cross-entropy loss (MGCE).

    .. math:: \min_f\; \sum_i w_i\, \ell_\beta(f(x_i), y_i), \qquad \ell_\beta(f, y) = -f_y - \varphi_\beta(f)

    See :class:`mgce.integrations.xgboost.MGCEXGBClassifier` for why the learning rate is small and rows are held out.

    Args:
        beta: in [1, inf]: 1 is the most robust, inf is cross-entropy.
        n_estimators: largest number of boosting rounds.
        learning_rate: how far one round may move a margin (logit).
        min_child_weight: least sum of `|p - y|` in a leaf (y is one-hot), about the number of its rows not yet fitted.
        class_weight: None, "balanced", or a dict of factors for classes, finite and not negative.
        early_stopping: whether to hold out rows and keep the round of best accuracy on them.
        validation_fraction: share of the rows to hold out, in (0, 1).
        n_iter_no_change: number of rounds without a better accuracy after which to stop.
        n_jobs: number of threads; None for the default of LightGBM.
        random_state: seed for the choice of the held-out rows, and for the library.
        params: further parameters of `lightgbm.train`: `{"num_leaves": 15}`.

    Attributes:
        classes_: labels of the k classes, shape (k,).
        booster_: the `lightgbm.Booster`; add `start_` to its raw scores to get margins.
        start_: constant margins before the first tree, shape (k,).
        beta_: the `beta` that was used for the fit.
        n_iter_: number of rounds that predictions use.

    Raises:
        ValueError: if the data or a parameter are not as described.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCELGBMClassifier(n_jobs=1, random_state=0).fit(X, y)
        >>> clf.score(X, y) > 0.9
        True

    Reference: paper, equation (19); Ke et al., "LightGBM", NeurIPS 2017.
    """

    booster_: lightgbm.Booster

    def _boost(self, train: Rows, held_out: Rows | None, seed: int) -> int:
        params = {
            "objective": lambda raw, data: self._objective(_by_row(raw, len(train.labels)), train),
            "num_class": self.classes_.size,
            "metric": "None",
            "learning_rate": self.learning_rate,
            "min_sum_hessian_in_leaf": self.min_child_weight,
            "seed": seed,
            "verbosity": -1,
            **({} if self.n_jobs is None else {"num_threads": self.n_jobs}),
            **(self.params or {}),
        }
        data = lightgbm.Dataset(_readable(train.X), train.labels)
        stop: dict[str, Any] = {}
        if held_out is not None:
            rows = held_out
            stop = {
                "valid_sets": [lightgbm.Dataset(_readable(rows.X), rows.labels, reference=data)],
                "feval": lambda raw, data: ("accuracy", self._accuracy(_by_row(raw, len(rows.labels)), rows), True),
                "callbacks": [lightgbm.early_stopping(self.n_iter_no_change, verbose=False)],
            }
        try:
            self.booster_ = lightgbm.train(params, data, self.n_estimators, **stop)
        except lightgbm.basic.LightGBMError as error:
            if "num_features()" not in str(error):
                raise
            what = "of a feature that varies, and of rows for two leaves (20 in each, or `min_data_in_leaf`)"
            raise ValueError(expected("X", what, f"{train.X.shape[0]} rows that LightGBM cannot split")) from None
        return int(self.booster_.best_iteration if held_out is not None else self.booster_.current_iteration())

    def _raw_margins(self, X: Any) -> FloatArray:
        raw = self.booster_.predict(_readable(X), raw_score=True, num_iteration=self.n_iter_)
        return np.asarray(raw, dtype=np.float64)


def _readable(X: Any) -> Any:
    """Convert sparse rows to a SciPy sparse matrix, since LightGBM does not accept SciPy's sparse arrays."""
    matrix: Any = sparse.csr_matrix
    return matrix(X) if sparse.issparse(X) else X


def _by_row(raw: Any, n: int) -> FloatArray:
    """Return LightGBM's raw output as margins of n rows and k classes; a flat output is sorted by class first."""
    margins = np.asarray(raw, dtype=np.float64)
    return margins if margins.ndim == 2 else margins.reshape(-1, n).T
