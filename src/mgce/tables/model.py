"""A classifier of the rows of a table, with the columns it was fitted to, in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

import mgce
from mgce._text import spreadsheet_cell
from mgce._validation import expected
from mgce.estimators import (
    MGCEClassifier,
    MGCEForestClassifier,
    MGCEFourierClassifier,
    MGCEMLPClassifier,
    load,
    save,
)
from mgce.estimators.base import link_probs
from mgce.functional import minimax_probs, worst_case_probs
from mgce.risk import RiskCertificate, certify
from mgce.risk.any_model import label_indices
from mgce.sets import ConformalSets
from mgce.tables.columns import KINDS, Columns, unseen_categories
from mgce.tables.predictions import LabelledPredictions

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 2  # of model files; a new one where what `TablePipeline` holds changes
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Predictions:
    """What a model says of each of n rows, with k classes."""

    label: NDArray[Any]  # (n,)
    h: FloatArray  # (n, k)
    p: FloatArray  # (n, k)
    margins: FloatArray  # (n, k); for two classes (0, f), as nothing but differences counts

    @property
    def softmax(self) -> FloatArray:
        """The softmax of the margins, (n, k): it has no zeros, so that no classes tie in prediction sets."""
        return np.asarray(softmax(self.margins, axis=1))


class TablePipeline(Pipeline):  # type: ignore[misc]
    """What a model file holds: a fitted pipeline, and what has to be known of the table it was fitted to.

    :func:`mgce.estimators.load` gives it, and it predicts as every pipeline does, from columns in the order and the
    types that :class:`~mgce.tables.columns.Columns` selects.

    Attributes:
        table_: `format` and `version` of the file; `kinds`, `target` and `id` of the columns; `trained_rows`, a hash
            of each training row.
    """

    table_: dict[str, Any]


@dataclass(frozen=True)
class TableModel:
    """A fitted pipeline of a transformer and a robust classifier, the columns it takes, and hashes of its rows."""

    pipeline: Any
    columns: Columns
    trained_rows: NDArray[np.uint64]  # one for each training row, sorted
    version: str = mgce.__version__
    sets: ConformalSets | None = None  # calibrated on the rows held out

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, sorted, shape (k,)."""
        return np.asarray(self.pipeline[-1].classes_)

    @property
    def beta(self) -> float:
        """The beta of the links."""
        return float(self.pipeline[-1].beta_)

    def predict(self, selected: pd.DataFrame) -> Predictions:
        """Classify rows of selected columns."""
        X, classifier = self.pipeline[:-1].transform(selected), self.pipeline[-1]
        f = np.asarray(classifier.decision_function(X), dtype=np.float64)  # once: a forest takes its time
        f = f if f.ndim == 2 else np.stack([np.zeros_like(f), f], axis=1)
        h, p = (link_probs(link, f, self.beta) for link in (minimax_probs, worst_case_probs))
        return Predictions(self.classes[f.argmax(1)], h, p, f)

    def certify(self, selected: pd.DataFrame, labels: pd.Series[Any], **options: Any) -> RiskCertificate:
        """Bound the errors from rows that were not trained on, with the options of :func:`mgce.certify`.

        Raises:
            ValueError: if no label is one of the classes, or an option is out of range.
        """
        predictions = self.labelled_predictions(selected, labels)
        return certify(predictions.target, predictions.probs, **options)

    def labelled_predictions(self, selected: pd.DataFrame, labels: pd.Series[Any]) -> LabelledPredictions:
        """Predict rows, and find their labels among the classes.

        Raises:
            ValueError: if no label is one of the classes.
        """
        probs = self.pipeline.predict_proba(selected)
        target = label_indices(labels.to_numpy(dtype=str), self.classes, len(probs), self.columns.target)
        return LabelledPredictions(target, probs, [str(label) for label in self.classes])

    def unseen_labels(self, labels: pd.Series[Any]) -> list[str]:
        """Say in a sentence, if there are any, how many labels are none of the classes."""
        unknown = labels[~labels.isin(self.classes.tolist())]
        if unknown.empty:
            return []
        return [
            f"{len(unknown):,} of the {len(labels):,} rows have a label that the model does not know "
            f"({unknown.iloc[0]!r}, for one): they count as errors."
        ]

    def unseen(self, selected: pd.DataFrame) -> list[str]:
        """Say which categories no training row had, a sentence for each column."""
        names = self.columns.categories
        encoder = self.pipeline[0].named_transformers_["categories"]
        return unseen_categories(selected, dict(zip(names, encoder.categories_, strict=True))) if names else []

    def count_trained(self, selected: pd.DataFrame, labels: pd.Series[Any]) -> int:
        """Count the rows that equal a training row in every feature and the label."""
        return int(np.isin(row_prints(selected, labels), self.trained_rows).sum())

    def with_target(self, target: str | None) -> TableModel:
        """Give the same model, its labels to be found in another column; None leaves it as it is."""
        return self if target is None else replace(self, columns=replace(self.columns, target=target))

    def to_bytes(self) -> bytes:
        """Give the content of a model file.

        Raises:
            ImportError: if skops is not installed.
        """
        pipeline = TablePipeline(self.pipeline.steps)
        pipeline.table_ = {
            "format": FORMAT,
            "version": self.version,
            "kinds": dict(self.columns.kinds),
            "target": self.columns.target,
            "id": self.columns.id,
            "trained_rows": self.trained_rows,
            "sets": None if self.sets is None else json.dumps(self.sets.to_dict()),
        }
        with TemporaryDirectory() as folder:
            path = Path(folder, "model.skops")
            save(pipeline, path)
            return path.read_bytes()

    @classmethod
    def load(cls, path: Path) -> TableModel:
        """Read a file with the content that :meth:`to_bytes` gives.

        Raises:
            FileNotFoundError: if there is no file at `path`.
            ImportError: if skops is not installed.
            ValueError: if it is damaged, or no model of a table.
        """
        if not path.is_file():
            raise FileNotFoundError(expected("model", "the path of a file that exists", str(path)))
        try:
            pipeline = load(path)
            table = pipeline.table_ if isinstance(pipeline, TablePipeline) else None
            model = None if table is None or table["format"] != FORMAT else _checked(pipeline)
        except Exception as error:  # whatever a model raises that was changed by hand
            raise ValueError(expected("model", "an undamaged file written by `mgce fit`", path.name)) from error
        if table is None:
            raise ValueError(expected("model", "a file written by `mgce fit`", path.name))
        if model is None:
            what = f"a file of the format that mgce {mgce.__version__} writes"
            raise ValueError(expected("model", what, f"that of mgce {table.get('version')}"))
        return model


