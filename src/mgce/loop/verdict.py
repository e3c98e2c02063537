"""Describe in numbers and in sentences how well a training predicts validation labels, and which may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mgce._messages import NAMED, expected, listed
from mgce._rounding import percent_up
from mgce.labels.choosing import mcnemar
from mgce.labels.share import ASSUMPTION, CLASS_DEPENDENT, NoiseKind, NoiseShare

Predict = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]  # from a model and a batch to logits (n, k) and labels (n,)


@dataclass(frozen=True)
class Epoch:
    """The shares of given labels that are predicted after an epoch of training.

    Attributes:
        network: share of the validation labels that the network predicts.
        average: share of the validation labels that the average of the weights predicts.
        training: share of the training labels that the network predicted in training; NaN if no logits were given.
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
    """Return what a model in evaluation mode predicts for the labelled validation rows; restore the model's mode.

    Args:
        model: the model; its parts may be in different modes.
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


# Of McNemar's test that the last epoch predicts fewer validation labels than the best one. The best epoch is the best
# of several, so later ones lose labels by chance too: the level is stricter than the usual 0.05 for that.
LEVEL = 0.01
# Of the test that the network is better than the average of its weights, which is better more often.
CHOICE_LEVEL = 0.05


@dataclass(frozen=True)
class Decline:
    """How many validation labels the network stopped predicting after its best epoch.

    Attributes:
        lost: number of validation rows whose label was predicted after the best epoch, and is not after the last one.
        gained: number of rows with the opposite change.
    """

    lost: int
    gained: int

    @property
    def p_value(self) -> float:
        """The probability of at least as many lost rows, if each changed row was as probably lost as gained.

        This is McNemar's exact test. It is nominal, since the best epoch is the best of several.
        """
        return mcnemar(self.lost, self.gained)

    @property
    def shown(self) -> bool:
        """Whether the decline is shown at the level 0.01."""
        return self.lost > self.gained and self.p_value < LEVEL


@dataclass(frozen=True)
class ClassRecall:
    """How often the label of one class is predicted, over the validation rows.

    Attributes:
        label: number of the class.
        rows: number of validation rows with this label, which may be wrong.
        predicted: number of these rows that are predicted as this class.
        named: number of all rows that are predicted as this class, whatever their label.
    """

    label: int
    rows: int
    predicted: int
    named: int

    @property
    def recall(self) -> float:
        """The share of the rows with this label that are predicted as this class."""
        return self.predicted / self.rows


@dataclass(frozen=True)
class Verdict:
    """How well a training predicts the labels of a validation set, in numbers. `print` says the numbers in sentences.

    Attributes:
        kept: which weights are kept: `"average"` or `"network"`.
        kept_epoch: the epoch whose weights are kept, counted from 1.
        kept_accuracy: the share of the validation labels that the kept weights predict.
        best_accuracy: the share that the network predicts at its best.
        epochs: the :class:`Epoch` of each epoch.
        decline: how many validation labels the network stopped predicting since its best epoch, and a p-value.
        recalls: how often the kept weights predict each class that is a label of some validation row, the least often
            first. A class with `named` = 0 is predicted for no row.
        noise_share: an upper bound on the share of wrong labels among the validation rows, by the kept weights: see
            :func:`mgce.labels.noise_share`.
        noise_kind: whether wrong labels depend on the class, which the rows may not tell: see
            :func:`mgce.labels.share.kind_of_predictions`. Rows are ranked by the difference of their two largest
            logits.
        left_out: number of steps that the average leaves out, after each of which a weight was not finite.
        classes: the names of the classes; None for their numbers.
    """

    kept: str
    kept_epoch: int
    kept_accuracy: float
    best_accuracy: float
    epochs: tuple[Epoch, ...]
    decline: Decline
    recalls: tuple[ClassRecall, ...]
    noise_share: NoiseShare
    noise_kind: NoiseKind
    left_out: int
    classes: Sequence[str] | None

    @property
    def gap(self) -> float:
        """Share of training labels that the network predicted in the last epoch, minus its share of validation labels.

        The gap is NaN if :meth:`ModelKeeper.step` was given no logits. A network
        that overfits has a gap, with right labels too.
        """
        return self.epochs[-1].training - self.epochs[-1].network

    def __str__(self) -> str:
        """Say in a few sentences what is kept, why, and what the numbers of the training are."""
        what, last = "The average of the weights" if self.kept == "average" else "The network", self.epochs[-1]
        sentences = (
            f"{what} after epoch {self.kept_epoch} of {len(self.epochs)} is kept: it predicts {self.kept_accuracy:.1%} "
            "of the validation labels.",
            f"The network predicts {self.best_accuracy:.1%} at its best, and {last.network:.1%} after the last epoch.",
            of_training(last.training, self.gap, self.decline),
            least_predicted(self.recalls, self.classes),
            wrong_labels(self.noise_share),
            kind_of_noise(self.noise_kind, self.classes),
            left_out(self.left_out),
        )
        return " ".join(filter(None, sentences))


def recalls(target: Tensor, predicted: Tensor, num_classes: int) -> tuple[ClassRecall, ...]:
    """Return how often each class that is a label of some row is predicted, the least often first.

    Args:
        target: given labels, shape (n,).
        predicted: predicted classes, shape (n,).
        num_classes: number of classes.
    """
    labelled = target[(target >= 0) & (target < num_classes)]  # not the rows to be ignored
    rows, named, right = (
        part.bincount(minlength=num_classes).tolist() for part in (labelled, predicted, target[target == predicted])
    )
    every = [ClassRecall(c, rows[c], right[c], named[c]) for c in range(num_classes) if rows[c]]
    return tuple(sorted(every, key=lambda one: one.recall))


def of_training(training: float, gap: float, decline: Decline) -> str:
    """Say in a sentence or two how many training labels are predicted, and whether validation labels were lost.

    Args:
        training: share of the training labels that the network predicted in the last epoch; NaN if unknown.
        gap: `training` minus the share of the validation labels that is predicted; NaN if unknown.
        decline: the change of validation labels since the best epoch.

    Example:
        >>> of_training(0.98, 0.57, Decline(80, 20))
        'In the last epoch it predicted 98.0% of the training labels, 57.0 points more than of the validation labels. \
Since its best epoch it has lost 80 of the validation labels and gained 20 (p = 5.6e-10): it overfits.'
    """
    parts = []
    if not math.isnan(training):
        more = f"{abs(100 * gap):.1f} points {'more' if gap >= 0 else 'less'} than of the validation labels"
        parts.append(f"In the last epoch it predicted {training:.1%} of the training labels, {more}.")
    changed = f"Since its best epoch it has lost {decline.lost} of the validation labels and gained {decline.gained}"
    parts.append(f"{changed} (p = {decline.p_value:.2g}): it overfits." if decline.shown else f"{changed}.")
    return " ".join(parts)


def least_predicted(found: Sequence[ClassRecall], classes: Sequence[str] | None = None) -> str:
    """Say in a sentence which class is predicted least often, and which classes are predicted for no row.

    Args:
        found: the classes, the least often predicted first.
        classes: the names of the classes; None for their numbers.

    Example:
        >>> least_predicted([ClassRecall(5, 80, 46, 50), ClassRecall(1, 80, 79, 81)])
        'Of all labels, class 5 is predicted least often: for 46 of its 80 rows.'
    """
    if not found:
        return "No validation row has a label."
    names = range(10**9) if classes is None else classes
    never = [f"{names[one.label]} ({one.rows} rows)" for one in found if not one.named]
    if never:
        return f"No row is predicted as one of these classes, which are labels: {listed(never, NAMED)}."
    worst = found[0]
    return (
        f"Of all labels, class {names[worst.label]} is predicted least often: for {worst.predicted} of its "
        f"{worst.rows} rows."
    )


def wrong_labels(share: NoiseShare) -> str:
    """Say in a sentence how many of the validation labels are wrong at most.

    Example:
        >>> wrong_labels(NoiseShare(upper=0.48, disagreement=0.45, n=800, delta=0.05))
        'At most 48.0% of the validation labels are wrong, if on every row the right label is at least as likely as \
any one wrong label.'
    """
    return f"At most {percent_up(share.upper)} of the validation labels are wrong, if {ASSUMPTION}."


def left_out(steps: int) -> str:
    """Say how many steps an average of weights leaves out; return an empty text if it leaves out none.

    Example:
        >>> left_out(3)
        'The average leaves out 3 steps, after which a weight was not finite.'
    """
    number = f"{steps} steps" if steps > 1 else "1 step"
    return f"The average leaves out {number}, after which a weight was not finite." if steps else ""


def kind_of_noise(kind: NoiseKind, classes: Sequence[str] | None = None) -> str:
    """Say in a sentence or two whether wrong labels depend on the class, and what helps if they do.

    Args:
        kind: what the validation rows show.
        classes: the names of the classes; None for their numbers.

    Example:
        >>> kind_of_noise(NoiseKind("class-dependent", ((0, 6), (2, 4)), 0.001))
        'Wrong labels depend on the class (p = 0.001): class 0 is often labelled 6, class 2 is often labelled 4. \
Validation labels may choose badly then; `LearnedForwardCorrection` learns how classes are confused.'
    """
    if kind.kind == CLASS_DEPENDENT:
        names = range(10**9) if classes is None else classes
        pairs = [f"class {names[c]} is often labelled {names[label]}" for c, label in kind.pairs]
        return (
            f"Wrong labels depend on the class (p = {kind.p_value:.2g}): {listed(pairs, NAMED)}. Validation labels may "
            "choose badly then; `LearnedForwardCorrection` learns how classes are confused."
        )
    return "Whether wrong labels depend on the class, these rows cannot tell."
