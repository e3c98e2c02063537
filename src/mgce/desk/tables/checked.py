"""Apply a person's decisions on labels to a table, and bound errors by the decisions on random rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from mgce._messages import expected
from mgce.desk.columns.kinds import Columns
from mgce.desk.review.bounds import ErrorBound, counted, error_bound, share_left_sequence
from mgce.desk.review.decision_file import DROP, Decision, check_classes, check_decided, spelt_alike
from mgce.desk.review.draws import Draws
from mgce.desk.tables.rows import Rows, Split, row_keys
from mgce.labels.doubtful import DoubtfulLabels

OTHER_DRAWS = (
    "The rows drawn at random are not those of this table, --seed, --holdout and --id. So they give no bound: fit the "
    "table that was reviewed, with the options of before."
)
LOST = "they were deleted, or other cells than the label were changed"
LOST_BY_ID = "they were deleted, their names were changed, or --id is another than before"
REMEDY = "Fit the table that was reviewed, or take these rows out of the files of decisions."
DEPENDENT = "Rows of groups, or in the order of time, are no independent draws: checked rows give no bound on errors."


@dataclass(frozen=True)
class Checked:
    """A person's decisions on the labels of a table's rows.

    Attributes:
        decisions: the decisions by row number, from 0.
        given: the table with the labels that the person saw, even if the labels have been corrected since.
        n: number of rows that a person decided on, not counting copies of these rows.
    """

    decisions: Mapping[int, Decision]
    given: pd.DataFrame
    n: int

    @property
    def labels(self) -> dict[int, str]:
        """The right label of each row whose label changes, by row number."""
        return {row: one.label for row, one in self.decisions.items() if one.label and one.label != one.given}

    @property
    def dropped(self) -> list[int]:
        """The numbers of the rows that a person decided to drop."""
        return [row for row, one in self.decisions.items() if one.decision == DROP]

    @classmethod
    def of(cls, decisions: Sequence[Decision], frame: pd.DataFrame, split: Split) -> Checked:
        """Find the row of the table that each decision is about.

        Dropped rows may already be removed from the table, and labels may already be corrected.

        Args:
            decisions: the decisions, at most one for each row.
            frame: the table, with rows numbered from 0.
            split: the settings of the fit.

        Raises:
            ValueError: if a row is not found, or its label is neither the reviewed label nor the decided one.
        """
        if not decisions:
            return cls({}, frame, 0)
        place = {key: number for number, key in enumerate(row_keys(frame, split.target, split.id))}
        given = Columns({}, split.target).labels(frame).copy()
        decisions = decisions if split.apart else spelt_alike(decisions, given.dropna())
        now = dict(zip(place, given.fillna("").tolist(), strict=True))
        check_decided(decisions, now, "this table", REMEDY, why_lost=LOST if split.id is None else LOST_BY_ID)
        found = {place[one.key]: one for one in decisions if one.key in place}
        rows = list(found)
        given.iloc[rows] = [found[row].given for row in rows]
        return cls(found, frame.assign(**{split.target: given}), len(decisions))

    def with_copies(self, rows: Rows) -> Checked:
        """Return the decisions, with each decided label also applied to copies of the row that have no decision."""
        if not rows.n_copies or not self.decisions:
            return self
        place, own = rows.frame.index.to_numpy(), self.by_row(rows)
        of_first = {int(rows.first[row]): one for row, one in own.items() if one.label}
        copies = {
            int(place[row]): replace(of_first[first], is_random=False, draw=None)
            for row, first in enumerate(rows.first.tolist())
            if first in of_first and row not in own
        }
        return replace(self, decisions={**self.decisions, **copies})

    def by_row(self, rows: Rows) -> dict[int, Decision]:
        """Return the decisions by the index of the row in `rows`, without those on rows whose label is no class."""
        place = {int(row): index for index, row in enumerate(rows.frame.index)}
        return {place[row]: one for row, one in self.decisions.items() if row in place}

    def without_lost(self, rows: Rows) -> Rows:
        """Return the rows without classes, such as misspelt ones, whose rows the decisions all give to other classes.

        The rows of such a class get the decided label, as if it had been given.
        """
        if not self.decisions:
            return rows
        decided = self.by_row(rows)
        new = np.array([decided[row].label if row in decided else "" for row in range(len(rows.target))], dtype=object)
        lost = [
            place
            for place, label in enumerate(rows.classes)
            if np.isin(new[rows.target == place], rows.classes[rows.classes != label]).all()
        ]
        kept = np.delete(rows.classes, lost)
        gone = np.isin(rows.target, lost)
        if not lost or len(kept) < 2 or not np.isin(new[gone], kept).all():
            return rows
        labels = rows.labels.where(~gone, new)
        return replace(rows, labels=labels, classes=kept, target=np.searchsorted(kept, labels.to_numpy(dtype=str)))

    def mended(self, rows: Rows) -> Rows:
        """Return the rows with corrected labels; rows that a person dropped are neither trained on nor held out.

        Raises:
            ValueError: if a label is not one of the classes, or a class is left with fewer than two training rows.
        """
        if not self.decisions:
            return rows
        target, gone = rows.target.copy(), np.zeros(len(rows.target), dtype=bool)
        place = {str(label): index for index, label in enumerate(rows.classes)}
        decided = self.by_row(rows)
        check_classes(decided.values(), place, "the table")
        for row, one in decided.items():
            target[row] = place.get(one.label, target[row])
            gone[row] = one.decision == DROP
        train = rows.train[~gone[rows.train]]
        counts = np.bincount(target[train], minlength=len(place))
        if counts.min() < 2:
            few = f"{rows.classes[counts.argmin()]} with {counts.min()}"
            raise ValueError(expected("checked", "decisions that leave each class two rows to train on", few))
        return replace(
            rows,
            target=target,
            labels=pd.Series(rows.classes[target], index=rows.labels.index, name=rows.labels.name, dtype=object),
            train=train,
            held_out=rows.held_out[~gone[rows.held_out]],
        )

    def settled(self, judgement: DoubtfulLabels, rows: Rows) -> DoubtfulLabels:
        """Return the judgement in which no label that a person has decided on counts as suspect."""
        done = np.array([row for row, one in self.by_row(rows).items() if one.is_settled], dtype=np.int64)
        return judgement.settled(done)


@dataclass(frozen=True)
class Findings:
    """Results of a review of labels: what the decisions changed, and bounds on errors from randomly drawn rows.

    Attributes:
        n: number of decisions.
        changed: number of labels that were corrected.
        dropped: number of rows that were left out.
        skipped: number of rows that were skipped.
        drawn: number of rows drawn at random that `left` and `before` are computed from.
        error: bound on the errors, against right labels, of the model fitted to the training rows; None if unknown.
        left: with probability 1 - delta, at most this share of the table's labels is still wrong; None if unknown.
        before: estimated share of the table's labels that were wrong before the review; None if unknown.
        wrong: number of the drawn rows whose label was wrong, or that were dropped or skipped.
        about: estimated number of labels that are still wrong; None if unknown.
        delta: probability with which each of the two bounds may fail.
        note: why there are no bounds; "" if there are bounds.
    """

    n: int
    changed: int
    dropped: int
    skipped: int
    drawn: int
    error: ErrorBound | None
    left: float | None
    delta: float
    note: str = ""
    before: float | None = None
    wrong: int = 0
    about: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the results of the review as plain values for JSON."""
        counts = {name: getattr(self, name) for name in ("n", "changed", "dropped", "skipped", "drawn")}
        error = None if self.error is None else vars(self.error)
        bounds = {"error": error, "wrong_left_at_most": self.left, "delta": self.delta, "note": self.note}
        return {**counts, **bounds, "wrong_before": self.before}


