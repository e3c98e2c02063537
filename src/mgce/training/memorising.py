"""Say whether a network memorises the labels of its training rows, and what to do about that."""

from __future__ import annotations

import math

from scipy.stats import binomtest

LEVEL = (
    0.01  # of the test that validation labels are lost: one network in a hundred that does not memorise is called so
)
# A network that predicts that many more of the training labels than of validation labels fits single rows. Half of
# that came of few epochs on few rows without any wrong label.
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
