"""Fit a robust classifier to a table, bound its errors from held-out rows, and estimate which labels are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from mgce._column_types import texts
from mgce._messages import not_installed
from mgce._threads import one_blas_thread, one_torch_thread
from mgce.desk.columns.dependence import Dependence, dependence
from mgce.desk.columns.kinds import TEXT
from mgce.desk.columns.notes import if_names, notes_on
from mgce.desk.columns.spellings import joined, near, on_joined
from mgce.desk.encoders.libraries import BUILT_IN_TEXTS, TEXT_EXTRA
from mgce.desk.files.reading import Reading
from mgce.desk.files.table_files import accounted, require_column
from mgce.desk.review.decision_file import SKIP, Decision
from mgce.desk.review.suspect_file import PICTURE
from mgce.desk.tables.checked import Checked, Findings, findings
from mgce.desk.tables.choice import Choice
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.held_out import HeldOut, Measures, certified, check_certifiable, measure, prediction_sets, quality
from mgce.desk.tables.learning import Counts, Judge, Judged, Learnt, learn, models_of, refit
from mgce.desk.tables.listing import Listing
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.rows import Rows, split_rows
from mgce.desk.tables.text_features import reads_meaning
from mgce.features.feature_files import Card
from mgce.labels.consensus import Consensus
from mgce.labels.doubtful import DoubtfulLabels
from mgce.labels.share import NoiseShare
from mgce.risk import RiskCertificate

OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class About:
    """What is known of a table besides its cells.

    Attributes:
        reading: the description of the table's file, if the table was read from a file.
        decisions: a person's decisions on labels: they correct the labels of training rows. Held-out rows are drawn and
            measured with the labels before the review, so that decisions cannot make the model look better.
        encoder: the card of the encoder that made the table's embeddings, for the model's file.
        consensus: the consensus of several labels a row, if the target is one.
        notes, last_notes: sentences for the user, before and after those of the fit.
        caution: a warning that stands before the headline.
    """

    reading: Reading | None = None
    decisions: Sequence[Decision] = ()
    encoder: Card | None = None
    consensus: Consensus | None = None
    notes: Sequence[str] = ()
    last_notes: Sequence[str] = ()
    caution: str = ""


@dataclass(frozen=True)
class TableFit:
    """A model fitted to all rows, with certificate and measurements of the same model fitted to the training rows."""

    plan: FitPlan  # the settings
    model: TableModel  # what was chosen, fitted to all rows: the one to use
    measured: TableModel  # the same, fitted to the training rows: the one that the certificate and all figures are of
    choice: Choice
    quality: dict[str, Any]  # on the rows held out: what `quality` returns
    certificate: RiskCertificate
    measures: Measures  # on the rows held out
    judgement: DoubtfulLabels  # of the given labels of all rows; of a table in chunks, of the most suspect ones
    judge: Judge  # what judged them
    listing: Listing  # what is listed of each of these rows beside the judgement
    row_names: pd.Series[Any]  # of these rows: values of the id column, or numbers of the rows
    n_train: int  # number of training rows, of which none is a copy
    n_copies: int  # number of rows that are copies of others
    # Mean of q of the predicted class on the rows held out: an estimate of the accuracy against right labels, or NaN.
    sure: float
    set_size: float  # mean number of classes in a prediction set of the rows held out; 0 without prediction sets
    n_missing: dict[str, int]  # number of missing values of each feature
    dependence: list[Dependence]  # signs that rows depend on one another, which are among the notes too
    left_out: list[str]  # columns that are not features because no training row has a value
    unique: Sequence[str]  # columns that are none because they name the rows; they are in `plan.drop` too
    notes: list[str]  # sentences for the user: likely mistakes in the table, and fits that did not converge
    reading: Reading | None = None  # the account of the table's file, if it was read from one
    checked: Checked | None = None  # decisions of a person on rows
    findings: Findings | None = None  # what they did and tell
    asked: Sequence[str] = ()  # what to look at first: spellings that were joined, and others that may be one class
    caution: str = ""  # what to know before the headline, of the table's file
    consensus: Consensus | None = None  # of several labels a row, if the target is one
    totals: Counts | None = None  # of all rows, where the judgement is of some

    @property
    def counts(self) -> Counts:
        """The numbers of distinct rows, and of those whose label looks wrong, by class."""
        return self.totals or Counts.of(self.judgement)

    @property
    def share(self) -> NoiseShare:
        """The share of wrong labels among distinct rows."""
        share = self.judgement.share
        assert share is not None  # it is None for a consensus that no model judged
        return share

    @property
    def n_asked(self) -> int:
        """The number of distinct rows whose label is more likely wrong than right."""
        return int(self.counts.look_wrong.sum())

    @property
    def given_label(self) -> str:
        """The label of held-out rows that accuracies, bounds and calibration errors compare with."""
        return "the given label" if self.findings is None else "the label given before the review"


def run(
    frame: Any,
    plan: FitPlan,
    on_step: OnStep | None = None,
    jobs: int = 1,
    about: About | None = None,
    again: Callable[[Learnt, Rows, FitPlan, int], Judged] = refit,
) -> TableFit:
    """Choose and fit a model on the training rows, certify and measure it on held-out rows, and judge all labels.

    At the end, the chosen model is fitted once more to all rows.

    Args:
        frame: the table: a DataFrame of pandas or polars.
        plan: the settings.
        on_step: called at the beginning of each step with its description, its number from 1, and the largest possible
            number of steps.
        jobs: number of trees that a forest grows at once; -1 for one on each core.
        about: what is known of the table besides its cells.
        again: the function that returns the model to use, and judges all labels; by default it fits to all rows.

    Raises:
        TypeError: if `frame` is no table.
        ValueError: if the table is not fit for classification, or too small to be split, or is not the table that the
            decisions are about.
    """
    about = about or About()
    reading = about.reading
    if reading is None:
        frame, reading = accounted(frame, text=[*plan.text, *plan.category])
    frame, asked = _of_one_spelling(frame.reset_index(drop=True), plan)
    names = plan.names_of_rows(frame)
    plan = replace(plan, drop=(*plan.drop, *names))
    checked = Checked.of(about.decisions, frame, plan)
    rows = split_rows(checked.given, plan)
    checked = checked.with_copies(rows)
    rows = checked.without_lost(rows)
    decided = Counter(one.given for one in about.decisions if one.is_settled)
    asked += near(texts(frame[plan.target]).value_counts().to_dict(), decided, rows.labels.unique())
    learnt_from = checked.mended(rows)
    check_certifiable(plan, len(rows.classes))
    models = models_of(rows, plan, jobs)
    on_fit = _numbered(on_step, len(models) + 2)  # shuffling columns, and the fit to all rows
    learnt = learn(learnt_from, plan, models, on_fit)
    choice, measured = learnt.choice, learnt.model
    held_out = HeldOut.of(measured, rows)
    certificate = certified(held_out, rows, plan)
    in_use = plan.groups is not None or plan.time is not None
    sets = None if in_use else prediction_sets(held_out, rows, plan)  # which need exchangeable rows
    with one_blas_thread(), one_torch_thread():
        on_fit("Shuffling columns")
        measures = measure(measured.pipeline, held_out.known.label, rows, certificate, plan.noise_type, plan.seed)
        on_fit("Fitting to all rows, and judging their labels")
        model, judgement, judge = again(learnt, learnt_from, plan, jobs)
        model = replace(model, sets=sets, encoder=about.encoder)
    on_rows = {row: one.decision for row, one in checked.by_row(rows).items()}
    listing = Listing.of(frame, rows, plan, reading, on_rows)
    predicted = held_out.known.label
    found = findings(checked, rows, listing.draws, predicted, plan.delta, independent=not in_use)
    dependent = dependence(rows.selected, rows.columns.kinds, rows.labels, rows.n_copies, in_use)
    judgement = _doubted(checked.settled(judgement, rows), listing, model, about.consensus)
    return TableFit(
        plan=plan,
        model=model,
        measured=measured,
        choice=choice,
        quality=quality(held_out.known.margins, rows.target[rows.held_out], measured.beta),
        certificate=certificate,
        measures=measures,
        judgement=judgement,
        judge=judge,
        listing=listing,
        row_names=rows.names,
        n_train=len(learnt_from.train),
        n_copies=rows.n_copies,
        sure=float(held_out.known.h.max(1).mean()) if model.corrects else np.nan,
        set_size=0.0 if sets is None else float(sets.predict(held_out.known.softmax).sum(1).mean()),
        n_missing={name: int(rows.selected[name].isna().sum()) for name in rows.columns.kinds},
        dependence=dependent,
        left_out=[] if rows.columns.width else _other_columns(frame, rows, plan),
        unique=names,
        reading=reading,
        checked=checked if about.decisions else None,
        findings=found,
        asked=asked,
        caution=about.caution,
        consensus=about.consensus,
        notes=[
            *about.notes,
            *reading.notes,
            *(_on_names(frame[name]) for name in names),
            *_on_the_table(frame, rows, plan, dependent),
            *learnt.warned,
            *([found.note] if found and found.note else []),
            *about.last_notes,
        ],
    )


def _of_one_spelling(frame: pd.DataFrame, plan: FitPlan) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with one spelling for each class, unless spellings stay apart; and a sentence on joined ones."""
    require_column(frame, plan.target, "target")
    labels = texts(frame[plan.target])
    changed = {} if plan.apart else joined(labels)
    if changed:
        labels = labels.replace(changed)
        frame = frame.assign(**{plan.target: labels})
    return frame, on_joined(changed)


