"""Define a scikit-learn classifier that trains XGBoost's trees with the MGCE loss: `pip install xgboost`."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost

from mgce.estimators.base import FloatArray
from mgce.integrations.boosting import BoostedClassifier, Rows


class MGCEXGBClassifier(BoostedClassifier):
    r"""Classify with trees that XGBoost boosts on the minimax generalized cross-entropy loss (MGCE).

    .. math:: \min_f\; \sum_i w_i\, \ell_\beta(f(x_i), y_i), \qquad \ell_\beta(f, y) = -f_y - \varphi_\beta(f)

    Each round adds a tree for every class. A leaf moves a margin (logit) by `learning_rate` at most, and a row has loss
    0 once its margin is `beta`. With the learning rate of cross-entropy, 0.3, every row would be fitted after a few
    rounds, mislabelled ones too. So the default learning rate is small, and the accuracy on held-out rows decides when
    to stop. Labels of held-out rows may be wrong too.

    Args:
        beta: in [1, inf]: 1 is the most robust, inf is cross-entropy.
        n_estimators: largest number of boosting rounds.
        learning_rate: how far one round may move a margin.
        min_child_weight: least sum of `|p - y|` in a leaf (y is one-hot), about the number of its rows not yet fitted.
        class_weight: None, "balanced", or a dict of factors for classes, finite and not negative.
        early_stopping: whether to hold out rows and keep the round of best accuracy on them.
        validation_fraction: share of the rows to hold out, in (0, 1).
        n_iter_no_change: number of rounds without a better accuracy after which to stop.
        n_jobs: number of threads; None for the default of XGBoost.
        random_state: seed for the choice of the held-out rows, and for the library.
        params: further parameters of `xgboost.train`: `{"max_depth": 4, "device": "cuda"}`.

    Attributes:
        classes_: labels of the k classes, shape (k,).
        booster_: the `xgboost.Booster`; add `start_` to its raw scores to get margins.
        start_: constant margins before the first tree, shape (k,).
        beta_: the `beta` that was used for the fit.
        n_iter_: number of rounds that predictions use.

    Raises:
        ValueError: if the data or a parameter are not as described.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCEXGBClassifier(n_jobs=1, random_state=0).fit(X, y)
        >>> clf.score(X, y) > 0.9
        True

    Reference: paper, equation (19); Chen and Guestrin, "XGBoost", KDD 2016.
    """

    booster_: xgboost.Booster

    def _boost(self, train: Rows, held_out: Rows | None, seed: int) -> int:
        k = self.classes_.size
        params = {
            "num_class": k,
            "learning_rate": self.learning_rate,
            "min_child_weight": self.min_child_weight,
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            "seed": seed,
            **({} if self.n_jobs is None else {"nthread": self.n_jobs}),
            **(self.params or {}),
        }
        stop: dict[str, Any] = {}
        if held_out is not None:
            rows = held_out
            early = xgboost.callback.EarlyStopping(rounds=self.n_iter_no_change, metric_name="accuracy", maximize=True)
            stop = {
                "evals": [(xgboost.DMatrix(rows.X, nthread=self.n_jobs), "held_out")],
                "custom_metric": lambda raw, data: ("accuracy", self._accuracy(raw, rows)),
                "callbacks": [early],
                "verbose_eval": False,
            }
        self.booster_ = xgboost.train(
            params,
            xgboost.DMatrix(train.X, weight=train.weight, nthread=self.n_jobs),  # weights for the bins alone
            self.n_estimators,
            obj=lambda raw, data: self._objective(raw, train),
            **stop,
        )
        return int(self.booster_.best_iteration) + 1 if held_out is not None else self.n_estimators

    def _raw_margins(self, X: Any) -> FloatArray:
        rows = xgboost.DMatrix(X, nthread=self.n_jobs)
        raw = self.booster_.predict(rows, output_margin=True, iteration_range=(0, self.n_iter_))
        return np.asarray(raw, dtype=np.float64)
