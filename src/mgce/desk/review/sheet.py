"""Write the HTML page on which a person reviews suspect labels, and examples drawn at random from all examples."""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from mgce._messages import expected
from mgce._seeds import derived_seed
from mgce._text import html_text, printable, spreadsheet_cell
from mgce.desk.columns.spellings import near_pairs
from mgce.desk.encoders.pictures import thumbnail
from mgce.desk.pages.web_page import STYLE, json_in_html, script_page
from mgce.desk.review.bounds import MORE
from mgce.desk.review.decision_file import BOTH, DROP, HEAD, KEEP, ON_LOOKS, RANDOM, SKIP, SUGGESTION, SUSPECT
from mgce.desk.review.suspect_file import PICTURE, Suspect

ID = "mgce-review-"  # the beginning of each name under which a browser keeps decisions
DIGITS = "1234567890"  # keys of classes, as they stand on a keyboard
LETTERS = "abceghilmp"  # keys of classes where a digit could be taken for another name; none is the key of a button
PICTURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}  # the first bytes of each format
PICTURE_BYTES = 1 << 28  # of all pictures on a page: browsers open pages of some hundred megabytes in seconds
BUTTONS = (
    (KEEP, "Keep", "K"),
    (SUGGESTION, "Suggestion", "S"),
    (DROP, "Drop row", "D"),
    (SKIP, "Skip", "X"),
)


@dataclass(frozen=True)
class Shown:
    """An example on the review page, and whether it is shown as a random draw or as a suspect, or is both."""

    suspect: Suspect
    is_random: bool  # as what it comes first
    is_both: bool = False


def misspelt(suspects: Iterable[Suspect]) -> dict[str, str]:
    """Return the rare labels that are spelt nearly like a frequent one, each with the frequent one."""
    return dict(near_pairs(Counter(one.given for one in suspects)))


