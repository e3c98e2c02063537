r"""Bound errors by rows whose right labels were looked up, without any assumption on wrong labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import FloatArray, IntArray, as_array, as_labels
from mgce.risk.label_noise import Losses, RightLabels
from mgce.risk.looking_up import looked_up_upper_sequence, reserved
from mgce.risk.sample import UNSEEN, Sample
from mgce.risk.sequential import betting_upper_sequence
from mgce.risk.stratified import stratified_upper

LOOKS = "the order in which rows were looked up was drawn too; the bound holds at every look, whenever the looks end"
AGAIN = "the rows of the second looks were drawn at random among those looked up, and the labels found there are right"
NOT_LOOKED_UP = -2  # the right label of a row that was not looked up


# Share of delta for what second looks find. They are few, so their bound is the wider one. With a tenth of 100 to 1,000
# rows looked up twice, and errors of 5 to 30 %, the bound is within 0.002 of that of the best share.
FOR_SECOND = 0.8


@dataclass(frozen=True)
class LookedUp:
    r"""The assumption that right labels of randomly drawn rows are known; nothing is assumed of other labels.

    If some of these rows were looked up again, only the second looks need to be right. Let l' be the loss by the first
    look, and l by the second one. Then

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
        return (*clauses, LOOKS) if self.anytime else clauses

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
        chance = sample.looked_up_with
        if losses.binary:
            cells = np.where(sample.own(losses.table, 1.0) > 0, 1, 0)
            if chance is None:
                return _by_cells(cells, sample, losses, delta)
            of_cell = [chance[cells == cell] for cell in (0, 1) if (cells == cell).any()]
            if all(np.ptp(values) == 0 for values in of_cell):
                share = float(np.mean([values[0] for values in of_cell]))
                return _by_cells(cells, sample, losses, delta, pooled=False, share=share)
        if chance is None:
            chosen = replace(sample, labels=sample.right[known], probs=sample.probs[known], right=None)
            return RightLabels().upper(chosen, Losses(losses.table[known], losses.beta), delta)
        right = Sample(np.where(known, sample.right, UNSEEN), sample.probs)
        draws = np.where(known, right.own(losses.table, losses.top), 0.0) / chance
        return min(losses.top, sample.mean_upper(draws, delta, (0.0, losses.top / float(chance.min()))))


def _hidden(sample: Sample, losses: Losses, delta: float) -> float:
    """Bound the mean loss that first looks hide, by rows that were looked up a second time."""
    assert sample.right is not None and sample.again is not None
    rows = np.flatnonzero(sample.again != NOT_LOOKED_UP)
    first, second = (Sample(labels[rows], sample.probs[rows]) for labels in (sample.right, sample.again))
    table = losses.table[rows]
    more = np.maximum(second.own(table, losses.top) - first.own(table, losses.top), 0)
    draws: Any = more > 0 if losses.binary else more
    return second.mean_upper(draws, delta, (0.0, losses.top))


def _at_every_look(sample: Sample, losses: Losses, delta: float) -> float:
    """Bound the mean loss after the last look, such that the bounds after all looks hold at once."""
    rows, right = sample.looks, sample.right
    assert rows is not None and right is not None
    own = Sample(right[rows], sample.probs[rows]).own(losses.table[rows], losses.top)
    kept = reserved(right.size)
    if losses.binary and kept.any() and not kept[rows].any():
        disagrees = sample.own(losses.table, 1.0)
        others = int(disagrees[kept].sum()), int(kept.sum())
        return float(looked_up_upper_sequence(own, disagrees[rows], others, delta)[-1])
    return float(betting_upper_sequence(own, delta, limits=(0.0, losses.top))[-1])


def _by_cells(cells: IntArray, sample: Sample, losses: Losses, delta: float, **design: Any) -> float:
    """Bound an error rate by two groups of rows: 0, whose given label agrees with the classifier, and 1, all others."""
    assert sample.right is not None
    known = sample.right != NOT_LOOKED_UP
    wrong = Sample(sample.right[known], sample.probs[known]).own(losses.table[known], 1.0) > 0

    def both(of: IntArray) -> tuple[int, int]:
        return int((of == 0).sum()), int((of == 1).sum())

    return stratified_upper(both(cells[known][wrong]), both(cells[known]), both(cells), delta, **design)


def right_labels(checked: Any, n: int, k: int, name: str = "checked") -> tuple[IntArray, IntArray]:
    """Return n right labels from {row: label} or (rows, labels), `NOT_LOOKED_UP` where unknown, and the given rows.

    Args:
        checked: the labels that were looked up.
        n: number of rows.
        k: number of classes.
        name: the name of the argument, for errors.
    """
    pair = (list(checked), list(checked.values())) if isinstance(checked, Mapping) else checked
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        what = "a mapping of rows to right labels, or a pair of arrays (rows, labels)"
        raise ValueError(_validation.expected(name, what, type(checked).__name__))
    if np.size(pair[0]) == 0:
        raise ValueError(_validation.expected(name, "distinct rows, at least one, with a label each", "none"))
    rows = as_labels(pair[0], np.size(pair[0]), n, f"{name}, rows")
    labels = as_array(pair[1], f"{name}, labels")
    if labels.shape != rows.shape or np.unique(rows).size < rows.size:
        got = f"{rows.size} rows, {np.unique(rows).size} of them distinct, and {labels.size} labels"
        raise ValueError(_validation.expected(name, "distinct rows, at least one, with a label each", got))
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
        raise ValueError(_validation.expected("checked_again", what, f"row {new[0]}, which was not looked up before"))
    return labels


def probabilities(checked_with: Any, n: int) -> FloatArray | None:
    """Return the probability with which each row was looked up, shape (n,); None if all had the same chance."""
    if checked_with is None:
        return None
    chance = as_array(checked_with, "checked_with").astype(np.float64)
    if chance.shape != (n,) or not (chance.min() > 0 and chance.max() <= 1):
        got = f"shape {chance.shape}" if chance.shape != (n,) else f"from {chance.min():g} to {chance.max():g}"
        raise ValueError(_validation.expected("checked_with", f"of shape ({n},), in (0, 1]", got))
    return np.asarray(chance)
