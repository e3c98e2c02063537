"""Choose rows of a table to check for a bound on errors, write them for `mgce review`, and read the right labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._column_types import texts
from mgce._messages import NAMED, expected, listed
from mgce.desk.files.written_tables import to_csv
from mgce.desk.review.decision_file import Decision, check_classes, check_decided, spelt_alike
from mgce.desk.tables.listing import file_of_suspects
from mgce.desk.tables.predictions import LabelledPredictions
from mgce.desk.tables.rows import row_keys
from mgce.risk import Looks, rows_to_check, share_looks
from mgce.risk.looks import random_order
from mgce.risk.sample import UNSEEN

LOST = "they were deleted, or other cells than the label were changed"
REMEDY = "Certify the table that --to-check was given, with decisions as the page of `mgce review` saved them."
ROW = "row"  # the column that numbers the rows, as `mgce fit` names it


def order_to_check(
    frame: pd.DataFrame,
    predictions: LabelledPredictions,
    width: float | None = None,
    delta: float = 0.05,
    *,
    share: bool = False,
) -> Looks:
    """Return the rows to check for a bound of a wanted width; sorting the table does not change their order.

    Args:
        frame: the table.
        predictions: its labels and predictions.
        width: the wanted width, as in :func:`~mgce.risk.rows_to_check`; None for all rows.
        delta: probability with which the bound may fail.
        share: whether doubtful rows are checked more often, as :func:`~mgce.risk.share_looks` says.
    """
    by_key = np.argsort(np.array(row_keys(frame, predictions.column)), kind="stable")
    target, probs = predictions.target[by_key], predictions.probs[by_key]
    rows = random_order(len(frame)) if width is None else rows_to_check(target, probs, width, delta=delta)
    chance = np.ones(len(frame))
    if share:
        looks = share_looks(target, probs)
        rows, chance[by_key] = looks.rows[: rows.size], looks.chance
    return Looks(by_key[rows], chance)


def to_check_csv(frame: pd.DataFrame, predictions: LabelledPredictions, looks: Looks) -> bytes:
    """Return the content of a file of suspects with the rows to check, in the order of the checks."""
    rows = looks.rows
    labels, probs, n = predictions.target[rows], predictions.probs[rows], rows.size
    classes = np.array([*predictions.classes, ""], dtype=object)  # the last for a label that is no class
    best = np.argsort(-probs, axis=1, kind="stable")[:, :2]
    given = np.array(_given(frame, predictions), dtype=object)[rows]
    values = {
        "rank": np.arange(1, n + 1),
        "": rows + 1,
        "line": "",
        "key": np.array(row_keys(frame, predictions.column), dtype=object)[rows],
        "given": given,
        "suggested": classes[best[:, 0]],
        "alternative": classes[np.where(best[:, 0] == labels, best[:, 1], best[:, 0])],
        "p_wrong": 0.5,
        "p_given": np.where(labels == UNSEEN, 0.0, probs[np.arange(n), labels]).round(2),
        "p_suggested": probs.max(1).round(2),
        "is_issue": False,
        "expected_precision": 0.5,
        "checked": "",
        "draw": np.arange(1, n + 1),
        "draw_probability": looks.chance[rows] / looks.chance.sum(),
    }
    cells = frame.drop(columns=predictions.column).iloc[rows]
    return to_csv(file_of_suspects(values, cells, predictions.column, ROW), None)


@dataclass(frozen=True)
class LookedUpRows:
    """The rows of a table that a person has checked, with their labels before and after the check."""

    predictions: LabelledPredictions  # with the given labels that the person saw
    rows: NDArray[np.int64]  # (m,), in the order of the draws
    right: NDArray[np.int64]  # (m,), their right labels, or `UNSEEN`
    chance: NDArray[np.float64]  # (n,), how likely any row was looked up
    notes: list[str]


def looked_up(
    frame: pd.DataFrame,
    predictions: LabelledPredictions,
    decisions: Sequence[Decision],
    option: str = "checked",
    *,
    share: bool = False,
) -> LookedUpRows:
    """Return the rows that were checked, in the order of the draws, and their right labels.

    A row without a decision counts as an error if it was drawn before a row with a decision. So does a row that was
    dropped or skipped, or whose right label is none of the model's classes. Labels may already be corrected in the
    table: the label that the person saw counts as the given one.

    Args:
        frame: the table.
        predictions: its labels and predictions.
        decisions: the decisions, at most one for each row.
        option: the name of the option that took the decisions, for errors.
        share: whether doubtful rows were checked more often.

    Raises:
        ValueError: if a decision is on no row of this table, on another given label, or for another draw of its row.
            Also if its label is neither a class nor in the table.
    """
    now = dict(zip(row_keys(frame, predictions.column), _given(frame, predictions), strict=True))
    known = [name for name in predictions.classes if name]
    known += sorted({*now.values()} - {*known})
    decisions = spelt_alike(decisions, known)
    check_decided(decisions, now, "this table", REMEDY, why_lost=LOST, option=option)
    check_classes(decisions, known, "the table")
    row_of = {key: row for row, key in enumerate(now)}
    place = {label: index for index, label in enumerate(predictions.classes)}
    mended = [one for one in decisions if now[one.key] != one.given]
    target = predictions.target.copy()
    target[[row_of[one.key] for one in mended]] = [place.get(one.given, UNSEEN) for one in mended]
    predictions = replace(predictions, target=target)
    order, chance = order_to_check(frame, predictions, share=share)
    keys = [*now]
    draw = {keys[row]: number for number, row in enumerate(order.tolist(), 1)}
    other = [one.name for one in decisions if one.draw is None or draw.get(one.key) != one.draw]
    if other:
        what = "decisions on the rows that --to-check has written for this table"
        raise ValueError(expected(option, what, f"{len(other):,} on other rows: {listed(other, NAMED)}"))
    found = {one.draw: place.get(one.label, UNSEEN) for one in decisions}
    last = max(draw or 0 for draw in found)
    right = np.array([found.get(number, UNSEEN) for number in range(1, last + 1)], dtype=np.int64)
    return LookedUpRows(predictions, order[:last], right, chance, _on_mended(mended))


def _given(frame: pd.DataFrame, predictions: LabelledPredictions) -> list[str]:
    """Return the label of each row: the name of its class, or the text in the table if that is no class."""
    labels = texts(frame[predictions.column]).tolist()
    pairs = zip(predictions.target.tolist(), labels, strict=True)
    return [label if target == UNSEEN else predictions.classes[target] for target, label in pairs]


def _on_mended(mended: Sequence[Decision]) -> list[str]:
    """Return a note if labels in the table were corrected after the check."""
    if not mended:
        return []
    names = listed([one.name for one in mended], NAMED)
    return [
        f"The table has corrected labels in {len(mended):,} of the rows that were looked up ({names}). The labels of "
        "before the looks count as the given ones. If labels of other rows were corrected, certify the table of before."
    ]
