"""Find, score and count labels that are probably wrong, by class probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray, as_probs, sorted_classes
from mgce._messages import check_choice, check_fraction, expected
from mgce.labels.confident import confident_labels
from mgce.labels.correction import correct
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.sharpened import sharpened

Array = NDArray[Any]
_SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
_FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "low_normalized_margin", "low_self_confidence")
_EXACT = ("confident_learning", "predicted_neq_given")  # filters that are defined without a ranking


def find_label_issues(
    labels: Any,
    pred_probs: Any,
    *,
    return_indices_ranked_by: str | None = None,
    filter_by: str = "prune_by_noise_rate",
    frac_noise: float = 1.0,
    num_to_remove_per_class: Any = None,
    min_examples_per_class: int = 1,
    **others: Any,
) -> Array:
    """Return which labels are more probably wrong than right, as a mask or as ranked rows.

    Args:
        labels: given labels, shape (n,), of any type. Integers from 0 to k - 1 may leave classes out.
        pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row.
        return_indices_ranked_by: a name of cleanlab's scores for indices, most suspect first; None for a mask.
        filter_by: `"predicted_neq_given"` for labels that are not the most probable class, `"confident_learning"` for
            labels that :func:`mgce.labels.confident.confident_labels` replaces. The five other names stand for
            :attr:`mgce.labels.DoubtfulLabels.is_issue`.
        frac_noise: share in [0, 1] of these rows to return, the most suspect rows first.
        num_to_remove_per_class: for each class, the largest number of its rows to return, instead of `filter_by`.
        min_examples_per_class: number of rows of each class that the result leaves out at least, if there are so many.
        others: `rank_by_kwargs`, `n_jobs` and `verbose`, without effect.

    Returns:
        A mask, shape (n,), or indices of rows, the most suspect label first.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> probs = np.array([[0.99, 0.01], [0.01, 0.99]] * 100)
        >>> labels = np.array([0, 1] * 100)
        >>> labels[:6:2] = 1
        >>> find_label_issues(labels, probs, return_indices_ranked_by="self_confidence").tolist()
        [0, 2, 4]

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    check_choice("filter_by", filter_by, (*_FILTERS, *_EXACT))
    check_choice("return_indices_ranked_by", return_indices_ranked_by, (None, *_SCORES))
    check_fraction("frac_noise", frac_noise)
    check_others(others, "rank_by_kwargs", "n_jobs", "verbose")
    found = judged(labels, pred_probs)
    if num_to_remove_per_class is not None:
        listed = found.order[(found.suggestion != found.target)[found.order]]
        most = np.asarray(num_to_remove_per_class)
        if most.shape != found.classes.shape:
            what = f"{len(found.classes)} numbers of rows, one for each class"
            raise ValueError(expected("num_to_remove_per_class", what, num_to_remove_per_class))
    else:
        listed = found.order[_filtered(found, filter_by)[found.order]]
        listed = listed[: int(np.ceil(frac_noise * len(listed)))]
        most = np.full(len(found.classes), len(labels))
    size = np.bincount(found.target, minlength=len(found.classes))
    listed = _first_of_each(listed, found.target, np.minimum(most, np.maximum(size - min_examples_per_class, 0)))
    return listed if return_indices_ranked_by else np.isin(np.arange(len(found.target)), listed)


def get_label_quality_scores(labels: Any, pred_probs: Any, **others: Any) -> FloatArray:
    """Return for each label one minus the probability that it is wrong: the lowest score is the most suspect label.

    Args:
        labels: given labels, shape (n,), as in :func:`find_label_issues`.
        pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row.
        others: `method` and `adjust_pred_probs`, without effect: there is one score.

    Returns:
        Scores in [0, 1], shape (n,).

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> probs = np.array([[0.99, 0.01], [0.01, 0.99]] * 100)
        >>> labels = np.array([0, 1] * 100)
        >>> labels[:20:2] = 1
        >>> get_label_quality_scores(labels, probs).round(2)[:3]
        array([0.47, 1.  , 0.47])
    """
    check_others(others, "method", "adjust_pred_probs")
    return np.asarray(1 - judged(labels, pred_probs).wrong)


def num_label_issues(labels: Any, pred_probs: Any) -> int:
    """Return how many labels are more probably wrong than right.

    Args:
        labels: given labels, shape (n,), as in :func:`find_label_issues`.
        pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row.

    Returns:
        The number of rows. By default :func:`find_label_issues` returns as many, unless all rows of a class count.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> num_label_issues([0, 1, 0, 0] * 100, [[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1]] * 100)
        0
    """
    return int(judged(labels, pred_probs).is_issue.sum())


def estimate_joint(labels: Any, pred_probs: Any) -> FloatArray:
    r"""Return the estimated share of rows of each given class and right class.

    .. math:: J_{yc} = \frac{1}{n} \sum_{i: y_i = y} P(c \mid x_i, y_i)

    Args:
        labels: given labels, shape (n,), as in :func:`find_label_issues`.
        pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row.

    Returns:
        J, shape (k, k): given classes are rows, right classes are columns, and the sum is one.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> estimate_joint([0, 1, 0, 1] * 100, [[1.0, 0.0], [0.0, 1.0]] * 200).round(2)
        array([[0.5, 0. ],
               [0. , 0.5]])
    """
    probs, _, target = _read(labels, pred_probs)
    joint = np.zeros((probs.shape[1],) * 2)
    np.add.at(joint, target, correct(sharpened(probs, target), target).probs)
    return joint / len(target)


