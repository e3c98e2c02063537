"""Write an HTML page in one file, with a script that cannot access anything outside the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mgce._text import html_text
from mgce.desk.pages.policy import policy


def script_page(title: str, body: str, style: str, script: str, data: Mapping[str, Any]) -> bytes:
    """Return an HTML page with a script, encoded as UTF-8.

    Args:
        title: title of the page, as text.
        body: content of the page, as HTML.
        style: CSS.
        script: JavaScript, which finds `data` as JSON in the element with the id `data`.
        data: plain values for the script; they may contain untrusted text.
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"{policy(style, script)}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(title)}</title><style>{style}</style></head><body>{body}"
        f'<script type="application/json" id="data">{json_in_html(data)}</script>'
        f"<script>{script}</script></body></html>\n"
    ).encode()


def json_in_html(data: Mapping[str, Any]) -> str:
    r"""Return values as ASCII JSON that is safe inside an HTML element: no text in it can close the element.

    Example:
        >>> json_in_html({"cell": "</script>"})
        '{"cell":"\\u003c/script>"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
