"""Rows and records to text, CSV, JSON and figures; pure but for the figures' backend."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgce.experiments.select import MEASURES

HEADER = ("method", "beta", "accuracy", "ECE(h)", "ECE(p)", "SCE(h)", "SCE(p)")
# Okabe and Ito's colours, told apart by readers of any colour vision.
COLOURS = {"mgce": "#0072B2", "gce": "#E69F00", "ce": "#D55E00", "mae": "#009E73", "softmax_mae": "#CC79A7"}


def cells(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Give the table as text, a tuple for each row, percentages as mean ± standard deviation."""
    return [
        (row["method"], beta_range(row["betas"]), *(percent(row[m], row[f"{m}_std"]) for m in MEASURES)) for row in rows
    ]


def beta_range(betas: Sequence[tuple[float, int]]) -> str:
    """Show the beta taken by every seed, or the smallest and the largest: `1.4`, `1.05-2`."""
    values = [beta for beta, _ in betas]
    return "-".join(f"{beta:g}" for beta in dict.fromkeys((min(values), max(values))))


def show_betas(betas: Sequence[tuple[float, int]]) -> str:
    """Show which beta was taken how often: `1.4 x3, 2 x2`."""
    return ", ".join(f"{beta:g} x{count}" for beta, count in betas)


def percent(mean: float, std: float) -> str:
    """Show a share as a percentage, with its standard deviation where there is one."""
    return f"{100 * mean:.1f}" + ("" if math.isnan(std) else f" ± {100 * std:.1f}")


def to_csv(rows: Sequence[dict[str, Any]]) -> bytes:
    """Give the table as CSV, numbers in full."""
    columns = ["method", "betas", "seeds", *(f"{m}{suffix}" for m in MEASURES for suffix in ("", "_std"))]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({**row, "betas": show_betas(row["betas"])})
    return text.getvalue().encode()


def to_json(document: dict[str, Any]) -> bytes:
    """Give a document as JSON that any reader takes: an infinite beta as the text `inf`, NaN as null."""
    return (json.dumps(_plain(document), indent=1, allow_nan=False) + "\n").encode()


def accuracy_figure(records: Sequence[dict[str, Any]], title: str) -> bytes:
    """Draw test accuracy by epoch, mean and standard deviation over the seeds, as PNG."""
    figure, axes = _figure(1, 7.0, 4.2)
    (axis,) = axes
    for method in dict.fromkeys(record["method"] for record in records):
        curves = np.array([r["test_accuracy_by_epoch"] for r in records if r["method"] == method]) * 100
        epochs, mean, std = np.arange(1, curves.shape[1] + 1), curves.mean(0), curves.std(0)
        axis.plot(epochs, mean, color=COLOURS[method], label=method)
        axis.fill_between(epochs, mean - std, mean + std, color=COLOURS[method], alpha=0.15, linewidth=0)
    axis.set(xlabel="epoch", ylabel="test accuracy (%)", title=title)
    axis.legend(frameon=False)
    axis.grid(alpha=0.25)
    return _png(figure)


def reliability_figure(records: Sequence[dict[str, Any]], title: str) -> bytes:
    """Draw accuracy against confidence for h and p of each method, over all seeds, as PNG."""
    methods = list(dict.fromkeys(record["method"] for record in records))
    figure, axes = _figure(len(methods), 3.1 * len(methods) + 0.6, 3.9)
    for axis, method in zip(axes, methods, strict=True):
        axis.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
        chosen = [record for record in records if record["method"] == method]
        for output, marker, filled in (("h", "o", True), ("p", "s", False)):
            confidence, accuracy, share = pool([record[f"reliability_{output}"] for record in chosen])
            axis.plot(confidence, accuracy, color=COLOURS[method], linewidth=1, alpha=0.6)
            face = COLOURS[method] if filled else "white"
            style = {"marker": marker, "facecolors": face, "edgecolors": COLOURS[method]}
            axis.scatter(confidence, accuracy, 8 + 160 * share, label=output, zorder=3, **style)
        axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="confidence", title=method, aspect="equal")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("accuracy")
    for handle in axes[-1].legend(frameon=False, loc="lower right").legend_handles:
        handle.set_sizes([40])
    figure.suptitle(title)
    return _png(figure)


def pool(curves: Sequence[dict[str, Any]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Join reliability curves of equal bins: confidence, accuracy and share of the rows, empty bins left out."""
    counts = np.array([curve["count"] for curve in curves], dtype=float)
    total = counts.sum(0)
    kept = total > 0
    # None stands where a curve's bin is empty, and weighs nothing.
    values = [np.array([[v or 0.0 for v in curve[name]] for curve in curves]) for name in ("confidence", "accuracy")]
    confidence, accuracy = ((counts * value).sum(0)[kept] / total[kept] for value in values)
    return confidence, accuracy, total[kept] / total.sum()


def _figure(columns: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _png(figure: Any) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    return image.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
