"""Replace the several labels of each row of a table, in columns or in a long file, by their consensus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mgce._column_types import texts
from mgce._messages import expected, listed
from mgce._text import printable
from mgce._threads import one_blas_thread, one_torch_thread
from mgce.desk.columns.kinds import Columns, spelt_as
from mgce.desk.columns.spellings import joined, on_joined, spelling
from mgce.desk.files.table_files import require_column
from mgce.desk.files.written_tables import to_csv
from mgce.desk.tables.choice import estimator
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.text_features import transformer as features_of
from mgce.estimators.consensus_classifier import ConsensusClassifier
from mgce.labels.annotators import CAUTION
from mgce.labels.consensus import Consensus

ROW, ANNOTATOR, LABEL = "row", "annotator", "label"  # columns of a long file
UNKNOWN = "unknown"  # name of annotators of whom no name is known
GIVEN = "given labels"  # the column of a long file's labels in the table: "Ann: cat; Bob: dog"


@dataclass(frozen=True)
class Annotated:
    """A table whose labels are a consensus.

    Attributes:
        frame: the table, with the consensus in the column `plan.target`; this cell is empty in rows without a label.
        plan: the settings, by which the columns of the annotators' labels are no features.
        consensus: the consensus on all rows, with its probabilities.
        given: the labels of each row as text, one column for each annotator or one for all.
        names: name of each row.
        notes: sentences for the user.
    """

    frame: pd.DataFrame
    plan: FitPlan
    consensus: Consensus
    given: pd.DataFrame
    names: pd.Series[Any]
    notes: list[str]

    def to_csv(self) -> bytes:
        """Return a CSV file of all rows: consensus, its probability, the rank among rows to ask about, and labels."""
        found = self.consensus
        rank = np.empty(len(found.order), np.int64)
        rank[found.rows_to_label(len(rank))] = np.arange(1, len(rank) + 1)
        head = pd.DataFrame(
            {
                self.names.name: self.names.astype(str).to_numpy(),
                "consensus": found.labels.astype(str),
                "p_right": found.quality.round(4),
                "ask": rank,
            }
        )
        table = pd.concat([head, self.given.reset_index(drop=True)], axis=1)
        return to_csv(table.iloc[found.order], None)


def of_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the columns of labels as text, NaN for no label.

    If an annotator skipped rows, pandas reads the label 1 as 1.0. It becomes 1 if another annotator has the label 1.

    Raises:
        ValueError: if a column is missing or named twice.
    """
    for name in names:
        require_column(frame, name, "label_columns")
    if len(set(names)) < len(names):
        raise ValueError(expected("label_columns", "names of different columns", ",".join(names)))
    labels = {name: texts(frame[name]) for name in names}
    shorter = {text for column in labels.values() for text in column.dropna() if not text.endswith(".0")}
    return pd.DataFrame({name: spelt_as(column, shorter) for name, column in labels.items()})


def columns_of_long_file(long: pd.DataFrame, rows: pd.Series[Any], named: Mapping[str, str]) -> dict[str, str]:
    """Return the name of a long file's column of rows, of annotators and of labels, by `ROW`, `ANNOTATOR` and `LABEL`.

    A column is found by its name, in upper or lower case. Otherwise, the column of rows is the one with most names of
    rows. The column of annotators is the only one without equal values for one row. The labels are in the column left.

    Args:
        long: the file, its cells as text.
        rows: names of the rows of the table.
        named: columns that are known.

    Raises:
        ValueError: if a column in `named` is missing, or it is not clear which column is meant.
    """
    for role, name in named.items():
        require_column(long, name, role, "the file of annotations")
    found = {name.strip().casefold(): name for name in reversed(long.columns)}
    roles = {role: found[role] for role in (ROW, ANNOTATOR, LABEL) if role in found} | dict(named)

    def left() -> list[str]:
        return [name for name in long.columns if name not in roles.values()]

    if ROW not in roles and left():
        known = rows.astype(str).tolist()
        share = {name: long[name].isin(known).mean() for name in left()}
        best = max(share, key=lambda name: share[name])
        roles |= {ROW: best} if share[best] > 1 / 2 else {}
    if ANNOTATOR not in roles and ROW in roles:
        plain = long.assign(**{name: long[name].map(spelling, na_action="ignore") for name in left()})
        once = [name for name in left() if not plain.duplicated([roles[ROW], name]).any()]
        roles |= {ANNOTATOR: once[0]} if len(once) == 1 else {}
    if LABEL not in roles and len(left()) == 1:
        roles[LABEL] = left()[0]
    for role in (ROW, ANNOTATOR, LABEL):
        if role not in roles:
            what = (
                f"given, as it is not clear which column of the file of annotations it is ({listed([*long.columns])})"
            )
            raise ValueError(expected(role, what, "none"))
    return roles


