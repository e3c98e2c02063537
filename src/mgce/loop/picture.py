"""Draw the epochs of a training: which given labels are predicted, and what was kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mgce._svg import Axis, Series, chart
from mgce.loop.validation import Epoch

# Colours that people with any colour vision tell apart (Okabe and Ito).
COLOURS = {"training": "#8a8a8a", "network": "#0072b2", "average": "#d55e00"}
NAMES = {
    "training": "training labels, network",
    "network": "validation labels, network",
    "average": "validation labels, average of the weights",
}
STYLE = (
    "text{font:11px sans-serif;fill:#333}.grid{stroke:#ddd}polyline{fill:none;stroke-width:2}"
    + "".join(f".{name}{{stroke:{colour};fill:{colour}}}" for name, colour in COLOURS.items())
    + "polyline{fill:none!important}"
)
HEIGHT, LINE = 300, 16  # of the chart, and of a line of the legend, in units of which the width has 360
TICKS = 6  # at most so many labels on the axis of epochs; more would touch
KEPT = 6.0  # radius of the point that is kept; the others have 2


def picture(epochs: Sequence[Epoch], kept_epoch: int, kept: str) -> str:
    """Return the training as an SVG document: for each epoch, the shares of given labels that are predicted.

    Args:
        epochs: the epochs, at least one.
        kept_epoch: the epoch whose weights are kept, counted from 1.
        kept: which weights these are: `"network"` or `"average"`.
    """
    series = []
    for name in COLOURS:
        values = [(number, getattr(epoch, name)) for number, epoch in enumerate(epochs, 1)]
        points = [
            (float(number), 100 * value, KEPT if (number, name) == (kept_epoch, kept) else 2.0)
            for number, value in values
            if not math.isnan(value)
        ]
        if points:
            series.append(Series(points, name))
    last, step = len(epochs), math.ceil(len(epochs) / TICKS)
    x = Axis("epoch", 1 - 0.5 * (last == 1), max(last, 1.5), [(i, str(i)) for i in range(1, last + 1, step)])
    y = Axis("labels predicted, %", 0, 100, [(value, str(value)) for value in range(0, 101, 25)])
    drawn = chart(series, x, y, "Shares of given labels that are predicted, by epoch", height=HEIGHT)
    legend = [(one.style, NAMES[one.style]) for one in series] + [(kept, f"kept: epoch {kept_epoch}")]
    parts = [drawn.removesuffix("</svg>").replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)]
    parts[0] = parts[0].replace(f"0 0 360 {HEIGHT}", f"0 0 360 {HEIGHT + LINE * (len(legend) + 1)}", 1)
    parts[0] = parts[0].replace(">", f"><style>{STYLE}</style>", 1)
    for row, (name, text) in enumerate(legend, 1):
        radius = KEPT if row == len(legend) else 3
        height = HEIGHT + LINE * row
        parts.append(f'<circle class="{name}" cx="70" cy="{height - 4}" r="{radius}"/>')
        parts.append(f'<text x="84" y="{height}">{text}</text>')
    return "".join(parts) + "</svg>"
