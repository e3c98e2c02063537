"""Write an HTML page in one file, for small and wide screens; it loads nothing, and runs only a script of its own."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
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


STYLE = "\n" + (files("mgce.desk.pages") / "style.css").read_text("utf-8")


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
    items = (f"<li>{html_text(text)}<pre>{html_text(command)}</pre></li>" for text, command in steps.items())
    return f"<ol>{''.join(items)}</ol>"


def facts(values: Mapping[str, str]) -> str:
    """Return the HTML of a list of names, each with its text beside it."""
    items = (f"<dt>{html_text(name)}</dt><dd>{html_text(text)}</dd>" for name, text in values.items())
    return f"<dl>{''.join(items)}</dl>"


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