def health_summary(labels: Any, pred_probs: Any, *, class_names: Any = None, **others: Any) -> dict[str, Any]:
    """Return which classes have wrong labels, and which pairs of classes are taken for one another.

    Args:
        labels: given labels, shape (n,), as in :func:`find_label_issues`.
        pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row.
        class_names: names of the k classes, or None.
        others: `verbose`, without effect: nothing is printed.

    Returns:
        `"overall_label_health_score"`, the estimated share of right labels; `"joint"`, of :func:`estimate_joint`;
        the tables `"classes_by_label_quality"` and `"overlapping_classes"`, the worst first.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> probs = [[1.0, 0.0], [0.0, 1.0]] * 200
        >>> health_summary([0, 1, 0, 1] * 100, probs)["overall_label_health_score"].round(2)
        np.float64(1.0)
    """
    check_others(others, "verbose")
    joint, (_, known, target) = estimate_joint(labels, pred_probs), _read(labels, pred_probs)
    k, n = len(joint), len(target)
    names = known if class_names is None else np.asarray(class_names)
    if names.shape != (k,):
        raise ValueError(expected("class_names", f"{k} names", class_names))
    given, right, same = joint.sum(1), joint.sum(0), np.diag(joint)
    with np.errstate(invalid="ignore"):  # of a class without rows, nothing is known
        noise, inverse = 1 - same / given, 1 - same / right
    a, b = np.triu_indices(k, 1)
    both = joint[a, b] + joint[b, a]
    wrong, inversely, overlapping = ((n * part).round().astype(int) for part in (given - same, right - same, both))
    table = {"Class Name": names, "Class Index": np.arange(k)}
    table |= {"Label Issues": wrong, "Inverse Label Issues": inversely}
    table |= {"Label Noise": noise, "Inverse Label Noise": inverse, "Label Quality Score": 1 - noise}
    pairs = {"Class Name A": names[a], "Class Name B": names[b], "Class Index A": a, "Class Index B": b}
    pairs |= {"Num Overlapping Examples": overlapping, "Joint Probability": both}
    classes, overlaps = pd.DataFrame(table), pd.DataFrame(pairs)
    if class_names is None:
        classes, overlaps = classes.iloc[:, 1:], overlaps.iloc[:, 2:]
    return {
        "overall_label_health_score": same.sum(),
        "joint": joint,
        "classes_by_label_quality": _sorted(classes, "Label Quality Score", True),
        "overlapping_classes": _sorted(overlaps, "Joint Probability", False),
    }


def _filtered(found: DoubtfulLabels, filter_by: str) -> NDArray[np.bool_]:
    if filter_by == "predicted_neq_given":
        return np.asarray(found.probs.argmax(1) != found.target)
    if filter_by == "confident_learning":
        return np.asarray(confident_labels(found.probs, found.target) != found.target)
    return found.is_issue


def _first_of_each(rows: IntArray, target: IntArray, most: IntArray) -> IntArray:
    """Return the first `most[c]` rows of each class c, in the order of `rows`."""
    place = pd.Series(target[rows]).groupby(target[rows]).cumcount().to_numpy()
    return np.asarray(rows[place < most[target[rows]]])


def _sorted(table: pd.DataFrame, column: str, ascending: bool) -> pd.DataFrame:
    return table.sort_values(column, ascending=ascending, kind="stable", ignore_index=True)


def _read(labels: Any, pred_probs: Any) -> tuple[FloatArray, Array, IntArray]:
    """Return checked probabilities, the classes of their columns, and the index of each label among the classes."""
    probs = as_probs(pred_probs, "pred_probs")
    classes, target = sorted_classes(np.asarray(labels))
    columns = np.arange(probs.shape[-1])
    if len(classes) < len(columns) and np.isin(classes, columns).all():  # some columns are of no row's label
        classes, target = columns, classes[target]
    if probs.shape != (len(target), len(classes)):
        what = f"of shape ({len(target)}, {len(classes)}), a row for each label and a column for each class"
        raise ValueError(expected("pred_probs", what, probs.shape))
    return probs, classes, target.astype(np.int64)


def judged(labels: Any, pred_probs: Any) -> DoubtfulLabels:
    """Return the labels as `find_suspects` judges them by probabilities."""
    probs, classes, target = _read(labels, pred_probs)
    return doubtful_labels(probs, target, classes=classes)


def issue_table(found: DoubtfulLabels, score: str, mask: NDArray[np.bool_]) -> pd.DataFrame:
    """Return a row for each label, under cleanlab's column names; `score` is the name of the column of qualities."""
    quality, given, predicted = 1 - found.wrong, found.given, found.suggested
    return pd.DataFrame({"is_label_issue": mask, score: quality, "given_label": given, "predicted_label": predicted})


def check_others(others: Mapping[str, object], *names: str) -> None:
    """Raise an error for arguments other than those of cleanlab that may be passed without effect."""
    for name in others:
        if name not in names:
            raise TypeError(expected("argument", f"one of this function ({', '.join(names)} have no effect)", name))
