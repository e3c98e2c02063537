"""Find errors in the words of a command before it imports its libraries, which takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile, zip_longest
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from mgce._messages import expected, nearest

# The arguments that a command begins with, where they are files that have to be there.
FILES = {
    "fit": ("table",),
    "review": ("suspects",),
    "clean": ("suspects",),
    "predict": ("model", "table"),
    "certify": ("model", "table"),
}
MODEL_PART = "content.json"  # that every model file has
OUTPUTS = ("out", "json", "mended", "cleaned")  # options of files that `fit` and `clean` write
LABELS = ("--target", "--label-columns", "--annotations", "--target-file")  # one of which a fit to a table needs


def no_target() -> ValueError:
    """Return the error for a table whose column of labels is not stated."""
    return ValueError(expected("target", "the name of the column with the labels", "none") + " Add --target NAME.")


def check_first(command: str, words: Sequence[str]) -> None:
    """Raise an error in the files, the target or the sheet of a command, if no library is needed to find the error.

    Args:
        command: name of the command.
        words: the words typed after the name.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the command would raise the same error later.
    """
    files = [*map(Path, takewhile(lambda word: not word.startswith("-"), words))]
    for name, path in zip(FILES.get(command, ()), files, strict=False):
        if not path.exists():
            raise FileNotFoundError(expected(name, "the path of a file that exists", str(path)))
    checked, sheet = _value(words, "checked"), _value(words, "sheet")
    decisions = [Path(name.strip()) for name in (checked or "").split(",") if name.strip()]
    if command in ("fit", "clean"):
        from mgce.desk.cli.outputs import check_outputs

        outputs = {option: Path(typed) for option in OUTPUTS if (typed := _value(words, option))}
        check_outputs(outputs, [*files, *decisions])
    # `certify` takes a table of predictions too, and says more of one.
    if files and files[0].is_file() and (command == "predict" or (command == "certify" and files[0].suffix == ".mgce")):
        _check_model(files[0])
    # A word that is nearly one of these options is a typing error, of which the command says more.
    if command == "fit" and files and files[0].is_file() and not any(nearest(word, LABELS) for word in words):
        raise no_target()
    if decisions and command in ("fit", "clean"):
        from mgce.desk.review.decision_file import read_decisions

        read_decisions(*decisions)
    if sheet is not None:
        from mgce.desk.files.excel_tables import check_sheet

        for file in files:
            if file.suffix.lower() in (".xlsx", ".xlsm"):
                check_sheet(file, sheet)


def _check_model(path: Path) -> None:
    ours = False
    with suppress(BadZipFile), ZipFile(path) as archive:
        ours = MODEL_PART in archive.namelist()
    if not ours:
        raise ValueError(expected("model", "an undamaged file written by `mgce fit`", path.name))


def _value(words: Sequence[str], option: str) -> str | None:
    """Return the word typed for an option; None if the option was left out."""
    for word, after in zip_longest(words, words[1:]):
        if word == f"--{option}":
            return after
        if word.startswith(f"--{option}="):
            return word.partition("=")[2]
    return None
