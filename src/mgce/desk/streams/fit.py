"""Fit to a table in chunks: choose the model on one, learn many, and judge each by the models of the others."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from mgce._threads import one_blas_thread, one_torch_thread
from mgce._validation import expected
from mgce.desk.columns.copies import things_and_copies
from mgce.desk.columns.kinds import unlike_their_column
from mgce.desk.columns.notes import without_label
from mgce.desk.files.parts import Parts
from mgce.desk.files.reading import Reading
from mgce.desk.review.draws import Draws
from mgce.desk.review.suspect_file import NAME, own_name
from mgce.desk.streams.chunks import Chunks
from mgce.desk.streams.workers import Each
from mgce.desk.tables.choice import AUTO, CORRECTION, HEAD, estimator, unlearnt
from mgce.desk.tables.fit import OnStep, TableFit, run
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.learning import Counts, as_learnt, learn_all
from mgce.desk.tables.listing import Listing, own_columns
from mgce.desk.tables.model import TableModel, row_prints
from mgce.desk.tables.rows import Rows, order_of, row_keys
from mgce.estimators.merged import for_chunk, merged, share_of_trees
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.share import NoiseShare, bounded_share

LISTED = 10_000  # rows in the file of suspects for people: weeks of looking
DRAWN = 1_000  # rows of a random order there: a day of looking, of which half are rows held out
# Rows that are learnt: eight of the largest chunks. All rows are judged. Models of 1, 2, 4, 8 and 16 chunks of 10,000
# rows ranked wrong labels of new rows with an AP of 0.901, 0.911, 0.911, 0.912 and 0.914, as in results/growth.
LEARNT = 400_000
IN_CHUNKS = (AUTO, "forest", "linear")  # models that learn chunk by chunk
OF_ROWS = ("target", "probs", "wrong", "suggestion", "is_issue", "is_distinct", "rank")  # what is judged of each row
ANCHOR = 1e-6  # weight of a made-up row of a class that a chunk lacks, so that all models have the same classes


@dataclass(frozen=True)
class Pilot:
    """What the first chunk decided, for all chunks."""

    plan: FitPlan
    model: TableModel  # with the columns, what preprocesses them, and the classes
    name: str
    models: dict[str, Any]  # fitted to the first chunk, by name: the model, and the one that judges labels
    draws: pd.DataFrame  # the first rows of a random order, by their number in the table

    def made(self, name: str, n: int, jobs: int) -> Any:
        """Return an unfitted model for one of n chunks."""
        model = estimator(name, self.plan.seed, jobs, self.plan.beta)
        return for_chunk(model, self.models[name], n)


@dataclass(frozen=True)
class Judged:
    """What is known of the rows of a chunk."""

    judgement: DoubtfulLabels  # of the most suspect rows, and of those that were drawn
    names: pd.Series[Any]
    listing: Listing
    counts: Counts
    differing: int  # distinct rows whose label differs from the prediction
    missing: dict[str, int]  # missing values of each feature
    left_out: NDArray[np.int64]  # (2,), rows without a label, and with one that is none of the classes
    notes: dict[str, str]  # the first note on each column

    def __add__(self, other: Judged) -> Judged:
        """Return what is known of the rows of both."""
        every: dict[str, Any] = {
            name: np.concatenate([getattr(one.judgement, name) for one in (self, other)]) for name in OF_ROWS
        }
        lead = every["probs"][np.arange(len(every["target"])), every["target"]] - every["probs"].max(1)
        every["rank"] = np.argsort(np.lexsort((every["rank"], lead)))
        judged, (one, two) = replace(self.judgement, **every), (self.listing, other.listing)
        listing = replace(
            one,
            cells=pd.concat([one.cells, two.cells], ignore_index=True),
            keys=[*one.keys, *two.keys],
            draws=Draws(*map(np.concatenate, zip(astuple(one.draws), astuple(two.draws), strict=True))),
        )
        names = pd.concat([self.names, other.names], ignore_index=True)
        return Judged(
            *_listed(judged, names, listing),
            self.counts + other.counts,
            self.differing + other.differing,
            {name: n + other.missing[name] for name, n in self.missing.items()},
            self.left_out + other.left_out,
            other.notes | self.notes,
        )


@dataclass(frozen=True)
class Work:
    """The work on the chunks of a table, by functions that any process can call: all they need lies in files."""

    chunks: Chunks
    plan: FitPlan
    jobs: int
    out: Path  # the folder for the parts of the file of suspects

    def file(self, name: str) -> Path:
        """Return the path of a file beside the chunks."""
        return self.chunks.folder / name

    def save(self, name: str, value: Any) -> None:
        """Write a file that another process can load, whole or not at all."""
        path = self.file(name)
        joblib.dump(value, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    @property
    def pilot(self) -> Pilot:
        """What :meth:`begin` has found."""
        found: Pilot = joblib.load(self.file("pilot"))
        return found

    @property
    def learnt(self) -> range:
        """The chunks that are learnt."""
        n = self.chunks.n
        return range(min(n, max(2, math.ceil(n * LEARNT / self.chunks.rows))))

    def begin(self, chunk: int) -> None:
        """Choose, measure and certify the model on one chunk, as on a table of its own."""
        frame, places = self.chunks.frame(chunk)
        found = run(frame, self.plan, jobs=self.jobs, again=as_learnt)
        draws = found.listing.draws
        some = draws.number <= DRAWN
        at = places[found.row_names.index.to_numpy()[some]]
        drawn = pd.DataFrame({"number": draws.number[some], "probability": draws.probability[some]}, index=at)
        fitted = {found.choice.name: found.choice.fitted, found.judge.name: found.judge.fitted}
        models = {name: _without_trees(one) for name, one in fitted.items()}
        steps = [found.model.pipeline.steps[0], ("classifier", models[found.choice.name])]
        model = replace(found.model, pipeline=Pipeline(steps), trained_rows=found.model.trained_rows[:0])
        self.save("pilot", Pilot(self.plan, model, found.choice.name, models, drawn))
        # No row leaves this process but in files that others open for their own rows.
        self.save("fit", replace(found, listing=replace(found.listing, cells=found.listing.cells.iloc[:0])))

    def learn(self, chunk: int) -> None:
        """Fit the models of a chunk."""
        pilot, n = self.pilot, len(self.learnt)
        every = labelled_rows(self.chunks.frame(chunk)[0], pilot)
        with one_blas_thread(), one_torch_thread():
            X = pilot.model.pipeline[:-1].transform(every.selected.iloc[every.train])
            X, rows, n_rows = _with_all_classes(X, every)
            fitted, judge = learn_all(pilot.name, X, rows, self.plan, partial(pilot.made, n=n, jobs=self.jobs))
        probs = unlearnt(judge.fitted)[:n_rows].astype(np.float32)
        self.save(f"unlearnt-{chunk}", (probs, every.train, every.first))
        self.save(f"prints-{chunk}", row_prints(rows.selected.iloc[:n_rows], rows.labels.iloc[:n_rows]))
        kept = {name: _merged(pilot, name, [one], n) for name, one in ((pilot.name, fitted), judge)}
        self.save(f"models-{chunk}", kept)

    def models(self, name: str, but: int | None = None) -> Any:
        """Return one model of all chunks that are learnt, or of all but one."""
        each = [joblib.load(self.file(f"models-{one}"))[name] for one in self.learnt if one != but]
        return _merged(self.pilot, name, each, len(self.learnt))

    def judge(self, chunk: int) -> None:
        """Judge the labels of a chunk by the models of the others, and by what its own said before it learnt a row."""
        pilot, n = self.pilot, self.chunks.n
        frame, places = self.chunks.frame(chunk)
        own, *copies = joblib.load(self.file(f"unlearnt-{chunk}")) if chunk in self.learnt else (None,)
        rows = labelled_rows(frame, pilot, *copies)
        source = next(name for name in (HEAD, CORRECTION) if name in pilot.models)
        with one_blas_thread(), one_torch_thread():
            X = pilot.model.pipeline[:-1].transform(rows.selected)
            model, of_own = self.models(source, but=chunk), 0.0 if own is None else 1 / len(self.learnt)
            matrix = model.transition_ if source == CORRECTION else np.eye(len(rows.classes))
            probs = np.empty((len(X), len(rows.classes)))
            probs[rows.train] = model.predict_proba(X[rows.train]) @ matrix * (1 - of_own)
            probs[rows.train] += 0 if own is None else own * of_own
            judged = doubtful_labels(
                probs[rows.first], rows.target, classes=rows.classes, first=rows.first, X=X, source=source
            )
        names, listing = self._listing(rows, places[rows.frame.index], pilot)
        table = pd.DataFrame(own_columns(judged, names, listing)).iloc[judged.order]
        table.columns = [*table.columns[:NAME], own_name(str(names.name)), *table.columns[NAME + 1 :]]
        table.astype({"line": "str"}).to_parquet(self.out / f"part-{chunk:05}.parquet", index=False)
        distinct, empty = judged.is_distinct, int(pilot.model.columns.labels(frame).isna().sum())
        notes = *unlike_their_column(rows.frame, rows.selected, rows.columns.kinds), *pilot.model.unseen(rows.selected)
        self.save(
            f"judged-{chunk}",
            Judged(
                *_listed(judged, names, listing),
                Counts.of(judged),
                int((judged.probs.argmax(1) != judged.target)[distinct].sum()),
                {name: int(rows.selected[name].isna().sum()) for name in rows.columns.kinds},
                np.array([empty, len(frame) - len(rows.frame) - empty]),
                {_about(note): f"In chunk {chunk + 1} of {n}: {note[0].lower()}{note[1:]}" for note in notes},
            ),
        )

    def _listing(self, rows: Rows, places: NDArray[np.int64], pilot: Pilot) -> tuple[pd.Series[Any], Listing]:
        """Return the names of rows, by their numbers in the table from 0, and what is listed of them."""
        place = pd.Index(pilot.draws.index).get_indexer(places)
        number = np.where(place < 0, DRAWN + 1 + np.arange(len(places)), pilot.draws["number"].to_numpy()[place])
        chance = np.where(place < 0, 0.0, pilot.draws["probability"].to_numpy()[place])
        names = pd.Series((places + 1).astype(str), index=rows.names.index, name="row")
        target, vectors = self.plan.target, rows.columns.kinds if rows.columns.width else ()
        others = [name for name in rows.frame.columns if name not in (target, self.plan.id, *vectors)]
        listing = Listing(rows.frame[others], row_keys(rows.frame, target), None, Draws(number, chance), {}, target)
        return rows.names if self.plan.id else names, listing


def labelled_rows(
    frame: pd.DataFrame, pilot: Pilot, train: NDArray[np.int64] | None = None, first: NDArray[np.int64] | None = None
) -> Rows:
    """Return the rows of a chunk whose label is one of the classes, all of them to learn from.

    Args:
        frame: the chunk.
        pilot: what the first chunk decided.
        train: the distinct rows; None to look for copies.
        first: for each row, the one that stands for its copies.
    """
    columns, classes = pilot.model.columns, pilot.model.classes.astype(str)
    all_labels = columns.labels(frame)
    known = all_labels.isin(classes).to_numpy()
    kept, labels = frame[known], all_labels[known]
    selected = columns.select(kept)
    if train is None or first is None:
        others = kept[[name for name in dict.fromkeys(pilot.plan.unlearnt) if name in kept.columns]]
        order = order_of(selected, labels, others)
        same = things_and_copies(selected.iloc[order], labels.iloc[order])[1]
        first_in_order = np.unique(same, return_index=True)[1][same]
        first = order[first_in_order][np.argsort(order)]
        train = order[first_in_order == np.arange(len(order))]
    return Rows(
        frame=kept,
        columns=columns,
        selected=selected,
        labels=labels,
        target=np.searchsorted(classes, labels.to_numpy(dtype=str)).astype(np.int64),
        classes=classes,
        names=columns.row_names(frame)[known],
        train=train,
        held_out=train[:0],
        first=first,
        n_copies=len(kept) - len(train),
        groups=None,
        unknown=selected.iloc[:0],
        unknown_groups=None,
        notes=[],
    )


def fit_in_chunks(parts: Parts, work: Work, each: Each, told: OnStep | None = None) -> TableFit:
    """Fit to a table of which one chunk at a time fits the memory.

    The first chunk, a random sample, is fitted to and certified like a table of its own. Then the model that was
    chosen learns chunks of `LEARNT` rows, and their models become one. Each row's label is judged by the models of the
    other chunks, and by what the model of its own, if there is one, said before it learnt the row.

    Args:
        parts: the table.
        work: the settings, and where the chunks are.
        each: what :func:`mgce.desk.streams.workers.workers` yields.
        told: called at the beginning of each step, as by :func:`mgce.desk.tables.fit.run`.

    Returns:
        The fit. Its certificate and figures are of the first chunk. Its judgement and listing are of the most suspect
        rows of the table.

    Raises:
        ValueError: if the table or the plan are not fit for this.
    """
    plan, chunks = work.plan, range(work.chunks.n)
    if plan.time is not None:
        raise ValueError(expected("time", "left out for a table that is fitted to in chunks", plan.time))
    if plan.model not in IN_CHUNKS:
        raise ValueError(expected("model", f"one of {', '.join(IN_CHUNKS)} for a table in chunks", plan.model))
    steps: list[tuple[str, Callable[[Any], Any], Iterable[Any]]] = [
        ("Dividing the rows", work.chunks.scatter, enumerate(parts.units)),
        ("Choosing on the first chunk", work.begin, [0]),
        ("Learning the chunks", work.learn, work.learnt),
        ("Judging all labels", work.judge, chunks),
    ]
    for number, (what, function, arguments) in enumerate(steps, 1):
        if told is not None:
            told(what, number, len(steps))
        each(function, arguments)
    return _whole(work, parts)


def _whole(work: Work, parts: Parts) -> TableFit:
    """Return the fit to the first chunk, with the model of all that are learnt, and what was found in all chunks."""
    pilot, chunks = work.pilot, range(work.chunks.n)
    first: TableFit = joblib.load(work.file("fit"))
    ours: Judged = joblib.load(work.file("judged-0"))
    found = reduce(add, (joblib.load(work.file(f"judged-{chunk}")) for chunk in chunks[1:]), ours)
    prints = np.sort(np.concatenate([joblib.load(work.file(f"prints-{chunk}")) for chunk in work.learnt]))
    steps = [pilot.model.pipeline.steps[0], ("classifier", work.models(pilot.name))]
    share = bounded_share(found.differing, int(found.counts.rows.sum()))
    draws, later = found.listing.draws, found.listing.draws.number > DRAWN
    number = draws.number.copy()
    number[later] = DRAWN + 1 + np.arange(later.sum())  # each row of the file has one of its own
    counted = {*without_label(int(ours.left_out[0])), *(note.split(": ", 1)[1].lower() for note in ours.notes.values())}
    others = [note for note in first.notes if note not in counted and note.lower() not in counted]
    return replace(
        first,
        model=replace(first.model, pipeline=Pipeline(steps), trained_rows=prints),
        judgement=replace(found.judgement, share=share),
        totals=found.counts,
        listing=replace(found.listing, draws=Draws(number, draws.probability)),
        row_names=found.names,
        n_copies=parts.rows - int(found.left_out.sum()) - share.n,
        n_missing=found.missing,
        reading=Reading(
            parts.path.name, parts.rows, len(parts.schema.names), source=parts.source, sentences=tuple(parts.notes)
        ),
        notes=[
            *_on_chunks(work, first, share, found.left_out.tolist()),
            *found.notes.values(),
            *(f"In the first chunk, {note}" if note[0].isdigit() else note for note in others),
            *parts.notes,
        ],
    )


def _on_chunks(work: Work, first: TableFit, share: NoiseShare, left: list[int]) -> list[str]:
    """Say how the table was divided, what more rows gave, and which rows were left out."""
    n, learnt = work.chunks.n, len(work.learnt)
    rows = share.n / n * (learnt - learnt / n)  # that were learnt by who judges a row, in the mean
    return [
        f"The rows were divided into {n:,} chunks by their content. The figures and the bound are of the first chunk. "
        f"The model in the file is of {'all of them' if learnt == n else f'the first {learnt:,}'}.",
        "What more rows give: of labels that it had not learnt, the model predicts "
        f"{first.quality['accuracy']:.1%} if it learns {first.n_train:,} rows, and {1 - share.disagreement:.1%} if it "
        f"learns {round(rows):,}.",
        *without_label(left[0]),
        *([f"{left[1]:,} rows were left out, with labels too rare for the first chunk."] if left[1] else []),
    ]


def _about(note: str) -> str:
    """Return which column a note is on, and what of it: misfits, or unseen categories."""
    return note.split("`")[1] + note.split()[0]


def _with_all_classes(X: NDArray[Any], rows: Rows) -> tuple[NDArray[Any], Rows, int]:
    """Return the distinct rows alone, with a made-up row of next to no weight for each class that has none of them."""
    train, n = rows.train, len(rows.train)
    absent = np.setdiff1d(np.arange(len(rows.classes)), rows.target[train])
    weight = rows.weight(train)
    weight = np.ones(n) if weight is None else weight
    alone = replace(
        rows,
        selected=rows.selected.iloc[train],
        labels=rows.labels.iloc[train],
        target=np.concatenate([rows.target[train], absent]),
        train=np.arange(n + len(absent)),
        first=np.arange(n + len(absent)),
        weights=np.concatenate([weight, np.full(len(absent), ANCHOR)]) if rows.n_copies or len(absent) else None,
    )
    if not len(absent):
        return X, alone, n
    return np.concatenate([X, np.zeros((len(absent), X.shape[1]), X.dtype)]), alone, n


def _without_trees(model: Any) -> Any:
    """Return a model as :func:`for_chunk` needs it: every process loads it for every chunk."""
    found = copy.copy(model)
    for name in ("trees_", "left_out_proba_", "right_proba_", "oof_proba_", "oob_decision_function_"):
        found.__dict__.pop(name, None)
    return found


def _merged(pilot: Pilot, name: str, models: list[Any], n: int) -> Any:
    first = pilot.models[name]
    return merged(models, share_of_trees(first, n) if hasattr(first, "n_estimators") else 0)


def _listed(
    judged: DoubtfulLabels, names: pd.Series[Any], listing: Listing
) -> tuple[DoubtfulLabels, pd.Series[Any], Listing]:
    """Return the rows that the file of suspects lists: the most suspect ones, and those that were drawn."""
    rows = np.union1d(judged.order[:LISTED], np.flatnonzero(listing.draws.number <= DRAWN))
    parts: dict[str, Any] = {name: getattr(judged, name)[rows] for name in OF_ROWS}
    draws = Draws(listing.draws.number[rows], listing.draws.probability[rows])
    cells, keys = listing.cells.iloc[rows].reset_index(drop=True), [listing.keys[row] for row in rows.tolist()]
    listed = replace(listing, cells=cells, keys=keys, draws=draws)
    return replace(judged, **parts), names.iloc[rows].reset_index(drop=True), listed
