"""A Sphinx extension: the directive `command`, which shows what a command of `mgce` takes and does."""

from __future__ import annotations

from command_text import page
from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class CommandDirective(SphinxDirective):
    """`{command} fit`: the synopsis, what the command does, and its options in groups."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Return what the Markdown becomes."""
        return self.parse_text_to_nodes(page(self.arguments[0]), allow_section_headings=True)


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("command", CommandDirective)
