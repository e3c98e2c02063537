"""Say whether a network memorises the labels of its training rows, and what to do about that."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import binomtest
from torch import Tensor

from mgce._rounding import percent_down, percent_up
from mgce._validation import listed
from mgce.noise.kind import CLASS_DEPENDENT, SYMMETRIC, NoiseKind
from mgce.noise.share import NoiseShare

# Of McNemar's test that the last epoch predicts fewer validation labels than the best one. The best epoch is the best
# of several, so later ones lose labels by chance too: the level is stricter than the usual 0.05 for that.
LEVEL = 0.01
# Of the test that the network is better than the average of its weights, which is better more often.
CHOICE_LEVEL = 0.05
# What an interval of the share of wrong labels assumes, and its upper limit alone.
ASSUMED = "wrong labels are equally common on all rows and in all classes"
ASSUMED_LESS = "on every row the right label is at least as likely as any one wrong label"
# By so much more of the training labels than of the validation labels. It is a rule of thumb: a network of few epochs
# predicts about as many of both.
GAP = 0.2
NAMED = 3  # pairs of classes that a sentence names


def diagnosis(training: float, validation: float, lost: int, gained: int, *, class_dependent: bool = False) -> str:
    """Say in a sentence or two whether a network memorised labels.

    Args:
        training: share of the training labels that the network predicted in the last epoch; NaN if unknown.
        validation: share of the validation labels that it predicts after the last epoch.
        lost: number of validation rows whose label it predicted after its best epoch and does not after the last one.
        gained: number of rows with the opposite change.
        class_dependent: whether wrong labels are shown to depend on the class. Then validation labels do not show that
            no other loss is needed.

    Example:
        >>> diagnosis(0.98, 0.41, 80, 20)
        'It memorises: since its best epoch it has lost 60 of the validation labels, and it predicts 98% of the \
training labels. Keep the best epoch; `choose_recipe` compares other losses.'
    """
    fits = not math.isnan(training) and training - validation > GAP
    declines = _more(lost, gained, LEVEL)
    known = "" if math.isnan(training) else f"it predicts {training:.0%} of the training labels"
    if declines:
        also = f", and {known}" if known else ""
        return (
            f"It memorises: since its best epoch it has lost {lost - gained} of the validation labels{also}. Keep the "
            "best epoch; `choose_recipe` compares other losses."
        )
    if fits:
        return (
            f"It begins to memorise: {known}, and {validation:.0%} of the validation labels. Longer training needs a "
            "checkpoint or a robust loss."
        )
    if known:
        enough = "" if class_dependent else " No other loss is needed."
        return f"It does not memorise: {known}, and loses no validation labels.{enough}"
    return "It loses no validation labels. Whether it memorises, `step(logits, target)` would tell."


def shown_better(right: Tensor, others: Tensor) -> bool:
    """Return whether one model is shown to predict more labels than another, by McNemar's exact test.

    Args:
        right: whether the model predicts the label of each row, shape (n,), bool.
        others: whether the other model does, shape (n,), bool.

    Reference: McNemar, Note on the sampling error of the difference between correlated proportions, 1947.
    """
    return _more(int((right & ~others).sum()), int((others & ~right).sum()), CHOICE_LEVEL)


def _more(one: int, other: int, level: float) -> bool:
    """Return whether one count is larger than the other beyond chance, if either was equally probable."""
    return one > other and binomtest(one, one + other, alternative="greater").pvalue < level


def wrong_labels(share: NoiseShare) -> str:
    """Say in a sentence how many of the validation labels are wrong, as far as they tell.

    Example:
        >>> wrong_labels(NoiseShare(0.4, 0.36, 0.44, 0.35, 0.45, True, "", 0.45, 800, 0.05))
        'Between 36.0% and 44.0% of the validation labels are wrong, if wrong labels are equally common on all rows \
and in all classes.'
    """
    if share.supported:
        ends = f"Between {percent_down(share.lower)} and {percent_up(share.upper)}"
        return f"{ends} of the validation labels are wrong, if {ASSUMED}."
    return f"At most {percent_up(share.upper)} of the validation labels are wrong, if {ASSUMED_LESS}."


def left_out(steps: int) -> str:
    """Say how many steps an average of weights leaves out; nothing if there are none.

    Example:
        >>> left_out(3)
        ' The average leaves out 3 steps, after which a weight was not finite.'
    """
    number = f"{steps} steps" if steps > 1 else "1 step"
    return f" The average leaves out {number}, after which a weight was not finite." if steps else ""


def kind_of_noise(kind: NoiseKind, classes: Sequence[str] | None = None) -> str:
    """Say in a sentence or two whether wrong labels depend on the class, and what helps if they do.

    Args:
        kind: what the validation rows show.
        classes: the names of the classes; None for their numbers.

    Example:
        >>> kind_of_noise(NoiseKind("class-dependent", ((0, 6), (2, 4)), 0.001))
        'Wrong labels depend on the class: class 0 is often labelled 6, class 2 is often labelled 4. Validation labels \
may choose badly then; `LearnedForwardCorrection` learns how classes are confused.'
    """
    if kind.kind == CLASS_DEPENDENT:
        names = range(10**9) if classes is None else classes
        pairs = [f"class {names[c]} is often labelled {names[label]}" for c, label in kind.pairs]
        return (
            f"Wrong labels depend on the class: {listed(pairs, NAMED)}. Validation labels may choose badly then; "
            "`LearnedForwardCorrection` learns how classes are confused."
        )
    if kind.kind == SYMMETRIC:
        return "Wrong labels look symmetric: no class is mostly given one other label."
    return "Whether wrong labels depend on the class, these rows cannot tell."
