"""Draw charts of points and lines as SVG; the style sheet of the surrounding page defines the colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mgce._text import html_text


@dataclass(frozen=True)
class Axis:
    """An axis of a chart: its name, its limits, and its ticks with their labels."""

    name: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Series:
    """A series of points (x, y, radius), connected by a line; `style` is the CSS class of both."""

    points: Sequence[tuple[float, float, float]]
    style: str


def chart(
    series: Sequence[Series], x: Axis, y: Axis, description: str, *, height: int = 300, diagonal: bool = False
) -> str:
    """Return a chart of several series as SVG.

    The chart is 360 units wide, about the width of a phone in CSS pixels, so that text has its natural size on a phone.

    Args:
        series: the series to draw; later ones cover earlier ones.
        x: the horizontal axis.
        y: the vertical axis.
        description: text for screen readers.
        height: height of the chart, in units of which the width has 360.
        diagonal: whether to draw the line y = x.
    """
    # Margins: on the left and below for the texts of the ticks and the names of the axes, on the right for half the
    # text of the last tick.
    left, top, right, bottom = 62, 10, 360 - 18, height - 44

    def at(a: float, b: float) -> tuple[float, float]:
        return (
            left + (a - x.low) / (x.high - x.low) * (right - left),
            bottom - (b - y.low) / (y.high - y.low) * (bottom - top),
        )

    parts = [f'<svg viewBox="0 0 360 {height}" role="img" aria-label="{html_text(description)}">']
    for value, text in y.ticks:
        _, v = at(x.low, value)
        parts.append(f'<line class="grid" x1="{left}" y1="{v:.1f}" x2="{right}" y2="{v:.1f}"/>')
        parts.append(f'<text x="{left - 6}" y="{v + 4:.1f}" text-anchor="end">{html_text(text)}</text>')
    for value, text in x.ticks:
        u, _ = at(value, y.low)
        parts.append(f'<line class="grid" x1="{u:.1f}" y1="{top}" x2="{u:.1f}" y2="{bottom}"/>')
        parts.append(f'<text x="{u:.1f}" y="{bottom + 16}" text-anchor="middle">{html_text(text)}</text>')
    middle = (top + bottom) / 2
    parts.append(f'<text x="{(left + right) / 2}" y="{height - 8}" text-anchor="middle">{html_text(x.name)}</text>')
    parts.append(
        f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{html_text(y.name)}</text>'
    )
    if diagonal:
        (a, b), (c, d) = at(x.low, y.low), at(x.high, y.high)
        parts.append(f'<line class="diagonal" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>')
    for one in series:
        places = [(*at(a, b), radius) for a, b, radius in one.points]
        line = " ".join(f"{u:.1f},{v:.1f}" for u, v, _ in places)
        parts.append(f'<polyline class="{one.style}" points="{line}"/>')
        parts += [
            f'<circle class="{one.style}" cx="{u:.1f}" cy="{v:.1f}" r="{radius:.1f}"/>' for u, v, radius in places
        ]
    return "".join(parts) + "</svg>"
