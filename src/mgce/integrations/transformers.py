"""Use MGCE losses in the Trainer of Hugging Face, and make pipelines with MGCE probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    ImageClassificationPipeline,
    Pipeline,
    TextClassificationPipeline,
    TokenClassificationPipeline,
    TrainerCallback,
)
from transformers import pipeline as make_pipeline

from mgce._messages import check_choice, expected
from mgce.loop.keeper import ModelKeeper
from mgce.losses.modules import MGCELoss, MinimaxLink
from mgce.losses.protocol import evaluating, ignore_index_of, with_reduction

TASKS = ("sequence", "token", "causal_lm")


class TrainerLoss(nn.Module):
    r"""A loss for `Trainer(compute_loss_func=...)`: the mean over all labels that are not ignored.

    .. math:: \frac{1}{n} \sum_{i:\, y_i \ne \text{ignored}} \ell_\beta(f_i, y_i)

    The Trainer passes n, the number of labels in all batches that one step accumulates. So a step does not depend on
    how its rows are split into batches. If the Trainer does not pass n, it is the number of labels in the batch. Rows
    that :class:`mgce.TrimmedLoss` trims add nothing to the sum, but are included in n.

    The Trainer sets only its model to evaluation mode, never the loss. So this class uses the loss in evaluation mode
    if gradients are disabled, as in the Trainer's evaluation, or after `eval()`. In evaluation mode
    :class:`mgce.TrimmedLoss` trims no rows and does not record their losses.

    Args:
        criterion: :class:`mgce.MGCELoss`, another loss of this package or of PyTorch, or a module whose attribute
            `reduction` works as in PyTorch. A copy is used, with `reduction="none"` in all its parts; it shares
            parameters and buffers. Read what the loss learns, such as the matrix of
            :class:`mgce.LearnedForwardCorrection`, from the attribute `criterion`, not from your module. Class weights
            multiply the terms of the sum but do not change n, as in the Trainer.
        task: what is classified, for N sequences, T tokens and C classes: `"sequence"`, logits (N, C) and labels (N,);
            `"token"`, logits (N, T, C) and labels (N, T); or `"causal_lm"`, the shapes of `"token"`, where the logits
            at a position are for the token after it.

    Raises:
        TypeError, ValueError: if an argument is not one of those above, or, when called, if there are no labels.

    Example:
        >>> from transformers.modeling_outputs import TokenClassifierOutput
        >>> outputs = TokenClassifierOutput(logits=torch.tensor([[[2.0, 0.0], [0.0, 0.5]]]))
        >>> TrainerLoss(MGCELoss(beta=2.0), "token")(outputs, torch.tensor([[0, 0]]), num_items_in_batch=4)
        tensor(0.2145)

    Reference: paper, equation (19).
    """

    def __init__(self, criterion: nn.Module | None = None, task: str = "sequence") -> None:
        super().__init__()
        check_choice("task", task, TASKS)
        self.criterion = with_reduction(MGCELoss() if criterion is None else criterion, "none", "criterion")
        self.task = task

    def forward(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """Return the loss of a model's outputs for the given labels."""
        if labels is None:
            raise ValueError(expected("labels", "in every batch, named 'labels' or as `label_names` says", None))
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if self.task == "causal_lm":
            logits, labels = logits[..., :-1, :], labels[..., 1:]
        labels = labels.reshape(-1).to(logits.device)
        trains = self.training and torch.is_grad_enabled()
        with nullcontext() if trains else evaluating(self.criterion):
            # In float32, like the losses of transformers: a half type would lose digits in a sum over many tokens.
            losses: Tensor = self.criterion(logits.reshape(-1, logits.shape[-1]).float(), labels)
        if losses.shape != labels.shape:
            what = f"a loss that gives one number for each of {len(labels)} labels"
            raise ValueError(expected("criterion", what, tuple(losses.shape)))
        n: Tensor | int
        if num_items_in_batch is None:
            n = (labels != ignore_index_of(self.criterion)).sum()
        else:
            n = num_items_in_batch.to(losses.device) if isinstance(num_items_in_batch, Tensor) else num_items_in_batch
        return losses.sum() / n


