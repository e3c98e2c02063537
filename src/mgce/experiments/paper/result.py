"""What a table or figure comes out as, and its forms: text, CSV, LaTeX."""

from __future__ import annotations

import fnmatch
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

PLUS_MINUS = "±"
WIDTH = 100  # columns of captions and notes, as a terminal has them


@dataclass(frozen=True)
class Result:
    """One table or figure.

    Attributes:
        name: as the command has it, `table3`.
        title, caption: what it is, and how it came about.
        cells: the rows for a reader, by column.
        numbers: the rows for a program, by column.
        image: a PNG.
        notes: a sentence for each thing to explain, by a key such as `letter/0.2/gce/accuracy`.
        words: how many of the first columns are words and not numbers.
        compared: how many numbers of the paper stand beside ours; the notes are then on those that are far apart.
    """

    name: str
    title: str
    caption: str
    cells: Sequence[Mapping[str, str]]
    numbers: Sequence[Mapping[str, Any]]
    image: bytes | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    words: int = 1
    compared: int = 0


def explained(result: Result, reasons: Mapping[str, str]) -> Result:
    """Add to each note the reason whose pattern is the first to match its key.

    Args:
        result: with notes.
        reasons: sentences by pattern, in which `*` stands for any text: `letter/*/gce/*`.
    """
    notes = {}
    for key, note in result.notes.items():
        reason = next((reason for pattern, reason in reasons.items() if fnmatch.fnmatchcase(key, pattern)), None)
        notes[key] = note if reason is None else f"{note} {reason}"
    return replace(result, notes=notes)


def to_text(result: Result) -> str:
    """Give title, table, caption and notes as lines."""
    import pandas as pd

    table = pd.DataFrame(list(result.cells)).to_string(index=False)
    caption = textwrap.fill(result.caption, WIDTH)
    notes = [textwrap.fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in result.notes.values()]
    return "\n\n".join([result.title, table, caption, *(["\n".join(notes)] if notes else [])]) + "\n"


def to_csv(result: Result) -> bytes:
    """Give the numbers in full."""
    import pandas as pd

    text: str = pd.DataFrame(list(result.numbers), dtype=object).to_csv(index=False, lineterminator="\n")
    return text.encode()


def to_latex(result: Result) -> str:
    """Give the table in booktabs' style."""
    import pandas as pd

    latex: str = pd.DataFrame(list(result.cells)).to_latex(index=False, escape=True, caption=result.title)
    symbols = {PLUS_MINUS: r"$\pm$", "η": r"$\eta$", "β": r"$\beta$", r"λ\_0": r"$\lambda_0$"}
    for symbol, command in symbols.items():
        latex = latex.replace(symbol, command)
    return latex


def files(result: Result) -> dict[str, bytes]:
    """Give all forms by the name of their file."""
    forms = {
        "txt": to_text(result).encode(),
        "csv": to_csv(result),
        "tex": to_latex(result).encode(),
        "png": result.image,
    }
    return {f"{result.name}.{suffix}": content for suffix, content in forms.items() if content is not None}
