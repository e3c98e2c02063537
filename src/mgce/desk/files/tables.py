"""Read tables with columns of numbers and categories, check them, and preprocess them for a classifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgce._messages import expected, listed
from mgce._text import printable
from mgce.desk.files.reading import cells_with_line_breaks
from mgce.desk.files.table_files import read_accounted, require_column, sheets_of, table_name
from mgce.desk.files.text_tables import TextFormat

if TYPE_CHECKING:
    import pandas as pd

# Most columns of one one-hot encoding. It is enough for the 41 countries in the adult data set, and avoids thousands of
# columns for names or free text, which have about as many values as there are rows.
MAX_CATEGORIES = 50


@dataclass(frozen=True)
class Table:
    """A data set: a table of features of n rows, and a class for each row."""

    name: str
    features: pd.DataFrame  # n rows, as read
    target: np.ndarray[Any, np.dtype[np.int64]]  # (n,), indices into `classes`
    classes: tuple[str, ...]
    n_train: int | None = None  # the first rows, which were published as training set; None if no split was published
    unlabelled: int = 0  # number of rows of the file without a class, which are not among the n rows
    notes: tuple[str, ...] = ()  # sentences for the user on lines of the file that may be lost

    def checksum(self) -> str:
        """Return the SHA-256 hash of the names and values of the columns, the classes and the target."""
        import pandas as pd

        names = json.dumps([*map(str, self.features.columns), *self.classes]).encode()
        values = pd.util.hash_pandas_object(self.features, index=False).to_numpy()
        return hashlib.sha256(names + values.tobytes() + self.target.tobytes()).hexdigest()


def read_table(path: Path, target: str | None, *, drop: Collection[str] = (), form: TextFormat | None = None) -> Table:
    """Read a data set from a text file or a Parquet file; rows without a class are left out.

    Args:
        path: the file; see :func:`mgce.desk.files.table_files.read_frame`.
        target: the column that contains the classes.
        drop: columns that are not features.
        form: format of a text file.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if the file cannot be read as a table, lacks the column `target` or one of `drop`, or if the target
            has fewer than two classes.

    Example:
        >>> read_table(Path("nowhere.csv"), "class")
        Traceback (most recent call last):
        FileNotFoundError: Expected `dataset` to be the path of a file that exists, but got 'nowhere.csv'.
    """
    frame, reading = read_accounted(path, "dataset", classes=() if target is None else [target], form=form)
    if target is None:
        columns = listed([*map(str, frame.columns)])
        raise ValueError(
            printable(f"Expected `target` to name the column with the classes, one of: {columns}.") + sheets_of(frame)
        )
    for option, name in (("target", target), *(("drop", name) for name in drop)):
        require_column(frame, name, option, path.name)
    labelled = frame[frame[target].notna()].reset_index(drop=True)
    if labelled.empty:
        raise ValueError(expected("target", "a column with classes", "none"))
    table = make_table(table_name(path), labelled.drop(columns=[target, *drop]), labelled[target])
    notes = (*reading.notes, *cells_with_line_breaks(frame))
    return replace(table, unlabelled=len(frame) - len(labelled), notes=notes)


def make_table(name: str, features: pd.DataFrame, labels: pd.Series[Any], n_train: int | None = None) -> Table:
    """Return a data set, after checking its features and its labels.

    Args:
        name: name of the data set, also used in errors.
        features: the n rows, without their classes.
        labels: the class of each row.
        n_train: number of rows of the published training set, which come first; None if no split was published.

    Raises:
        ValueError: if there is no row or no feature, a number is infinite, or a label is missing. Also if there is only
            one class, or if there are more than two classes and more than one class for every five rows.
    """
    if len(labels) == 0:
        raise ValueError(expected(name, "a table with rows", "none"))
    if features.shape[1] == 0:
        raise ValueError(expected(name, "a table with a column beside the target", "none"))
    for column in features.select_dtypes(include="number"):
        if np.isinf(features[column]).any():
            raise ValueError(expected(str(column), "a column of finite or missing numbers", "an infinite one"))
    missing = int(labels.isna().sum())
    if missing:
        raise ValueError(expected("target", "a class in every row", f"{missing} rows without one"))
    classes, target = np.unique(labels.astype(str), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(expected("target", "a column of at least two classes", f"only {classes[0]!r}"))
    # With fewer than five rows a class on average, more than two values are more likely names of the rows, or numbers
    # to predict by regression, than classes.
    if len(classes) > max(2, len(labels) // 5):
        several = "a column of classes, each with several rows"
        raise ValueError(expected("target", several, f"{len(classes)} different values in {len(labels)} rows"))
    return Table(name, features, target.astype(np.int64), tuple(map(str, classes)), n_train)


def preprocessor(features: pd.DataFrame) -> Any:
    """Return an unfitted transformer from table columns to a matrix of numbers; fit it to the training rows only.

    In a column of numbers, a missing number becomes the median. If the training rows have missing numbers, a column of
    zeros and ones is added that marks them. Then all of these columns are scaled to mean 0 and variance 1. All other
    columns are one-hot encoded: a column of zeros and ones for each category. A column of more than 50 categories
    becomes 50 columns, of which the last represents all the rarest categories. A category that is absent from the
    training rows is encoded like the rarest categories, or as zeros if its column has at most 50 categories.

    Args:
        features: a table of the columns; only their names and types are used.

    Returns:
        A scikit-learn ColumnTransformer that is not fitted.

    Raises:
        ValueError: by the transformer's `fit` and `transform`, if a number is infinite.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"age": [20.0, 40.0, None], "job": ["a", "b", "a"]})
        >>> preprocessor(people).fit_transform(people).round(2)
        array([[-1.22, -0.71,  1.  ,  0.  ],
               [ 1.22, -0.71,  0.  ,  1.  ],
               [ 0.  ,  1.41,  1.  ,  0.  ]])
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = features.select_dtypes(include="number").columns
    categories = [column for column in features.columns if column not in numbers]
    numeric = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    categorical = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False
    )
    return ColumnTransformer([("numbers", numeric, list(numbers)), ("categories", categorical, categories)])
