"""Draw Matplotlib figures without a display, and write them as PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from mgce._text import printable


def figure(panels: int, width: float, height: float | Sequence[float], columns: int = 2) -> tuple[Any, Any]:
    """Return a Matplotlib figure and the axes of its panels; each panel is `width` x `height` inches.

    There are at most `columns` panels in a row. `height` may be a list with one number for each panel; a row is as high
    as its highest panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(panels, columns)
    heights = panels * [height] if isinstance(height, int | float) else list(height)
    rows = [max(heights[first : first + across]) for first in range(0, panels, across)]
    chart = Figure(figsize=(width * across, sum(rows)), layout="constrained")
    FigureCanvasAgg(chart)
    axes = chart.subplots(len(rows), across, squeeze=False, height_ratios=rows).ravel()
    for axis in axes:
        axis.grid(alpha=0.25)
    for axis in axes[panels:]:
        axis.remove()
    return chart, axes[:panels]


def literal(text: str) -> str:
    r"""Escape a text for Matplotlib, which would render text between dollar signs as mathematics.

    Example:
        >>> literal("a$b$")
        'a\\$b\\$'
    """
    return printable(text, keep="\n").replace("$", r"\$")


def stamp(chart: Any, text: str = "smoke run") -> None:
    """Write a large pale text across the middle of a figure, for example to mark a smoke run."""
    size = 6 * chart.get_figwidth()  # points: nine letters take about half the width
    chart.text(0.5, 0.5, text, size=size, rotation=25, ha="center", va="center", color="#C00000", alpha=0.35)


def png(chart: Any) -> bytes:
    """Return a figure as PNG, without Matplotlib's version, so that equal figures have equal bytes."""
    image = io.BytesIO()
    # 150 dots for an inch: still sharp at half again the size that a page gives an inch, 96 CSS pixels.
    chart.savefig(image, format="png", dpi=150, metadata={"Software": None})
    return image.getvalue()
