"""The terminal that commands print to: it shows what columns and labels hold, and obeys none of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mgce._text import printable


class Terminal(Console):
    """A console without highlighting that replaces characters which are not to be printed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Give the pieces that a terminal writes; those for its own control are none of a text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)
