r"""Define a multilayer perceptron for tables that is trained with the MGCE loss, for several betas at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import nn

from mgce._validation import check_beta, check_device, expected, not_installed
from mgce.estimators.base import FloatArray, IntArray, RobustClassifier, check_single
from mgce.estimators.linear_cv import BETAS
from mgce.estimators.parameters import Choice, Interval, checked
from mgce.estimators.torch_modules import dense_layers
from mgce.labels.out_of_fold import hold_out
from mgce.numerics.root import DEFAULT_BETA
from mgce.training.ensemble import EnsembleFit, fit_ensemble
from mgce.training.member_losses import MemberLoss
from mgce.training.settings import TrainingSettings


class MGCEMLPClassifier(RobustClassifier):
    r"""Multilayer perceptron with rectified units that minimises the minimax generalized cross-entropy.

    .. math:: \min_\mu\; \sum_i w_i\, \ell_\beta(f(x_i; \mu), y_i) + \lambda_0 \lVert W_L \rVert_1,
              \qquad \ell_\beta(f, y) = -f_y - \varphi_\beta(f)

    where mu are the weights of the network, f its margins (logits), phi the normalizer of MGCE, w the sample weights
    scaled to sum to one, and W_L the weights of the last layer. A share of the rows is held out for validation. The
    fitted network has the weights of the epoch with the best validation accuracy; among epochs with the same accuracy,
    of the one with the least validation loss. Held-out labels may be wrong too: labels that are wrong at random lower
    the accuracy of every epoch alike.

    With `beta="cv"`, one network is trained for each candidate in `betas`. All are trained at once in one batched
    model, from the same initial weights and on the same batches. The network with the best validation accuracy is kept;
    among equals, the first in `betas`. It is not trained again on all rows, since no rows would be left to choose the
    epoch.

    Training is in float32. Features should be of order one: put a StandardScaler in front.

    Args:
        hidden_layer_sizes: units of each hidden layer.
        beta: loss parameter in [1, inf]: 1 is the most robust, inf is cross-entropy; or "cv".
        betas: candidates for "cv", each in [1, inf]; eight from 1.05 to 11 by default, as in the paper.
        l1: strength lambda_0 of the L1 penalty, not negative.
        class_weight: None, "balanced", or a dict of factors for classes, finite and not negative.
        solver: "adam", or "sgd" as in the paper.
        batch_size: number of rows in a training step.
        learning_rate_init: learning rate; the paper uses 0.001 with "sgd".
        momentum: momentum of the solver "sgd".
        max_iter: largest number of epochs; the paper uses 150.
        early_stopping: whether to hold out rows, and to stop once `n_iter_no_change` epochs in a row have not improved
            on them. Otherwise training runs for `max_iter` epochs, and rows are held out only for `beta="cv"`.
        validation_fraction: share of the rows to hold out, in (0, 1); the same share of every class, unless a class has
            too few rows for that.
        n_iter_no_change: see `early_stopping`.
        random_state: seed of the held-out rows, the initial weights and the order of rows.
        device: device to train on, as a PyTorch device string. The fitted estimator holds arrays and needs no device.
        verbose: whether to show a progress bar, which needs the library rich.

    Attributes:
        classes_: the labels of the k classes, shape (k,).
        beta_: the beta of the network that was kept.
        coefs_, intercepts_: weights of shape (fan-in, fan-out) and (fan-out,) for each layer, float32.
        n_iter_: epochs that the network was trained for.
        best_iter_: the epoch whose weights were kept, from 1.
        loss_curve_: training objective by epoch, averaged over its steps, shape (`n_iter_`,). It bounds no error.
        validation_scores_: accuracy of the network on the held-out rows by epoch, shape (`n_iter_`,); None if no rows
            were held out.
        scores_: best validation accuracy of each of the candidates, shape (len(betas),); None unless `beta="cv"`.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCEMLPClassifier(beta="cv", betas=(1.4, 5.0), random_state=0).fit(X, y)
        >>> clf.beta_, clf.scores_, round(clf.score(X, y), 2)
        (1.4, array([1., 1.]), 0.96)

    Reference: paper, equation (19) and the appendix on tabular data.
    """

    _domains: ClassVar[dict[str, Any]] = {
        "hidden_layer_sizes": ["array-like"],
        "beta": [Interval(Real, 1, None, closed="both"), Choice({"cv"})],
        "betas": ["array-like"],
        "l1": [Interval(Real, 0, None, closed="left")],
        "class_weight": [dict, Choice({"balanced"}), None],
        "solver": [Choice({"adam", "sgd"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "device": [str],
        "verbose": ["boolean"],
    }

    coefs_: list[NDArray[np.float32]]
    intercepts_: list[NDArray[np.float32]]
    n_iter_: int
    best_iter_: int
    loss_curve_: FloatArray
    validation_scores_: FloatArray | None
    scores_: FloatArray | None

    def __init__(
        self,
        hidden_layer_sizes: Any = (1024,),
        beta: float | str = DEFAULT_BETA,
        *,
        betas: Any = BETAS,
        l1: float = 1e-5,
        class_weight: Any = None,
        solver: str = "adam",
        batch_size: int = 128,
        learning_rate_init: float = 1e-3,
        momentum: float = 0.9,
        max_iter: int = 200,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        random_state: Any = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.beta = beta
        self.betas = betas
        self.l1 = l1
        self.class_weight = class_weight
        self.solver = solver
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.momentum = momentum
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEMLPClassifier:
        """Train the network on rows in memory.

        Args:
            X: n rows of d features, shape (n, d).
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: weight of each row, not negative, shape (n,); rows of weight 0 are left out. The validation
                accuracy ignores the weights.

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described, or the weights of the network overflow
                float32.
        """
        settings, betas = self._settings(), self._candidates()
        check_device(self.device)
        X, index, weight, _ = self._sorted_training(X, y, sample_weight, self.class_weight)
        X, index, weight = _single(X)[weight > 0], index[weight > 0], weight[weight > 0]
        random_state = check_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(random_state.randint(np.iinfo(np.int32).max)))
        train, held_out = self._split(index, random_state)

        def group(rows: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
            return self._tensor(X[rows]), self._tensor(index[rows])

        with _progress(self.verbose, self.max_iter) as on_epoch:
            fit = fit_ensemble(
                *group(train),
                [MemberLoss("mgce", beta) for beta in betas],
                settings,
                num_classes=self.classes_.size,
                validation=group(held_out) if held_out.size else None,
                sample_weight=self._tensor((weight[train] / weight[train].mean()).astype(np.float32)),
                generators=[generator],
                on_epoch=on_epoch,
            )
        self._keep(fit, betas)
        return self

    def _settings(self) -> TrainingSettings:
        return TrainingSettings(
            hidden_layer_sizes=tuple(int(units) for units in np.atleast_1d(self.hidden_layer_sizes)),
            epochs=self.max_iter,
            batch_size=self.batch_size,
            optimizer=self.solver,
            lr=self.learning_rate_init,
            momentum=self.momentum,
            l1=self.l1,
            ties="loss",
            n_iter_no_change=self.n_iter_no_change if self.early_stopping else None,
        )

    def _candidates(self) -> list[float]:
        betas = [float(beta) for beta in (self.betas if self.beta == "cv" else [self.beta])]
        if not betas:
            raise ValueError(expected("betas", "one or more values in [1, inf]", self.betas))
        for beta in betas:
            check_beta(beta)
        return betas

    def _split(self, index: IntArray, random_state: np.random.RandomState) -> tuple[IntArray, IntArray]:
        """Return the rows to train on and the rows to hold out: none if neither an epoch nor a beta is selected."""
        rows = np.arange(index.size)
        if not self.early_stopping and self.beta != "cv":
            return rows, rows[:0]
        return hold_out(rows, index, self.validation_fraction, random_state)

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        """Return values as a tensor on the device, with a first dimension of size 1 for the one group of networks."""
        return torch.from_numpy(values).to(self.device).unsqueeze(0)

    def _keep(self, fit: EnsembleFit, betas: list[float]) -> None:
        """Set the fitted attributes from the network with the best validation accuracy."""
        curves = fit.curves.get("validation")
        best = np.zeros(1) if curves is None else np.nanmax(curves[:, 0].cpu().numpy(), axis=0)
        member = int(best.argmax())
        self.beta_ = betas[member]
        self.scores_ = best.astype(np.float64) if self.beta == "cv" else None
        self.best_iter_ = int(fit.best_epoch[0, member]) + 1
        objective = fit.objective[:, 0, member].double().cpu().numpy()
        self.n_iter_ = int(np.count_nonzero(~np.isnan(objective)))
        self.loss_curve_ = objective[: self.n_iter_]
        self.validation_scores_ = None if curves is None else curves[: self.n_iter_, 0, member].double().cpu().numpy()
        self.coefs_ = [weight[member].detach().cpu().numpy() for weight in fit.model.weights]
        self.intercepts_ = [bias[member, 0].detach().cpu().numpy() for bias in fit.model.biases]
        if not all(np.isfinite(values).all() for values in (*self.coefs_, *self.intercepts_)):
            what = "such that training converges (a StandardScaler in front may help too)"
            raise ValueError(expected("learning_rate_init", what, self.learning_rate_init))

    def _margin_modules(self) -> list[nn.Module]:
        return dense_layers((weight.T, bias) for weight, bias in zip(self.coefs_, self.intercepts_, strict=True))

    def _margins(self, X: Any) -> FloatArray:
        outputs: FloatArray = np.asarray(X, dtype=np.float64)
        for depth, (weight, bias) in enumerate(zip(self.coefs_, self.intercepts_, strict=True)):
            # In float64: the seventh digit of a float32 product depends on how many rows are multiplied at once, and
            # the margins of a row would depend on the rows that it is predicted with.
            outputs = (np.maximum(outputs, 0) if depth else outputs) @ weight.astype(np.float64) + bias
        return outputs


def _single(X: NDArray[Any]) -> NDArray[np.float32]:
    check_single(X)
    return np.ascontiguousarray(X, dtype=np.float32)


@contextmanager
def _progress(verbose: bool, epochs: int) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar if `verbose`; yield the function that advances it."""
    if not verbose:
        yield None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError as error:
        if error.name != "rich":
            raise
        raise ImportError(not_installed("verbose=True needs", "rich", "cli")) from error
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("Training, epoch", total=epochs)
        yield lambda done: progress.update(task, completed=done)
