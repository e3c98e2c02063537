"""Define a base class for the XGBoost and LightGBM classifiers: gradients, start margins, early stopping."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mgce.estimators.base import FloatArray, IntArray, RobustClassifier, check_single
from mgce.estimators.parameters import Interval, checked
from mgce.functional import worst_case_probs
from mgce.labels.out_of_fold import hold_out
from mgce.numerics.root import DEFAULT_BETA

# A leaf without weight would divide by zero; a millionth of a row is below anything that min_child_weight asks for.
LEAST_HESSIAN = 1e-6


def gradient_and_step(
    margins: FloatArray,  # (n, k)
    index: IntArray,  # (n,)
    weight: FloatArray | None,  # (n,)
    beta: float,
) -> tuple[FloatArray, FloatArray]:
    r"""Return the gradient of the MGCE loss in the margins, and a substitute for its second derivative.

    .. math:: g = w\,(p_\beta(f) - e_y), \qquad s = |g|

    f are the margins (logits) of a row, w its weight, p the worst-case probabilities, and e_y the one-hot label. Trees
    cannot use the second derivative itself. For beta < 2 it is unbounded near margins at which a class gets
    probability 0. For classes of probability 0 it is 0, even if one of them is the label. With s instead of the second
    derivative, a leaf moves a margin by at most 1, `-sum(g) / sum(|g|)`, times the learning rate.
    """
    g = worst_case_probs(torch.from_numpy(np.asarray(margins, dtype=np.float64)), beta=beta).numpy()
    g[np.arange(len(index)), index] -= 1
    if weight is not None:
        g *= weight[:, None]
    return g, np.maximum(np.abs(g), LEAST_HESSIAN)


def start_margins(shares: FloatArray, beta: float) -> FloatArray:
    r"""Return the constant margins (logits) that minimise the mean loss for the shares of the classes; 0 at beta = 1.

    .. math:: f_y = \beta \big(h_y^{1/\beta} - 1\big), \qquad h_y \propto (n_y / n)^{\beta / (\beta - 1)}

    Here n_y of the n rows are of class y. At these margins, the worst-case probabilities p equal the shares :math:`n_y
    / n`.
    """
    if beta == 1:  # where p is 1/m on a support of m classes, whatever the shares
        return np.zeros_like(shares)
    log_shares = np.log(shares)
    log_h = log_shares if np.isinf(beta) else log_shares * beta / (beta - 1)
    log_h = log_h - np.logaddexp.reduce(log_h)
    return np.asarray(log_h if np.isinf(beta) else beta * np.expm1(log_h / beta))


class Rows(NamedTuple):
    """Rows with labels and weights, either for training or for early stopping."""

    X: Any
    labels: IntArray  # positions in `classes_`
    weight: FloatArray


class BoostedClassifier(RobustClassifier):
    """Gradient-boosted trees with the MGCE loss; a subclass implements `_boost` and `_raw_margins`."""

    _sparse = True
    _finite: ClassVar[bool | str] = "allow-nan"
    _domains: ClassVar[dict[str, Any]] = {
        "beta": [Interval(Real, 1, closed="both")],
        "n_estimators": [Interval(Integral, 1)],
        "learning_rate": [Interval(Real, 0, closed="neither")],
        "min_child_weight": [Interval(Real, 0)],
        "class_weight": [dict, str, None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1)],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "params": [dict, None],
    }

    beta: float
    class_weight: Any
    start_: FloatArray  # (k,)
    n_iter_: int

    def __init__(
        self,
        beta: float = DEFAULT_BETA,
        *,
        n_estimators: int = 500,
        learning_rate: float = 0.03,
        min_child_weight: float = 5.0,
        class_weight: Any = None,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 30,
        n_jobs: int | None = None,
        random_state: Any = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.beta = beta
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.min_child_weight = min_child_weight
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.params = params

    @abstractmethod
    def _boost(self, train: Rows, held_out: Rows | None, seed: int) -> int:
        """Train and store the trees; return how many boosting rounds predictions are to use."""

    @abstractmethod
    def _raw_margins(self, X: Any) -> FloatArray:
        """Return the sum of the trees' values for each of n rows and k classes, shape (n, k)."""

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BoostedClassifier:
        """Fit boosted trees to rows in memory.

        Args:
            X: n rows of d features, shape (n, d), dense or sparse; NaN is a missing value.
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: weights of the rows, not negative, shape (n,); rows of weight 0 are left out.

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described, or features overflow float32.
        """
        X, index, weight, _ = self._sorted_training(X, y, sample_weight, self.class_weight)
        check_single(X)
        kept = np.flatnonzero(weight > 0)
        random_state = check_random_state(self.random_state)
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        train, held_out = self._split(kept, index, random_state)
        counts = np.bincount(index[train], weight[train], minlength=self.classes_.size)
        self.beta_ = float(self.beta)
        # A class that none of the rows trained on has gets the share of half a row, instead of a margin of -inf.
        counts = np.maximum(counts, 0.5 * weight[train].mean())
        self.start_ = start_margins(counts / counts.sum(), self.beta_)
        stop = Rows(X[held_out], index[held_out], weight[held_out]) if held_out.size else None
        self.n_iter_ = self._boost(Rows(X[train], index[train], weight[train]), stop, seed)
        return self

    def _split(
        self, rows: IntArray, index: IntArray, random_state: np.random.RandomState
    ) -> tuple[IntArray, NDArray[np.int64]]:
        """Return the rows to train on and the rows to hold out for early stopping, stratified by class if possible."""
        if not self.early_stopping:
            return rows, rows[:0]
        train, held_out = hold_out(rows, index[rows], self.validation_fraction, random_state)
        return np.sort(train), np.sort(held_out)

    def _objective(self, raw: Any, rows: Rows) -> tuple[FloatArray, FloatArray]:
        margins = np.asarray(raw, dtype=np.float64).reshape(len(rows.labels), -1) + self.start_
        return gradient_and_step(margins, rows.labels, rows.weight, self.beta_)

    def _accuracy(self, raw: Any, rows: Rows) -> float:
        margins = np.asarray(raw, dtype=np.float64).reshape(len(rows.labels), -1) + self.start_
        return float(np.average(margins.argmax(1) == rows.labels, weights=rows.weight))

    def _margins(self, X: Any) -> FloatArray:
        check_single(X)
        return self._raw_margins(X).reshape(X.shape[0], -1) + self.start_