def _doubted(
    judgement: DoubtfulLabels, listing: Listing, model: TableModel, consensus: Consensus | None
) -> DoubtfulLabels:
    """Return the judgement of labels; if they are a consensus, the suspects stand in the order of doubt about it."""
    if consensus is None:
        return judgement
    place = {str(label): number for number, label in enumerate(consensus.classes)}
    columns = [place[str(label)] for label in model.classes]
    rows = listing.cells.index.to_numpy()
    settled = [row for row, decision in listing.checked.items() if decision != SKIP]
    doubted = judgement.as_consensus(consensus.probs[rows][:, columns], consensus.doubtful.rank[rows])
    return doubted.settled(np.array(settled, dtype=np.int64))


def _on_the_table(frame: pd.DataFrame, rows: Rows, plan: FitPlan, dependent: Sequence[Dependence]) -> list[str]:
    """Return notes on likely mistakes in the table, dependent rows, and columns that are not learnt from."""
    return [
        *rows.notes,
        *notes_on(rows.frame, rows.selected, rows.labels, rows.columns, plan.told),
        *(each.note for each in dependent),
        *_beside_embeddings(frame, rows, plan),
        *_on_texts(rows),
    ]


def _other_columns(frame: pd.DataFrame, rows: Rows, plan: FitPlan) -> list[str]:
    """Return the columns that are neither features nor named by an option."""
    return [name for name in frame.columns if name not in (*rows.columns.kinds, plan.target, *plan.unlearnt)]