def of_long_file(long: pd.DataFrame, rows: pd.Series[Any], *, apart: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """Return labels as a table with a row for each name in `rows` and a column for each annotator; and notes.

    Labels without an annotator go to further columns: the first of each row to one column, the second to the next.

    Args:
        long: the columns `row`, `annotator` and `label`.
        rows: names of the rows of the table.
        apart: whether labels, and annotators, that differ in the spelling alone are different ones.

    Raises:
        ValueError: if a column is missing, no row is in the table, or an annotator gives a row two labels.
    """
    for name in (ROW, ANNOTATOR, LABEL):
        require_column(long, name, "annotations", "the file of annotations")
    text = {name: Columns({}, name).labels(long) for name in (ROW, ANNOTATOR, LABEL)}
    entries = pd.DataFrame(text)
    empty = entries[LABEL].isna()
    notes = [f"{int(empty.sum()):,} lines of annotations have no label and were left out."] if empty.any() else []
    entries = entries[~empty]
    if entries.empty:
        raise ValueError(expected("annotations", "a file with labels", "none"))
    if rows.duplicated().any():
        raise ValueError(expected("id", "a column of different names", str(rows[rows.duplicated()].iloc[0])))
    known = entries[ROW].isin(rows.astype(str))
    if not known.any():
        raise ValueError(expected("annotations", f"of rows of the table, by {rows.name}", entries[ROW].iloc[0]))
    if not known.all():
        strange, lines = entries.loc[~known, ROW], int((~known).sum())
        are = "1 line of annotations is" if lines == 1 else f"{lines:,} lines of annotations are"
        notes.append(f"{are} on rows that the table does not have ({strange.iloc[0]!r}, for one), and left out.")
    entries = entries[known]
    for name, what in ((LABEL, "label"), (ANNOTATOR, "annotator")):
        changed = {} if apart else joined(entries[name].dropna())
        entries[name] = entries[name].replace(changed)
        notes += [f"In the annotations, {one}" for one in on_joined(changed, what)]
    entries = entries.drop_duplicates()
    nobody = entries[ANNOTATOR].isna()
    if nobody.any():
        number = entries[nobody].groupby(ROW).cumcount() + 1
        entries.loc[nobody, ANNOTATOR] = [f"{UNKNOWN} {place}" for place in number]
        notes.append(f"{int(nobody.sum()):,} labels name no annotator.")
    twice = entries.duplicated([ROW, ANNOTATOR])
    if twice.any():
        first = entries[twice].iloc[0]
        raise ValueError(
            expected(
                "annotations", "one label of each annotator for a row", f"two of {first[ANNOTATOR]} for {first[ROW]}"
            )
        )
    wide = entries.pivot(index=ROW, columns=ANNOTATOR, values=LABEL).reindex(rows.astype(str))
    return wide.set_axis(rows.index), notes


def annotated(frame: pd.DataFrame, plan: FitPlan, labels: pd.DataFrame, notes: Sequence[str], jobs: int) -> Annotated:
    """Find the consensus of a table's labels, with a model of its features as prior.

    Args:
        frame: the table, with rows numbered from 0.
        plan: the settings; its target becomes the name of the column of the consensus.
        labels: labels as text, a column for each annotator.
        notes: sentences on the labels.
        jobs: number of trees grown at once.

    Raises:
        ValueError: if the target is a column of the table already, or labels are not fit for a consensus.
    """
    if plan.target in frame.columns:
        raise ValueError(expected("target", "a name that no column of the table has", plan.target))
    columns = [name for name in labels.columns if name in frame.columns]
    changed = {} if plan.apart else joined(pd.concat([labels[name] for name in labels]))
    labels = labels.replace(changed) if changed else labels
    given = labels if columns else pd.DataFrame({GIVEN: _written(labels)}, index=labels.index)
    others = frame.drop(columns=columns)
    table = pd.concat([given, others], axis=1)  # the labels first: lists of suspects show the first columns
    plan = replace(plan, drop=(*plan.drop, *given.columns))
    kinds = plan.columns(table.assign(**{plan.target: ""}))
    selected = kinds.select(table)
    labelled = labels.notna().any(axis=1).to_numpy()
    transformer = features_of(selected, kinds.kinds, plan.seed).fit(selected[labelled])
    model = None if kinds.width else estimator("forest", plan.seed, jobs)
    found = ConsensusClassifier(model, missing=None, random_state=plan.seed)
    with one_blas_thread(), one_torch_thread():
        consensus = found.fit(transformer.transform(selected), labels).consensus_
    target = pd.Series(consensus.labels, index=table.index, dtype=object).where(labelled)
    # Rows without a label are left out of the fit, which says so.
    of_labels = [note for note in consensus.notes if "no label" not in note]
    said = [*on_joined(changed), *notes, *of_labels, _on_bound(labels)]
    return Annotated(
        frame=table.assign(**{plan.target: target}),
        plan=plan,
        consensus=consensus,
        given=given,
        names=kinds.row_names(table),
        notes=said,
    )


def annotator_sentences(consensus: Consensus) -> list[str]:
    """Return a sentence on each annotator, and whether annotators err independently."""
    return [*(printable(str(one)) for one in consensus.annotators), CAUTION, str(consensus.independence)]


def _written(labels: pd.DataFrame) -> list[str]:
    """Return the labels of each row as one text."""
    return [
        "; ".join(f"{name}: {label}" for name, label in zip(labels.columns, row, strict=True) if pd.notna(label))
        for row in labels.to_numpy(dtype=object)
    ]


def _on_bound(labels: pd.DataFrame) -> str:
    return (
        f"The target is the consensus of {labels.shape[1]:,} columns of labels. A model had a part in it, so the bound "
        "is on disagreement with the consensus. Checked rows bound the errors against right labels: see mgce review."
    )
