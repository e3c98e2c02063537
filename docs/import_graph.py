"""Draw which room of the package imports which: `python docs/import_graph.py` writes `docs/images/import-graph.svg`.

A room is a folder of `src/mgce` or of `src/mgce/desk`, or `functional`. Each stands one row below the lowest room that
it imports. A blue arrow points to a room that is imported; a pale one does too, where that room would be needed anyway,
by another that is imported. The files that everything may import, `_validation`, `_files` and `_threads`, are left out.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "mgce"
PICTURE = Path(__file__).parent / "images" / "import-graph.svg"
DESK = "desk"
WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT = 760, 74, 108, 30
STYLE = (
    "rect { fill: #f2f5f7; stroke: #59636e; } text { font: 14px system-ui, sans-serif; fill: #1d2329; }"
    " path { fill: none; stroke: #9aa4ae; stroke-width: 1; opacity: .55; }"
    " path.direct { stroke: #0072b2; stroke-width: 1.6; opacity: 1; }"
)


def _room(path: Path) -> str:
    """Return the name of the room of a file or folder: of the desk the name of the room in it."""
    first, *rest = path.relative_to(SOURCE).parts
    return f"{DESK}/{rest[0]}".removesuffix(".py") if first == DESK and rest else first.removesuffix(".py")


def imports() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    folders = [*SOURCE.iterdir(), *(SOURCE / DESK).iterdir()]
    rooms = {_room(path) for path in folders if (path / "__init__.py").is_file() and path.name != DESK} | {"functional"}
    graph: dict[str, set[str]] = {room: set() for room in rooms}
    for path in SOURCE.rglob("*.py"):
        room = _room(path)
        if room not in rooms:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            found = {_room(SOURCE.joinpath(*name.split(".")[1:])) for name in names if name.startswith("mgce.")}
            graph[room] |= (found & rooms) - {room}
    return graph


def depth(graph: dict[str, set[str]], room: str) -> int:
    """Return the row of a room, from 0: one below the lowest of those that it imports."""
    return max((depth(graph, other) + 1 for other in graph[room]), default=0)


def reachable(graph: dict[str, set[str]], room: str) -> set[str]:
    """Return the rooms that a room depends on, directly or not."""
    return graph[room].union(*(reachable(graph, other) for other in graph[room]))


def draw(graph: dict[str, set[str]]) -> str:
    """Return the picture."""
    rows: dict[int, list[str]] = {}
    for room in sorted(graph):
        rows.setdefault(depth(graph, room), []).append(room)
    place = {
        room: (WIDTH * (column + 0.5) / len(row), 24 + ROW * number)
        for number, row in rows.items()
        for column, room in enumerate(row)
    }
    height = 24 + ROW * max(rows) + BOX_HEIGHT + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Which room of mgce imports which"><style>{STYLE}</style>'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" style="fill:#59636e;stroke:none;opacity:1"/></marker></defs>'
        f'<rect width="{WIDTH}" height="{height}" style="fill:#fff;stroke:none"/>'
    ]
    arrows = []
    for room in sorted(graph):
        for other in sorted(graph[room]):
            needed_anyway = any(other in reachable(graph, third) for third in graph[room] - {other})
            (x, y), (u, v) = place[room], place[other]
            start, end = y, v + BOX_HEIGHT
            bend = (start - end) / 2
            style = "also" if needed_anyway else "direct"
            curve = f"M{x:.0f} {start:.0f} C{x:.0f} {start - bend:.0f} {u:.0f} {end + bend:.0f} {u:.0f} {end:.0f}"
            arrows.append(f'<path class="{style}" marker-end="url(#head)" d="{curve}"/>')
    parts += sorted(arrows)  # the pale ones first, below the others
    for room, (x, y) in place.items():
        parts.append(
            f'<rect x="{x - BOX_WIDTH / 2:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
            f'<text x="{x:.0f}" y="{y + 20:.0f}" text-anchor="middle">{room}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(imports()))
