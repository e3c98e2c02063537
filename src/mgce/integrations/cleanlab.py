"""Find wrong labels by functions with the names and arguments of cleanlab's, which need pandas and no cleanlab.

There is one ranking and one set of suspects, those of :func:`mgce.find_suspects`. Arguments of cleanlab that cannot
change the result are accepted, and each function lists them. Arguments that would change it raise an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from mgce._arrays import FloatArray, IntArray, as_probs, sorted_classes
from mgce._validation import check_choice, check_fraction, expected
from mgce.estimators.suspects import find_suspects
from mgce.labels.confident import confident_labels
from mgce.labels.consensus import Consensus, find_consensus
from mgce.labels.correction import correct
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import out_of_fold, stratified_folds

Array = NDArray[Any]
_SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
_FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "low_normalized_margin", "low_self_confidence")
_EXACT = ("confident_learning", "predicted_neq_given")  # filters that are defined without a ranking
_LABEL = "label"  # the one kind of issue


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
        filter_by: `"predicted_neq_given"` and `"confident_learning"` are what their names say. The five others are
            :attr:`mgce.labels.DoubtfulLabels.is_issue`.
        frac_noise: share in (0, 1] of these rows to return, the most suspect ones.
        num_to_remove_per_class: for each class, the number of its rows to return, instead of what `filter_by` says.
        min_examples_per_class: rows of each class that are left out of the result, if it has so many.
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
    _check_others(others, "rank_by_kwargs", "n_jobs", "verbose")
    found = _judged(labels, pred_probs)
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
    _check_others(others, "method", "adjust_pred_probs")
    return np.asarray(1 - _judged(labels, pred_probs).wrong)


def num_label_issues(labels: Any, pred_probs: Any) -> int:
    """Return how many labels are more probably wrong than right.

    Args:
        labels: given labels, shape (n,), as in :func:`find_label_issues`.
        pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row.

    Returns:
        The number of rows that :func:`find_label_issues` returns.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> num_label_issues([0, 1, 0, 0] * 100, [[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1]] * 100)
        0
    """
    return int(_judged(labels, pred_probs).is_issue.sum())


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
    np.add.at(joint, target, correct(probs, target).probs)
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
    _check_others(others, "verbose")
    joint, (_, known, target) = estimate_joint(labels, pred_probs), _read(labels, pred_probs)
    k, n = len(joint), len(target)
    names = known if class_names is None else np.asarray(class_names)
    if names.shape != (k,):
        raise ValueError(expected("class_names", f"{k} names", class_names))
    given, right, same = joint.sum(1), joint.sum(0), np.diag(joint)
    with np.errstate(invalid="ignore"):  # of a class without rows, nothing is known
        noise, inverse = 1 - same / given, 1 - same / right
    classes = pd.DataFrame(
        {
            "Class Name": names,
            "Class Index": np.arange(k),
            "Label Issues": np.round(n * (given - same)).astype(int),
            "Inverse Label Issues": np.round(n * (right - same)).astype(int),
            "Label Noise": noise,
            "Inverse Label Noise": inverse,
            "Label Quality Score": 1 - noise,
        }
    )
    a, b = np.triu_indices(k, 1)
    both = joint[a, b] + joint[b, a]
    pairs = {"Class Name A": names[a], "Class Name B": names[b], "Class Index A": a, "Class Index B": b}
    overlaps = pd.DataFrame(
        {**pairs, "Num Overlapping Examples": np.round(n * both).astype(int), "Joint Probability": both}
    )
    if class_names is None:
        classes, overlaps = classes.iloc[:, 1:], overlaps.iloc[:, 2:]
    return {
        "overall_label_health_score": same.sum(),
        "joint": joint,
        "classes_by_label_quality": _sorted(classes, "Label Quality Score", True),
        "overlapping_classes": _sorted(overlaps, "Joint Probability", False),
    }


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
    _check_others(others, "verbose")
    frame = _annotations(labels_multiannotator)
    found = _consensus(frame, pred_probs)
    cells, absent = _cells(frame), frame.isna().to_numpy()
    equal = (cells == found.labels[:, None].astype(object)) & ~absent
    with np.errstate(invalid="ignore"):  # a row without a label agrees with nobody
        agreement = equal.sum(1) / found.n_labels
    judged = {"consensus_label": found.labels, "consensus_quality_score": found.quality}
    results = {
        "label_quality": pd.DataFrame(
            {**judged, "annotator_agreement": agreement, "num_annotations": found.n_labels}, index=frame.index
        )
    }
    place = {label: number for number, label in enumerate(found.classes.tolist())}
    own = np.full(cells.shape, np.nan)
    rows, columns = np.nonzero(~absent)
    own[rows, columns] = found.probs[rows, [place[label] for label in cells[rows, columns]]]
    if return_detailed_quality:
        names = [f"quality_annotator_{name}" for name in frame.columns]
        results["detailed_label_quality"] = pd.DataFrame(own, columns=names, index=frame.index)
    if return_annotator_stats:
        worst = [_worst_class(quality, labels) for quality, labels in zip(own.T, cells.T, strict=True)]
        stats = pd.DataFrame(
            {
                "annotator_quality": [one.estimated_accuracy for one in found.annotators],
                "agreement_with_consensus": equal.sum(0) / (~absent).sum(0),
                "worst_class": worst,
                "num_examples_labeled": (~absent).sum(0),
            },
            index=frame.columns,
        )
        results["annotator_stats"] = stats.sort_values("annotator_quality", kind="stable")
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
    _check_others(others, "verbose")
    frame, probs, classes = _with_classes(_annotations(labels_multiannotator), pred_probs)
    cells = _cells(frame)
    votes = np.stack([(cells == label).sum(1) for label in classes.tolist()], axis=1)
    tie = votes.sum(0) / votes.sum() if probs is None else probs
    return np.asarray(classes[(votes + tie / 2).argmax(1)])


def get_active_learning_scores(
    labels_multiannotator: Any, pred_probs: Any = None, pred_probs_unlabeled: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return one minus what one more label of each row is worth: label the rows of the lowest scores first.

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
    n = len(labels_multiannotator)
    return score[:n], score[n:]


class CleanLearning(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fit any classifier without the labels that are more probably wrong than right.

    Each row is judged by a clone of the classifier that was not fitted to it. :func:`find_label_issues` lists the rows
    to leave out. :class:`mgce.estimators.LabelCorrectionClassifier` corrects labels and leaves nothing out.

    Args:
        clf: a classifier with `fit`, `predict` and `predict_proba`; None for logistic regression.
        seed: seed of the folds.
        cv_n_folds: number of folds.
        find_label_issues_kwargs: arguments of :func:`find_label_issues`.
        verbose: without effect.

    Attributes:
        clf_: the classifier, fitted to the rows that are left.
        classes_: the classes, sorted, shape (k,).
        label_issues_df: a row for each label: see :meth:`find_label_issues`.
        label_issues_mask: which labels are left out, shape (n,).

    Example:
        >>> X, y = np.repeat([[0.0], [9.0]], 200, axis=0), np.repeat([0, 1], 200)
        >>> y[:5] = 1
        >>> cl = CleanLearning(seed=0).fit(X, y)
        >>> np.flatnonzero(cl.get_label_issues()["is_label_issue"]).tolist(), cl.score(X[5:], y[5:])
        ([0, 1, 2, 3, 4], 1.0)
    """

    def __init__(
        self,
        clf: Any = None,
        *,
        seed: Any = None,
        cv_n_folds: int = 5,
        find_label_issues_kwargs: Mapping[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.clf = clf
        self.seed = seed
        self.cv_n_folds = cv_n_folds
        self.find_label_issues_kwargs = find_label_issues_kwargs
        self.verbose = verbose

    def find_label_issues(
        self, X: Any = None, labels: Any = None, *, pred_probs: Any = None, clf_kwargs: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return `is_label_issue`, `label_quality`, `given_label` and `predicted_label` of each row.

        Args:
            X: rows, of any type that the classifier accepts; not needed with `pred_probs`.
            labels: given labels, shape (n,).
            pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row; None: the
                classifier is fitted to each fold.
            clf_kwargs: further arguments of the classifier's `fit`.
        """
        if pred_probs is None:
            pred_probs = self._out_of_fold(X, np.asarray(labels), clf_kwargs or {})
        found = _judged(labels, pred_probs)
        mask = find_label_issues(labels, pred_probs, **(self.find_label_issues_kwargs or {}))
        if mask.dtype != bool:
            mask = np.isin(np.arange(len(found.target)), mask)
        self.label_issues_mask, self.label_issues_df = mask, _issues(found, "label_quality", mask)
        return self.label_issues_df

    def fit(
        self,
        X: Any,
        labels: Any = None,
        *,
        pred_probs: Any = None,
        label_issues: Any = None,
        sample_weight: Any = None,
        clf_kwargs: Mapping[str, Any] | None = None,
        y: Any = None,
    ) -> CleanLearning:
        """Find the labels that are probably wrong, and fit the classifier to the other rows.

        Args:
            X: rows, of any type that the classifier accepts.
            labels: given labels, shape (n,).
            pred_probs: class probabilities, shape (n, k), as in :meth:`find_label_issues`.
            label_issues: rows to leave out: a mask, indices, or the table of :meth:`find_label_issues`.
            sample_weight: weights of the rows in the last fit, or None.
            clf_kwargs: further arguments of the classifier's `fit`.
            y: another name of `labels`.
        """
        labels = np.asarray(y if labels is None else labels)
        if label_issues is None:
            self.find_label_issues(X, labels, pred_probs=pred_probs, clf_kwargs=clf_kwargs)
        elif isinstance(label_issues, pd.DataFrame):
            self.label_issues_df = label_issues.copy()
            self.label_issues_mask = label_issues["is_label_issue"].to_numpy(bool)
        else:
            rows, given = np.arange(len(labels)), np.asarray(label_issues)
            self.label_issues_mask = given if given.dtype == bool else np.isin(rows, given)
            self.label_issues_df = pd.DataFrame({"is_label_issue": self.label_issues_mask})
        if self.label_issues_mask.shape != labels.shape:
            what = f"{len(labels)} values, one for each label"
            raise ValueError(expected("label_issues", what, len(self.label_issues_mask)))
        kept = np.flatnonzero(~self.label_issues_mask)
        options = dict(clf_kwargs or {})
        if sample_weight is not None:
            options["sample_weight"] = np.asarray(sample_weight)[kept]
        self.clf_ = self._new().fit(_taken(X, kept), labels[kept], **options)
        self.classes_ = self.clf_.classes_
        return self

    def predict(self, X: Any) -> Array:
        """Return the class of each row by the fitted classifier, shape (n,)."""
        check_is_fitted(self)
        return np.asarray(self.clf_.predict(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the class probabilities of each row by the fitted classifier, shape (n, k)."""
        check_is_fitted(self)
        return np.asarray(self.clf_.predict_proba(X))

    def get_label_issues(self) -> pd.DataFrame | None:
        """Return the table of :meth:`find_label_issues`; None before it was made."""
        return getattr(self, "label_issues_df", None)

    def _new(self) -> Any:
        return LogisticRegression() if self.clf is None else clone(self.clf, safe=False)

    def _out_of_fold(self, X: Any, labels: Array, options: Mapping[str, Any]) -> FloatArray:
        classes, target = sorted_classes(labels)

        def train(rows: IntArray, others: IntArray) -> FloatArray:
            model = self._new().fit(_taken(X, rows), target[rows], **options)
            probs = np.zeros((len(others), len(classes)))
            probs[:, model.classes_] = model.predict_proba(_taken(X, others))
            return probs

        folds = stratified_folds(target, self.cv_n_folds, self.seed)
        return out_of_fold(train, folds, (len(target), len(classes)))


class Datalab:
    """Look for wrong labels in a data set: the issue `"label"` of cleanlab's class of the same name, and no other.

    Args:
        data: a DataFrame, a dict of columns, or a data set of Hugging Face.
        task: `"classification"`.
        label_name: the column of labels.
        others: `image_key` and `verbosity`, without effect.

    Attributes:
        labels: the given labels, shape (n,).
        class_names: the classes, sorted.
        issues, issue_summary: the tables of :meth:`get_issues` and :meth:`get_issue_summary`.

    Example:
        >>> probs = np.array([[0.99, 0.01], [0.01, 0.99]] * 200)
        >>> lab = Datalab({"y": ["ant"] * 6 + ["ant", "bee"] * 197}, label_name="y")
        >>> lab.find_issues(pred_probs=probs)
        >>> lab.get_issues("label").query("is_label_issue")[["given_label", "predicted_label"]]
          given_label predicted_label
        1         ant             bee
        3         ant             bee
        5         ant             bee
    """

    def __init__(self, data: Any, task: str = "classification", label_name: str | None = None, **others: Any) -> None:
        _check_others(others, "image_key", "verbosity")
        check_choice("task", task, ("classification",))
        if label_name is None:
            raise ValueError(expected("label_name", "the name of the column of labels", None))
        self.labels = np.asarray(data[label_name])
        self.class_names = sorted_classes(self.labels)[0].tolist()
        self._found: DoubtfulLabels | None = None

    def find_issues(
        self, *, pred_probs: Any = None, features: Any = None, issue_types: Any = None, **others: Any
    ) -> None:
        """Judge each label, by class probabilities or else by features.

        Args:
            pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row; or None.
            features: features, shape (n, d), which :func:`mgce.find_suspects` judges labels by without `pred_probs`.
            issue_types: None or `{"label": {}}`.
            others: `knn_graph`, without effect: only other issues need it.
        """
        _check_others(others, "knn_graph")
        unknown = sorted(set(issue_types or ()) - {_LABEL})
        if unknown:
            raise ValueError(expected("issue_types", "'label' alone: no other issue is looked for", unknown))
        if pred_probs is None and features is None:
            raise ValueError(expected("pred_probs", "given, or features", None))
        if pred_probs is None:
            self._found = find_suspects(features, self.labels, random_state=0)
        else:
            self._found = _judged(self.labels, pred_probs)

    def get_issues(self, issue_name: str | None = None) -> pd.DataFrame:
        """Return `is_label_issue`, `label_score`, and with the name `"label"` the given and the suggested label."""
        check_choice("issue_name", issue_name, (None, _LABEL))
        found = self._judged_labels()
        table = _issues(found, "label_score", found.is_issue)
        return table if issue_name else table.iloc[:, :2]

    def get_issue_summary(self, issue_name: str | None = None) -> pd.DataFrame:
        """Return a table of one row: the issue, the share of labels without it, and the number of others."""
        mask = self.get_issues(issue_name)["is_label_issue"]
        return pd.DataFrame({"issue_type": [_LABEL], "score": [1 - mask.mean()], "num_issues": [int(mask.sum())]})

    def get_info(self, issue_name: str | None = None) -> dict[str, Any]:
        """Return what is known of the labels, by cleanlab's names."""
        table, found = self.get_issues(_LABEL), self._judged_labels()
        summary = health_summary(self.labels, found.probs)
        info = {
            "num_label_issues": int(table["is_label_issue"].sum()),
            "average_label_quality": table["label_score"].mean(),
            "given_label": table["given_label"].to_numpy(),
            "predicted_label": table["predicted_label"].to_numpy(),
            "classes_by_label_quality": summary["classes_by_label_quality"],
            "overlapping_classes": summary["overlapping_classes"],
        }
        check_choice("issue_name", issue_name, (None, _LABEL))
        return info if issue_name else {_LABEL: info}

    def report(self, num_examples: int = 5, **others: Any) -> None:
        """Print how many labels are suspect, and the most suspect ones.

        Args:
            num_examples: how many of them.
            others: `verbosity`, without effect.
        """
        _check_others(others, "verbosity")
        table = self.get_issues(_LABEL).iloc[self._judged_labels().order]
        suspects = table[table["is_label_issue"]]
        said = f"{len(suspects):,} of {len(table):,} labels are more probably wrong than right.\n"
        sys.stdout.write(said + ("" if suspects.empty else f"{suspects.head(num_examples).to_string()}\n"))

    @property
    def issues(self) -> pd.DataFrame:
        """The table of :meth:`get_issues`."""
        return self.get_issues()

    @property
    def issue_summary(self) -> pd.DataFrame:
        """The table of :meth:`get_issue_summary`."""
        return self.get_issue_summary()

    def _judged_labels(self) -> DoubtfulLabels:
        if self._found is None:
            raise ValueError("Expected find_issues to be called first, but got no labels that are judged.")
        return self._found


def _read(labels: Any, pred_probs: Any) -> tuple[FloatArray, Array, IntArray]:
    """Return probabilities, classes and the index of each label among them."""
    probs = as_probs(pred_probs, "pred_probs")
    classes, target = sorted_classes(np.asarray(labels))
    columns = np.arange(probs.shape[-1])
    if len(classes) < len(columns) and np.isin(classes, columns).all():  # some columns are of no row's label
        classes, target = columns, classes[target]
    if probs.shape != (len(target), len(classes)):
        what = f"of shape ({len(target)}, {len(classes)}), a row for each label and a column for each class"
        raise ValueError(expected("pred_probs", what, probs.shape))
    return probs, classes, target.astype(np.int64)


def _judged(labels: Any, pred_probs: Any) -> DoubtfulLabels:
    probs, classes, target = _read(labels, pred_probs)
    return doubtful_labels(probs, target, classes=classes)


def _filtered(found: DoubtfulLabels, filter_by: str) -> NDArray[np.bool_]:
    if filter_by == "predicted_neq_given":
        return np.asarray(found.probs.argmax(1) != found.target)
    if filter_by == "confident_learning":
        return np.asarray(confident_labels(found.probs, found.target) != found.target)
    return found.is_issue


def _first_of_each(rows: IntArray, target: IntArray, most: IntArray) -> IntArray:
    """Return the rows that are among the first `most` of their class, in their order."""
    place = pd.Series(target[rows]).groupby(target[rows]).cumcount().to_numpy()
    return np.asarray(rows[place < most[target[rows]]])


def _issues(found: DoubtfulLabels, score: str, mask: NDArray[np.bool_]) -> pd.DataFrame:
    quality, given, predicted = 1 - found.wrong, found.given, found.suggested
    return pd.DataFrame({"is_label_issue": mask, score: quality, "given_label": given, "predicted_label": predicted})


def _annotations(labels: Any) -> pd.DataFrame:
    """Return labels by annotators who gave some: integers that NaN made floats are integers again."""
    return pd.DataFrame(labels).convert_dtypes().dropna(axis=1, how="all")


def _cells(frame: pd.DataFrame) -> Array:
    """Return the labels as Python objects, and None for no label, shape (n, m)."""
    cells = frame.to_numpy(dtype=object, copy=True)
    cells[frame.isna().to_numpy()] = None
    return cells


def _with_classes(frame: pd.DataFrame, pred_probs: Any) -> tuple[pd.DataFrame, FloatArray | None, Array]:
    """Return labels, checked probabilities and the classes of their columns."""
    classes = sorted_classes(np.array([label for label in _cells(frame).ravel() if label is not None]))[0]
    if pred_probs is None:
        return frame, None, classes
    probs = as_probs(pred_probs, "pred_probs")
    return frame, probs, classes if len(classes) == probs.shape[1] else np.arange(probs.shape[1])


def _consensus(frame: pd.DataFrame, pred_probs: Any) -> Consensus:
    frame, probs, classes = _with_classes(frame, pred_probs)
    return find_consensus(frame, probs, classes=classes)


def _worst_class(quality: FloatArray, labels: Array) -> Any:
    """Return the label of the lowest mean quality of one annotator."""
    return pd.Series(quality).groupby(labels).mean().idxmin()


def _sorted(table: pd.DataFrame, column: str, ascending: bool) -> pd.DataFrame:
    return table.sort_values(column, ascending=ascending, kind="stable", ignore_index=True)


def _taken(rows: Any, places: IntArray) -> Any:
    if hasattr(rows, "iloc"):
        return rows.iloc[places]
    return rows[places] if hasattr(rows, "shape") else [rows[place] for place in places]


def _check_others(others: Mapping[str, object], *names: str) -> None:
    """Require that arguments of cleanlab are among those without effect here."""
    for name in others:
        if name not in names:
            raise TypeError(expected("argument", f"one of this function ({', '.join(names)} have no effect)", name))
