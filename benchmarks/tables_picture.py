"""Draw the accuracies of `docs/tables.md` by the share of wrong labels: `python -m benchmarks.tables_picture`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables_page import RESULTS, whole_cells

PICTURE = Path("docs/images/tables-accuracy.svg")
RATES = (0.0, 0.2, 0.4)  # of symmetric noise
# Method, its name in the picture, colour (of a palette that colour-blind people can tell apart), width of the line.
LINES = (
    ("mgce fit", "mgce fit", "#1f83c6", 4),
    ("CleanLearning(boosting)", "CleanLearning", "#009e73", 2),
    ("random forest", "random forest", "#e69f00", 2),
    ("gradient boosting", "gradient boosting", "#d55e00", 2),
)
LEFT, TOP, WIDTH, HEIGHT = 50, 36, 420, 240  # of the plot, in units of a picture of 640 by 336
LOW, HIGH = 65, 92  # percent
APART = 17  # between the middles of two names
# No background: grey is legible on white and on black.
STYLE = "text { font: 14px system-ui, sans-serif; fill: #7d8590; } line { stroke: #7d8590; opacity: .3; }"


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(render([json.loads(line) for line in RESULTS.read_text().splitlines()]))
    print(f"Written to {PICTURE}.")


def render(results: Sequence[dict[str, Any]]) -> str:
    """Return the picture as SVG: a line for each method, with its name at the right end."""
    lines = {method: means(results, method) for method, *_ in LINES}
    said = "; ".join(f"{name} {', '.join(f'{value:.1f}' for value in lines[method])}" for method, name, *_ in LINES)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="336" viewBox="0 0 640 336" role="img" '
        f'aria-label="Percent of right test labels predicted, with 0, 20 and 40 % wrong training labels: {said}">',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="18">right test labels predicted, mean of ten tables</text>',
        *(_level(percent) for percent in range(70, HIGH, 5)),
        *(f'<text x="{_x(rate)}" y="{TOP + HEIGHT + 22}" text-anchor="middle">{rate:.0%}</text>' for rate in RATES),
        f'<text x="{LEFT + WIDTH / 2}" y="324" text-anchor="middle">training labels that are wrong</text>',
    ]
    below = float("-inf")
    for method, name, colour, width in sorted(LINES, key=lambda line: -lines[line[0]][-1]):
        points = [(_x(rate), _y(value)) for rate, value in zip(RATES, lines[method], strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        below = max(points[-1][1], below + APART)
        parts.append(f'<text x="{LEFT + WIDTH + 10}" y="{below + 5:.1f}" style="fill: {colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def means(results: Sequence[dict[str, Any]], method: str) -> list[float]:
    """Return the mean accuracy of a method at each rate, in percent, over tables and seeds."""
    cells, _ = whole_cells(results)
    by_rate: dict[float, list[float]] = {rate: [] for rate in RATES}
    for (_, noise, rate, _), by_method in cells.items():
        if rate == 0 or noise == "symmetric":
            by_rate[rate].append(100 * by_method[method]["accuracy"])
    return [statistics.fmean(values) for values in by_rate.values()]


def _level(percent: int) -> str:
    y = _y(percent)
    return (
        f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{percent}%</text>'
    )


def _x(rate: float) -> float:
    return LEFT + WIDTH * rate / RATES[-1]


def _y(percent: float) -> float:
    return TOP + HEIGHT * (HIGH - percent) / (HIGH - LOW)


if __name__ == "__main__":
    main()
