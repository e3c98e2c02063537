"""Predict with a classifier of table rows, bound its errors, and save it with the columns it was fitted to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import binom, binomtest
from sklearn.pipeline import Pipeline

from mgce._limits import TABLE_CELLS, read_at_most
from mgce._machine import build
from mgce._messages import check_choice, expected
from mgce.desk.columns.copies import CHANCE
from mgce.desk.columns.kinds import EMBEDDING, FORMATS, KINDS, Columns, unseen_categories
from mgce.desk.tables.predictions import LabelledPredictions
from mgce.desk.tables.rebuilt import build_classifier, build_sets, build_transformer
from mgce.estimators.archive import Node, OtherFormatError, read
from mgce.estimators.base import link_probs
from mgce.estimators.persistence import name_of, to_bytes
from mgce.features.feature_files import MOST_WIDTH, Card
from mgce.functional import minimax_probs, worst_case_probs
from mgce.risk.parts import label_indices
from mgce.sets import ConformalSets

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Predictions:
    """A model's predicted classes, probabilities and margins (logits) for n rows and k classes."""

    label: NDArray[Any]  # (n,), the predicted classes
    h: FloatArray  # (n, k), minimax probabilities
    p: FloatArray  # (n, k), worst-case probabilities
    q: FloatArray | None  # (n, k), probabilities of the right labels; None if the model has none
    margins: FloatArray  # (n, k); (0, f) for two classes and one margin f, since only differences of margins matter

    @property
    def softmax(self) -> FloatArray:
        """The softmax of the margins, for prediction sets: softmax has no zeros, so classes do not tie."""
        return np.asarray(softmax(self.margins, axis=1))


class TablePipeline(Pipeline):  # type: ignore[misc]
    """The content of a model file: a fitted pipeline, and a description of the table that it was fitted to.

    :func:`mgce.estimators.load` returns it. Use the returned pipeline like any scikit-learn pipeline, on features that
    :meth:`mgce.desk.columns.kinds.Columns.select` returns.

    Attributes:
        table_: `version`, of mgce; `kinds`, `target`, `id` and `formats`, as
            in :class:`~mgce.desk.columns.kinds.Columns`; `trained_rows`, a hash of each row that the model learnt
            from; `n_measured`, the number of rows that the model of the figures and the certificate learnt from, or
            None; `sets`, the prediction sets, or None; `width`, the number of features of the column of embeddings,
            or 0; `encoder`, the card of their encoder, or None;
            `corrects`, whether the model learnt from corrected labels; `apart`, whether labels that differ in the
            spelling alone are different classes.
    """

    table_: dict[str, Any]


