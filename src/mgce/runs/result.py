"""What a table or figure comes out as, and its forms: text, CSV, LaTeX."""

from __future__ import annotations

import fnmatch
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mgce._text import printable
from mgce.datasets import table_files
from mgce.runs.summary import PLUS_MINUS

SMOKE_SUFFIX = "-smoke"  # of the names of files that smoke runs leave
WIDTH = 100  # characters in a line of captions and notes, which most terminals show without a break


@dataclass(frozen=True)
class Result:
    """One table or figure.

    Attributes:
        name: by which `mgce reproduce` knows it, such as `table3`.
        title, caption: what it is, and what was trained and measured for it.
        cells: the table for a reader, a dict by column for each row.
        numbers: the table for a program, likewise, with numbers in full.
        image: the figure as PNG.
        notes: sentences below the table, by a key such as `letter/0.2/gce/accuracy`.
        words: how many of the first columns hold words and not numbers.
        parts: how many of the first columns are the same in a part of the table; an empty line parts them in the text.
        agreement: a sentence on how many of our numbers agree with the paper's; "" if none stand beside them. If any
            do, the notes are on those that do not.
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
    """Mark a result of smoke runs, so that nobody takes it for one of the paper: in its name, title, caption and rows.

    Whoever draws its picture stamps it, see :func:`mgce.pages.png.stamp`.
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
    """Return the name of the page of these results."""
    return f"report{SMOKE_SUFFIX * any(result.name.endswith(SMOKE_SUFFIX) for result in results)}.html"


def explained(result: Result, reasons: Mapping[str, str]) -> Result:
    """Add to each note the reason whose pattern is the first to match its key.

    Args:
        result: a table or figure with notes.
        reasons: sentences by pattern; `*` stands for any text in a pattern such as `letter/*/gce/*`.
    """
    notes = {}
    for key, note in result.notes.items():
        reason = next((reason for pattern, reason in reasons.items() if fnmatch.fnmatchcase(key, pattern)), None)
        notes[key] = note if reason is None else f"{note} {reason}"
    return replace(result, notes=notes)


def to_text(result: Result) -> str:
    """Return title, table, caption and notes as lines."""
    import pandas as pd

    head, *rows = pd.DataFrame(list(result.cells)).to_string(index=False).splitlines()
    of_row = [tuple(cells.values())[: result.parts] for cells in result.cells]
    starts = [i > 0 and of_row[i] != of_row[i - 1] for i in range(len(rows))]
    table = "\n".join([head, *("\n" * start + row for start, row in zip(starts, rows, strict=True))])
    caption = textwrap.fill(result.caption, WIDTH)
    notes = [textwrap.fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in result.notes.values()]
    return "\n\n".join([result.title, table, caption, *(["\n".join(notes)] if notes else [])]) + "\n"


def to_csv(result: Result) -> bytes:
    """Return the numbers as CSV, in full."""
    import pandas as pd

    return table_files.to_csv(pd.DataFrame(list(result.numbers), dtype=object), digits=None)


def to_latex(result: Result) -> str:
    """Return the table for LaTeX, with the rules of its package booktabs."""
    import pandas as pd

    latex: str = pd.DataFrame(list(result.cells)).to_latex(index=False, escape=True, caption=result.title)
    symbols = {PLUS_MINUS: r"$\pm$", "η": r"$\eta$", "β": r"$\beta$", r"λ\_0": r"$\lambda_0$"}
    for symbol, command in symbols.items():
        latex = latex.replace(symbol, command)
    return latex


def files(result: Result) -> dict[str, bytes]:
    """Return the contents of all files of a result, by their names: text, CSV, LaTeX, and PNG if there is an image."""
    forms = {
        "txt": printable(to_text(result), keep="\n").encode(),
        "csv": to_csv(result),
        "tex": printable(to_latex(result), keep="\n").encode(),
        "png": result.image,
    }
    return {f"{result.name}.{suffix}": content for suffix, content in forms.items() if content is not None}
