"""Print to the terminal, with control characters in names and labels replaced: a terminal would obey them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mgce._text import printable
from mgce.desk.cli.interrupt import INTERRUPTED


class Terminal(Console):
    """A console of rich that prints texts without interpreting markup, and replaces control characters.

    Markup such as `[green]` or `:smile:` is not interpreted, because names and labels in a table may look like it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to write, with control characters replaced in text but not in rich's own control codes."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)

    def print_whole(self, renderable: RenderableType) -> None:
        """Print without truncating lines: if the terminal is too narrow, lines are wrapped."""
        before = self.width
        # A measure ends at the width it is given: 1000 characters are more than any of our tables has.
        self.width = max(before, self.measure(renderable, options=self.options.update(width=1000)).maximum)
        self.print(renderable)
        self.width = before

    def print_notes(self, notes: Iterable[str]) -> None:
        """Print each sentence as a note."""
        for sentence in notes:
            self.print(f"Note: {sentence}")


@contextmanager
def nothing_written_if_interrupted(console: Console) -> Iterator[None]:
    """On Ctrl-C in this block, print that nothing was written, and exit with the code of it."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("Interrupted: nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
