"""Show the steps of a command's work as a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mgce.desk.cli.terminal import Terminal

OnStep = Callable[[str, int, int | None], None]


@contextmanager
def steps_shown(console: Console, first: str, *, alike: bool = False) -> Iterator[OnStep]:
    """Show a progress bar in this block, and yield the function that moves it.

    The function takes the description of a step, how much of it is done, and how much there is to do; None if that is
    not known.

    Args:
        console: where a command prints. If only its output goes to a file, the bar is shown on standard error.
        first: the description before the first step.
        alike: whether all parts of the work take about the same time, so that the time left can be told.
    """
    shown = on_a_terminal(console)
    what, left = (TextColumn(text, markup=False) for text in ("{task.description}", "left"))
    columns = (what, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    until = (left, TimeRemainingColumn()) if alike else ()
    with Progress(*columns, *until, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(first, total=None)

        def told(step: str, done: int, total: int | None) -> None:
            progress.update(task, description=step, completed=done, total=total)

        yield told


def on_a_terminal(console: Console) -> Console:
    """Return the console to show progress on: that of standard error, if only standard output goes to a file."""
    return console if console.is_terminal else Terminal(stderr=True, quiet=console.quiet)