@dataclass(frozen=True)
class TableModel:
    """A fitted classifier of the rows of a table, with the columns that it needs."""

    pipeline: Any  # a fitted transformer and a fitted robust classifier
    columns: Columns
    trained_rows: NDArray[np.uint64]  # a hash of each row that it learnt from, sorted
    version: str = field(default_factory=build)  # and build, of the mgce that fitted the model
    sets: ConformalSets | None = None  # prediction sets, calibrated on the rows held out
    # Number of rows that the model of the fit's figures and certificate learnt from; None if this is that model.
    n_measured: int | None = None
    encoder: Card | None = None  # of the encoder that made the embeddings; None if it is not known, or there are none
    corrects: bool = False  # whether it learnt from corrected labels, so that all its probabilities are of right labels

    def __post_init__(self) -> None:
        known = {**self._categories(), self.columns.target: frozenset(map(str, self.classes))}
        object.__setattr__(self, "columns", replace(self.columns, known=known))

    def _categories(self) -> dict[str, frozenset[Any]]:
        """Return the categories of the training rows, by column."""
        names = self.columns.categories
        if not names:
            return {}
        encoder = self.pipeline[0].named_transformers_["categories"]
        return {name: frozenset(found) for name, found in zip(names, encoder.categories_, strict=True)}

    @property
    def classes(self) -> NDArray[Any]:
        """The labels of the k classes, sorted, shape (k,)."""
        return np.asarray(self.pipeline[-1].classes_)

    @property
    def beta(self) -> float:
        """The loss parameter beta, which determines the probabilities h and p."""
        return float(self.pipeline[-1].beta_)

    @property
    def about_q(self) -> str:
        """Sentences on q, the probability of the right label; "" if the model has none."""
        said = "q is the estimated probability of the right label: the model learnt from labels that it had corrected."
        return said if self.corrects else ""

    def predict(self, selected: pd.DataFrame) -> Predictions:
        """Predict the classes of rows of features that :meth:`Columns.select` returned."""
        X, classifier = self.pipeline[:-1].transform(selected), self.pipeline[-1]
        # One call for label, h and p, as a forest's margins take long to compute.
        f = np.asarray(classifier.decision_function(X), dtype=np.float64)
        f = f if f.ndim == 2 else np.stack([np.zeros_like(f), f], axis=1)
        h, p = (link_probs(link, f, self.beta) for link in (minimax_probs, worst_case_probs))
        return Predictions(self.classes[f.argmax(1)], h, p, h if self.corrects else None, f)

    def require_room(self, n: int) -> None:
        """Raise an error if n rows times the number of classes exceeds `TABLE_CELLS`, the limit for tables.

        A class takes a few bytes in a model file, but eight bytes in the probabilities of every row.

        Raises:
            ValueError: if the product exceeds this limit.
        """
        k = len(self.classes)
        if n * k > TABLE_CELLS:
            most = f"a table of at most {TABLE_CELLS // k:,} rows for a model of {k:,} classes; split it"
            raise ValueError(expected("table", most, f"{n:,}"))

    def labelled_predictions(self, selected: pd.DataFrame, labels: pd.Series[Any]) -> LabelledPredictions:
        """Return predictions for labelled rows, together with the labels; a label that is no class becomes -1.

        Args:
            selected: features, as :meth:`Columns.select` returns them.
            labels: the label of each row, as text.

        Raises:
            ValueError: if no label is one of the classes.
        """
        probs = self.pipeline.predict_proba(selected)
        target = label_indices(labels.to_numpy(dtype=str), self.classes, len(probs), self.columns.target)
        return LabelledPredictions(target, probs, [str(label) for label in self.classes], self.columns.target)

    def unseen_labels(self, labels: pd.Series[Any]) -> list[str]:
        """Return a sentence on labels that are none of the model's classes; no sentence if there are none."""
        unknown = labels[~labels.isin(self.classes.tolist())]
        if unknown.empty:
            return []
        return [
            f"{len(unknown):,} of the {len(labels):,} rows have a label that the model does not know "
            f"({unknown.iloc[0]!r}, for one): they count as errors."
        ]

    def unseen(self, selected: pd.DataFrame) -> list[str]:
        """Return a sentence on each column with categories that no training row had."""
        return unseen_categories(selected, self._categories())

    def count_trained(self, selected: pd.DataFrame, labels: pd.Series[Any]) -> int:
        """Return the number of rows that equal a training row in all features and the label."""
        return int(np.isin(row_prints(selected, labels), self.trained_rows).sum())

    def require_unseen(self, selected: pd.DataFrame, labels: pd.Series[Any]) -> list[str]:
        r"""Raise an error if more rows equal training rows of the model than chance explains.

        A new row equals one of the n training rows with a probability that Good's formula estimates. With :math:`n_1`
        training rows that equal no other training row, this probability is

        .. math:: 1 - \frac{n_1}{n}.

        Let the number of equal rows be binomial, with the upper confidence bound of this estimate at `alpha` as its
        probability. If there are more equal rows than this number exceeds with probability `alpha`, they are taken for
        training rows. As for copies, `alpha` is that of :class:`~mgce.desk.columns.copies.Chance`, and rare enough for
        an error. Example: if a model learnt from 569 different rows, 8 equal ones among 142 new rows are an error.

        Args:
            selected: m distinct rows of features, as :meth:`Columns.select` returns them.
            labels: the label of each row, as text.

        Returns:
            A note, if some rows equal training rows, but no more than chance explains.

        Raises:
            ValueError: if more rows equal training rows than chance explains.

        Reference: Good, The population frequencies of species, Biometrika, 1953.
        """
        trained, m = self.count_trained(selected, labels), len(selected)
        if not trained:
            return []
        n = len(self.trained_rows)
        repeated = n - int((np.unique(self.trained_rows, return_counts=True)[1] == 1).sum())
        chance = binomtest(repeated, n, alternative="less").proportion_ci(1 - CHANCE.alpha).high
        if trained > binom.isf(CHANCE.alpha, m, chance):
            raise ValueError(
                f"Expected `table` to hold rows that the model has not learnt from, but it learnt from {trained:,} of "
                f"the {m:,}, labels included: leave those out, or label new rows. mgce fit has a bound from rows held "
                "out, in its report."
            )
        return [
            f"{trained:,} of the {m:,} rows equal a row that the model learnt from. That is no more than chance may "
            "bring; if they are the same examples, the certificate does not hold."
        ]

    def with_target(self, target: str | None) -> TableModel:
        """Return the same model for tables whose labels are in the column `target`; None keeps the present column."""
        return self if target is None else replace(self, columns=replace(self.columns, target=target))

    def to_bytes(self) -> bytes:
        """Return the model as the content of a file.

        Raises:
            ValueError: if the model has too many parts for a file.
        """
        pipeline = TablePipeline(self.pipeline.steps)
        pipeline.table_ = {
            "version": self.version,
            "kinds": dict(self.columns.kinds),
            "target": self.columns.target,
            "id": self.columns.id,
            "formats": dict(self.columns.formats),
            "trained_rows": self.trained_rows,
            "n_measured": self.n_measured,
            "sets": None if self.sets is None else asdict(self.sets),
            "width": self.columns.width,
            "encoder": None if self.encoder is None else asdict(self.encoder),
            "corrects": self.corrects,
            "apart": self.columns.apart,
        }
        return to_bytes(pipeline)

    @classmethod
    def load(cls, path: Path) -> TableModel:
        """Load a model from a file with the content that :meth:`to_bytes` returned.

        The file may be untrusted: only checked numbers and names of the file become part of the model.

        Raises:
            FileNotFoundError: if there is no file at `path`.
            ValueError: if the file is damaged, or is not a model of a table.
        """
        if not path.is_file():
            raise FileNotFoundError(expected("model", "the path of a file that exists", str(path)))
        try:
            with path.open("rb") as file:
                root = read(read_at_most(file))
            ours = root.kind == name_of(TablePipeline)
            model = _built(root) if ours else None
        except OtherFormatError as error:
            raise ValueError(str(error).replace("`format`", "`model`", 1)) from error
        except Exception as error:  # a damaged file, or one that was changed by hand, can raise any type
            raise ValueError(expected("model", "an undamaged file written by `mgce fit`", path.name)) from error
        if model is None:
            raise ValueError(expected("model", "a file written by `mgce fit`", path.name))
        return model