def _beside_embeddings(frame: pd.DataFrame, rows: Rows, plan: FitPlan) -> list[str]:
    """Say which columns are not learnt from, because the table has a column of embeddings."""
    others = [name for name in _other_columns(frame, rows, plan) if name != PICTURE]
    if not rows.columns.width or not others:
        return []
    return [f"The embeddings alone are learnt from, not the columns beside them: {', '.join(others)}."]


def _on_names(column: pd.Series[Any]) -> str:
    """Say that a column was left out because it only numbers the rows, or has a different text in every row."""
    name = column.name
    if pd.api.types.is_numeric_dtype(column):
        return (
            f"Column `{name}` was left out, since it only numbers the rows. {if_names(name)} If it is a "
            f"measurement, pass --number '{name}'."
        )
    return (
        f"Column `{name}` was left out, since it is different in every row. {if_names(name)} If it is text to "
        f"learn from, pass --text '{name}'."
    )


def _on_texts(rows: Rows) -> list[str]:
    """Say how the columns of text are read, if there are any."""
    if TEXT not in rows.columns.kinds.values():
        return []
    if reads_meaning(rows.columns.kinds):
        return [f"Texts are read by their words, and by their meaning as {BUILT_IN_TEXTS} encodes it."]
    return [f"Texts are read by their words alone. {not_installed('Their meaning needs', *TEXT_EXTRA)}"]


def _numbered(on_step: OnStep | None, total: int) -> Callable[[str], None]:
    """Return a function that reports each step of a fit to `on_step`, with its number."""
    numbers = count(1)
    return lambda step: None if on_step is None else on_step(step, next(numbers), total)
