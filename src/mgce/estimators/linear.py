r"""Define the linear MGCE classifier with an L1 penalty, for tables in memory or read in chunks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import column_or_1d
from torch import nn

from mgce._arrays import as_matrix, sorted_classes, with_intercept
from mgce._messages import expected
from mgce._row_order import content_order
from mgce.estimators.base import (
    FloatArray,
    IntArray,
    RobustClassifier,
    check_row_weights,
    class_factors,
    largest,
)
from mgce.estimators.parameters import Choice, Interval, checked
from mgce.estimators.stochastic import (
    AveragedAdaGrad,
    FeatureMoments,
    Rows,
    StreamedProblem,
    descend,
    measure,
    run_epoch,
)
from mgce.estimators.torch_modules import dense_layers
from mgce.linear import LinearFit, fit_linear
from mgce.linear.objective import QUICK, Size, interior_is_affordable, plan, trivial_value
from mgce.numerics.root import DEFAULT_BETA

LEAST_LAMBDA0 = 1e-3  # of "auto": chosen on tables with few features, where a larger one costs accuracy
MOST_LAMBDA0 = 0.06  # of "auto": more shrinks all coefficients of a table with few rows to zero


def automatic_lambda0(n_rows: float, n_classes: int, n_features: int) -> float:
    r"""Return the strength of the penalty that suits the size of a table: a rule of thumb, found by trial.

    .. math:: \lambda_0 = \max\big(10^{-3},\ \min(0.06,\ \min(1, (kd/n)^2) / \sqrt n)\big)

    The width `s / sqrt(n)` is one standard error of the mean feature of a class. A model with a coefficient for each
    row can fit wrong labels, and needs about this width: on 6,000 rows of 1,280 image features, with labels by people
    of which 42 % are wrong, accuracy was 75 % at 1/sqrt(n), and 46 % at 1e-3. On tables with few coefficients for
    each row this width would cost accuracy: on iris 14 points.

    Args:
        n_rows: n, the number of rows, or the sum of their weights.
        n_classes: k.
        n_features: d, with the feature 1 of the intercept.

    Example:
        >>> automatic_lambda0(150, 3, 5)
        0.001
        >>> round(automatic_lambda0(6000, 10, 1281), 4)
        0.0129
    """
    width = min(1.0, (n_classes * n_features / n_rows) ** 2) / math.sqrt(n_rows)
    return min(max(LEAST_LAMBDA0, width), MOST_LAMBDA0)


class MGCEClassifier(RobustClassifier):
    r"""Linear classifier that minimises the minimax generalized cross-entropy with an L1 penalty.

    .. math:: \min_\mu\; \sum_i w_i\, \ell_\beta(\mu\,\psi(x_i), y_i) + \lambda_0 \sum_j s_j |\mu_j|,
              \qquad \ell_\beta(f, y) = -f_y - \varphi_\beta(f)

    where psi(x) is x with a 1 appended, mu are the coefficients, phi is the normalizer of MGCE
    (:func:`mgce.functional.normalizer`), and w are the sample weights, scaled to sum to one. The array `e_y (x) psi(x)`
    has psi(x) in the row of class y and zeros elsewhere; s_j is the standard deviation of its coordinate j on the
    training data. So the penalty does not depend on the units of the features. It does depend on their origin: in a
    feature far from 0, such as a temperature in kelvin, the penalty suppresses differences. Put a StandardScaler in
    front, which also makes every solver faster.

    The problem is convex, and the loss of a mislabelled row grows at most linearly with its margin. For classes that no
    plane separates, put one of scikit-learn's transformers in front, such as RBFSampler or PolynomialFeatures.

    Args:
        beta: loss parameter in [1, inf]: 1 is the most robust, inf is cross-entropy.
        lambda0: strength of the penalty, not negative, or "auto" for :func:`automatic_lambda0` of the numbers of
            rows, classes and features. "auto" is 1e-3 where rows are many, about as strong as the L1 penalty of
            scikit-learn's LogisticRegression at C = 1 on 1,000 rows. Where coefficients are as many as rows, "auto" is
            1/sqrt(n), at most 0.06: with less, a linear model fits most wrong labels. "auto" is a rule of thumb, which
            looks neither at the noise nor at the classes: scikit-learn's GridSearchCV chooses by cross-validation.
            The paper uses 1e-5, which hardly regularises.
        fit_intercept: whether to append the 1 to x; its coefficients are penalised like all others.
        class_weight: None, "balanced", or a dict of factors for classes, finite and not negative.
        solver: "lbfgs"; "interior" (an interior-point method, exact, for small problems); "lp" (a linear program,
            beta = 1 only); "sgd" (stochastic, as in `partial_fit` and `fit_chunks`); or "auto", which chooses another
            solver than "sgd" by the size of the problem. "lbfgs" minimises with a beta of at least 1.02, since the
            objective gets kinks as beta approaches 1.
        tol: duality gap to reach, as a share of the objective at mu = 0, `beta (1 - k^(-1/beta))`. "lbfgs" also stops
            if ten iterations together lower the objective by less than a tenth of this gap, "sgd" if each of five
            epochs in a row lowers it by less than this gap.
        max_iter: largest number of iterations, or of epochs for "sgd".
        warm_start: whether `fit` starts from the coefficients of the last fit, if classes and features are the same.
        random_state: seed of the order of rows in "sgd".

    Attributes:
        classes_: the labels of the k classes, shape (k,).
        coef_, intercept_: the coefficients mu, shapes (k, d) and (k,), for two classes too.
        beta_, lambda0_: the `beta` and the strength of the penalty of the last fit.
        minimax_risk_: the objective that was reached. It is the paper's minimax risk for lambda = `lambda_0 s`. This
            lambda is a heuristic, so the value can be below the true risk: it is no certificate. See :meth:`certify`
            and :func:`mgce.risk.minimax_risk`.
        duality_gap_: upper bound on `minimax_risk_` minus the least objective; inf if no bound was found.
        n_iter_: iterations, or epochs for "sgd".
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCEClassifier().fit(X, y)
        >>> round(clf.score(X, y), 2)
        0.97
        >>> clf.predict_proba(X[:1]).round(2)
        array([[1., 0., 0.]])

    Reference: paper, equations (11) to (14).
    """

    _sparse = True
    _domains: ClassVar[dict[str, Any]] = {
        "beta": [Interval(Real, 1, closed="both")],
        "lambda0": [Interval(Real, 0), Choice({"auto"})],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, Choice({"balanced"}), None],
        "solver": [Choice({"auto", "lbfgs", "interior", "lp", "sgd"})],
        "tol": [Interval(Real, 0)],
        "max_iter": [Interval(Integral, 1)],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
    }

    coef_: FloatArray
    intercept_: FloatArray
    lambda0_: float
    minimax_risk_: float
    duality_gap_: float
    n_iter_: int

    def __init__(
        self,
        beta: float = DEFAULT_BETA,
        *,
        lambda0: float | str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.beta = beta
        self.lambda0 = lambda0
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEClassifier:
        """Fit the coefficients to rows in memory.

        Args:
            X: n rows of d features, shape (n, d), dense or sparse. Sparse rows stay sparse, except with the solver
                "interior".
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: weight of each row, not negative, shape (n,).

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        if self.solver == "sgd":
            self.fit_chunks([self._sorted_chunk(X, y, sample_weight)])
            return self
        earlier = self._earlier()
        X, index, weight, _ = self._sorted_training(X, y, sample_weight, self.class_weight)
        _check_squares(X, weight)
        rows: Rows = with_intercept(as_matrix(X, "X"), self.fit_intercept), index, weight
        if interior_is_affordable(self._size(rows), QUICK):
            rows = merge_equal_rows(*rows)
        stats = FeatureMoments.empty(self.classes_.size, rows[0].shape[1])
        stats.add(*rows)
        l1 = self._penalty(stats)
        fit = self._minimise(rows, l1, self._start(earlier, l1.shape))
        self._store(fit.coef)
        self._report(fit.value, fit.gap, fit.n_iter, fit.converged or fit.stalled)
        return self

    @checked
    def fit_chunks(self, chunks: Iterable[tuple[Any, ...]]) -> MGCEClassifier:
        """Fit the coefficients to rows that are read in chunks, with the stochastic solver, whatever `solver` is.

        Only one chunk is in memory at a time. A first pass over the chunks finds the classes and the standard
        deviations s. Each later pass is one epoch of stochastic gradient descent, with the rows of each chunk in a new
        random order. Two final passes compute the objective and its duality gap.

        Args:
            chunks: tuples (X, y) or (X, y, sample_weight) of arrays as for :meth:`fit`; an iterable that can be
                iterated several times, such as a list or an object whose `__iter__` opens the files anew.

        Returns:
            self.

        Raises:
            ValueError: if `chunks` can be iterated only once, or a chunk is not as described.

        Example:
            >>> from sklearn.datasets import load_iris
            >>> X, y = load_iris(return_X_y=True)
            >>> clf = MGCEClassifier(random_state=0).fit_chunks([(X[::2], y[::2]), (X[1::2], y[1::2])])
            >>> clf.score(X, y) > 0.9
            True
        """
        if iter(chunks) is chunks:
            what = "an iterable that can be iterated several times, such as a list"
            raise ValueError(expected("chunks", what, type(chunks).__name__))
        earlier = self._earlier()
        self._find_classes(chunks)
        stats = self._collect_moments(chunks)
        factors = class_factors(self.class_weight, self.classes_, stats.weight)
        stats = stats.scaled(factors)
        l1, beta = self._penalty(stats), float(self.beta)

        def read() -> Iterator[Rows]:
            for psi, index, weight in self._read(chunks):
                yield psi, index, weight * factors[index]

        solver = AveragedAdaGrad.start(self._start(earlier, l1.shape))
        aim = self.tol * trivial_value(self.classes_.size, beta)
        problem = StreamedProblem(stats, beta, l1)
        random_state = check_random_state(self.random_state)
        n_iter, stopped = descend(solver, read, problem, aim=aim, max_iter=self.max_iter, random_state=random_state)
        value, lower = measure(solver.average, read, problem)
        self._store(solver.average)
        self._report(value, value - lower, n_iter, stopped)
        return self

    @checked
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> MGCEClassifier:
        """Run stochastic gradient descent once over a batch of rows, in the given order, and average all iterates.

        The penalty uses the standard deviations s of the rows seen so far. After a `fit`, the descent continues from
        the fitted coefficients. The attributes `minimax_risk_`, `duality_gap_` and `n_iter_` are removed, since one
        pass does not measure them.

        Args:
            X: n rows of d features, shape (n, d).
            y: labels, shape (n,).
            classes: all labels that this or a later batch can have, shape (k,); required in the first call.
            sample_weight: weight of each row, not negative, shape (n,).

        Returns:
            self.

        Raises:
            ValueError: if `classes` is missing in the first call, or the data or a parameter are not as described.
        """
        if self.class_weight == "balanced":
            what = "None or a dict for `partial_fit`, which does not know how often classes will come"
            raise ValueError(expected("class_weight", what, self.class_weight))
        first = self._begun(classes)
        psi, index, weight = self._checked_rows(X, y, sample_weight, reset=first)
        shape = self.classes_.size, psi.shape[1]
        weight = weight * class_factors(self.class_weight, self.classes_, np.ones(shape[0]))[index]
        if not hasattr(self, "_online"):
            start = np.zeros(shape) if first else self._mu()
            self._online = (FeatureMoments.empty(*shape), AveragedAdaGrad.start(start))
        stats, solver = self._online
        stats.add(psi, index, weight)
        problem = StreamedProblem(stats, float(self.beta), self._penalty(stats))
        run_epoch(solver, (psi, index, weight), np.arange(index.size), problem)
        self._set_coef(solver.average)
        for name in ("minimax_risk_", "duality_gap_", "n_iter_"):
            self.__dict__.pop(name, None)
        return self

    def _margin_modules(self) -> list[nn.Module]:
        return dense_layers([(self.coef_, self.intercept_)])

    def _margins(self, X: Any) -> NDArray[np.floating[Any]]:
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _sorted_chunk(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Return all rows as one chunk, sorted by content; X keeps its feature names if it has any."""
        checked, labels = self._validated(X, y)
        chunk = [X, labels]
        if sample_weight is not None:
            chunk.append(check_row_weights(sample_weight, checked))
        order = content_order(checked, *chunk[1:])
        by_name = X.iloc[order] if hasattr(X, "iloc") else X[order] if hasattr(X, "columns") else checked[order]
        return (by_name, *(part[order] for part in chunk[1:]))

    def _begun(self, classes: Any) -> bool:
        """Return whether this is the first call of `partial_fit`, and set `classes_` if it is."""
        known = getattr(self, "classes_", None)
        if classes is None:
            if known is None:
                raise ValueError(expected("classes", "given in the first call of `partial_fit`", classes))
            return False
        if known is None:
            self.classes_ = unique_labels(classes)
            return True
        if not np.array_equal(known, unique_labels(classes)):
            raise ValueError(expected("classes", f"those of the first call, {known}", classes))
        return False

    def _minimise(self, rows: Rows, lambda_: FloatArray, start: FloatArray) -> LinearFit:
        psi, index, weight = rows
        methods = plan(self._size(rows), self.beta, QUICK) if self.solver == "auto" else self.solver
        return fit_linear(
            psi, labels=index, n_classes=self.classes_.size, sample_weight=weight, beta=float(self.beta),
            lambda_=lambda_, mu0=start, tol=self.tol, max_iter=self.max_iter, method=methods,
        )  # fmt: skip

    def _penalty(self, stats: FeatureMoments) -> FloatArray:
        """Return the weights (k, d) of the L1 penalty, and set `lambda0_`."""
        k, d = stats.first.shape
        automatic = self.lambda0 == "auto"
        self.lambda0_ = automatic_lambda0(stats.effective_rows, k, d) if automatic else float(self.lambda0)
        return self.lambda0_ * stats.deviation

    def _size(self, rows: Rows) -> Size:
        (n, d), k = rows[0].shape, self.classes_.size
        free = d if self.lambda0 == 0 else int(self.fit_intercept)  # columns whose coefficients have no penalty
        return Size(n, k, d, k * free)

    def _earlier(self) -> tuple[NDArray[Any], FloatArray] | None:
        """Return the classes and coefficients for a warm start, or None; call this before `fit` replaces them."""
        return (self.classes_, self._mu()) if self.warm_start and hasattr(self, "coef_") else None

    def _start(self, earlier: tuple[NDArray[Any], FloatArray] | None, shape: tuple[int, ...]) -> FloatArray:
        if earlier is not None and np.array_equal(earlier[0], self.classes_) and earlier[1].shape == shape:
            return earlier[1]
        return np.zeros(shape)

    def _mu(self) -> FloatArray:
        return np.hstack([self.coef_, self.intercept_[:, None]]) if self.fit_intercept else self.coef_.copy()

    def _set_coef(self, mu: FloatArray) -> None:
        d = self.n_features_in_
        self.coef_ = mu[:, :d].copy()
        self.intercept_ = mu[:, d].copy() if self.fit_intercept else np.zeros(len(mu))
        self.beta_ = float(self.beta)

    def _store(self, mu: FloatArray) -> None:
        self._set_coef(mu)
        self.__dict__.pop("_online", None)

    def _report(self, value: float, gap: float, n_iter: int, converged: bool) -> None:
        self.minimax_risk_, self.duality_gap_, self.n_iter_ = value, gap, n_iter
        if not converged:
            text = f"The objective could still fall after {n_iter} iterations; raise `max_iter`, or scale the features."
            warnings.warn(text, ConvergenceWarning, stacklevel=3)

    def _checked_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        X, y = self._validated(X, y, reset=reset, dtype=np.float64)
        weight = check_row_weights(sample_weight, X)
        _check_squares(X, weight)
        return with_intercept(X, self.fit_intercept), self._label_indices(y, X.shape[0]), weight

    def _find_classes(self, chunks: Iterable[tuple[Any, ...]]) -> None:
        labels = [
            np.unique(check_array(column_or_1d(chunk[1], warn=True), ensure_2d=False, dtype=None, input_name="y"))
            for chunk in chunks
        ]
        if not labels:
            raise ValueError(expected("chunks", "at least one chunk", "none"))
        self.classes_, _ = sorted_classes(np.concatenate(labels))

    def _read(self, chunks: Iterable[tuple[Any, ...]], *, reset: bool = False) -> Iterator[Rows]:
        for number, (X, y, *weight) in enumerate(chunks):
            yield self._checked_rows(X, y, weight[0] if weight else None, reset=reset and number == 0)

    def _collect_moments(self, chunks: Iterable[tuple[Any, ...]]) -> FeatureMoments:
        stats = None
        for psi, index, weight in self._read(chunks, reset=True):
            stats = stats or FeatureMoments.empty(self.classes_.size, psi.shape[1])
            stats.add(psi, index, weight)
        assert stats is not None
        return stats


def _check_squares(X: Any, weight: FloatArray) -> None:
    """Require rows (n, d) whose weighted squares have a finite sum: the penalty uses their standard deviations."""
    limit = math.sqrt(np.finfo(np.float64).max / max(1.0, weight.sum()))
    value = largest(X)
    if abs(value) > limit:
        what = f"of values in ±{limit:.2g}, whose weighted squares float64 can sum"
        raise ValueError(expected("X", what, value))


def merge_equal_rows(psi: Any, index: IntArray, weight: FloatArray) -> Rows:
    """Sort the rows, and merge equal rows into one row with the sum of their weights.

    So the result of a fit does not depend, to the last digit, on the order of the rows. Nor does it depend on whether a
    row occurs twice or once with twice the weight.
    """
    psi = psi if isinstance(psi, np.ndarray) else psi.toarray()
    kept = weight > 0
    table, inverse = np.unique(np.column_stack([index, psi])[kept], axis=0, return_inverse=True)
    total = np.bincount(inverse.ravel(), weight[kept]).astype(np.float64)
    return np.ascontiguousarray(table[:, 1:]), table[:, 0].astype(np.int64), total
