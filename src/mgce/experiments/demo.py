"""A table whose labels are made wrong on purpose, and what a fit to the table found, counted by the right labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

from mgce import noise
from mgce._validation import check_choice, check_number
from mgce.datasets import load
from mgce.datasets.splits import stratified_split
from mgce.tables.fit import TableFit

if TYPE_CHECKING:
    import pandas as pd

DATASETS = ("breast_cancer", "digits", "iris", "wine")  # those that scikit-learn brings: nothing is downloaded
LABEL = "label"  # the column of the classes
NEW = 0.25  # share of the rows that nobody trains on, as in `benchmarks/tables.py`
FIRST = (
    20,
    50,
)  # suspects that are counted: as many labels as a person looks at in one sitting, and in a day
LIBRARY = {"random forest": RandomForestClassifier, "gradient boosting": HistGradientBoostingClassifier}


@dataclass(frozen=True)
class KnownTable:
    """A table with labels made wrong, and the truth about it."""

    table: pd.DataFrame  # features and labels, a part of them wrong
    right: NDArray[Any]  # the right label of each row of `table`
    new: pd.DataFrame  # further rows, with right labels
    classes: tuple[str, ...]
    transition: torch.Tensor  # the probability of each given label (columns) by right label (rows)

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Whether the label of each row of the table is wrong."""
        return np.asarray(self.table[LABEL].to_numpy() != self.right)


def known_table(dataset: str, noise_rate: float, seed: int) -> KnownTable:
    """Return a table of scikit-learn with symmetric noise in its labels, and new rows with right labels.

    Args:
        dataset: one of `DATASETS`.
        noise_rate: the share of labels to expect wrong, in [0, 1].
        seed: of the choice of new rows, and of the wrong labels, in [0, 2^32).

    Raises:
        ValueError: if the data set is another one, or the rate or the seed is out of its interval.

    Example:
        >>> known = known_table("iris", 0.2, seed=0)
        >>> len(known.table), len(known.new), int(known.is_wrong.sum())
        (112, 38, 16)
    """
    check_choice("dataset", dataset, DATASETS)
    check_number("seed", seed, 0, 2**32 - 1)  # what NumPy's generators take
    data = load(dataset)
    transition = noise.symmetric(len(data.classes), noise_rate)
    ours, new = stratified_split(np.arange(len(data.target)), data.target, NEW, seed, dataset)
    right = data.target[ours]
    given = noise.corrupt(torch.from_numpy(right), transition, torch.Generator().manual_seed(seed)).labels.numpy()
    names = np.array(data.classes, dtype=object)

    def frame(rows: NDArray[np.int64], target: NDArray[np.int64]) -> pd.DataFrame:
        return data.features.iloc[rows].assign(**{LABEL: names[target]}).reset_index(drop=True)

    return KnownTable(frame(ours, given), names[right], frame(new, data.target[new]), data.classes, transition)


@dataclass(frozen=True)
class Found:
    """What a fit to a table with known wrong labels found.

    Attributes:
        accuracy: share of the new rows whose right label is predicted, by method.
        wrong_among: how many of the first suspects have a wrong label, and how many suspects these are, for each of
            `FIRST`.
        bound: the certified bound on disagreement with labels as noisy as the table's; None if there is none.
        disagreement: how often labels as noisy are to be expected to disagree with the model on the new rows.
    """

    accuracy: dict[str, float]
    wrong_among: list[tuple[int, int]]
    bound: float | None
    disagreement: float

    @property
    def held(self) -> bool:
        """Whether the bound was not exceeded; no bound holds."""
        return self.bound is None or self.disagreement <= self.bound


def found(known: KnownTable, fit: TableFit) -> Found:
    """Count what a fit to `known.table` found, beside two classifiers of scikit-learn on the same rows.

    Args:
        known: the table and the truth.
        fit: what :func:`mgce.tables.fit.run` returned for the table, with no noise rate stated.
    """
    import pandas as pd

    new, right = known.new.drop(columns=LABEL), known.new[LABEL].to_numpy()
    predicted = fit.model.predict(fit.model.columns.select(new)).label
    ours = {"mgce fit": float((predicted == right).mean())}
    rows, columns = (pd.Categorical(labels, known.classes).codes for labels in (right, predicted))
    suspects = [fit.judgement.suspects(most) for most in FIRST]
    return Found(
        accuracy=ours | _library_accuracy(known, new, right),
        wrong_among=[(int(known.is_wrong[among].sum()), len(among)) for among in suspects],
        bound=fit.certificate.argmax_error,
        disagreement=float(1 - known.transition[rows.astype(int), columns.astype(int)].mean()),
    )


def _library_accuracy(known: KnownTable, new: pd.DataFrame, right: NDArray[Any]) -> dict[str, float]:
    """Return the accuracy of each classifier of `LIBRARY`, by default, on new rows."""
    X, y = known.table.drop(columns=LABEL), known.table[LABEL]
    with threadpool_limits(1):  # on small tables the threads of boosting mostly wait for one another
        return {name: float(kind(random_state=0).fit(X, y).score(new, right)) for name, kind in LIBRARY.items()}
