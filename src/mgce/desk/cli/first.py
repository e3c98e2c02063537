"""Refuse what shows without a library, before a command imports its own, which takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from mgce._messages import expected, nearest

MODEL_PART = "content.json"  # that every model file has
OUTPUTS = ("--out", "--json", "--mended", "--cleaned")
LABELS = ("--target", "--label-columns", "--annotations", "--target-file")  # one of which a fit to a table needs


def no_target() -> ValueError:
    """Return the error for a table whose column of labels is not stated."""
    return ValueError(expected("target", "the name of the column with the labels", "none") + " Add --target NAME.")


def check_first(command: str, words: Sequence[str]) -> None:
    """Raise the error of a command for a target, decisions, a sheet or a model, where it shows without a library.

    Args:
        command: its name.
        words: what was typed after it.

    Raises:
        ValueError: as the command would raise it later.
    """
    files = [*map(Path, takewhile(lambda word: not word.startswith("-"), words))]
    checked, sheet = _value(words, "--checked"), _value(words, "--sheet")
    outputs = [Path(output) for option in OUTPUTS if (output := _value(words, option))]
    # An output that is there may be an input, or beside one: the command sees that first.
    if any(output.exists() or output.stem in (checked or "") for output in outputs):
        return
    # `certify` takes a table of predictions too, and says more of one.
    if files and files[0].is_file() and (command == "predict" or (command == "certify" and files[0].suffix == ".mgce")):
        _check_model(files[0])
    # A word that is nearly one of these options is a typing error, of which the command says more.
    if command == "fit" and files and files[0].is_file() and not any(nearest(word, LABELS) for word in words):
        raise no_target()
    if checked is not None and command in ("fit", "clean"):
        from mgce.desk.review.decision_file import read_decisions

        read_decisions(*(Path(name.strip()) for name in checked.split(",")))
    if sheet is not None:
        from mgce.desk.files.excel_tables import check_sheet

        for file in files:
            if file.suffix.lower() in (".xlsx", ".xlsm"):
                check_sheet(file, sheet)


def _check_model(path: Path) -> None:
    try:
        with ZipFile(path) as archive:
            ours = MODEL_PART in archive.namelist()
    except BadZipFile:
        ours = False
    if not ours:
        raise ValueError(expected("model", "an undamaged file written by `mgce fit`", path.name))


def _value(words: Sequence[str], option: str) -> str | None:
    """Return what was typed for an option; None if it was left out."""
    for place, word in enumerate(words):
        if word == option:
            return words[place + 1] if place + 1 < len(words) else None
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
