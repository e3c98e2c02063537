"""Define the result of rendering a table or figure, and write it as text, CSV, LaTeX and PNG."""

from __future__ import annotations

import fnmatch
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mgce._text import printable
from mgce.desk.files import written_tables
from mgce_lab.engine.summary import PLUS_MINUS

SMOKE_SUFFIX = "-smoke"  # of the names of files that smoke runs leave
WIDTH = 100  # characters in a line of captions and notes, which most terminals show without a break


@dataclass(frozen=True)
class Result:
    """A rendered table or figure.

    Attributes:
        name: the name on the command line, such as `table3`.
        title, caption: the title, and a description of what was trained and measured.
        cells: the table for readers: for each row a dict from column names to texts.
        numbers: the table for programs: for each row a dict from column names to unrounded numbers.
        image: the figure as PNG; None for a result without a figure.
        notes: sentences below the table, by a key such as `letter/0.2/gce/accuracy`.
        words: number of leading columns that contain words instead of numbers.
        parts: number of leading columns that divide the table into parts. In the text an empty line separates rows in
            which these columns differ.
        agreement: a sentence that says how many of our numbers agree with the paper's; "" if none are compared.
            Otherwise the notes are about the numbers that do not agree.
    """

    name: str
    title: str
    caption: str
    cells: Sequence[Mapping[str, str]]
    numbers: Sequence[Mapping[str, Any]]
    image: bytes | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    words: int = 1
    parts: int = 0
    agreement: str = ""


def smoke(result: Result) -> Result:
    """Return a result that is marked as a smoke run in its name, title, caption and rows.

    So nobody mistakes a miniature run for a result of the paper. The picture has to be marked when it is drawn, by
    :func:`mgce_lab.engine.png.stamp`.
    """
    return replace(
        result,
        name=f"{result.name}{SMOKE_SUFFIX}",
        title=f"Smoke run, no results: {result.title}",
        caption="A miniature on other data or few rows, to see that all works; its numbers say nothing of the methods. "
        + result.caption,
        cells=[{**row, "run": "smoke"} for row in result.cells],
        numbers=[{**row, "run": "smoke"} for row in result.numbers],
    )


def page_name(results: Sequence[Result]) -> str:
    """Return the file name of the HTML page of these results."""
    return f"report{SMOKE_SUFFIX * any(result.name.endswith(SMOKE_SUFFIX) for result in results)}.html"


def explained(result: Result, reasons: Mapping[str, str]) -> Result:
    """Return a result with explanations added to its notes.

    Each note gets the explanation whose pattern is the first to match the key of the note.

    Args:
        result: a table or figure with notes.
        reasons: explanations by pattern. In a pattern such as `letter/*/gce/*`, `*` matches any text.
    """
    notes = {}
    for key, note in result.notes.items():
        reason = next((reason for pattern, reason in reasons.items() if fnmatch.fnmatchcase(key, pattern)), None)
        notes[key] = note if reason is None else f"{note} {reason}"
    return replace(result, notes=notes)


def to_text(result: Result) -> str:
    """Return title, table, caption and notes of a result as plain text."""
    import pandas as pd

    head, *rows = pd.DataFrame(list(result.cells)).to_string(index=False).splitlines()
    of_row = [tuple(cells.values())[: result.parts] for cells in result.cells]
    starts = [i > 0 and of_row[i] != of_row[i - 1] for i in range(len(rows))]
    table = "\n".join([head, *("\n" * start + row for start, row in zip(starts, rows, strict=True))])
    caption = textwrap.fill(result.caption, WIDTH)
    notes = [textwrap.fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in result.notes.values()]
    return "\n\n".join([result.title, table, caption, *(["\n".join(notes)] if notes else [])]) + "\n"


def to_csv(result: Result) -> bytes:
    """Return the unrounded numbers of a result as CSV."""
    import pandas as pd

    return written_tables.to_csv(pd.DataFrame(list(result.numbers), dtype=object), digits=None)


def to_latex(result: Result) -> str:
    """Return the table of a result as LaTeX, for the package booktabs."""
    import pandas as pd

    latex: str = pd.DataFrame(list(result.cells)).to_latex(index=False, escape=True, caption=result.title)
    symbols = {PLUS_MINUS: r"$\pm$", "η": r"$\eta$", "β": r"$\beta$", r"λ\_0": r"$\lambda_0$"}
    for symbol, command in symbols.items():
        latex = latex.replace(symbol, command)
    return latex


def files(result: Result) -> dict[str, bytes]:
    """Return the contents of all files of a result by file name: text, CSV, LaTeX, and PNG if there is an image."""
    forms = {
        "txt": printable(to_text(result), keep="\n").encode(),
        "csv": to_csv(result),
        "tex": printable(to_latex(result), keep="\n").encode(),
        "png": result.image,
    }
    return {f"{result.name}.{suffix}": content for suffix, content in forms.items() if content is not None}
