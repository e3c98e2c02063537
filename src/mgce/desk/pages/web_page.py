"""Write an HTML page in one file, for small and wide screens; it loads nothing, and runs only a script of its own."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from mgce._text import html_text


def policy(style: str, script: str | None = None) -> str:
    """Return the HTML of a Content-Security-Policy for a page of one file.

    The browser runs only the script with this content, applies only this style, and loads only pictures that are in the
    page. So untrusted text in the page can neither run nor send anything, even if it were not escaped.

    Args:
        style: CSS of the page.
        script: JavaScript of the page; None for a page that runs nothing.
    """
    runs = "" if script is None else f"script-src {_hash(script)}; "
    return (
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; {runs}style-src {_hash(style)}; '
        "img-src data:; base-uri 'none'; form-action 'none'\">"
    )


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(content.encode()).digest()).decode()}'"


STYLE = """
:root { color-scheme: light dark; --page: #fdfdfc; --text: #1d2329; --quiet: #59636e; --line: #d6dade;
  --box: #f2f5f7; --h: #0072b2; --p: #c04e00; }
@media (prefers-color-scheme: dark) { :root { --page: #14181c; --text: #e6e9ec; --quiet: #a3adb7;
  --line: #3a424a; --box: #1e242a; --h: #56b4e9; --p: #f0a64a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
main { max-width: 46rem; margin: 0 auto; padding: 1rem 1rem 3rem; }
main.broad { max-width: 72rem; }
main.broad p, main.broad ul, main.broad dl, main.broad figcaption { max-width: 46rem; }
main.broad table { font-size: .85rem; }
nav a { display: inline-block; margin: 0 1rem .3rem 0; color: var(--h); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p, ul, ol { margin: .6rem 0; }
ul, ol { padding-left: 1.2rem; }
pre { margin: .2rem 0 .6rem; padding: .4rem .6rem; background: var(--box); white-space: pre-wrap; font-size: .9rem; }
.lead { font-size: 1.1rem; background: var(--box); border-left: 4px solid var(--h); padding: .8rem 1rem;
  margin: 0 0 1rem; white-space: pre-line; }
figure { margin: 1rem 0; }
.shelf { display: flex; flex-wrap: wrap; gap: 0 1rem; } .shelf figure { width: 8rem; overflow-wrap: anywhere; }
.shelf img { height: 7rem; max-width: 8rem; object-fit: contain; }
figcaption { font-size: .9rem; margin: .3rem 0; }
figcaption, dt { color: var(--quiet); }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid var(--h); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .3rem .7rem .3rem 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; max-width: 18rem; }
th { font-weight: 600; }
tbody th { font-weight: 400; }
@media (max-width: 30rem) { table { font-size: .85rem; } th, td { padding-right: .5rem; }
  tbody td:not(.number), tbody th { overflow-wrap: anywhere; }
  tbody td:not(.number) { min-width: 6rem; } }
.number { text-align: right; white-space: nowrap; }
thead .number { white-space: normal; }
img { display: block; max-width: 100%; height: auto; margin: 1rem 0; background: #fff; }
svg { display: block; width: 100%; max-width: 30rem; height: auto; }
svg text { fill: currentColor; font-size: 12px; font-family: inherit; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .diagonal { stroke: var(--quiet); stroke-dasharray: 5 4; }
svg polyline { fill: none; stroke-width: 1.5; }
svg .h { stroke: var(--h); } svg .p { stroke: var(--p); }
svg circle.h { fill: var(--h); } svg circle.p { fill: var(--page); stroke-width: 2; }
.key-h { color: var(--h); font-weight: 700; } .key-p { color: var(--p); font-weight: 700; }
dl { display: grid; grid-template-columns: minmax(6rem, auto) 1fr; gap: .2rem 1rem; margin: .6rem 0; }
dd { margin: 0; }
"""


def document(title: str, lead: str, sections: Mapping[str, str], *, broad: bool = False) -> bytes:
    """Return an HTML page, encoded as UTF-8.

    Args:
        title: heading of the page, as text.
        lead: the most important sentences, as text; each line begins on a line of its own.
        sections: maps headings (text) to the HTML of sections.
        broad: whether the page has wide tables and many sections. Then it is wider, and begins with a link to each
            section. The text of a link is the heading up to the first colon.
    """
    body, links = "", ""
    for number, (heading, content) in enumerate(sections.items(), 1):
        body += f'<section id="section-{number}"><h2>{html_text(heading)}</h2>{content}</section>'
        links += f'<a href="#section-{number}">{html_text(heading.partition(":")[0])}</a>'
    opening = f'<main class="broad"><nav>{links}</nav>' if broad else "<main>"
    body = f'<h1>{html_text(title)}</h1><p class="lead">{html_text(lead)}</p>{body}</main>'
    return _page(title, f"{opening}{body}", STYLE)


def paragraph(text: str) -> str:
    """Return the HTML of a paragraph of text."""
    return f"<p>{html_text(text)}</p>"


def bullets(texts: Iterable[str]) -> str:
    """Return the HTML of a bullet list of texts."""
    return "<ul>" + "".join(f"<li>{html_text(text)}</li>" for text in texts) + "</ul>"


def commands(steps: Mapping[str, str]) -> str:
    """Return as HTML a numbered list of sentences, each with a command to type; special characters are escaped."""
    return (
        "<ol>"
        + "".join(f"<li>{html_text(text)}<pre>{html_text(command)}</pre></li>" for text, command in steps.items())
        + "</ol>"
    )


def facts(values: Mapping[str, str]) -> str:
    """Return the HTML of a list of names, each with its text beside it."""
    return (
        "<dl>"
        + "".join(f"<dt>{html_text(name)}</dt><dd>{html_text(text)}</dd>" for name, text in values.items())
        + "</dl>"
    )


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return the HTML of a table of texts; the table scrolls sideways if the page is too narrow.

    The first `words` columns are aligned left as words, the other columns right as numbers.
    """

    def style(column: int) -> str:
        return ' class="number"' if column >= words else ""

    names = "".join(
        f'<th scope="col"{style(column)}>{html_text(name)}</th>' if name else "<td></td>"
        for column, name in enumerate(head)
    )
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td{style(column)}>{html_text(text)}</td>" for column, text in enumerate(rest, 1))
        lines.append(f'<tr><th scope="row">{html_text(first)}</th>{cells}</tr>')
    return (
        f'<figure><figcaption>{html_text(caption)}</figcaption><div class="wide" tabindex="0" role="region" '
        f'aria-label="{html_text(caption)}"><table><thead><tr>{names}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
        "</div></figure>"
    )


def image(content: bytes, text: str, kind: str = "png") -> str:
    """Return the HTML of an embedded picture, PNG or JPEG, with an alternative text for screen readers."""
    return f'<img alt="{html_text(text)}" src="data:image/{kind};base64,{base64.b64encode(content).decode()}">'


def shelf(figures: Iterable[str]) -> str:
    """Return the HTML of small figures side by side, as many in a line as fit; "" for none."""
    content = "".join(figures)
    return f'<div class="shelf">{content}</div>' if content else ""


def figure(drawing: str, caption: str) -> str:
    """Return the HTML of a figure: a drawing above a caption, both given as HTML."""
    return f"<figure>{drawing}<figcaption>{caption}</figcaption></figure>"


def script_page(title: str, body: str, style: str, script: str, data: Mapping[str, Any]) -> bytes:
    """Return an HTML page with a script, encoded as UTF-8.

    Args:
        title: title of the page, as text.
        body: content of the page, as HTML.
        style: CSS.
        script: JavaScript, which finds `data` as JSON in the element with the id `data`.
        data: plain values for the script; they may contain untrusted text.
    """
    body += f'<script type="application/json" id="data">{json_in_html(data)}</script><script>{script}</script>'
    return _page(title, body, style, script)


def _page(title: str, body: str, style: str, script: str | None = None) -> bytes:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{policy(style, script)}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(title)}</title><style>{style}</style></head><body>{body}</body></html>\n"
    ).encode()


def json_in_html(data: Mapping[str, Any]) -> str:
    r"""Return values as ASCII JSON that is safe inside an HTML element: no text in it can close the element.

    Example:
        >>> json_in_html({"cell": "</script>"})
        '{"cell":"\\u003c/script>"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
