"""Build the parts of a table's model from the numbers and names in its file, after checking each of them.

Objects in the file are never built. Instead, `mgce.desk.files.preprocessor` makes the transformer, and constructors
make the classifiers. Then arrays of checked types and shapes are stored in them. So a forged file can change numbers
and names, but not the code that uses them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._messages import expected
from mgce.desk.columns.kinds import TEXT, Columns
from mgce.desk.files.tables import MAX_CATEGORIES, preprocessor
from mgce.desk.files.vectors import vectors
from mgce.desk.tables.text_features import REDUCTION, SETTINGS, TextEncoder, TextTransformer, VectorTransformer
from mgce.estimators import (
    LabelCorrectionClassifier,
    MGCEClassifier,
    MGCEEmbeddingClassifier,
    MGCEForestClassifier,
)
from mgce.estimators.archive import Node
from mgce.estimators.fourier_ridge import FourierRidge
from mgce.estimators.trees import Trees
from mgce.sets import ConformalSets
from mgce.sets.conformal import SCORES

LEAST, MOST = sys.float_info.min, sys.float_info.max  # of positive numbers
# Heads of embeddings, of which `mgce fit` averages four: a forged file packs a million, and rows have margins of all.
MOST_PARTS = 8
MADE_UP_ROWS = MAX_CATEGORIES - 1  # one for each frequent category where there are rare ones, which share a column


def build_transformer(node: Node, columns: Columns) -> tuple[Any, pd.DataFrame]:
    """Build the fitted transformer of a file; return it with a table that it accepts.

    Raises:
        ValueError: if the content does not fit a transformer of these columns.
    """
    if columns.width:
        (name,) = columns.kinds
        made_up = vectors(np.zeros((MADE_UP_ROWS, columns.width), np.float32))
        return VectorTransformer(columns.width), pd.DataFrame({name: pd.Series(made_up, dtype=object)})
    texts = [name for name, kind in columns.kinds.items() if kind == TEXT]
    if not texts:
        return _preprocessor(node, columns)
    checksum = node["meaning"]
    built = TextTransformer(texts, meaning=None if checksum.tree is None else checksum.text())
    built.encoders_ = [_encoder(item) for item in node["encoders_"].items()]
    if len(built.encoders_) != len(texts):
        raise ValueError(expected("encoders_", f"one for each of {len(texts)} columns", len(built.encoders_)))
    kinds = {name: kind for name, kind in columns.kinds.items() if kind != TEXT}
    built.others_, frame = None, pd.DataFrame(index=range(MADE_UP_ROWS))
    if kinds:
        built.others_, frame = _preprocessor(node["others_"], replace(columns, kinds=kinds))
    for name in texts:
        frame[name] = ""
    return built, frame[[*columns.kinds]]


def _encoder(node: Node) -> TextEncoder:
    """Build the fitted encoder of a column of text from the content of a file."""
    encoder = TextEncoder()
    for name in SETTINGS:
        terms = node[f"{name}_"].labels()
        idf = node[f"{name}_idf_"].array(np.float64, len(terms))
        if len(terms) > REDUCTION.terms or not (idf > 0).all():
            raise ValueError(expected(f"{name}_", f"at most {REDUCTION.terms} terms of positive weights", len(terms)))
        setattr(encoder, f"{name}_", terms)
        setattr(encoder, f"{name}_idf_", idf)
    encoder.components_ = node["components_"].array(np.float32, len(encoder.words_) + len(encoder.characters_), None)
    if encoder.components_.shape[1] > REDUCTION.most:
        raise ValueError(expected("components_", f"at most {REDUCTION.most} features", encoder.components_.shape[1]))
    return encoder


def _preprocessor(node: Node, columns: Columns) -> tuple[Any, pd.DataFrame]:
    """Build the fitted preprocessor of columns of numbers, dates and categories.

    A new preprocessor is fitted to a made-up table, so that scikit-learn itself derives what it needs of columns and
    categories. Then the medians, means and standard deviations of the file are stored in it.

    Raises:
        ValueError: if the content does not fit a preprocessor of these columns.
    """
    categories = columns.categories
    numbers = [name for name in columns.kinds if name not in set(categories)]
    parts = dict(_named(item) for item in node["transformers_"].items())
    steps = dict(_named(item) for item in parts["numbers"]["steps"].items()) if numbers else {}
    medians, marked = _medians(steps["simpleimputer"], len(numbers)) if numbers else (np.zeros(0), np.zeros(0, int))
    known = _categories(parts["categories"], len(categories)) if categories else []
    of_numbers = pd.DataFrame(_made_up_numbers(medians, marked), columns=numbers)
    of_categories = pd.DataFrame(_made_up_categories([each for _, each in known]), columns=categories)
    frame = pd.concat([of_numbers, of_categories], axis=1)[[*columns.kinds]]
    built = preprocessor(frame)
    if categories:
        built.set_params(categories__categories=[each for each, _ in known])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of columns without a value
        built.fit(frame)
    if categories:  # the parameter is that of the known preprocessor again
        built.set_params(categories__categories="auto").named_transformers_["categories"].categories = "auto"
    if numbers:
        imputer, scaler = (step for _, step in built.named_transformers_["numbers"].steps)
        imputer.statistics_ = medians
        for name in ("mean_", "var_", "scale_"):
            setattr(scaler, name, steps["standardscaler"][name].array(np.float64, *scaler.mean_.shape))
        if not ((scaler.scale_ > 0).all() and (scaler.var_ >= 0).all()):
            raise ValueError(expected("scale_", "positive deviations", "others"))
    return built, frame


def build_classifier(node: Node, n_features: int) -> Any:
    """Build the fitted classifier from the content of a file.

    Raises:
        ValueError: if the content is no classifier that `mgce fit` chooses, or has another number of features.
    """
    if node.kind not in CLASSIFIERS:
        raise ValueError(expected("model", "a classifier that `mgce fit` chooses", node.kind))
    cls, fill = CLASSIFIERS[node.kind]
    classifier = _fitted(cls, node, n_features)
    fill(classifier, node, n_features, len(classifier.classes_))
    return classifier


def build_sets(fields: dict[str, Any], n_classes: int) -> ConformalSets:
    """Build the conformal prediction sets from the content of a model file.

    Raises:
        ValueError: if the content does not fit prediction sets of `n_classes` classes.
    """
    thresholds = np.array(fields.pop("thresholds"), np.float64)
    assumptions = tuple(fields.pop("assumptions"))
    sets = ConformalSets(tuple(thresholds.tolist()), assumptions=assumptions, **fields)
    sound = [
        thresholds.shape == (n_classes,) and not np.isnan(thresholds).any(),
        sets.score in SCORES and not sets.of_logits,
        0 < sets.coverage < 1,
        sets.delta is None or 0 < sets.delta < 1,
        all(isinstance(value, tuple | str | int | float | None) for value in asdict(sets).values()),
        all(isinstance(clause, str) and clause.encode() for clause in sets.assumptions),
    ]
    if not all(sound):
        raise ValueError(expected("sets", f"prediction sets of {n_classes} classes", sound))
    return sets


def _named(item: Node) -> tuple[str, Node]:
    """Return the first two items of a tuple node: a name, and the node of an object."""
    name, part, *_ = item.items()
    return name.text(), part


def _medians(imputer: Node, n: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the medians of n columns (NaN for an empty column), and the indices of columns with missing values."""
    medians = imputer["statistics_"].array(np.float64, n, nan=True)
    marked = imputer["indicator_"]["features_"].array(np.int64, None)
    if not ((marked >= 0) & (marked < n)).all() or (np.diff(marked) <= 0).any():
        raise ValueError(expected("features_", f"places of {n} columns", "others"))
    return medians, marked


