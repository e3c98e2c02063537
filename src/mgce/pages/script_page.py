"""An HTML page in one file with a script, which can reach nothing outside.

The Content-Security-Policy lets the browser run the one script whose hash it names, and load nothing but pictures that
are in the page. So no text of others that gets into the page can run or call home.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from mgce._text import html_text


def script_page(title: str, body: str, style: str, script: str, data: Mapping[str, Any]) -> bytes:
    """Return a page as UTF-8.

    Args:
        title: its title, as text.
        body: its content, HTML.
        style: CSS.
        script: JavaScript, which finds `data` as JSON in the element with the id `data`.
        data: plain values; texts of others may be among them.
    """
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(title)}</title><style>{style}</style></head><body>{body}"
        f'<script type="application/json" id="data">{json_in_html(data)}</script>'
        f"<script>{script}</script></body></html>\n"
    ).encode()


def json_in_html(data: Mapping[str, Any]) -> str:
    r"""Return JSON in ASCII in which nothing ends the element around it.

    Example:
        >>> json_in_html({"cell": "</script>"})
        '{"cell":"\\u003c/script>"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(content.encode()).digest()).decode()}'"
