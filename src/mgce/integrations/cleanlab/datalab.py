"""Look for wrong labels in a data set."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

from mgce._arrays import sorted_classes
from mgce._messages import check_choice, expected
from mgce.estimators.suspects import find_suspects
from mgce.integrations.cleanlab.issues import check_others, health_summary, issue_table, judged

_LABEL = "label"  # the one kind of issue


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
        check_others(others, "image_key", "verbosity")
        check_choice("task", task, ("classification",))
        if label_name is None:
            raise ValueError(expected("label_name", "the name of the column of labels", None))
        self.labels = np.asarray(data[label_name])
        self.class_names = sorted_classes(self.labels)[0].tolist()
        self._found: Any = None  # once judged, a DoubtfulLabels

    def find_issues(
        self, *, pred_probs: Any = None, features: Any = None, issue_types: Any = None, **others: Any
    ) -> None:
        """Judge each label, by class probabilities or else by features.

        Args:
            pred_probs: class probabilities, shape (n, k), by a model that was not fitted to the row; or None.
            features: features, shape (n, d). Without `pred_probs`, :func:`mgce.find_suspects` judges labels by these.
            issue_types: None or `{"label": {}}`.
            others: `knn_graph`, without effect: only other issues need it.
        """
        check_others(others, "knn_graph")
        unknown = sorted(set(issue_types or ()) - {_LABEL})
        if unknown:
            raise ValueError(expected("issue_types", "'label' alone: no other issue is looked for", unknown))
        if pred_probs is None and features is None:
            raise ValueError(expected("pred_probs", "given, or features", None))
        by_features = pred_probs is None
        self._found = (
            find_suspects(features, self.labels, random_state=0) if by_features else judged(self.labels, pred_probs)
        )

    def get_issues(self, issue_name: str | None = None) -> pd.DataFrame:
        """Return `is_label_issue`, `label_score`, and with the name `"label"` the given and the suggested label."""
        check_choice("issue_name", issue_name, (None, _LABEL))
        if self._found is None:
            raise ValueError("Expected find_issues to be called first, but got no labels that are judged.")
        table = issue_table(self._found, "label_score", self._found.is_issue)
        return table if issue_name else table.iloc[:, :2]

    def get_issue_summary(self, issue_name: str | None = None) -> pd.DataFrame:
        """Return a table of one row: the issue, the share of labels without it, and the number of others."""
        mask = self.get_issues(issue_name)["is_label_issue"]
        return pd.DataFrame({"issue_type": [_LABEL], "score": [1 - mask.mean()], "num_issues": [int(mask.sum())]})

    def get_info(self, issue_name: str | None = None) -> dict[str, Any]:
        """Return the number of label issues, the qualities and the tables on the classes, by cleanlab's names."""
        table = self.get_issues(_LABEL)
        mean, summary = table["label_score"].mean(), health_summary(self.labels, self._found.probs)
        info: dict[str, Any] = {"num_label_issues": int(table["is_label_issue"].sum()), "average_label_quality": mean}
        info |= {name: table[name].to_numpy() for name in ("given_label", "predicted_label")}
        info |= {name: summary[name] for name in ("classes_by_label_quality", "overlapping_classes")}
        check_choice("issue_name", issue_name, (None, _LABEL))
        return info if issue_name else {_LABEL: info}

    def report(self, num_examples: int = 5, **others: Any) -> None:
        """Print how many labels are suspect, and the most suspect ones.

        Args:
            num_examples: how many of the most suspect labels to print.
            others: `verbosity`, without effect.
        """
        check_others(others, "verbosity")
        table = self.get_issues(_LABEL).iloc[self._found.order]
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
