"""Say whether a network memorises the labels of its training rows, and what to do about that."""

from __future__ import annotations

import math

from scipy.stats import binomtest

# Of McNemar's test that the last epoch predicts fewer validation labels than the best one. The best epoch is the best
# of several, so later ones lose labels by chance too: the level is stricter than the usual 0.05 for that.
LEVEL = 0.01
# By so much more of the training labels than of the validation labels. It is a rule of thumb: a network of few epochs
# predicts about as many of both.
GAP = 0.2


def diagnosis(training: float, validation: float, lost: int, gained: int) -> str:
    """Say in a sentence or two whether a network memorised labels.

    Args:
        training: share of the training labels that the network predicted in the last epoch; NaN if unknown.
        validation: share of the validation labels that it predicts after the last epoch.
        lost: number of validation rows whose label it predicted after its best epoch and does not after the last one.
        gained: number of rows with the opposite change.

    Example:
        >>> diagnosis(0.98, 0.41, 80, 20)
        'It memorises: since its best epoch it has lost 60 of the validation labels, and it predicts 98% of the \
training labels. Keep a checkpoint, and compare a robust loss such as ELRLoss or SoftBootstrapLoss.'
    """
    fits = not math.isnan(training) and training - validation > GAP
    declines = lost > gained and binomtest(lost, lost + gained, alternative="greater").pvalue < LEVEL
    known = "" if math.isnan(training) else f"it predicts {training:.0%} of the training labels"
    if declines:
        also = f", and {known}" if known else ""
        return (
            f"It memorises: since its best epoch it has lost {lost - gained} of the validation labels{also}. Keep a "
            "checkpoint, and compare a robust loss such as ELRLoss or SoftBootstrapLoss."
        )
    if fits:
        return (
            f"It begins to memorise: {known}, and {validation:.0%} of the validation labels. Longer training needs a "
            "checkpoint or a robust loss."
        )
    if known:
        return f"It does not memorise: {known}, and loses no validation labels. No other loss is needed."
    return "It loses no validation labels. Whether it memorises, `step(logits, target)` would tell."