def _made_up_numbers(medians: NDArray[np.float64], marked: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return made-up rows of numbers, with missing values in the columns that the file marks."""
    values = np.tile(np.arange(MADE_UP_ROWS, dtype=np.float64)[:, None], len(medians))
    values[0, marked] = np.nan
    values[:, np.isnan(medians)] = np.nan
    return values


def _made_up_categories(frequent: list[list[Any]]) -> NDArray[Any]:
    """Return made-up rows of categories in which every frequent category of the file occurs."""
    values = np.empty((MADE_UP_ROWS, len(frequent)), dtype=object)
    for place, categories in enumerate(frequent):
        values[:, place] = (categories * MADE_UP_ROWS)[:MADE_UP_ROWS]
    return values


def _categories(encoder: Node, n: int) -> list[tuple[list[Any], list[Any]]]:
    """Return for each of n columns its categories, and the categories with a one-hot column of their own."""
    columns = [_of_column(item) for item in encoder["categories_"].items()]
    rare = encoder["_infrequent_indices"].items()
    if not len(columns) == len(rare) == n:
        raise ValueError(expected("categories_", f"those of {n} columns", f"{len(columns)} and {len(rare)}"))
    return [(each, _frequent(each, node)) for each, node in zip(columns, rare, strict=True)]


def _of_column(node: Node) -> list[Any]:
    """Return the categories of a column: texts, then None and NaN if values are missing."""
    values = [item.plain() for item in node.items()]
    texts = [value for value in values if isinstance(value, str)]
    ends = [[], [None], [np.nan], [None, np.nan]]
    "".join(texts).encode()
    if not values or texts != sorted(set(texts)) or repr(values[len(texts) :]) not in map(repr, ends):
        raise ValueError(expected("categories_", "sorted texts, each once, and perhaps a missing value", "others"))
    return values


def _frequent(categories: list[Any], node: Node) -> list[Any]:
    """Return the categories without those whose indices the file lists as infrequent."""
    if len(categories) < MAX_CATEGORIES:  # for scikit-learn, fifty are too many beside a column of the rare ones
        return categories
    n_rare = len(categories) - MADE_UP_ROWS
    rare = node.array(np.int64, n_rare)
    if len(np.unique(rare)) < n_rare or not ((rare >= 0) & (rare < len(categories))).all():
        raise ValueError(expected("_infrequent_indices", f"{n_rare} places of categories", "others"))
    return [categories[place] for place in np.setdiff1d(np.arange(len(categories)), rare)]


def _fitted(cls: Any, node: Node, n_features: int) -> Any:
    """Return a classifier with the attributes that every fitted one has; other parameters keep their defaults."""
    beta = node["beta_"].number(1, np.inf)
    classifier = cls(beta=beta)
    classifier.beta_, classifier.n_features_in_ = beta, n_features
    classifier.classes_ = node["classes_"].labels()
    if len(classifier.classes_) < 2:
        raise ValueError(expected("classes_", "two or more", len(classifier.classes_)))
    return classifier


def _linear(classifier: Any, node: Node, d: int, k: int) -> None:
    classifier.coef_, classifier.intercept_ = node["coef_"].array(np.float64, k, d), node["intercept_"].array(float, k)


def _embedding(classifier: Any, node: Node, d: int, k: int) -> None:
    classifier.rooted_ = node["rooted_"].plain() is True
    for name in ("means", "scales", "center"):
        setattr(classifier, f"{name}_", node[f"{name}_"].array(np.float32, d))
    if not (classifier.scales_ > 0).all():
        raise ValueError(expected("scales_", "positive", classifier.scales_.min()))
    classifier.coefs_ = node["coefs_"].array(np.float32, None, k, d)
    if not 1 <= len(classifier.coefs_) <= MOST_PARTS:
        raise ValueError(expected("coefs_", f"those of 1 to {MOST_PARTS} heads", len(classifier.coefs_)))
    classifier.intercepts_ = node["intercepts_"].array(np.float32, len(classifier.coefs_), k)


def _trees(node: Node, d: int, values: NDArray[Any]) -> Trees:
    trees = Trees.of_arrays(
        node["starts"].array(np.int64, None),
        node["children"].array(np.int64, None, 2),
        node["features"].array(np.int64, None),
        node["thresholds"].array(np.float64, None),
        values,
    )
    trees.check(d, values.shape[1])
    return trees


def _correction(classifier: Any, node: Node, d: int, k: int) -> None:
    _shares(classifier, node, d, k)
    ridge, saved = FourierRidge.__new__(FourierRidge), node["ridge_"]
    ridge.random_weights_ = saved["random_weights_"].array(np.float64, d, None)
    m = ridge.random_weights_.shape[1]
    ridge.random_offset_, ridge.means_ = (saved[name].array(np.float64, m) for name in ("random_offset_", "means_"))
    ridge.coef_, ridge.intercept_ = saved["coef_"].array(np.float64, k, m), saved["intercept_"].array(np.float64, k)
    classifier.ridge_ = ridge
    # A file of before the scale was learnt has none.
    classifier.scale_ = node["scale_"].number(LEAST, MOST) if "scale_" in node.fields else 1.0


def _forest(classifier: Any, node: Node, d: int, k: int) -> None:
    _shares(classifier, node, d, k)
    classifier.scale_ = node["scale_"].number(LEAST, MOST)


def _shares(classifier: Any, node: Node, d: int, k: int) -> None:
    shares = node["trees_"]["values"].array(np.float32, None, k)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(expected("trees_", "shares of the classes", "numbers outside [0, 1]"))
    classifier.trees_ = _trees(node["trees_"], d, shares)
    classifier.least_prob_ = node["least_prob_"].number(LEAST, 1)


# From the name in a file to the class, and what takes its numbers from there, given the features d and the classes k.
CLASSIFIERS: dict[str, tuple[Any, Callable[[Any, Node, int, int], None]]] = {
    "mgce.MGCEEmbeddingClassifier": (lambda beta: MGCEEmbeddingClassifier(), _embedding),
    "mgce.MGCEForestClassifier": (MGCEForestClassifier, _forest),
    "mgce.MGCEClassifier": (MGCEClassifier, _linear),
    "mgce.LabelCorrectionClassifier": (lambda beta: LabelCorrectionClassifier(), _correction),
}
