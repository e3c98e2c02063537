"""Tables of mixed columns: reading, checking, and turning them into numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgce._validation import expected
from mgce.datasets.table_files import TextFormat, read_frame, table_name

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Table:
    """Examples with a class each: `features`, a row for each, as read; `target` (n,), indices into `classes`.

    The first `n_train` rows are the published training part; `n_train` is None where none is published. Of a file,
    `unlabelled` rows had no label and are not among these.
    """

    name: str
    features: pd.DataFrame
    target: np.ndarray[Any, np.dtype[np.int64]]
    classes: tuple[str, ...]
    n_train: int | None = None
    unlabelled: int = 0

    def checksum(self) -> str:
        """Give a SHA-256 of the columns, their values, the classes and which rows have them."""
        import pandas as pd

        names = json.dumps([*map(str, self.features.columns), *self.classes]).encode()
        values = pd.util.hash_pandas_object(self.features, index=False).to_numpy()
        return hashlib.sha256(names + values.tobytes() + self.target.tobytes()).hexdigest()


def read_table(path: Path, target: str | None, *, drop: Collection[str] = (), form: TextFormat | None = None) -> Table:
    """Read a file of text or a Parquet file, with the classes in column `target`; rows without a class are left out.

    Args:
        path: the file; see :func:`mgce.datasets.table_files.read_frame`.
        target: the column that holds the classes.
        drop: columns that are no features.
        form: how a file of text is written.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if it cannot be read as a table, has no column `target` or one to drop, or its target is not one of
            at least two classes.

    Example:
        >>> read_table(Path("nowhere.csv"), "class")
        Traceback (most recent call last):
        FileNotFoundError: Expected `dataset` to be the path of a file that exists, but got 'nowhere.csv'.
    """
    frame = read_frame(path, "dataset", classes=target, form=form)
    columns = ", ".join(frame.columns[:20])  # enough to find a name by, few enough for an error
    if target is None:
        raise ValueError(f"Expected `target` to name the column with the classes, one of: {columns}.")
    for option, name in (("target", target), *(("drop", name) for name in drop)):
        if name not in frame.columns:
            raise ValueError(expected(option, f"a column of {path.name} ({columns})", name))
    labelled = frame[frame[target].notna()].reset_index(drop=True)
    if labelled.empty:
        raise ValueError(expected("target", "a column with classes", "none"))
    table = make_table(table_name(path), labelled.drop(columns=[target, *drop]), labelled[target])
    return replace(table, unlabelled=len(frame) - len(labelled))


def make_table(name: str, features: pd.DataFrame, labels: pd.Series[Any], n_train: int | None = None) -> Table:
    """Make a table, after a check that its labels are classes: two or more, each with several rows."""
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
    if len(classes) > max(2, len(labels) // 5):  # fewer than five rows for a class on average: no classes, but names
        what = "a column of classes, each with several rows"
        raise ValueError(expected("target", what, f"{len(classes)} different values in {len(labels)} rows"))
    return Table(name, features, target.astype(np.int64), tuple(map(str, classes)), n_train)


def preprocessor(features: pd.DataFrame) -> Any:
    """Make the transformer of these columns to numbers, to be fitted on training rows alone.

    A missing number becomes the median of its column, and a column of zeros and ones is added that says where numbers
    were missing; then all are scaled to mean 0 and variance 1. Columns of anything else become a column of zeros and
    ones for each category; if there are more than 50, the rarest share one. A category that was not in the training
    rows counts as a rare one; if there are none, it is all zeros.

    Args:
        features: the columns of a table; only their names and types count.

    Raises:
        ValueError: by the transformer, when it is fitted on infinite numbers.

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
    others = [column for column in features.columns if column not in numbers]
    numeric = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    # At most 50 columns for one: they keep the 41 countries of adult apart, while a column of names or free text, which
    # has as many values as rows, does not become thousands.
    categorical = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=50, sparse_output=False)
    return ColumnTransformer([("numbers", numeric, list(numbers)), ("categories", categorical, others)])
