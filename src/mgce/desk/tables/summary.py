"""Return the results of a fit to a table as plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mgce.desk.tables.fit import TableFit
from mgce.labels.share import ASSUMPTION


def summary(fit: TableFit, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the results of a fit by name; accuracies, bounds and shares are in [0, 1].

    Args:
        fit: what :func:`mgce.desk.tables.fit.run` returned.
        notes: sentences on changed tables that were written.
    """
    classes = [str(label) for label in fit.model.classes]
    return {
        "target": fit.plan.target,
        "classes": classes,
        "rows": {"trained": fit.n_train, "held_out": fit.certificate.n, "copies": fit.n_copies},
        "columns": dict(fit.model.columns.kinds),
        "reading": {
            **(fit.reading.to_dict() if fit.reading else {}),
            "formats": dict(fit.model.columns.formats),
            "left_out": columns_left_out(fit),
        },
        "model": fit.choice.name,
        "fitted_to": {"file": len(fit.model.trained_rows), "figures": fit.n_train, "certificate": fit.n_train},
        "checked": None if fit.findings is None else fit.findings.to_dict(),
        "compared_with": fit.given_label,
        "accuracy": fit.quality["accuracy"],
        "balanced_accuracy": fit.measures.balanced_accuracy,
        "clean_accuracy": fit.measures.clean_accuracy,
        "right_labels": {"accuracy": fit.sure, "says": fit.model.about_q} if fit.model.corrects else None,
        "majority": fit.measures.majority,
        "confusion": fit.measures.confusion.tolist(),
        "importance": {each.column: each.mean for each in fit.measures.importance or []},
        "calibration": {name: fit.quality[name] for name in ("ece_h", "ece_p", "sce_h", "sce_p")},
        "certificate": fit.certificate.to_dict(),
        "wrong_labels": {"all": _share(fit)} | {name: _looks_wrong(fit, index) for index, name in enumerate(classes)},
        "annotators": None if fit.consensus is None else [asdict(one) for one in fit.consensus.annotators],
        "candidates": [
            {"model": trial.name, "accuracy": trial.accuracy, "seconds": trial.seconds} for trial in fit.choice.trials
        ],
        "dependence": [each.what for each in fit.dependence],
        "notes": [*fit.asked, *fit.notes, *notes],
    }


def columns_left_out(fit: TableFit) -> dict[str, str]:
    """Return a dictionary from each column that is neither target nor feature to the reason why it was left out."""
    asked = {fit.plan.id: "names the rows", fit.plan.groups: "names groups", fit.plan.time: "orders the rows"}
    reasons = {name: reason for name, reason in asked.items() if name is not None}
    reasons |= dict.fromkeys(fit.plan.drop, "as asked") | dict.fromkeys(fit.unique, "different in every row")
    return reasons | dict.fromkeys(fit.left_out, "no value")


def _share(fit: TableFit) -> dict[str, Any]:
    """Return the bound on the share of wrong labels, its assumption, and the share of rows that look wrong."""
    found = fit.share
    return {
        "at_most": found.upper,
        "assumption": ASSUMPTION,
        "disagreement": found.disagreement,
        "look_wrong": _looks_wrong(fit, None),
    }


def _looks_wrong(fit: TableFit, label: int | None) -> float | None:
    """Return the share of distinct rows with this given label that look wrong; None if there are no such rows."""
    some = slice(None) if label is None else label
    n = int(fit.counts.rows[some].sum())
    return float(fit.counts.look_wrong[some].sum() / n) if n else None
