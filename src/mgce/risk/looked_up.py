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
NOT_LOOKED_UP = -2  # the right label of a row that was not looked up


@dataclass(frozen=True)
class LookedUp:
    """The assumption that right labels of randomly drawn rows are known; nothing is assumed of other labels."""

    n: int  # rows that were looked up
    anytime: bool = False  # whether the bound holds at every look, in the order of the looks

    most_agreement = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return clauses that state how rows were drawn for looking up, and that the looked-up labels are right."""
        clauses = (
            "the rows to look up were drawn at random, without regard to their right labels",
            "the labels that were looked up are right",
        )
        return (*clauses, LOOKS) if self.anytime else clauses

    def upper(self, sample: Sample, losses: Losses, delta: float) -> float:
        """Bound the mean loss against right labels by the looked-up rows; for errors, also use the other labels."""
        assert sample.right is not None
        known = sample.right != NOT_LOOKED_UP
        if not known.any():
            return losses.top
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


def right_labels(checked: Any, n: int, k: int) -> tuple[IntArray, IntArray]:
    """Return n right labels from {row: label} or (rows, labels), `NOT_LOOKED_UP` where unknown, and the given rows."""
    pair = (list(checked), list(checked.values())) if isinstance(checked, Mapping) else checked
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        what = "a mapping of rows to right labels, or a pair of arrays (rows, labels)"
        raise ValueError(_validation.expected("checked", what, type(checked).__name__))
    if np.size(pair[0]) == 0:
        raise ValueError(_validation.expected("checked", "distinct rows, at least one, with a label each", "none"))
    rows = as_labels(pair[0], np.size(pair[0]), n, "checked, rows")
    labels = as_array(pair[1], "checked, labels")
    if labels.shape != rows.shape or np.unique(rows).size < rows.size:
        got = f"{rows.size} rows, {np.unique(rows).size} of them distinct, and {labels.size} labels"
        raise ValueError(_validation.expected("checked", "distinct rows, at least one, with a label each", got))
    unseen = labels == UNSEEN
    right = np.full(n, NOT_LOOKED_UP, dtype=np.int64)
    right[rows] = np.where(unseen, UNSEEN, as_labels(np.where(unseen, 0, labels), rows.size, k, "checked, labels"))
    return right, rows


def probabilities(checked_with: Any, n: int) -> FloatArray | None:
    """Return the probability with which each row was looked up, shape (n,); None if all had the same chance."""
    if checked_with is None:
        return None
    chance = as_array(checked_with, "checked_with").astype(np.float64)
    if chance.shape != (n,) or not (chance.min() > 0 and chance.max() <= 1):
        got = f"shape {chance.shape}" if chance.shape != (n,) else f"from {chance.min():g} to {chance.max():g}"
        raise ValueError(_validation.expected("checked_with", f"of shape ({n},), in (0, 1]", got))
    return np.asarray(chance)