def findings(
    checked: Checked, rows: Rows, draws: Draws, predicted: NDArray[Any], delta: float, *, independent: bool
) -> Findings | None:
    """Return the results of a review: counts of decisions, and bounds on errors from the rows drawn at random.

    If there is no decision, return None.

    Args:
        checked: the decisions.
        rows: the rows with the labels that were reviewed.
        draws: the random order of these rows.
        predicted: predicted classes of the held-out rows, in the order of `rows.held_out`, by the model fitted to the
            training rows.
        delta: probability with which each bound may fail.
        independent: whether the held-out rows are independent draws.
    """
    if not checked.n:
        return None
    decided = checked.by_row(rows)
    every = [*checked.decisions.values()]
    told: dict[str, Any] = {"n": checked.n, "changed": len(checked.labels), "dropped": len(checked.dropped)}
    told |= {"skipped": sum(not one.is_settled for one in every), "delta": delta}
    other = any(one.draw is not None and one.draw != draws.number[row] for row, one in decided.items())
    last = max((one.draw or 0 for one in every if one.is_random or one.is_both), default=0)
    if other or last > len(draws.number):
        return Findings(**told, drawn=0, error=None, left=None, note=OTHER_DRAWS)
    order = np.argsort(draws.number)[:last].tolist()
    drawn, left, before = _left(order, decided, draws, delta)
    ours = np.argsort(draws.number[rows.held_out])  # the held-out rows in the order of the draws
    some = [decided.get(row) for row in rows.held_out[ours].tolist() if draws.number[row] <= last]
    wrong = [row not in decided or decided[row].label != decided[row].given for row in order[:drawn]]
    right, is_open = [one and (one.label or None) for one in some], [one is None for one in some]
    given = rows.labels.to_numpy()[rows.held_out[ours]].tolist()
    return Findings(
        **told,
        drawn=drawn,
        error=error_bound(right, predicted[ours].tolist(), given, delta, is_open=is_open) if independent else None,
        left=left,
        note="" if independent else DEPENDENT,
        before=before,
        wrong=sum(wrong),
        about=_about(order[:drawn], decided, draws, delta),
    )


