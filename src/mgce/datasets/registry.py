"""The registry of data sets: a name, or the path of a table, to its rows and classes."""

from __future__ import annotations

from pathlib import Path

from mgce._validation import expected
from mgce.datasets.tables import Table, make_table, read_table

# Those that scikit-learn carries: no network.
NAMES = ("digits", "iris", "wine", "breast_cancer")
SUFFIXES = (".csv", ".parquet")


def load(dataset: str, target: str | None = None) -> Table:
    """Load a data set by name, or a CSV or Parquet file by path.

    Args:
        dataset: one of `NAMES`, or a path that ends in .csv or .parquet.
        target: the column that holds the classes; for a file, and only for a file.

    Raises:
        ValueError: if the name is unknown, `target` is missing or superfluous, or the table is not
            fit for classification.
        FileNotFoundError: if there is no such file.

    Example:
        >>> table = load("iris")
        >>> len(table.features), table.classes
        (150, ('setosa', 'versicolor', 'virginica'))
    """
    if dataset in NAMES:
        if target is not None:
            raise ValueError(expected("target", f"left out, since {dataset!r} is not a file", target))
        return _from_scikit_learn(dataset)
    if Path(dataset).suffix.lower() in SUFFIXES:
        return read_table(Path(dataset), target)
    what = "one of " + ", ".join(map(repr, NAMES)) + ", or the path of a .csv or .parquet file"
    raise ValueError(expected("dataset", what, dataset))


def _from_scikit_learn(name: str) -> Table:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    names = [str(name) for name in bunch.target_names]
    return make_table(name, bunch.data, bunch.target.map(lambda label: names[label]))
