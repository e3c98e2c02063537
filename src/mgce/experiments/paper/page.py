"""The report: one HTML file that needs no other, for wide and narrow screens."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from mgce.experiments.paper.result import Result

STYLE = """
:root { color-scheme: light dark; --line: #d0d4da; --soft: #f4f6f8; --text: #1d2430; --ground: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --line: #3a424d; --soft: #1b2027; --text: #e4e8ee; --ground: #12161b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif;
  color: var(--text); background: var(--ground); }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
nav a { margin-right: 1rem; white-space: nowrap; }
a { color: inherit; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: var(--soft); }
th:first-child, td:first-child { position: sticky; left: 0; text-align: left; background: var(--soft); }
tr:last-child td { border-bottom: 0; }
img { display: block; max-width: 100%; height: auto; margin: 1rem auto; background: #ffffff; border-radius: 6px; }
details { margin: 1rem 0; } summary { cursor: pointer; }
.caption, dl { font-size: .9rem; }
dt { float: left; clear: left; min-width: 9rem; opacity: .75; } dd { margin: 0 0 0 9.5rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) { dt { float: none; } dd { margin-left: 0; } }
"""


def to_html(title: str, results: Sequence[Result], facts: Mapping[str, str]) -> str:
    """Give the page.

    Args:
        title: its heading.
        results: tables and figures, in order.
        facts: what to say of the runs and the machines, by name.
    """
    links = "".join(f'<a href="#{r.name}">{escape(r.title.split(":")[0])}</a>' for r in results)
    said = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>\n<nav>{links}</nav>",
            *map(_section, results),
            f"<h2>Runs</h2>\n<dl>{said}</dl>\n</body>\n</html>\n",
        ]
    )


def _section(result: Result) -> str:
    image = ""
    if result.image is not None:
        data = base64.b64encode(result.image).decode()
        image = f'<img alt="{escape(result.title)}" src="data:image/png;base64,{data}">'
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes.values())
    return "\n".join(
        [
            f'<h2 id="{result.name}">{escape(result.title)}</h2>',
            image,
            f'<div class="scroll">{_table(result)}</div>',
            f'<p class="caption">{escape(result.caption)}</p>',
            f"<ul>{notes}</ul>" if notes else "",
        ]
    )


def _table(result: Result) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in result.cells[0])
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.values()) + "</tr>\n" for row in result.cells
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"
