"""What a model predicts for the rows of a validation set, read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mgce._validation import expected

Predict = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]  # from a model and a batch to logits (n, k) and labels (n,)


@dataclass(frozen=True)
class Epoch:
    """What an epoch of training reached: shares of given labels that are predicted.

    Attributes:
        network: of the validation rows, by the network as it is.
        average: of the validation rows, by the average of the weights.
        training: of the training rows, by the network while it trained; NaN if no predictions were given.
    """

    network: float
    average: float
    training: float


@dataclass(frozen=True)
class Predicted:
    """What a model predicts for n validation rows.

    Attributes:
        target: the given labels, shape (n,).
        predicted: the predicted classes, shape (n,).
        margin: the largest logit minus the second largest, shape (n,): the model's confidence, whatever its link.
        num_classes: number of classes.
    """

    target: Tensor
    predicted: Tensor
    margin: Tensor
    num_classes: int

    @property
    def right(self) -> Tensor:
        """Whether the given label is predicted, shape (n,)."""
        return self.predicted == self.target


@torch.inference_mode()
def predictions(model: nn.Module, validation: Iterable[Any], predict: Predict, ignored: int) -> Predicted:
    """Return what a model, in evaluation mode, predicts for the labelled rows of a validation set; restore its mode.

    Args:
        model: the model, every part of which may be in another mode.
        validation: batches, in the same order each time.
        predict: function from the model and a batch to logits (n, k) and labels (n,).
        ignored: the label of rows that have none, and are left out.
    """
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        batches = [_of_logits(*predict(model, batch), ignored) for batch in validation]
    finally:
        for part, mode in modes:
            part.training = mode
    if not sum(len(batch.target) for batch in batches):
        raise ValueError(expected("validation", f"batches with labels other than {ignored}, which is ignored", "none"))
    target, predicted, margin = (
        torch.cat([getattr(batch, name) for batch in batches]).clone() for name in ("target", "predicted", "margin")
    )
    return Predicted(target, predicted, margin, batches[0].num_classes)


def of_batch(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """Return the logits and labels of a batch: inputs, labels, ...; or, of Hugging Face, a mapping with `labels`.

    For a mapping, a model returns what the Trainer accepts: a mapping with `logits`, or a tuple that begins with them.
    """
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    if isinstance(batch, Mapping) and "labels" in batch:
        inputs = {name: value.to(device) for name, value in batch.items() if name != "labels"}
        outputs = model(**inputs)
        return outputs["logits"] if isinstance(outputs, Mapping) else outputs[0], batch["labels"]
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        what = "a tuple of inputs and labels, or a mapping with `labels`; else pass `predict`"
        raise TypeError(expected("batch", what, type(batch).__name__))
    return model(batch[0].to(device)), batch[1]


def _of_logits(logits: Tensor, target: Tensor, ignored: int) -> Predicted:
    """Return what the logits (n, k) of a batch predict for its rows with a label, on the CPU."""
    rows = target.to(logits.device) != ignored
    logits, target = logits[rows], target[rows.to(target.device)]
    top = logits.topk(min(2, logits.shape[1]), 1).values
    margin = top[:, 0] - top[:, -1]
    return Predicted(target.cpu(), logits.argmax(1).cpu(), margin.cpu(), logits.shape[1])