def _checked(pipeline: TablePipeline) -> TableModel:
    """Give the model that a file holds, after a check of its parts and a prediction of a row without values."""
    import pandas as pd

    table = pipeline.table_
    columns = Columns(dict(table["kinds"]), table["target"], table["id"])
    sets = ConformalSets.from_dict(json.loads(table["sets"])) if table.get("sets") else None
    model = TableModel(Pipeline(pipeline.steps), columns, table["trained_rows"], table["version"], sets)
    transformer, classifier = (step for _, step in pipeline.steps)
    parts = [
        type(transformer) is ColumnTransformer,
        type(classifier) in (MGCEClassifier, MGCEForestClassifier, MGCEFourierClassifier, MGCEMLPClassifier),
        all(isinstance(text, str) for text in (*columns.kinds, columns.target, model.version)),
        columns.id is None or isinstance(columns.id, str),
        set(columns.kinds.values()) <= {*KINDS},
        [*columns.kinds] == transformer.feature_names_in_.tolist(),
        model.trained_rows.dtype == np.uint64 and model.trained_rows.ndim == 1,
    ]
    if not all(parts):
        raise ValueError(expected("table_", "what `mgce fit` writes", parts))
    row = columns.select(pd.DataFrame({name: [None] for name in columns.kinds}))
    predictions = model.predict(row)
    model.unseen(row)
    if sets is not None:
        sets.predict(predictions.softmax)
    if not (predictions.h.shape == predictions.p.shape == (1, len(model.classes)) and model.beta >= 1):
        raise ValueError(expected("model", "one with a probability for each class", predictions))
    return model


def row_prints(selected: pd.DataFrame, labels: pd.Series[Any]) -> NDArray[np.uint64]:
    """Give a 64-bit hash of each row, shape (n,): equal rows have equal ones, and others hardly ever."""
    import pandas as pd

    frame = pd.concat([selected, labels], axis=1)
    return np.asarray(pd.util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def predictions_frame(
    model: TableModel,
    predictions: Predictions,
    row_names: pd.Series[Any],
    *,
    every_class: bool,
    sets: bool = False,
    formulas: bool = False,
) -> pd.DataFrame:
    """Give predictions as a table: the row, its class, the class's probabilities, and if asked those of every class.

    If asked, also the set of classes, with bars between them, of a model that has prediction sets.

    A name or label that a spreadsheet would run as a formula gets an apostrophe in front, unless `formulas` are wanted.
    """
    import pandas as pd

    cell = str if formulas else spreadsheet_cell

    own = np.arange(len(row_names)), np.searchsorted(model.classes, predictions.label)
    labels = [cell(str(label)) for label in predictions.label]
    columns = {"prediction": labels, "h": predictions.h[own], "p": predictions.p[own]}
    if sets:
        if model.sets is None:
            raise ValueError(expected("sets", "asked of a model with prediction sets; fit it anew", "one without"))
        columns["set"] = [
            cell("|".join(map(str, model.classes[row]))) for row in model.sets.predict(predictions.softmax)
        ]
    if every_class:
        for output, probs in (("h", predictions.h), ("p", predictions.p)):
            columns |= {f"{output}_{label}": probs[:, index] for index, label in enumerate(model.classes)}
    frame = pd.DataFrame(columns, index=row_names.index)
    frame.insert(0, cell(str(row_names.name)), row_names.map(cell), allow_duplicates=True)
    return frame