class _Linked:
    """Mixin for a pipeline: replace logits by the log of the link's probabilities, so that softmax returns these."""

    link: nn.Module
    model: Any

    def _forward(self, model_inputs: Any, **options: Any) -> Any:
        outputs = super()._forward(model_inputs, **options)  # type: ignore[misc]
        logits = outputs["logits"].float()
        probs = self.link(logits.flatten(0, -2)).view_as(logits)  # a link of a loss has the classes in dimension 1
        outputs["logits"] = probs.log()  # -inf for a class of probability 0
        return outputs


class LinkedTextClassification(_Linked, TextClassificationPipeline):  # type: ignore[misc]
    """A pipeline for text classification whose scores are the probabilities of `link`."""


class LinkedTokenClassification(_Linked, TokenClassificationPipeline):  # type: ignore[misc]
    """A pipeline for token classification whose scores are the probabilities of `link`."""


class LinkedImageClassification(_Linked, ImageClassificationPipeline):  # type: ignore[misc]
    """A pipeline for image classification whose scores are the probabilities of `link`."""


PIPELINES = {
    "text-classification": LinkedTextClassification,
    "token-classification": LinkedTokenClassification,
    "image-classification": LinkedImageClassification,
}


def pipeline(task: str, link: nn.Module | None = None, **kwargs: Any) -> Pipeline:
    r"""Make a transformers pipeline whose scores are the probabilities of an MGCE link instead of softmax.

    .. math:: \text{score}_y = h_\beta(f)_y

    The link is the map from logits to probabilities that belongs to a loss. The pipelines of transformers always apply
    softmax, the link of cross-entropy. The pipelines made here replace the logits by the logarithms of the link's
    probabilities. Softmax then returns these probabilities.

    Args:
        task: `"text-classification"`, `"token-classification"` or `"image-classification"`.
        link: the link of the loss that the model was trained with, :class:`mgce.losses.MinimaxLink` or
            `criterion.link`; None for MinimaxLink with the default `beta`.
        kwargs: every other argument of `transformers.pipeline`: `model`, `tokenizer`, ... Leave `function_to_apply`
            as it is.

    Returns:
        The pipeline.

    Raises:
        ValueError: if `task` is not one of those above.

    Example:
        >>> pipeline("summarization")
        Traceback (most recent call last):
        ValueError: Expected `task` to be one of 'text-classification', 'token-classification', ...

    Reference: paper, equation (14).
    """
    check_choice("task", task, tuple(PIPELINES))
    linked: Any = make_pipeline(task, pipeline_class=PIPELINES[task], **kwargs)
    linked.link = MinimaxLink() if link is None else link
    return linked


class KeepBest(TrainerCallback):  # type: ignore[misc]
    r"""Let a :class:`mgce.ModelKeeper` watch a training by the Trainer.

    .. math:: \bar\theta \leftarrow d\, \bar\theta + (1 - d)\, \theta \quad \text{after each step}

    theta are the weights of the model, :math:`\bar\theta` is their average, and d is the decay of `ModelKeeper`.
    After each epoch the model and the average of its weights predict the labels of the validation rows.
    `keeper.best()` is the model that was kept.

    Args:
        keeper: a keeper of the model and its criterion.
        validation: batches of the noisy validation set, mappings with `labels`: `trainer.get_eval_dataloader()`. The
            trainer must exist first, so add this callback by `trainer.add_callback`.

    Example:
        >>> keeper = ModelKeeper(nn.Linear(2, 2), nn.CrossEntropyLoss())
        >>> callback = KeepBest(keeper, [])  # trainer.add_callback(KeepBest(keeper, trainer.get_eval_dataloader()))
        >>> print(callback.keeper)
        Nothing is kept before the first epoch has ended.

    Reference: :class:`mgce.ModelKeeper`.
    """

    def __init__(self, keeper: ModelKeeper, validation: Iterable[Any]) -> None:
        self.keeper, self.validation = keeper, validation

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Update the average of the weights."""
        self.keeper.step()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the model and the average of its weights on the validation rows."""
        self.keeper.end_epoch(self.validation)
