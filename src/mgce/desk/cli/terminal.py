"""Print to the terminal, and show progress; control characters are replaced, since a terminal would obey them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment

from mgce._text import printable
from mgce.desk.cli.main import exit_code

MINUTE = 60.0  # seconds between two lines on the progress


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

    def print_steps(self, commands: Sequence[str], what: str = "") -> None:
        """Print the commands to type next, each in a line that is not wrapped; print nothing if there are none.

        Args:
            commands: the commands.
            what: a remark on the files that the commands name, in brackets.
        """
        for line in [f"Do this next{what}:", *(f"  {command}" for command in commands)] if commands else []:
            self.print(line, soft_wrap=True)

    def print_notes(self, notes: Iterable[str]) -> None:
        """Print each sentence as a note."""
        for sentence in notes:
            self.print(f"Note: {sentence}")


@contextmanager
def nothing_written_if_interrupted(console: Console) -> Iterator[None]:
    """Catch Ctrl-C and SIGTERM in this block: print that nothing was written, and exit with the signal's code."""
    try:
        yield
    except KeyboardInterrupt as error:
        console.print("Interrupted: nothing was written.")
        raise typer.Exit(exit_code(error)) from None


OnStep = Callable[[str, int, int | None], None]


@contextmanager
def steps_shown(console: Console, first: str) -> Iterator[OnStep]:
    """Show a progress bar in this block, and yield the function that moves it.

    The function takes the description of a step, the amount done, and the total amount, or None if the total is
    unknown. If no terminal can show the bar, standard error gets a line with the description and the amounts each
    minute.

    Args:
        console: where a command prints. If only its output goes to a file, the bar is shown on standard error.
        first: the description before the first step.
    """
    shown = on_a_terminal(console)
    what, left = (TextColumn(text, markup=False) for text in ("{task.description}", "left"))
    columns = (what, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), left, TimeRemainingColumn())
    ended = Event()
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(first, total=None)

        def told(step: str, done: int, total: int | None) -> None:
            progress.update(task, description=step, completed=done, total=total)

        def each_minute() -> None:
            minutes = 0
            while not ended.wait(MINUTE):
                now, minutes = progress.tasks[0], minutes + 1
                of = "" if now.total is None else f", {now.completed:.0f} of {now.total:.0f}"
                shown.print(f"{now.description}{of}, after {minutes} min.")

        if not shown.is_terminal and not shown.quiet:
            Thread(target=each_minute, daemon=True).start()
        try:
            yield told
        finally:
            ended.set()


def on_a_terminal(console: Console) -> Console:
    """Return the console to show progress on: `console` if it is a terminal, and otherwise standard error."""
    return console if console.is_terminal else Terminal(stderr=True, quiet=console.quiet)
