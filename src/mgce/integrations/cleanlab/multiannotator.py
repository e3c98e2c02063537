"""Find the consensus of several labels a row, and judge labels and annotators by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._arrays import FloatArray, as_probs, sorted_classes
from mgce._messages import expected
from mgce.integrations.cleanlab.issues import check_others
from mgce.labels.consensus import Consensus, find_consensus

Array = NDArray[Any]


def get_label_quality_multiannotator(
    labels_multiannotator: Any,
    pred_probs: Any = None,
    *,
    return_detailed_quality: bool = True,
    return_annotator_stats: bool = True,
    **others: Any,
) -> dict[str, pd.DataFrame]:
    """Return the consensus of several labels a row with the quality of each label and annotator.

    Args:
        labels_multiannotator: a DataFrame or a matrix (n, m) with a column for each annotator; NaN is no label.
        pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the labels of the row, or None.
        return_detailed_quality: whether to return the quality of each label.
        return_annotator_stats: whether to return a table of the annotators, the worst first.
        others: `verbose`, without effect: nothing is printed.

    Returns:
        The tables `"label_quality"`, `"detailed_label_quality"` and `"annotator_stats"`. A quality is the estimated
        probability that a label is right.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> labels = pd.DataFrame({"ann": [0, 1, 0, 1] * 10, "bob": [0, 1, 1, 1] * 10, "eve": [0, 1, 0, None] * 10})
        >>> results = get_label_quality_multiannotator(labels)
        >>> results["label_quality"]["consensus_label"].tolist()[:4]
        [0, 1, 0, 1]
        >>> results["annotator_stats"].index[0]
        'bob'
    """
    check_others(others, "verbose")
    frame = _annotations(labels_multiannotator)
    found = _consensus(frame, pred_probs)
    cells, absent = _cells(frame), frame.isna().to_numpy()
    equal = (cells == found.labels[:, None].astype(object)) & ~absent
    with np.errstate(invalid="ignore"):  # a row without a label agrees with nobody
        agreement = equal.sum(1) / found.n_labels
    judged = {"consensus_label": found.labels, "consensus_quality_score": found.quality}
    judged |= {"annotator_agreement": agreement, "num_annotations": found.n_labels}
    results = {"label_quality": pd.DataFrame(judged, index=frame.index)}
    place = {label: number for number, label in enumerate(found.classes.tolist())}
    own = np.full(cells.shape, np.nan)
    rows, columns = np.nonzero(~absent)
    own[rows, columns] = found.probs[rows, [place[label] for label in cells[rows, columns]]]
    if return_detailed_quality:
        names = [f"quality_annotator_{name}" for name in frame.columns]
        results["detailed_label_quality"] = pd.DataFrame(own, columns=names, index=frame.index)
    if return_annotator_stats:
        n = (~absent).sum(0)
        worst = [pd.Series(q).groupby(y).mean().idxmin() for q, y in zip(own.T, cells.T, strict=True)]
        quality = [one.estimated_accuracy for one in found.annotators]
        stats = {"annotator_quality": quality, "agreement_with_consensus": equal.sum(0) / n, "worst_class": worst}
        table = pd.DataFrame({**stats, "num_examples_labeled": n}, index=frame.columns)
        results["annotator_stats"] = table.sort_values("annotator_quality", kind="stable")
    return results


def get_majority_vote_label(labels_multiannotator: Any, pred_probs: Any = None, **others: Any) -> Array:
    """Return the label of most annotators of each row.

    Args:
        labels_multiannotator: labels (n, m), as in :func:`get_label_quality_multiannotator`.
        pred_probs: class probabilities, shape (n, k), that decide where classes have equal votes. None: the number of
            all votes decides, then the order of the classes.
        others: `verbose`, without effect: nothing is printed.

    Returns:
        A label for each row, shape (n,).

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> get_majority_vote_label(pd.DataFrame({"ann": [0, 1, 0], "bob": [0, 1, 1], "eve": [1, 1, None]}))
        array([0, 1, 1])
    """
    check_others(others, "verbose")
    frame = _annotations(labels_multiannotator)
    cells, (probs, classes) = _cells(frame), _with_classes(frame, pred_probs)
    votes = np.stack([(cells == label).sum(1) for label in classes.tolist()], axis=1)
    tie = votes.sum(0) / votes.sum() if probs is None else probs
    return np.asarray(classes[(votes + tie / 2).argmax(1)])


def get_active_learning_scores(
    labels_multiannotator: Any, pred_probs: Any = None, pred_probs_unlabeled: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return one minus the expected gain of one more label of each row: label rows with the lowest scores first.

    Args:
        labels_multiannotator: labels (n, m), as in :func:`get_label_quality_multiannotator`.
        pred_probs: class probabilities, shape (n, k), or None.
        pred_probs_unlabeled: class probabilities of rows without a label, shape (u, k), or None.

    Returns:
        Scores in [0, 1] of the labelled rows, shape (n,), and of the others, shape (u,), from one estimate: they can be
        compared. See :meth:`mgce.labels.Consensus.expected_gain`.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> labels = pd.DataFrame({"ann": [0, 1, 0, 1] * 10, "bob": [0, 1, 1, 1] * 10, "eve": [0, 1, 0, None] * 10})
        >>> probs = np.array([[0.9, 0.1], [0.1, 0.9]] * 20)
        >>> scores, others = get_active_learning_scores(labels, probs, [[0.5, 0.5]])
        >>> bool(others[0] < scores.min())
        True
    """
    frame, probs = _annotations(labels_multiannotator), pred_probs
    if pred_probs_unlabeled is not None:
        if pred_probs is None:
            raise ValueError(expected("pred_probs", "given with pred_probs_unlabeled", None))
        probs = np.concatenate([np.asarray(pred_probs), np.asarray(pred_probs_unlabeled)])
        frame = frame.reset_index(drop=True).reindex(range(len(probs)))
    score = 1 - _consensus(frame, probs).expected_gain()
    return score[: len(labels_multiannotator)], score[len(labels_multiannotator) :]


def _annotations(labels: Any) -> pd.DataFrame:
    """Return the columns of annotators with a label; whole numbers that NaN turned into floats become integers."""
    return pd.DataFrame(labels).convert_dtypes().dropna(axis=1, how="all")


def _cells(frame: pd.DataFrame) -> Array:
    """Return the labels as Python objects, and None for no label, shape (n, m)."""
    cells = frame.to_numpy(dtype=object, copy=True)
    cells[frame.isna().to_numpy()] = None
    return cells


def _with_classes(frame: pd.DataFrame, pred_probs: Any) -> tuple[FloatArray | None, Array]:
    """Return checked probabilities and the classes of their columns."""
    classes = sorted_classes(np.array([label for label in _cells(frame).ravel() if label is not None]))[0]
    if pred_probs is None:
        return None, classes
    probs = as_probs(pred_probs, "pred_probs")
    return probs, classes if len(classes) == probs.shape[1] else np.arange(probs.shape[1])


def _consensus(frame: pd.DataFrame, pred_probs: Any) -> Consensus:
    probs, classes = _with_classes(frame, pred_probs)
    return find_consensus(frame, probs, classes=classes)
