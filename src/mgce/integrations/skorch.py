"""Define a skorch classifier that computes probabilities by the link of its loss: `pip install skorch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import Tensor

from mgce._messages import expected
from mgce.loop.keeper import ModelKeeper
from mgce.losses.modules import MGCELoss
from mgce.losses.protocol import own_link


class MGCENet(NeuralNetClassifier):  # type: ignore[misc]
    r"""Train a `skorch.NeuralNetClassifier` with the MGCE loss, and compute probabilities by the link of the loss.

    .. math::
        \min_\theta \sum_i \ell_\beta(f(x_i; \theta), y_i), \qquad \text{predict\_proba}(x) = h_\beta(f(x; \theta))

    The link is the map from logits to probabilities that belongs to a loss. skorch itself applies softmax for
    `nn.CrossEntropyLoss`, and returns raw outputs for other losses. This class uses the link of the fitted criterion.
    So the link always has the `beta` of the loss: after `set_params(criterion__beta=)`, in a search, in a clone and
    after loading.

    Args:
        module: PyTorch module, as in skorch; its outputs are logits.
        criterion: class or instance of a loss with a `link`, :class:`mgce.MGCELoss` unless given.
        predict_nonlinearity: `"auto"` for the criterion's link; a function or None as in skorch.
        kwargs: every other argument of skorch: `criterion__beta`, `max_epochs`, `lr`, ...

    Raises:
        TypeError: at the first prediction, if `predict_nonlinearity` is `"auto"` and the criterion has no `link`.

    Example:
        >>> X, y = np.eye(2, dtype=np.float32).repeat(10, 0), np.arange(2).repeat(10)
        >>> net = MGCENet(torch.nn.Linear(2, 2), criterion__beta=1.4, lr=1.0, max_epochs=20, verbose=0).fit(X, y)
        >>> net.predict_proba(X[:1])
        array([[1., 0.]], dtype=float32)

    Reference: paper, equations (14) and (19).
    """

    def __init__(
        self, module: Any, *args: Any, criterion: Any = MGCELoss, predict_nonlinearity: Any = "auto", **kwargs: Any
    ) -> None:
        super().__init__(module, *args, criterion=criterion, predict_nonlinearity=predict_nonlinearity, **kwargs)

    def _get_predict_nonlinearity(self) -> Callable[[Tensor], Tensor]:
        """Return the function from logits to probabilities; skorch calls this method before each prediction."""
        self.check_is_fitted()
        if self.predict_nonlinearity != "auto":
            nonlinearity: Callable[[Tensor], Tensor] = super()._get_predict_nonlinearity()
            return nonlinearity
        link = own_link(self.criterion_)
        if link is None:
            what = "a loss with a `link`, as mgce.MGCELoss"
            raise TypeError(expected("criterion", what, type(self.criterion_).__name__))
        return link


class KeepBest(Callback):  # type: ignore[misc]
    r"""Let a :class:`mgce.ModelKeeper` watch a training by skorch; at the end, load the weights that were kept.

    .. math:: \bar\theta \leftarrow d\, \bar\theta + (1 - d)\, \theta \quad \text{after each step}

    theta are the weights of the network, :math:`\bar\theta` is their average, and d is the decay of `ModelKeeper`.

    The rows that `train_split` of the net sets aside are the noisy validation set.

    Attributes:
        keeper_: the keeper, after the training has begun.

    Raises:
        ValueError: if the net has no validation rows.

    Example:
        >>> import numpy as np
        >>> X, y = np.eye(2, dtype=np.float32).repeat(10, 0), np.arange(2).repeat(10)
        >>> net = MGCENet(torch.nn.Linear(2, 2), lr=1.0, callbacks=[("keep", KeepBest())], verbose=0).fit(X, y)
        >>> len(dict(net.callbacks_)["keep"].keeper_.epochs)
        10

    Reference: :class:`mgce.ModelKeeper`.
    """

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Construct a keeper of the net's module and criterion."""
        self.keeper_ = ModelKeeper(net.module_, net.criterion_)

    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool = False, y_pred: Any = None, **kwargs: Any
    ) -> None:
        """Update the average of the weights after a step of training."""
        if training:
            self.keeper_.step(y_pred, batch[1].to(y_pred.device))

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """Measure the network and the average of its weights on the validation rows."""
        if dataset_valid is None:
            raise ValueError(expected("train_split", "one that sets validation rows aside", None))
        self.keeper_.end_epoch(net.get_iterator(dataset_valid, training=False))

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Load the weights that were kept into the network."""
        if self.keeper_.epochs:
            net.module_.load_state_dict(self.keeper_.best().state_dict())