def _built(root: Node) -> TableModel:
    """Build the model from the content of a model file: see :mod:`mgce.desk.tables.rebuilt`.

    Raises:
        ValueError: if the content is not what `mgce fit` writes; damaged parts may raise other exceptions too.
    """
    table = root["table_"]
    columns = _columns(table)
    (_, transformer), (_, classifier) = (item.items() for item in root["steps"].items())
    built, made_up = build_transformer(transformer, columns)
    first = built.transform(made_up[:1])
    steps = [("columns", built), ("classifier", build_classifier(classifier, first.shape[1]))]
    trained = table["trained_rows"].array(np.uint64, None)
    measured, sets, card = (table[name] for name in ("n_measured", "sets", "encoder"))
    model = TableModel(
        Pipeline(steps),
        columns,
        trained,
        table["version"].text(),
        n_measured=None if measured.tree is None else int(measured.number(1, len(trained))),
        encoder=None if card.tree is None else Card.from_dict(card.data()),
        corrects=table["corrects"].plain() is True,
    )
    if model.encoder is not None and model.encoder.width != columns.width:
        raise ValueError(expected("encoder", f"one of {columns.width} features", model.encoder.width))
    if sets.tree is not None:
        model = replace(model, sets=build_sets(sets.data(), len(model.classes)))
    model.predict(made_up[:1])  # as all parts are of one size, this works
    return model


def _columns(table: Node) -> Columns:
    """Build the description of the columns from the content of a model file."""
    id_column = None if table["id"].tree is None else table["id"].text()
    formats, width = table["formats"].texts(), int(table["width"].number(0, MOST_WIDTH))
    apart = "apart" not in table.fields or table["apart"].plain() is True  # a file without it has no joined classes
    columns = Columns(table["kinds"].texts(), table["target"].text(), id_column, formats, width, apart=apart)
    if (EMBEDDING in columns.kinds.values()) != bool(width) or (width and len(columns.kinds) > 1):
        raise ValueError(expected("width", "that of a column of embeddings alone", width))
    if not columns.kinds or not set(columns.kinds.values()) <= {*KINDS}:
        raise ValueError(expected("kinds", f"columns of {KINDS}", columns.kinds))
    for name, form in formats.items():
        check_choice("formats", form, FORMATS[columns.kinds[name]])
    return columns


def row_prints(selected: pd.DataFrame, labels: pd.Series[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row of features and label, shape (n,); different rows hardly ever have equal hashes.

    Args:
        selected: features, as :meth:`Columns.select` returns them.
        labels: the label of each row.
    """
    frame = pd.concat([selected, labels], axis=1)
    return np.asarray(pd.util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def predictions_frame(
    model: TableModel,
    predictions: Predictions,
    row_names: pd.Series[Any],
    *,
    every_class: bool,
    sets: bool = False,
) -> pd.DataFrame:
    """Return predictions as a table: name of the row, predicted class, and its q, or h and p if the model has no q.

    Args:
        model: the model that predicted.
        predictions: predictions for n rows.
        row_names: the name of each row; the name of the series heads the column.
        every_class: whether to add columns of the probabilities of every class.
        sets: whether to add a column with the prediction set, its classes separated by vertical bars.

    Raises:
        ValueError: if `sets` is true and the model has no sets.
    """
    predicted = np.arange(len(row_names)), np.searchsorted(model.classes, predictions.label)
    outputs = {"h": predictions.h, "p": predictions.p} if predictions.q is None else {"q": predictions.q}
    columns: dict[str, Any] = {"prediction": [str(label) for label in predictions.label]}
    columns |= {output: probs[predicted] for output, probs in outputs.items()}
    if sets:
        if model.sets is None:
            raise ValueError(expected("sets", "asked of a model with prediction sets; fit it anew", "one without"))
        columns["set"] = ["|".join(map(str, model.classes[row])) for row in model.sets.predict(predictions.softmax)]
    if every_class:
        for output, probs in outputs.items():
            columns |= {f"{output}_{label}": probs[:, index] for index, label in enumerate(model.classes)}
    frame = pd.DataFrame(columns, index=row_names.index)
    frame.insert(0, str(row_names.name), row_names, allow_duplicates=True)
    return frame
