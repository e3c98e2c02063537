"""What a fit to a table found, as plain values for JSON."""

from __future__ import annotations

from typing import Any

from mgce.tables.fit import FitPlan, TableFit


def summary(fit: TableFit, plan: FitPlan) -> dict[str, Any]:
    """Give the findings by name; accuracies, bounds and shares are fractions of 1.

    Args:
        fit: what :func:`mgce.tables.fit.run` gives.
        plan: its settings.
    """
    classes = [str(label) for label in fit.model.classes]
    return {
        "target": plan.target,
        "classes": classes,
        "rows": {"trained": fit.n_train, "held_out": fit.certificate.n},
        "columns": dict(fit.model.columns.kinds),
        "model": fit.choice.trial.name,
        "accuracy": fit.quality["accuracy"],
        "calibration": {name: fit.quality[name] for name in ("ece_h", "ece_p", "sce_h", "sce_p")},
        "certificate": fit.certificate.to_dict(),
        "wrong_labels": {"all": _share(fit, None)} | {name: _share(fit, own) for own, name in enumerate(classes)},
        "candidates": [
            {"model": trial.name, "rows": trial.rows, "accuracy": trial.accuracy, "seconds": trial.seconds}
            for trial in fit.choice.trials
        ],
        "notes": fit.notes,
    }


def _share(fit: TableFit, label: int | None) -> dict[str, float] | None:
    if label is not None and not (fit.judgement.target == label).any():
        return None
    return dict(zip(("share", "low", "high"), fit.judgement.share_wrong(label), strict=True))
