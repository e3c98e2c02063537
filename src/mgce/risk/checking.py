"""Bound a classifier's losses by rows whose right label a person looked up: each check is a look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mgce._arrays import IntArray, as_array, as_labels
from mgce._messages import expected
from mgce.risk.betting import betting_upper_sequence
from mgce.risk.label_noise import Losses, RightLabels
from mgce.risk.looks import reserved, reserving_upper_sequence
from mgce.risk.sample import UNSEEN, Sample, SharedLooks, checked_probs, checked_target
from mgce.risk.stratified import stratified_upper

LOOKS = "the order in which rows were looked up was drawn too; the bound holds at every look, whenever the looks end"
FIXED = "all rows that were drawn were looked up, as many as were fixed beforehand"
AGAIN = (
    "the rows of the second looks were drawn at random among those looked up, and the labels found there are right, "
    "which guards against wrong first looks alone: against no row left out, and no look that depends on an earlier one"
)
NOT_LOOKED_UP = -2  # the right label of a row that was not looked up


# Share of delta for what second looks find. They are few, so their bound is the wider one. With a tenth of 100 to 1,000
# rows looked up twice, and errors of 5 to 30 %, the bound is within 0.002 of that of the best share.
FOR_SECOND = 0.8


@dataclass(frozen=True)
class LookedUp:
    r"""The assumption that right labels of randomly drawn rows are known; nothing is assumed of other labels.

    If some of these rows were looked up again, only the second looks need to be right. Let l' be the loss against the
    label that the first look found, and l the loss against the label of the second look. Then

    .. math:: E\,l \le E\,l' + E \max(l - l', 0)

    The first mean is bounded as if the first looks were right. The second mean is bounded by the rows of the second
    looks: drawn at random among the first ones, they are independent draws of the difference. Both bounds hold at once
    with probability :math:`1 - \delta`, since their shares of delta sum to delta.
    """

    n: int  # rows that were looked up
    anytime: bool = False  # whether the bound holds at every look, in the order of the looks
    again: int | None = None  # rows that were looked up a second time; None for no second look

    most_agreement = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return clauses that state how rows were drawn for looking up, and that the looked-up labels are right."""
        clauses = (
            "the rows to look up were drawn at random, without regard to their right labels",
            "the labels that were looked up are right" if self.again is None else AGAIN,
        )
        return (*clauses, LOOKS if self.anytime else FIXED)

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Bound the mean loss against right labels by the looked-up rows; for errors, also use the other labels."""
        assert sample.right is not None
        known = sample.right != NOT_LOOKED_UP
        if not known.any():
            return losses.top
        if sample.again is not None:
            first = self.upper(replace(sample, again=None), losses, (1 - FOR_SECOND) * delta)
            return min(losses.top, first + _hidden(sample, losses, FOR_SECOND * delta))
        if sample.looks is not None:
            return _at_every_look(sample, losses, delta)
        if losses.binary:
            return _by_cells(sample, delta)
        chosen = replace(sample, labels=sample.right[known], probs=sample.probs[known], right=None)
        return RightLabels().upper(chosen, Losses(losses.table[known], losses.beta), delta)


def error_of_these(sample: Sample, delta: float) -> float | None:
    """Bound the share of argmax errors among the rows that could be looked up; None if there is no such bound.

    Args:
        sample: the rows; there is a bound if the number of looks was fixed beforehand, and no row was looked up twice.
        delta: probability with which the bound may be wrong.
    """
    right = sample.right
    if right is None or (right == NOT_LOOKED_UP).all() or sample.again is not None or sample.looks is not None:
        return None
    return _by_cells(sample, delta, future=False)


def _hidden(sample: Sample, losses: Losses, delta: float) -> float:
    """Bound E max(l - l', 0), the mean loss that wrong first looks hide; :class:`LookedUp` defines l and l'."""
    assert sample.right is not None and sample.again is not None
    rows = np.flatnonzero(sample.again != NOT_LOOKED_UP)
    first, second = (Sample(labels[rows], sample.probs[rows]) for labels in (sample.right, sample.again))
    table = losses.table[rows]
    more = np.maximum(second.own(table, losses.top) - first.own(table, losses.top), 0)
    draws: Any = more > 0 if losses.binary else more
    return second.mean_upper(draws, delta, (0.0, losses.top))


def _at_every_look(sample: Sample, losses: Losses, delta: float) -> float:
    """Bound the mean loss after the last look, such that the bounds after all looks hold at once.

    The labels that were found do not choose between the two sequences of bounds: the better of two sequences, each at
    delta, fails more often. The given labels of reserved rows only bound w, the rate at which the classifier disagrees
    with given labels. This is so even for a reserved row that is looked up.
    """
    rows, right = sample.looks, sample.right
    assert rows is not None and right is not None
    own = Sample(right[rows], sample.probs[rows]).own(losses.table[rows], losses.top)
    kept = reserved(right.size)
    if losses.binary and kept.any():
        disagrees = sample.own(losses.table, 1.0)
        others = int(disagrees[kept].sum()), int(kept.sum())
        return float(reserving_upper_sequence(own, disagrees[rows], others, delta, ~kept[rows])[-1])
    return float(betting_upper_sequence(own, delta, limits=(0.0, losses.top))[-1])


def _by_cells(sample: Sample, delta: float, *, future: bool = True, more: int = 0) -> float:
    """Bound the argmax error by the errors that were found in two groups of rows.

    If rows had two chances of being looked up, the second group are the rows with the larger chance. If all had the
    same chance, the second group are the rows whose given label is not the predicted class. The first group are the
    other rows. Rows that could not be looked up are in neither group.

    Args:
        sample: the rows, some of which were looked up.
        delta: probability with which the bound may be wrong.
        future: whether the bound is on the error on future rows; otherwise on the error on these rows.
        more: number of further looks, which are taken to show errors as often as the looks so far.
    """
    right, guess = sample.right, sample.probs.argmax(1)
    assert right is not None
    known = right != NOT_LOOKED_UP
    cells, shared = np.where(guess == sample.labels, 0, 1), sample.shared
    if shared is not None:
        cells = np.where(shared.cells < 0, -1, cells) if shared.ratio is None else shared.cells
    n, m, k = (
        np.bincount(cells[of & (cells >= 0)], minlength=2) for of in (cells >= 0, known, known & (right != guess))
    )
    scale = min(n.sum(), m.sum() + more) / m.sum()
    looked_up = np.minimum(n, np.round(scale * m))
    errors = np.minimum(looked_up, np.round(scale * k))
    first, second, third = ((int(of[0]), int(of[1])) for of in (errors, looked_up, n))
    if shared is None or shared.ratio is None:
        return stratified_upper(first, second, third, delta, future=future)
    share = min(1.0, scale * shared.share)
    return stratified_upper(first, second, third, delta, ratio=shared.ratio, share=share, future=future)


def right_labels(checked: Any, n: int, k: int, name: str = "checked") -> tuple[IntArray, IntArray]:
    """Return the right label of each of n rows, `NOT_LOOKED_UP` where unknown, and the rows that were looked up.

    Args:
        checked: the labels that were looked up, as {row: label} or (rows, labels).
        n: number of rows.
        k: number of classes.
        name: the name of the argument, for errors.
    """
    pair = (list(checked), list(checked.values())) if isinstance(checked, Mapping) else checked
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        what = "a mapping of rows to right labels, or a pair of arrays (rows, labels)"
        raise ValueError(expected(name, what, type(checked).__name__))
    if np.size(pair[0]) == 0:
        raise ValueError(expected(name, "distinct rows, at least one, with a label each", "none"))
    rows = as_labels(pair[0], np.size(pair[0]), n, f"{name}, rows")
    labels = as_array(pair[1], f"{name}, labels")
    if labels.shape != rows.shape or np.unique(rows).size < rows.size:
        got = f"{rows.size} rows, {np.unique(rows).size} of them distinct, and {labels.size} labels"
        raise ValueError(expected(name, "distinct rows, at least one, with a label each", got))
    unseen = labels == UNSEEN
    right = np.full(n, NOT_LOOKED_UP, dtype=np.int64)
    right[rows] = np.where(unseen, UNSEEN, as_labels(np.where(unseen, 0, labels), rows.size, k, f"{name}, labels"))
    return right, rows


def labels_again(again: Any, right: IntArray, k: int) -> IntArray:
    """Return n labels of second looks, `NOT_LOOKED_UP` in all other rows.

    Args:
        again: the labels, in the forms of :func:`right_labels`.
        right: the labels of the first looks, shape (n,).
        k: number of classes.

    Raises:
        ValueError: if a row was not looked up before.
    """
    labels, rows = right_labels(again, right.size, k, "checked_again")
    new = rows[right[rows] == NOT_LOOKED_UP]
    if new.size:
        what = "rows of `checked`, looked up a second time"
        raise ValueError(expected("checked_again", what, f"row {new[0]}, which was not looked up before"))
    return labels


def shared_looks(checked_with: Any, rows: IntArray, n: int) -> SharedLooks | None:
    """Return the groups of n rows by their chance of being looked up; None without `checked_with`."""
    if checked_with is None:
        return None
    chance = as_array(checked_with, "checked_with").astype(np.float64)
    if chance.shape != (n,):
        raise ValueError(expected("checked_with", f"of shape ({n},)", chance.shape))
    if chance.min() < 0 or not (chance[rows] > 0).all():
        least = f"{chance.min():g}, and {chance[rows].min():g} for a row that was looked up"
        raise ValueError(expected("checked_with", "0 or more, and above 0 for rows of `checked`", least))
    values = np.unique(chance[chance > 0])
    if values.size > 2:
        what = "of one or two different values beside 0, as `share_looks` returns it: no bound for others is narrow"
        raise ValueError(expected("checked_with", what, f"{values.size:,} different values"))
    cells = np.where(chance > 0, np.searchsorted(values, chance), -1).astype(np.int64)
    ratio = float(values[1] / values[0]) if values.size == 2 else None
    return SharedLooks(cells, ratio, rows.size / np.count_nonzero(chance))


def upper_after(target: Any, probs: Any, checked: Any, more: int, delta: float, checked_with: Any = None) -> float:
    """Estimate the bound on the argmax error after `more` further looks that find errors as often as those so far.

    Args:
        target: given labels in 0..k-1, shape (n,).
        probs: the classifier's probabilities, shape (n, k).
        checked: right labels, as in :func:`~mgce.certify`.
        more: number of further looks.
        delta: probability with which the bound may be wrong.
        checked_with: as in :func:`~mgce.certify`.
    """
    h = checked_probs(probs)
    right, rows = right_labels(checked, *h.shape)
    shared = shared_looks(checked_with, rows, len(h))
    return _by_cells(Sample(checked_target(target, *h.shape), h, None, right, shared), delta, more=more)
