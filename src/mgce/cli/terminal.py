"""The terminal that commands print to, which never obeys control characters in the names and labels that it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mgce._text import printable


class Terminal(Console):
    """A console of rich that shows every text as it is, except control characters, which it replaces.

    Markup such as `[green]` or `:smile:` is not interpreted, because names and labels in a table may look like it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to write; in those of text, but not in rich's own control codes, replace characters."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)

    def print_whole(self, renderable: RenderableType) -> None:
        """Print at full width: in a narrow terminal, wrapped lines are better than truncated ones."""
        before = self.width
        # A measure ends at the width it is given: 1000 characters are more than any of our tables has.
        self.width = max(before, self.measure(renderable, options=self.options.update(width=1000)).maximum)
        self.print(renderable)
        self.width = before


@contextmanager
def nothing_written_if_interrupted(console: Console) -> Iterator[None]:
    """Turn Ctrl-C in this block into a sentence and exit code 130, which shells use for it (128 + signal 2)."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("Interrupted: nothing was written.")
        raise typer.Exit(130) from None
