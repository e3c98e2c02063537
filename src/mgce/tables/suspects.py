"""Judge the label of every row of a table by trees that have not seen the row, and estimate how many are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from mgce._text import spreadsheet_cell
from mgce.estimators import MGCEForestClassifier

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CONFIDENCE = 0.95  # of the intervals


@dataclass(frozen=True)
class Judgement:
    """What a forest says of the label of each of n rows, of k classes.

    Attributes:
        target: the label as given, (n,).
        suggested: the label that the forest would give, (n,).
        probs: probabilities of the labels by trees that have not seen the row, (n, k).
        is_issue: whether another class is confidently there, (n,): see :func:`judge`.
        wrong: estimated probability that the label is wrong, (n,).
    """

    target: IntArray
    suggested: IntArray
    probs: FloatArray
    is_issue: NDArray[np.bool_]
    wrong: FloatArray

    def order(self) -> IntArray:
        """Give the rows, the likeliest to have a wrong label first: with time to look at m of them, look at the first.

        Of rows equally likely, those come first whose label is the least probable beside the best one.
        """
        own = self.probs[np.arange(len(self.target)), self.target]
        return np.asarray(np.lexsort((own - self.probs.max(1), -self.wrong)))

    def suspects(self, most: int) -> IntArray:
        """Give the first rows of this order that the forest would label otherwise, at most so many."""
        order = self.order()
        return np.asarray(order[self.suggested[order] != self.target[order]][:most])

    def share_wrong(self, label: int | None = None) -> tuple[float, float, float]:
        """Estimate the share of wrong labels, of all or of those given as one class: the share of issues.

        Returns:
            The estimate, and an interval around it that allows for the number of rows. It does not allow for the
            forest's own errors.
        """
        issues = self.is_issue if label is None else self.is_issue[self.target == label]
        interval = binomtest(int(issues.sum()), len(issues)).proportion_ci(CONFIDENCE)
        return float(issues.mean()), float(interval.low), float(interval.high)


def judge(
    X: NDArray[Any], target: IntArray, train: IntArray, seed: int, jobs: int = 1, fitted: Any = None
) -> Judgement:
    r"""Judge every label by a forest of the training rows: these by the trees that have not drawn them.

    A row is an issue if, among the classes whose probability is at least what the rows given that label have on
    average, :math:`p_j \ge \frac{1}{n_j} \sum_{i: y_i = j} p_{ij}`, another than its label is the most probable: the
    rule of confident learning, which asks more of classes that come easily.

    Counted by label and class, the issues give the noise that they stand for, a matrix T, and Bayes' rule the
    probability that a label is wrong: that of the right class is what T makes p of.

    Args:
        X: all rows, shape (n, d).
        target: their labels as given, shape (n,), in 0..k-1.
        train: the rows to grow the forest on.
        seed: of the forest.
        jobs: trees grown at once; -1 for as many as there are cores.
        fitted: a model of the same rows and seed; if it is a forest, no second one like it is grown.

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    forest = fitted
    if not isinstance(fitted, MGCEForestClassifier):
        forest = MGCEForestClassifier(random_state=seed, n_jobs=jobs).fit(X[train], target[train])
    probs = np.empty((len(X), len(forest.classes_)))
    unseen = np.isnan(forest.oob_decision_function_[:, 0])  # rows that every tree has drawn: no opinion
    probs[train] = np.where(unseen[:, None], 1 / probs.shape[1], forest.oob_decision_function_)
    others = np.setdiff1d(np.arange(len(X)), train)
    if others.size:
        probs[others] = forest.tree_proba(X[others])
    return judgement(probs, target)


def judgement(probs: FloatArray, target: IntArray) -> Judgement:
    """Judge labels by probabilities, shape (n, k), of a model that has not seen them; see :func:`judge`."""
    thresholds = np.array([probs[target == label, label].mean() for label in range(probs.shape[1])])
    confident = np.where(probs >= thresholds, probs, -1.0)
    likely = np.where(confident.max(1) > 0, confident.argmax(1), target)
    return Judgement(
        target=target,
        suggested=probs.argmax(1),
        probs=probs,
        is_issue=likely != target,
        wrong=_wrong(probs, target, likely),
    )


def _wrong(probs: FloatArray, target: IntArray, likely: IntArray) -> FloatArray:
    """Estimate the probability that each label is wrong, from the classes that the rows are likely of."""
    k = probs.shape[1]
    joint = np.zeros((k, k))
    np.add.at(joint, (likely, target), 1)
    # T_ij: how often a row of class i is given label j. A class that no row is likely of keeps its label.
    totals = joint.sum(1, keepdims=True)
    transition = np.where(totals > 0, joint / np.maximum(totals, 1), np.eye(k))
    right = np.clip(probs @ np.linalg.pinv(transition), 0, None)  # of the right class, given the row: p = q T
    right /= np.maximum(right.sum(1, keepdims=True), np.finfo(float).tiny)
    by_class = right * transition[:, target].T  # and given the label, up to a factor
    total = by_class.sum(1)
    rows = np.arange(len(target))
    return np.where(total > 0, 1 - by_class[rows, target] / np.where(total > 0, total, 1), 1.0)


def suspects_csv(found: Judgement, classes: NDArray[Any], names: pd.Series[Any]) -> bytes:
    """Give every row of a table as CSV, the most suspect first: its labels, and how likely its own is wrong."""
    import pandas as pd

    rows = np.arange(len(found.target))
    frame = pd.DataFrame(
        {
            "given": [spreadsheet_cell(str(label)) for label in classes[found.target]],
            "suggested": [spreadsheet_cell(str(label)) for label in classes[found.suggested]],
            "label_quality": 1 - found.wrong,
            "p_given": found.probs[rows, found.target],
            "p_suggested": found.probs.max(1),
            "is_issue": found.is_issue,
        }
    )
    cells = [spreadsheet_cell(name) for name in names.astype(str)]
    frame.insert(0, str(names.name), cells, allow_duplicates=True)
    return frame.iloc[found.order()].to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
