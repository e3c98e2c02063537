"""Choose among candidates by labels of which some are wrong, and tell whether one candidate is shown to be better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from scipy.stats import binomtest

Tried = TypeVar("Tried")


def most_predicted(tried: Iterable[tuple[float, Tried]], patience: int | None = None) -> Tried:
    """Return the candidate that predicts the largest share of the given labels, the first of equals.

    Args:
        tried: pairs of a share and a candidate; an iterator may compute each pair when the pair is asked for.
        patience: after this many candidates in a row without a larger share no more are asked for; None for all.

    Example:
        >>> most_predicted([(0.7, "a"), (0.8, "b"), (0.8, "c")])
        'b'
    """
    best: tuple[float, Tried] | None = None
    since = 0
    for share, candidate in tried:
        if best is None or share > best[0]:
            best, since = (share, candidate), 0
        else:
            since += 1
            if since == patience:
                break
    assert best is not None, "nothing was tried"
    return best[1]


def mcnemar(gained: int, lost: int) -> float:
    """Return the p-value of McNemar's exact test that a row is more probably gained than lost; 1 without such rows.

    Args:
        gained: rows whose label one model predicts alone.
        lost: rows whose label the other model predicts alone.

    Reference: McNemar, Note on the sampling error of the difference between correlated proportions, 1947.
    """
    return float(binomtest(gained, gained + lost, alternative="greater").pvalue) if gained + lost else 1.0


def shown_better(right: Any, others: Any, level: float) -> bool:
    """Return whether one model is shown to predict more labels than another, by McNemar's exact test.

    Args:
        right: whether the model predicts the label of each row, shape (n,), bool, an array or a tensor.
        others: whether the other model does, shape (n,), bool.
        level: level of the test.
    """
    gained, lost = int((right & ~others).sum()), int((others & ~right).sum())
    return gained > lost and mcnemar(gained, lost) < level
