"""Pictures as SVG without a background, in colours that are legible on white and on black."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mgce._text import html_text

# Each has a contrast of 3.5 or more to white and to the dark page of the site. Colour-blind people tell them apart.
BLUE, GREEN, AMBER, RED, PURPLE = "#1f83c6", "#00906a", "#b57f00", "#d55e00", "#9b6bc9"
GREY = "#757c86"
STYLE = f"text {{ font: 16px system-ui, sans-serif; fill: {GREY}; }} line {{ stroke: {GREY}; opacity: .35; }}"
# In units of a picture of 520, which a phone shows at two thirds: its text is then 11 pixels high.
WIDTH, LEFT, TOP, PLOT, HEIGHT = 520, 52, 36, 290, 240
APART = 19  # between the middles of two names
ROW, MARGIN = 56, 12  # of a picture of dots


@dataclass(frozen=True)
class Line:
    """A line through points (x, y), with its name at the right end; `dash` as SVG has it."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    dash: str = "none"


def lines(said: str, title: str, x_name: str, drawn: Sequence[Line], ticks: Mapping[float, str], low: int) -> str:
    """Return the picture of percentages by x.

    Args:
        said: what a reader who does not see the picture should know.
        title: what the lines show, above them.
        x_name: what is below the horizontal axis.
        drawn: the lines.
        ticks: texts of the horizontal axis by value.
        low: percent at the lower end; the upper end is a little above the largest value.
    """
    values = [y for line in drawn for _, y in line.points]
    high, ends = max(values) + 1, [x for line in drawn for x, _ in line.points]
    first, last = min(ends), max(ends)

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + PLOT * (x - first) / (last - first), TOP + HEIGHT * (high - y) / (high - low)

    parts = [_open(said, TOP + HEIGHT + 60), f'<text x="{MARGIN}" y="18">{html_text(title)}</text>']
    for percent in range(low, int(high) + 1, 5 if high - low < 40 else 10):
        _, y = at(first, percent)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + PLOT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{percent}%</text>')
    for value, text in ticks.items():
        x, _ = at(value, low)
        parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 24}" text-anchor="middle">{text}</text>')
    parts.append(f'<text x="{LEFT + PLOT / 2}" y="{TOP + HEIGHT + 50}" text-anchor="middle">{html_text(x_name)}</text>')
    below = float("-inf")
    for line in sorted(drawn, key=lambda line: -line.points[-1][1]):
        places = [at(*point) for point in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="3" '
            f'stroke-dasharray="{line.dash}"/>'
        )
        below = max(places[-1][1], below + APART)
        at_end = f'x="{LEFT + PLOT + 10}" y="{below + 5:.1f}" style="fill: {line.colour}"'
        parts.append(f"<text {at_end}>{html_text(line.name)}</text>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def dots(said: str, title: str, rows: Mapping[str, Mapping[str, float]], colours: Mapping[str, str], low: int) -> str:
    """Return the picture of percentages: a row for each name, and in it a dot for each column.

    Args:
        said: what a reader who does not see the picture should know.
        title: what the dots show, above them.
        rows: percentages by column, by name.
        colours: the colour of each column.
        low: percent at the left end; the right end is 100.
    """

    def at(value: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * (value - low) / (100 - low)

    parts = [_open(said, 64 + ROW * len(rows)), f'<text x="{MARGIN}" y="18">{html_text(title)}</text>']
    for place, (column, colour) in enumerate(colours.items()):
        left = MARGIN + 7 + 110 * place
        parts.append(f'<circle cx="{left}" cy="37" r="6" fill="{colour}"/><text x="{left + 12}" y="42">{column}</text>')
    for place, (name, by_column) in enumerate(rows.items()):
        y = 92 + ROW * place
        parts.append(f'<text x="{MARGIN}" y="{y - 15}">{html_text(name)}</text>')
        parts.append(f'<line x1="{MARGIN}" y1="{y}" x2="{WIDTH - MARGIN}" y2="{y}"/>')
        for column, value in by_column.items():
            colour, x = colours[column], at(value)
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{colour}"/>')
            parts.append(
                f'<text x="{x:.1f}" y="{y + 20}" text-anchor="middle" style="font-size: 14px">{value:.1f}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _open(said: str, height: int) -> str:
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    label = f'role="img" aria-label="{html_text(said)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}><style>{STYLE}</style>'