def open_suspects(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Return the examples that nobody has decided on and whose label is suspect or perhaps misspelt, worst first."""
    asked = misspelt(suspects)
    found = [one for one in suspects if not one.is_checked and (one.suggested != one.given or one.given in asked)]
    return sorted(found, key=lambda one: one.rank)


def chosen(suspects: Sequence[Suspect], most: int, n_random: int) -> list[Shown]:
    """Choose the examples to show: the most suspect ones, and examples drawn at random from all examples.

    Suspects and random examples come in pairs, in random order within each pair. An example that is a suspect and was
    drawn is shown once, at its first position. Examples that a person has already decided on are left out.

    Args:
        suspects: all examples.
        most: largest number of suspects to show.
        n_random: number of random examples to show, not counting those that were checked before.
    """
    wanted = open_suspects(suspects)[:most]
    drawn = [one for one in sorted(suspects, key=lambda one: one.draw) if not one.is_checked][:n_random]
    by_lot = np.random.default_rng(derived_seed(0, "order of a pair")).random(len(suspects)) < 0.5
    order: list[Shown] = []
    both = {one.key for one in wanted} & {one.key for one in drawn}
    for place in range(max(len(wanted), len(drawn))):
        pair = [Shown(one, False, one.key in both) for one in wanted[place : place + 1]]
        pair += [Shown(one, True, one.key in both) for one in drawn[place : place + 1]]
        order += pair[::-1] if by_lot[place] else pair
    first: dict[str, Shown] = {}
    for one in order:
        first.setdefault(one.suspect.key, one)
    return [*first.values()]


@dataclass(frozen=True)
class Beside:
    """What the page shows beside labels and cells.

    Attributes:
        text: column whose text is shown large; None for no such column.
        pictures: the content of an image file for each example, or empty for a page without pictures.
        near: the examples that are most like each example, the nearest first; empty if they are not known.
        asked: labels that are perhaps misspelt, each with the label that may be meant.
    """

    text: str | None = None
    pictures: Sequence[bytes] = ()
    near: Sequence[Sequence[Suspect]] = ()
    asked: Mapping[str, str] = field(default_factory=dict)


def sheet(shown: Sequence[Shown], title: str, saved_as: str, beside: Beside = Beside()) -> bytes:
    """Return the HTML of the review page.

    The page shows neither probabilities nor which examples were drawn at random: both would influence the decisions.

    Args:
        shown: the examples in the order in which to show them, at least one.
        title: title of the page, as plain text.
        saved_as: name of the file of decisions that the page saves.
        beside: what else the page shows.

    Raises:
        ValueError: if a picture is not in a known format.
    """
    examples = [one.suspect for one in shown]
    labels = {label for one in examples for label in (one.given, one.suggested, one.alternative)}
    asked = [(label, meant) for label, meant in beside.asked.items() if label in labels]
    classes = sorted(labels.union(meant for _, meant in asked))
    place = {label: number for number, label in enumerate(classes)}
    columns = [name for name, _ in examples[0].cells[1:] if name != beside.text]
    on_page = {one.key: number for number, one in enumerate(examples)}
    others = {one.key: one for each in beside.near for one in each if one.key not in on_page}
    on_page |= {key: len(examples) + number for number, key in enumerate(others)}

    def content(one: Suspect) -> dict[str, Any]:
        cells = {name: printable(cell, keep="\n") for name, cell in one.cells}
        large = {} if beside.text is None else {"text": cells[beside.text]}
        return {"name": printable(one.name), "cells": [cells[name] for name in columns], **large}

    rows = []
    for number, one in enumerate(shown):
        row = content(one.suspect) | {
            "line": one.suspect.line,
            "given": place[one.suspect.given],
            "alternative": place[one.suspect.alternative],
            "csv": _csv_parts(one),
        }
        if beside.pictures:
            row["picture"] = _data_url(beside.pictures[number], one.suspect.name)
        if beside.near:
            row["near"] = [on_page[near.key] for near in beside.near[number]]
        rows.append(row)
    data = {
        "id": sheet_id(shown),
        "file": saved_as,
        "head": ",".join(HEAD),
        "classes": [
            {"text": printable(label), "csv": _line([spreadsheet_cell(label)]), "key": key}
            for label, key in zip(classes, class_keys(classes), strict=True)
        ],
        "named": printable(examples[0].cells[0][0]),
        "columns": [printable(name) for name in columns],
        "rows": rows,
        "others": [content(one) | {"label": printable(one.given)} for one in others.values()],
        "more": MORE,
        "asked": [[place[label], place[meant]] for label, meant in asked],
    }
    return script_page(title, _body(title, examples[0].label_column), STYLE + _part("page.css"), _part("page.js"), data)


def class_keys(classes: Sequence[str]) -> list[str]:
    """Return the key that chooses each class on the page; "" for all if there are more classes than keys.

    A class that is named by one digit has the key of that digit. The other classes have letters if any name has a
    digit: then no digit chooses a class of another name. Otherwise they have digits in turn.

    Args:
        classes: the names of the classes on the page.

    Example:
        >>> class_keys(["0", "1", "unknown"]), class_keys(["01", "02"]), class_keys(["no", "yes"])
        (['0', '1', 'a'], ['a', 'b'], ['1', '2'])
    """
    if len(classes) > len(DIGITS):
        return [""] * len(classes)
    free = iter(LETTERS if any(char.isdigit() for name in classes for char in name) else DIGITS)
    return [name if name in set(DIGITS) else next(free) for name in classes]


def sheet_id(shown: Sequence[Shown]) -> str:
    """Return the name under which a browser keeps the decisions on these examples; the page holds this name too.

    The browser stores a decision as the number of the row and the number of the class. If other classes are suggested,
    the same numbers mean something else, so the name depends on the suggestions.
    """
    examples = [one.suspect for one in shown]
    content = json_in_html({"rows": [[one.key, one.given, one.suggested, one.alternative] for one in examples]})
    return f"{ID}{blake2b(content.encode(), digest_size=8).hexdigest()}"


def is_page_of_others(page: Path, shown: Sequence[Shown]) -> bool:
    """Return whether a file is a review page of other examples, whose decisions may not be saved yet."""
    content = page.read_bytes() if page.is_file() else b""
    return ID.encode() in content and sheet_id(shown).encode() not in content


def read_pictures(shown: Sequence[Shown], column: str, folder: Path) -> list[bytes]:
    """Return the content of the image file of each example.

    Args:
        shown: the examples.
        column: the column that holds the file names.
        folder: the folder to which relative file names refer.

    Raises:
        ValueError: if a file is missing, or if all pictures together are too large for a page.
    """
    pictures, size = [], 0
    for one in shown:
        name = dict(one.suspect.cells)[column]
        path = folder / name
        if not path.is_file():
            raise ValueError(expected("image", "a column of files that exist", f"{name} in row {one.suspect.name}"))
        size += path.stat().st_size
        if size > PICTURE_BYTES:
            most = f"a column of pictures of at most {PICTURE_BYTES >> 20} MB in all; show fewer rows"
            raise ValueError(expected("image", most, f"more, up to row {one.suspect.name}"))
        pictures.append(path.read_bytes())
    return pictures


def small_pictures(shown: Sequence[Shown], folder: Path) -> list[bytes]:
    """Return small JPEGs of the examples, if they have a column of pictures as `mgce fit` writes it; else none.

    Args:
        shown: the examples.
        folder: the folder to which the paths refer.

    Raises:
        ValueError: if a file is missing.
        OSError: if a file is no picture.
    """
    if any(PICTURE not in dict(one.suspect.cells) for one in shown):
        return []
    paths = [folder / dict(one.suspect.cells)[PICTURE] for one in shown]
    for path, one in zip(paths, shown, strict=True):
        if not path.is_file():
            what = "left out where the pictures are that mgce fit has seen; give another column"
            raise ValueError(expected("image", what, f"none, and {path} is gone, of row {one.suspect.name}"))
    return [thumbnail(path, 320) for path in paths]


def check_column(option: str, column: str | None, suspects: Sequence[Suspect]) -> None:
    """Raise an error that names the option unless the examples have a column of this name.

    Raises:
        ValueError: if the examples have no such column.
    """
    names = [name for name, _ in suspects[0].cells]
    if column is not None and column not in names:
        raise ValueError(expected(option, f"a column of the table ({', '.join(names)})", column))


def _csv_parts(one: Shown) -> tuple[str, str]:
    """Return a line of the decision file in two parts, before and after the decision, with formulas made harmless."""
    example = one.suspect
    before = [example.key, example.name, example.line, example.given]
    why = [RANDOM, SUSPECT] if one.is_random else [SUSPECT, RANDOM]
    behind = [BOTH.join(why if one.is_both else why[:1]), str(example.draw), repr(example.draw_probability)]
    return _line(map(spreadsheet_cell, before)), _line([*behind, spreadsheet_cell(example.alternative)])


def _line(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    # A writer puts quotes around the characters that end a line, so both have to be among them.
    csv.writer(buffer, lineterminator="\r\n").writerow(list(cells))
    return buffer.getvalue().removesuffix("\r\n")


def _data_url(picture: bytes, name: str) -> str:
    kind = next((kind for first, kind in PICTURES.items() if picture.startswith(first)), None)
    if picture[:4] == b"RIFF" and picture[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        raise ValueError(expected("image", "a column of PNG, JPEG, GIF or WebP files", f"another file in row {name}"))
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def _body(title: str, column: str) -> str:
    """Return the page without its rows.

    Args:
        title: title of the page.
        column: the column of the labels in the table.
    """
    buttons = "".join(
        f'<button type="button" data-decision="{decision}">{said}<kbd>{key}</kbd></button>'
        for decision, said, key in BUTTONS
    )
    named = html_text("Label" if column.lower() in ("", "label") else f"Label in {column}")
    bulk = "".join(f'<option value="{decision}">{said}</option>' for decision, said, _ in BUTTONS)
    page = Template(_part("page.html").replace("\n", ""))  # between elements, line ends would show as blanks
    return page.substitute(
        title=html_text(title),
        buttons=buttons,
        named=named,
        bulk=bulk,
        on_looks=html_text(ON_LOOKS),
    )


def _part(name: str) -> str:
    """Return a file that the page is made of."""
    return (files("mgce.desk.review") / name).read_text("utf-8")
