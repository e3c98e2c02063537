"""What the first chunk of a table decides for all chunks: columns, classes and models, and how rows are prepared."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from mgce.desk.tables.choice import estimator
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.rows import Rows, copies_in_order
from mgce.estimators.merged import for_chunk, merged, share_of_trees

DRAWN = 1_000  # rows of a random order there: a day of looking, of which half are rows held out
ANCHOR = 1e-6  # weight of a made-up row of a class that a chunk lacks, so that all models have the same classes


@dataclass(frozen=True)
class Pilot:
    """The decisions on the first chunk that hold for all chunks."""

    plan: FitPlan
    model: TableModel  # with the columns, what preprocesses them, and the classes
    name: str
    models: dict[str, Any]  # fitted to the first chunk, by name: the model, and the one that judges labels
    draws: pd.DataFrame  # the first rows of a random order, by their number in the table

    @classmethod
    def of(cls, found: TableFit, places: NDArray[np.int64]) -> Pilot:
        """Return the part of the fit to the first chunk that all other chunks need.

        Args:
            found: the fit.
            places: for each row of the first chunk, its number in the table.
        """
        draws = found.listing.draws
        some = draws.number <= DRAWN
        at = places[found.row_names.index.to_numpy()[some]]
        drawn = pd.DataFrame({"number": draws.number[some], "probability": draws.probability[some]}, index=at)
        fitted = {found.choice.name: found.choice.fitted, found.judge.name: found.judge.fitted}
        models = {name: _without_trees(one) for name, one in fitted.items()}
        steps = [found.model.pipeline.steps[0], ("classifier", models[found.choice.name])]
        model = replace(found.model, pipeline=Pipeline(steps), trained_rows=found.model.trained_rows[:0])
        return cls(found.plan, model, found.choice.name, models, drawn)

    def made(self, name: str, n: int, jobs: int) -> Any:
        """Return an unfitted model of the kind `name` for one of n chunks."""
        model = estimator(name, self.plan.seed, jobs)
        return for_chunk(model, self.models[name], n)

    def merged(self, name: str, models: list[Any], n: int) -> Any:
        """Return one model merged from `models`, which were fitted to some of n chunks."""
        first = self.models[name]
        return merged(models, share_of_trees(first, n) if hasattr(first, "n_estimators") else 0)

    def features(self, selected: pd.DataFrame) -> NDArray[Any]:
        """Return the features of some rows, with the preprocessing that was fitted to the first chunk."""
        return np.asarray(self.model.pipeline[:-1].transform(selected))

    def rows(self, frame: pd.DataFrame, copies: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None) -> Rows:
        """Return the rows of a chunk whose label is one of the classes; none is held out.

        Args:
            frame: the chunk.
            copies: the distinct rows, and for each row the distinct row that it is a copy of; None to find the copies.
        """
        columns, classes = self.model.columns, self.model.classes.astype(str)
        all_labels = columns.labels(frame)
        known = all_labels.isin(classes).to_numpy()
        kept, labels = frame[known], all_labels[known]
        selected = columns.select(kept)
        train, first = self._distinct(kept, selected, labels) if copies is None else copies
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
        )

    def _distinct(
        self, kept: pd.DataFrame, selected: pd.DataFrame, labels: pd.Series[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of the distinct rows, and for each row the index of the distinct row that equals it."""
        order, _, first = copies_in_order(kept, selected, labels, self.plan.unlearnt)
        return order[first == np.arange(len(order))], order[first][np.argsort(order)]


def with_all_classes(X: NDArray[Any], rows: Rows) -> tuple[NDArray[Any], Rows]:
    """Return the distinct rows alone, and a made-up row of next to no weight for each class without a distinct row."""
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
    return np.concatenate([X, np.zeros((len(absent), X.shape[1]), X.dtype)]) if len(absent) else X, alone


def _without_trees(model: Any) -> Any:
    """Return a small copy of a model for :func:`for_chunk`, without trees: every process loads it for every chunk."""
    found = copy.copy(model)
    for name in ("trees_", "left_out_proba_", "right_proba_", "oof_proba_", "oob_decision_function_"):
        found.__dict__.pop(name, None)
    return found
