"""A Sphinx extension: where a page says `{command}` and a name, the usage and the options of that command stand."""

from __future__ import annotations

import re

from command_text import page
from sphinx.application import Sphinx

PLACE = re.compile(r"^```\{command\} (\w+)\n```$", re.MULTILINE)


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace each place of a page by the text of its command, before Sphinx reads the page."""
    if PLACE.search(source[0]):
        app.env.note_reread()  # in each build: the command may have changed where the page has not
        source[0] = PLACE.sub(lambda place: page(place.group(1)), source[0])


def setup(app: Sphinx) -> None:
    """Register the replacement."""
    app.connect("source-read", fill)
