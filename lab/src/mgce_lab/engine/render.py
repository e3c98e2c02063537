"""Render a comparison: its table as text and CSV, and its figures as PNG.

A *summary* is a dict made by `select.summarize`: the means and standard deviations of one method over its seeds.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgce._text import spreadsheet_cell
from mgce.metrics.evaluation import pool
from mgce_lab.engine.png import figure, literal, png
from mgce_lab.engine.select import MEASURES

COLUMNS = {"accuracy": "accuracy", "ECE(h)": "ece_h", "ECE(p)": "ece_p", "SCE(h)": "sce_h", "SCE(p)": "sce_p"}
# Okabe and Ito's colours, told apart by readers of any colour vision.
COLOURS = {"mgce": "#0072B2", "gce": "#E69F00", "ce": "#D55E00", "mgce@1": "#009E73", "mae": "#CC79A7"}
# For methods without a colour of their own, in the order in which they come.
OTHER_COLOURS = ("#56B4E9", "#000000", "#8C564B", "#999999", "#BCBD22", "#7F3C8D", "#11A579", "#E73F74")
LINES = ("-", "--", ":", "-.")  # ten methods each
PANELS_ACROSS = 6  # reliability curves in a row at most


def cells(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the cells of the table as text: for each summary a dict from column to text.

    Percentages are shown as `mean ± deviation`. If a method trims, the fraction of rows to leave out is a column too,
    in percent.
    """
    trims = any(row["trims"] for row in rows)
    return [
        {
            "method": row["method"],
            "beta": value_range(row["betas"]),
            **({"trim": value_range([(100 * trim, count) for trim, count in row["trims"]])} if trims else {}),
            **{name: percent(row[m], row[f"{m}_std"]) for name, m in COLUMNS.items()},
        }
        for row in rows
    ]


def value_range(taken: Sequence[tuple[float, int]]) -> str:
    """Return the range of values that were selected for the seeds as text, such as `1.4` or `1.05-2`; "" if empty.

    `taken` are pairs of a value and the number of its seeds, sorted by value.
    """
    return "-".join(dict.fromkeys(f"{value:.4g}" for value, _ in (*taken[:1], *taken[-1:])))


def show_taken(taken: Sequence[tuple[float, int]]) -> str:
    """Return the selected values and the number of their seeds as text, such as `1.4 x3, 2 x2`."""
    return ", ".join(f"{value:g} x{count}" for value, count in taken)


def percent(mean: float, std: float) -> str:
    """Return a fraction as a percentage, with its standard deviation unless this is NaN."""
    return f"{100 * mean:.1f}" + ("" if math.isnan(std) else f" ± {100 * std:.1f}")


def to_csv(rows: Sequence[dict[str, Any]]) -> bytes:
    """Return the table as CSV with unrounded numbers."""
    columns = ["method", "betas", "trims", "seeds", *(f"{m}{suffix}" for m in MEASURES for suffix in ("", "_std"))]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        taken = {name: show_taken(row[name]) for name in ("betas", "trims")}
        writer.writerow({**row, **taken, "method": spreadsheet_cell(row["method"])})
    return text.getvalue().encode()


def colours(methods: Sequence[str]) -> dict[str, str]:
    """Return a colour for each method, by name."""
    others = [method for method in methods if method not in COLOURS]
    return {**COLOURS, **{method: OTHER_COLOURS[i % len(OTHER_COLOURS)] for i, method in enumerate(others)}}


def accuracy_figure(records: Sequence[dict[str, Any]], title: str) -> bytes:
    """Draw the test accuracy of each method by epoch, with mean and standard deviation over the seeds, as PNG."""
    methods = list(dict.fromkeys(record["method"] for record in records))
    many = len(methods) > len(COLOURS)  # their names stand beside the curves, not among them
    chart, (axis,) = figure(1, 10.0 if many else 7.0, 4.2)
    colour = colours(methods)
    for number, method in enumerate(methods):
        curves = np.array([r["test_accuracy_by_epoch"] for r in records if r["method"] == method]) * 100
        epochs, mean, std = np.arange(1, curves.shape[1] + 1), curves.mean(0), curves.std(0)
        axis.plot(epochs, mean, color=colour[method], linestyle=LINES[number // 10 % len(LINES)], label=method)
        axis.fill_between(epochs, mean - std, mean + std, color=colour[method], alpha=0.15, linewidth=0)
    axis.set(xlabel="epoch", ylabel="test accuracy (%)", title=literal(title))
    beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "fontsize": 7, "ncols": 2}
    axis.legend(frameon=False, **(beside if many else {}))
    return png(chart)


def reliability_figure(records: Sequence[dict[str, Any]], title: str) -> bytes:
    """Draw accuracy against confidence for each method, over the rows of all seeds, as PNG.

    There is a curve for the minimax probabilities h and one for the worst-case probabilities p. The more rows a bin
    has, the larger its marker.
    """
    methods = list(dict.fromkeys(record["method"] for record in records))
    panels, colour = len(methods), colours(methods)
    # Inches: 3.1 for each panel, and once 0.6 for the label of the first one's vertical axis.
    chart, axes = figure(panels, 3.1 + 0.6 / panels, 3.9, columns=min(panels, PANELS_ACROSS))
    for axis, method in zip(axes, methods, strict=True):
        axis.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
        chosen = [record for record in records if record["method"] == method]
        for output, marker, filled in (("h", "o", True), ("p", "s", False)):
            confidence, accuracy, share = pool([record[f"reliability_{output}"] for record in chosen])
            axis.plot(confidence, accuracy, color=colour[method], linewidth=1, alpha=0.6)
            face = colour[method] if filled else "white"
            style = {"marker": marker, "facecolors": face, "edgecolors": colour[method]}
            # Square points: 8 for a bin of hardly any rows, still to be seen, and 168 for a bin with all rows.
            axis.scatter(confidence, accuracy, 8 + 160 * share, label=output, zorder=3, **style)
        axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="confidence", title=method, aspect="equal")
    axes[0].set_ylabel("accuracy")
    for handle in axes[-1].legend(frameon=False, loc="lower right").legend_handles:
        handle.set_sizes([40])  # the legend's markers, as of a bin with a fifth of the rows
    chart.suptitle(literal(title))
    return png(chart)
