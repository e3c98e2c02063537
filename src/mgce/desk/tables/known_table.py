"""Corrupt the labels of a table on purpose, and count how well a fit to this table finds the wrong labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn.datasets
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

from mgce import noise
from mgce._messages import check_choice, check_number
from mgce.desk.files.tables import Table, make_table
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.rows import Split
from mgce.labels.out_of_fold import stratified_split

if TYPE_CHECKING:
    import pandas as pd

DATASETS = ("breast_cancer", "digits", "iris", "wine")  # those that scikit-learn brings: nothing is downloaded
LABEL = "label"  # the column of the classes
FIRST = (20, 50)  # suspects that are counted: as many labels as a person looks at in one sitting, and in a day
LIBRARY = {"random forest": RandomForestClassifier, "gradient boosting": HistGradientBoostingClassifier}


@dataclass(frozen=True)
class KnownTable:
    """A table with corrupted labels, and the right labels of its rows."""

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
    """Return a data set of scikit-learn with symmetric noise in its labels, and new rows with right labels.

    Args:
        dataset: one of `DATASETS`.
        noise_rate: probability that a label is wrong, in [0, 1].
        seed: seed of the split into table and new rows, and of the noise, in [0, 2^32).

    Raises:
        ValueError: if `dataset` is not one of `DATASETS`, or the rate or the seed is out of range.

    Example:
        >>> known = known_table("iris", 0.2, seed=0)
        >>> len(known.table), len(known.new), int(known.is_wrong.sum())
        (112, 38, 16)
    """
    check_choice("dataset", dataset, DATASETS)
    check_number("seed", seed, 0, 2**32 - 1)  # what NumPy's generators take
    data = bundled_table(dataset)
    transition = noise.symmetric(len(data.classes), noise_rate)
    ours, new = stratified_split(np.arange(len(data.target)), data.target, Split.holdout, seed, dataset)
    right = data.target[ours]
    given = noise.corrupt(torch.from_numpy(right), transition, torch.Generator().manual_seed(seed)).labels.numpy()
    names = np.array(data.classes, dtype=object)

    def frame(rows: NDArray[np.int64], target: NDArray[np.int64]) -> pd.DataFrame:
        return data.features.iloc[rows].assign(**{LABEL: names[target]}).reset_index(drop=True)

    return KnownTable(frame(ours, given), names[right], frame(new, data.target[new]), data.classes, transition)


def bundled_table(name: str) -> Table:
    """Return a data set of scikit-learn, with the names of its classes as labels."""
    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    names = [str(name) for name in bunch.target_names]
    return make_table(name, bunch.data, bunch.target.map(lambda label: names[label]))


@dataclass(frozen=True)
class Found:
    """The results of a fit to a table with known wrong labels.

    Attributes:
        accuracy: accuracy on new rows with right labels, by method.
        wrong_among: for each number in `FIRST`, a pair: the number of wrong labels among that many of the first
                suspects, and the number of these suspects.
        bound: the certified upper bound on the rate at which predictions disagree with labels as noisy as the table's;
            None without a bound.
        disagreement: the expected rate at which such noisy labels of the new rows disagree with the predictions.
    """

    accuracy: dict[str, float]
    wrong_among: list[tuple[int, int]]
    bound: float | None
    disagreement: float

    @property
    def held(self) -> bool:
        """Whether the share of labels that disagree is at most its bound; True if there is no bound."""
        return self.bound is None or self.disagreement <= self.bound


def found(known: KnownTable, fit: TableFit) -> Found:
    """Evaluate a fit to `known.table`, and compare it with two classifiers of scikit-learn on the same rows.

    Args:
        known: the table and its right labels.
        fit: the result of :func:`mgce.desk.tables.fit.run` for the table, without a given noise rate.
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
    """Return the accuracy of each classifier of `LIBRARY`, with default settings, on new rows."""
    X, y = known.table.drop(columns=LABEL), known.table[LABEL]
    with threadpool_limits(1):  # on small tables the threads of boosting mostly wait for one another
        return {name: float(kind(random_state=0).fit(X, y).score(new, right)) for name, kind in LIBRARY.items()}
