"""Fit to a table in chunks: choose the model on one, learn many, and judge each chunk by the models of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace
from functools import partial, reduce, wraps
from operator import add
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from mgce._messages import expected
from mgce._threads import one_blas_thread, one_torch_thread
from mgce.desk.columns.kinds import unlike_their_column
from mgce.desk.columns.notes import without_label
from mgce.desk.files.layout import were
from mgce.desk.files.parts import PART, Parts
from mgce.desk.files.reading import Reading
from mgce.desk.review.draws import Draws
from mgce.desk.review.suspect_file import NAME, own_name
from mgce.desk.streams.chunks import Chunks
from mgce.desk.streams.pilot import DRAWN, Pilot, with_all_classes
from mgce.desk.tables.choice import CORRECTION, HEAD, unlearnt
from mgce.desk.tables.fit import OnStep, TableFit, run
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.learning import Counts, as_learnt, learn_all
from mgce.desk.tables.listing import Listing, own_columns
from mgce.desk.tables.model import row_prints
from mgce.desk.tables.rows import Rows, row_keys
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.share import NoiseShare, bounded_share

# Rows that are learnt: eight of the largest chunks. All rows are judged. Models of 1, 2, 4, 8 and 16 chunks of 10,000
# rows ranked wrong labels of new rows with an AP of 0.901, 0.911, 0.911, 0.912 and 0.914, as in results/growth.
LEARNT = 400_000
STEPS = ("Dividing the rows", "Choosing on the first chunk", "Learning the chunks", "Judging all labels")
LISTED = 10_000  # rows in the file of suspects for people: weeks of looking
OF_ROWS = ("target", "probs", "wrong", "suggestion", "is_issue", "is_distinct", "rank")  # what is judged of each row
Each = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]  # calls a function for each of some arguments


def in_chunk(step: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
    """Return a step of :class:`Work` whose errors name the chunk, since they are about the rows of this chunk alone."""

    @wraps(step)
    def named(work: Work, chunk: int) -> None:
        try:
            step(work, chunk)
        except ValueError as error:
            raise ValueError(f"In chunk {chunk + 1:,} of {work.chunks.n:,}: {error}") from error

    return named


@dataclass(frozen=True)
class Judged:
    """The findings on the rows of one chunk or more: counts of all rows, and details of the most suspect rows."""

    judgement: DoubtfulLabels  # of the rows that are kept: see `listed`
    names: pd.Series[Any]
    listing: Listing
    counts: Counts  # of all rows
    differing: int  # distinct rows whose label differs from the prediction
    missing: dict[str, int]  # missing values of each feature
    left_out: NDArray[np.int64]  # (2,), rows without a label, and with one that is none of the classes
    notes: dict[str, str]  # the first note on each column

    def __add__(self, other: Judged) -> Judged:
        """Return the findings on the rows of both."""
        every: dict[str, Any] = {
            name: np.concatenate([getattr(one.judgement, name) for one in (self, other)]) for name in OF_ROWS
        }
        lead = every["probs"][np.arange(len(every["target"])), every["target"]] - every["probs"].max(1)
        every["rank"] = np.argsort(np.lexsort((every["rank"], lead)))
        one, two = self.listing, other.listing
        return Judged(
            replace(self.judgement, **every),
            pd.concat([self.names, other.names], ignore_index=True),
            replace(
                one,
                cells=pd.concat([one.cells, two.cells], ignore_index=True),
                keys=[*one.keys, *two.keys],
                draws=Draws(*map(np.concatenate, zip(astuple(one.draws), astuple(two.draws), strict=True))),
            ),
            self.counts + other.counts,
            self.differing + other.differing,
            {name: n + other.missing[name] for name, n in self.missing.items()},
            self.left_out + other.left_out,
            other.notes | self.notes,
        ).listed()

    def listed(self) -> Judged:
        """Return the findings with details of the rows that the file of suspects lists: most suspect and drawn ones."""
        judged, listing = self.judgement, self.listing
        rows = np.union1d(judged.order[:LISTED], np.flatnonzero(listing.draws.number <= DRAWN))
        return replace(
            self,
            judgement=replace(judged, **{name: getattr(judged, name)[rows] for name in OF_ROWS}),
            names=self.names.iloc[rows].reset_index(drop=True),
            listing=replace(
                listing,
                cells=listing.cells.iloc[rows].reset_index(drop=True),
                keys=[listing.keys[row] for row in rows.tolist()],
                draws=Draws(listing.draws.number[rows], listing.draws.probability[rows]),
            ),
        )


@dataclass(frozen=True)
class Work:
    """The steps of the work on the chunks of a table; any process can call a step, since its inputs lie in files."""

    chunks: Chunks
    plan: FitPlan
    jobs: int
    out: Path  # the folder for the parts of the file of suspects

    def save(self, name: str, value: Any) -> None:
        """Write a value to a file beside the chunks, whole or not at all; other processes can load the value."""
        path = self.chunks.folder / name
        joblib.dump(value, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def load(self, name: str) -> Any:
        """Return what :meth:`save` has written."""
        return joblib.load(self.chunks.folder / name)

    @property
    def learnt(self) -> range:
        """The numbers of the chunks that models learn; the other chunks are only judged."""
        n = self.chunks.n
        return range(min(n, max(2, math.ceil(n * LEARNT / self.chunks.rows))))

    @in_chunk
    def choose(self, chunk: int) -> None:
        """Choose, measure and certify the model on one chunk, as on a table of its own."""
        frame, places = self.chunks.frame(chunk)
        found = run(frame, self.plan, jobs=self.jobs, again=as_learnt)
        self.save("pilot", Pilot.of(found, places))
        # No row leaves this process but in files that others open for their own rows.
        self.save("fit", replace(found, listing=replace(found.listing, cells=found.listing.cells.iloc[:0])))

    @in_chunk
    def learn(self, chunk: int) -> None:
        """Fit the chosen model, and the model that judges labels, to a chunk."""
        pilot, n = self.load("pilot"), len(self.learnt)
        every = pilot.rows(self.chunks.frame(chunk)[0])
        with one_blas_thread(), one_torch_thread():
            X, rows = with_all_classes(pilot.features(every.selected.iloc[every.train]), every)
            fitted, judge = learn_all(pilot.name, X, rows, self.plan, partial(pilot.made, n=n, jobs=self.jobs))
        probs = unlearnt(judge.fitted)[: len(every.train)].astype(np.float32)
        self.save(f"unlearnt-{chunk}", (probs, every.train, every.first))
        self.save(f"prints-{chunk}", row_prints(rows.selected, rows.labels))
        kept = {name: pilot.merged(name, [one], n) for name, one in ((pilot.name, fitted), judge)}
        self.save(f"models-{chunk}", kept)

    def merged(self, pilot: Pilot, name: str, but: int | None = None) -> Any:
        """Return one model merged from those of all learnt chunks, or of all but the chunk `but`."""
        each = [self.load(f"models-{one}")[name] for one in self.learnt if one != but]
        return pilot.merged(name, each, len(self.learnt))

    @in_chunk
    def judge(self, chunk: int) -> None:
        """Judge the labels of a chunk, and write its rows with their judgement."""
        pilot, n = self.load("pilot"), self.chunks.n
        frame, places = self.chunks.frame(chunk)
        own, *copies = self.load(f"unlearnt-{chunk}") if chunk in self.learnt else (None,)
        rows = pilot.rows(frame, tuple(copies) or None)
        judged = self._judgement(chunk, rows, pilot, own)
        names, listing = _listing(rows, places[rows.frame.index], pilot)
        table = pd.DataFrame(own_columns(judged, names, listing)).iloc[judged.order]
        table.columns = [*table.columns[:NAME], own_name(str(names.name)), *table.columns[NAME + 1 :]]
        table.astype({"line": "str"}).to_parquet(self.out / PART.format(chunk, n), index=False)
        differs, empty = judged.probs.argmax(1) != judged.target, int(pilot.model.columns.labels(frame).isna().sum())
        notes = *unlike_their_column(rows.frame, rows.selected, rows.columns.kinds), *pilot.model.unseen(rows.selected)
        found = Judged(
            judged,
            names,
            listing,
            Counts.of(judged),
            int(differs[judged.is_distinct].sum()),
            {name: int(rows.selected[name].isna().sum()) for name in rows.columns.kinds},
            np.array([empty, len(frame) - len(rows.frame) - empty]),
            {_about(note): f"In chunk {chunk + 1} of {n}: {note[0].lower()}{note[1:]}" for note in notes},
        )
        self.save(f"judged-{chunk}", found.listed())

    def _judgement(self, chunk: int, rows: Rows, pilot: Pilot, own: NDArray[np.float32] | None) -> DoubtfulLabels:
        """Judge labels by the models of other chunks; if the chunk is learnt, its model's predictions `own` count too.

        Each row in `own` was predicted by a model that had not learnt the row.
        """
        source = next(name for name in (HEAD, CORRECTION) if name in pilot.models)
        with one_blas_thread(), one_torch_thread():
            X, model = pilot.features(rows.selected), self.merged(pilot, source, but=chunk)
            probs = np.empty((len(X), len(rows.classes)))
            others = model.predict_proba(X[rows.train])
            if source == CORRECTION:
                others = others @ model.transition_
            of_own = 1 / len(self.learnt)
            probs[rows.train] = others if own is None else others * (1 - of_own) + own * of_own
            return doubtful_labels(
                probs[rows.first], rows.target, classes=rows.classes, first=rows.first, X=X, source=source
            )


def _listing(rows: Rows, places: NDArray[np.int64], pilot: Pilot) -> tuple[pd.Series[Any], Listing]:
    """Return the names and the listing of rows, whose numbers in the table, from 0, are `places`."""
    plan = pilot.plan
    drawn = pilot.draws.reindex(places)
    number = np.where(drawn["number"].isna(), DRAWN + 1 + np.arange(len(places)), drawn["number"]).astype(np.int64)
    chance = drawn["probability"].fillna(0.0).to_numpy()
    names = pd.Series((places + 1).astype(str), index=rows.names.index, name="row")
    vectors = rows.columns.kinds if rows.columns.width else ()
    others = [name for name in rows.frame.columns if name not in (plan.target, plan.id, *vectors)]
    keys = row_keys(rows.frame, plan.target)
    listing = Listing(rows.frame[others], keys, None, Draws(number, chance), {}, plan.target)
    return rows.names if plan.id else names, listing


def fit_in_chunks(parts: Parts, work: Work, each: Each, told: OnStep | None = None) -> TableFit:
    """Fit to a table of which one chunk at a time fits the memory.

    The first chunk, a random sample, is fitted to and certified like a table of its own. Then the model that was
    chosen learns chunks of `LEARNT` rows, and their models become one. Each row's label is judged by the models of the
    other chunks. If its own chunk is learnt, what that chunk's model predicted before it learnt the row counts too.

    Args:
        parts: the table.
        work: the settings, and where the chunks are.
        each: the function that :func:`mgce.desk.streams.dask_frames.workers` yields.
        told: called at the beginning of each step, as by :func:`mgce.desk.tables.fit.run`.

    Returns:
        The fit. Its certificate and figures are of the first chunk. Its judgement and listing are of the most suspect
        rows of the table.

    Raises:
        ValueError: if the table cannot be divided or read, or the plan holds rows out by time.
    """
    plan = work.plan
    if plan.time is not None:
        raise ValueError(expected("time", "left out for a table that is fitted to in chunks", plan.time))

    def step(what: str, function: Callable[[Any], Any], arguments: Iterable[Any]) -> None:
        if told is not None:
            told(what, STEPS.index(what) + 1, len(STEPS))
        each(function, arguments)

    step("Dividing the rows", work.chunks.scatter, enumerate(parts.units))
    work = replace(work, chunks=work.chunks.with_rows())
    step("Choosing on the first chunk", work.choose, [0])
    step("Learning the chunks", work.learn, work.learnt)
    step("Judging all labels", work.judge, range(work.chunks.n))
    return _whole(work, parts)


def _whole(work: Work, parts: Parts) -> TableFit:
    """Return the fit to the first chunk, with the merged model of all learnt chunks, and the suspects of all chunks."""
    pilot: Pilot = work.load("pilot")
    first: TableFit = work.load("fit")
    ours: Judged = work.load("judged-0")
    found = reduce(add, (work.load(f"judged-{chunk}") for chunk in range(1, work.chunks.n)), ours)
    prints = np.sort(np.concatenate([work.load(f"prints-{chunk}") for chunk in work.learnt]))
    steps = [pilot.model.pipeline.steps[0], ("classifier", work.merged(pilot, pilot.name))]
    share = bounded_share(found.differing, int(found.counts.rows.sum()))
    draws, later = found.listing.draws, found.listing.draws.number > DRAWN
    number = draws.number.copy()
    number[later] = DRAWN + 1 + np.arange(later.sum())  # each row of the file has one of its own
    n_columns, notes = len(parts.schema.names), tuple(parts.notes)
    return replace(
        first,
        model=replace(first.model, pipeline=Pipeline(steps), trained_rows=prints),
        judgement=replace(found.judgement, share=share),
        totals=found.counts,
        listing=replace(found.listing, draws=Draws(number, draws.probability)),
        row_names=found.names,
        n_copies=parts.rows - int(found.left_out.sum()) - share.n,
        n_missing=found.missing,
        reading=Reading(parts.path.name, parts.rows, n_columns, source=parts.source, sentences=notes),
        notes=[
            *_on_chunks(work, first, share),
            *without_label(int(found.left_out[0])),
            *_too_rare(int(found.left_out[1])),
            *found.notes.values(),
            *_on_first(first.notes, ours),
            *parts.notes,
        ],
    )


def _on_chunks(work: Work, first: TableFit, share: NoiseShare) -> list[str]:
    """Say how the table was divided, and how much accuracy the model gains by learning more rows."""
    n, learnt = work.chunks.n, len(work.learnt)
    rows = share.n / n * (learnt - learnt / n)  # that were learnt by who judges a row, in the mean
    return [
        f"The rows were divided into {n:,} chunks by their content. The figures and the bound are of the first chunk. "
        f"The model in the file is of {'all of them' if learnt == n else f'the first {learnt:,}'}.",
        "What more rows give: of labels that it had not learnt, the model predicts "
        f"{first.quality['accuracy']:.1%} if it learns {first.n_train:,} rows, and {1 - share.disagreement:.1%} if it "
        f"learns {round(rows):,}.",
    ]


def _too_rare(n: int) -> list[str]:
    """Report, if n > 0, that n rows were left out, because the first chunk lacks their label."""
    return [f"{were(n, 'row')} left out, with labels too rare for the first chunk."] if n else []


def _on_first(notes: list[str], ours: Judged) -> list[str]:
    """Return the notes of the fit to the first chunk, without those that are given for all chunks."""
    said = {*without_label(int(ours.left_out[0])), *(note.split(": ", 1)[1] for note in ours.notes.values())}
    said = {note.lower() for note in said}
    left = (note for note in notes if note.lower() not in said)
    return [f"In the first chunk, {note}" if note[0].isdigit() else note for note in left]


def _about(note: str) -> str:
    """Return a key of a note: the column, and the first word, which tells misfits from unseen categories."""
    return note.split("`")[1] + note.split()[0]
