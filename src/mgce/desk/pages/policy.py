"""State in a page what a browser may run and load: only what is in the page, and only what its policy names."""

from __future__ import annotations

import base64
from hashlib import sha256


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