def _about(order: Sequence[int], decided: Mapping[int, Decision], draws: Draws, delta: float) -> float | None:
    """Estimate how many labels are still wrong, by the share of wrong labels among drawn rows that are no suspects.

    If all suspects are checked, drawn suspects say nothing of the unchecked rows. If more of the drawn rows are
    suspects than the number of checked suspects explains, in a test at level `delta`, suspects are left. Then the
    estimate is the number of wrong labels by the share among all drawn rows, less the wrong labels that were found.
    """
    settled = {row: one for row, one in decided.items() if one.is_settled}
    drawn = [row for row in order if row in settled]
    others = [row for row in drawn if settled[row].is_random and not settled[row].is_both]
    if not others:
        return None
    n, wrong = len(draws.number), {row: one.label != one.given for row, one in settled.items()}
    suspects = sum(one.is_both or not one.is_random for one in settled.values())
    if binom.sf(len(drawn) - len(others) - 1, len(drawn), suspects / n) < delta:
        share = np.average([wrong[row] for row in drawn], weights=1 / draws.probability[drawn])
        return max(0.0, float(share) * n - sum(wrong.values()))
    return float(np.average([wrong[row] for row in others], weights=1 / draws.probability[others])) * (n - len(settled))


def _left(
    order: Sequence[int], decided: Mapping[int, Decision], draws: Draws, delta: float
) -> tuple[int, float | None, float | None]:
    """Bound the share of labels that are wrong and not corrected, from the rows `order`, drawn at random.

    A row that was skipped or left open counts as a wrong label.

    Returns:
        The number of draws that count, the bound, and the estimated share of labels that were wrong before the review.
    """
    drawn = [decided.get(row) for row in order]
    unsettled = np.array([one is None or not one.is_settled for one in drawn], dtype=bool)
    changed = np.array([one is not None and one.label not in ("", one.given) for one in drawn], dtype=bool)
    # What was shown as a suspect was mended before it was drawn.
    found = unsettled | np.array(
        [one is not None and one.is_random and one.label != one.given for one in drawn], dtype=bool
    )
    total, q = len(draws.number), draws.probability[list(order)]
    if not drawn:
        return 0, None, None
    upper = share_left_sequence(found.tolist(), q.tolist(), total, delta, least=float(draws.probability.min()))
    upper = np.minimum(1.0, upper + unsettled.cumsum() / total)
    n = counted(upper.tolist(), [one is None for one in drawn])
    if not n:
        return 0, None, None
    settled = ~unsettled[:n]
    before = float(np.average(changed[:n][settled], weights=1 / q[:n][settled])) if settled.any() else None
    return n, float(upper[:n].min()), before
