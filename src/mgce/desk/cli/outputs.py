"""Print to the terminal, show progress, check output files before a command does its work, and write JSON.

Control characters are replaced, since a terminal would obey them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment

from mgce._files import to_json, write_files
from mgce._text import printable
from mgce._validation import expected
from mgce.desk.cli.main import INTERRUPTED
from mgce.desk.files.table_files import is_like
from mgce.desk.files.written_tables import check_excel

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

    def print_steps(self, commands: Sequence[str]) -> None:
        """Print the commands to type next, if there are any, each of which is copied in one piece."""
        for line in ["Do this next:", *(f"  {command}" for command in commands)] if commands else []:
            self.print(line, soft_wrap=True)

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


OnStep = Callable[[str, int, int | None], None]


@contextmanager
def steps_shown(console: Console, first: str) -> Iterator[OnStep]:
    """Show a progress bar in this block, and yield the function that moves it.

    The function takes the description of a step, how much of it is done, and how much there is to do; None if that is
    not known. Where no terminal shows the bar, a line a minute says on standard error what is done.

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
    """Return the console to show progress on: that of standard error, if only standard output goes to a file."""
    return console if console.is_terminal else Terminal(stderr=True, quiet=console.quiet)


STDOUT = Path("-")
Json = Annotated[
    Path | None, typer.Option("--json", help="File for the results as JSON; - prints them, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def check_outputs(outputs: Mapping[str, Path | Sequence[Path] | None], read: Iterable[Path | None]) -> None:
    """Raise an error if an output cannot be created or replaced, or is an input or another output of the command.

    Links, and paths of one file that are spelled differently, count as the file itself.

    Args:
        outputs: the files to write, by the name of their option; None for an option that was left out. A file for
            results as JSON may also be `STDOUT`. An option whose name ends in `_dir` names the folder of its files.
        read: the files that the command reads; None for an option that was left out.

    Raises:
        ValueError: if a file cannot be written, or something else uses it.
    """
    taken = {_identity(path) for path in read if path is not None}
    written: list[Path] = []
    for option, given in outputs.items():
        for path in [given] if isinstance(given, Path) else given or []:
            if option == "json" and path == STDOUT:
                continue
            if path.is_dir():
                raise ValueError(expected(option, "the path of a file", f"{path}, which is a folder"))
            real = Path(os.path.realpath(path))
            # A file cannot be a folder of another one either, even if neither exists yet.
            if _identity(path) in taken or any(real in other.parents or other in real.parents for other in written):
                what, got = "the path of a file that nothing else uses", path
                if option.endswith("_dir"):
                    what, got = f"a folder with a file {path.name} that nothing else uses", path.parent
                raise ValueError(expected(option, what, str(got)))
            folder = next(parent for parent in path.absolute().parents if parent.exists())
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise ValueError(expected(option, "the path of a file in a folder that can be written to", str(path)))
            taken.add(_identity(path))
            written.append(real)


def _identity(path: Path) -> object:
    """Return what all paths of a file share, whether it exists or not."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # nothing is there, or no path may look like this
        return os.path.realpath(path) if "\0" not in str(path) else str(path)
    return found.st_dev, found.st_ino


def check_table(option: str, path: Path, like: Path | None = None) -> None:
    """Raise an error unless the name of an output table ends in .csv, .xlsx or .parquet, the formats that are written.

    Args:
        option: name of the option, for errors.
        path: the file to write.
        like: a table whose file is written again with other cells, so that its format will do too.

    Raises:
        ValueError: if the file name ends otherwise, or in .xlsx and the library for Excel files is not installed.
    """
    if path.suffix.lower() not in (".csv", ".xlsx", ".parquet") and not (like and is_like(path, like)):
        raise ValueError(expected(option, "the path of a .csv, .xlsx or .parquet file", str(path)))
    if path.suffix.lower() == ".xlsx":
        check_excel(option)


def check_folder(option: str, path: Path) -> None:
    """Raise an error if files cannot be written into a folder, or the folder does not exist and cannot be created.

    Args:
        option: name of the option, for errors.
        path: the folder.

    Raises:
        ValueError: if files cannot be written into it.
    """
    nearest = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        raise ValueError(expected(option, "the path of a folder", f"{path}, where {nearest} is a file"))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(expected(option, "the path of a folder that can be written to", str(path)))


def terminal(json_file: Path | None, quiet: bool) -> Terminal:
    """Return the terminal of a command; it stays silent with --quiet, or if the JSON goes to standard output."""
    return Terminal(quiet=quiet or json_file == STDOUT)


def write_json(path: Path | None, document: Mapping[str, Any]) -> None:
    """Write results as JSON to a file, or to standard output if the path is "-"; do nothing if the path is None."""
    if path == STDOUT:
        sys.stdout.write(to_json(document).decode())
    elif path is not None:
        write_files(path.parent, {path.name: to_json(document)})
