"""Train a small network on images with wrong labels: choose the loss, keep the best epoch, and judge each label."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from mgce._arrays import FloatArray, IntArray
from mgce._messages import check_count, expected, expected_share, listed
from mgce._row_order import content_order
from mgce._seeds import derived_seed
from mgce._validation import check_device
from mgce.desk.columns.notes import left_out_copies
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import checked_train, completed, out_of_fold, stratified_folds, stratified_split
from mgce.loop.keeper import ModelKeeper
from mgce.loop.recipes import RECIPES, RecipeChoice, choose_recipe, criterion_of
from mgce_lab.images.image_model import ImageLoop, ImageModel
from mgce_lab.images.square_images import Pixels

LEAST_ROWS = 2  # of a class: one to learn from and one to validate
COLOURS = 3  # channels of images that are shifted and mirrored at random
OnStep = Callable[[str, int, int], None]  # called with what is trained, the finished epochs, and the most there will be


@dataclass(frozen=True)
class ImagePlan:
    """How to train.

    Attributes:
        validation_size: share of the rows, in (0, 1), whose labels choose the loss, the epoch and the weights.
        folds: networks that are trained to judge the labels, each without a part of the rows; 0 judges none.
        epochs: passes over the training rows, at most.
        changed: whether colour images are shifted and mirrored at random.
        seed: of the rows held out, the folds, the initial weights and the order of the rows.
        device: where the networks are trained.
    """

    validation_size: float = 0.2
    folds: int = 3
    epochs: int = 20
    changed: bool = True
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not 0 < self.validation_size < 1:
            raise ValueError(expected_share("validation_size", "a float in (0, 1)", self.validation_size))
        check_count("epochs", self.epochs)
        check_count("seed", self.seed, minimum=0)
        check_count("folds", self.folds, minimum=0)
        if self.folds == 1:
            raise ValueError(expected("folds", "0, or at least 2", self.folds))
        check_device(self.device)


@dataclass(frozen=True)
class ImageFit:
    """The result of training on n labelled images with k classes.

    Attributes:
        choice: the recipe that was chosen, with what the validation labels say of each.
        picture: the epochs of the chosen recipe as an SVG document.
        classes: the names of the classes, (k,).
        used: indices of the rows that have a label of one of the classes, (n,).
        held_out: whether each of these rows was held out, or is a copy of such a row, (n,).
        judged: the judgement of their labels; None without folds.
        n_validation: number of distinct rows held out.
        notes: sentences on rows that were left out.
    """

    choice: RecipeChoice
    picture: str
    classes: NDArray[np.str_]
    used: IntArray
    held_out: NDArray[np.bool_]
    judged: DoubtfulLabels | None
    n_validation: int
    notes: list[str]

    @property
    def model(self) -> ImageModel:
        """The network of the chosen recipe."""
        model = self.choice.network
        assert isinstance(model, ImageModel)
        return model


def fit_images(pixels: Pixels, labels: Sequence[str], plan: ImagePlan, on_step: OnStep | None = None) -> ImageFit:
    """Choose a recipe by noisy validation labels, and judge the label of each row by networks not trained on it.

    Of equal images only one is trained on or held out, so that no copy of a training row validates. The result does
    not depend on the order of the rows.

    Args:
        pixels: square images, shape (n, channels, size, size).
        labels: their given labels, n texts, of which some may be wrong.
        plan: how to train.
        on_step: called after each epoch.

    Raises:
        ValueError: if there are fewer than two classes, or too few rows to hold some out.
    """
    used, classes, notes = _with_class(labels)
    pixels, target = pixels[used], np.searchsorted(classes, [labels[row] for row in used]).astype(np.int64)
    order, first = _copies(pixels, target)
    rows = order[first[order] == order]
    notes += left_out_copies(len(target) - len(rows), len(target))
    name = "the images" if len(rows) == len(target) else "the distinct images"
    train, validation = stratified_split(rows, target, plan.validation_size, derived_seed(plan.seed, "split"), name)
    most = int(np.bincount(target[train]).max())
    if plan.folds > most:
        raise ValueError(expected("folds", f"at most {most}, the training rows of the largest class", plan.folds))
    changed = plan.changed and pixels.shape[1] == COLOURS
    loop = ImageLoop(
        pixels, target, classes.tolist(), epochs=plan.epochs, changed=changed, seed=plan.seed, device=plan.device
    )
    step = on_step or (lambda what, done, total: None)
    names, keepers = iter(RECIPES), dict[str, ModelKeeper]()

    def trained(criterion: nn.Module) -> Iterator[ModelKeeper]:
        recipe = next(names)
        for place, keeper in enumerate(loop.run(criterion, train, validation)):
            keepers[recipe] = keeper
            step(f"Training with {recipe}", place + 1, plan.epochs)
            yield keeper

    choice = choose_recipe(trained, len(train), len(classes))
    judged = _judged(loop, choice, train, validation, first, plan, step) if plan.folds else None
    held_out = np.isin(first, validation)
    picture = keepers[choice.name].to_svg()
    return ImageFit(choice, picture, classes, used, held_out, judged, len(validation), notes)


def _with_class(labels: Sequence[str]) -> tuple[IntArray, NDArray[np.str_], list[str]]:
    """Return the rows whose label enough rows have, the classes, and a note on the others."""
    every = np.array(labels, dtype=np.str_)
    classes, place, counts = np.unique(every, return_inverse=True, return_counts=True)
    rare = classes[counts < LEAST_ROWS].tolist()
    used = np.flatnonzero(counts[place] >= LEAST_ROWS).astype(np.int64)
    kept = classes[counts >= LEAST_ROWS]
    if len(kept) < 2:
        what = f"at least two classes, each of {LEAST_ROWS} images or more"
        raise ValueError(expected("labels", what, f"{len(kept)} among {len(every):,} images"))
    notes = [f"Rows with a label that no other row has were left out: {listed(rare)}."] if rare else []
    return used, kept, notes


def _copies(pixels: Pixels, target: IntArray) -> tuple[IntArray, IntArray]:
    """Return an order of the rows by content, and for each row the first of its copies in this order."""
    flat = pixels.reshape(len(pixels), -1)
    order = content_order(flat, target).astype(np.int64)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (flat[order[1:]] != flat[order[:-1]]).any(1)
    first = np.empty(len(order), dtype=np.int64)
    first[order] = order[new][np.cumsum(new) - 1]
    return order, first


def _judged(
    loop: ImageLoop,
    choice: RecipeChoice,
    train: IntArray,
    validation: IntArray,
    first: IntArray,
    plan: ImagePlan,
    step: OnStep,
) -> DoubtfulLabels:
    """Judge training rows by networks of folds, and rows held out by the chosen network."""
    target, k, recipe = loop.target.cpu().numpy(), len(loop.classes), RECIPES[choice.name]
    folds = iter(range(1, plan.folds + 1))

    def probs(model: nn.Module, criterion: nn.Module, rows: IntArray) -> FloatArray:
        assert isinstance(model, ImageModel)
        return model.probabilities(criterion, loop.pixels[rows]).double().numpy()

    def trained(rows: IntArray, others: IntArray) -> FloatArray:
        what, criterion = f"Judging labels, fold {next(folds)}", criterion_of(recipe, len(rows), k)
        *_, keeper = loop.run(criterion, train[rows], validation, lambda done: step(what, done, plan.epochs))
        return probs(keeper.best(), criterion, train[others])

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # its rows are in fewer folds, no more
        parts = stratified_folds(target[train], plan.folds, derived_seed(plan.seed, "folds"))
    known = out_of_fold(checked_train(trained, k), parts, (len(train), k))
    criterion, classes = criterion_of(recipe, len(train), k), np.array(loop.classes)
    found = completed(known, train, len(target), lambda others: probs(choice.network, criterion, others))
    return doubtful_labels(found[first], target, classes=classes, first=first, X=loop.pixels, source="network")
