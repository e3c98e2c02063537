"""Define the options that several commands have, and groups of options as the fields of dataclasses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

import typer

from mgce._messages import check_count, expected
from mgce.desk.files.text_tables import TextFormat


def parse_names(text: str) -> tuple[str, ...]:
    """Split a text at its commas, and return the names in it without blanks around them."""
    return tuple(name.strip() for name in text.split(","))


TABLE = (
    "A table: .csv, .tsv, .txt, .xlsx, .jsonl (JSON lines), .parquet, .arrow or .feather, also with .gz; "
    "- for standard input."
)


@dataclass(frozen=True)
class Form(TextFormat):
    """The options on the format of a file with a table."""

    sep: Annotated[str | None, r"Character between two values, \t for tab [found in the first 1,000 lines]."] = None
    decimal: Annotated[str, "Decimal separator of numbers."] = "."
    encoding: Annotated[str, "Character encoding of a text file, such as cp1252."] = "utf-8"
    sheet: Annotated[str | None, "Sheet of an Excel file [found: the first with the wanted columns]."] = None
    header: Annotated[int | None, "Row with the names of the columns, from 1 [found: the first row below titles]."] = (
        None
    )


Drop = Annotated[str | None, "Columns that are no features, separated by commas."]


Text = Annotated[list[str] | None, "Column of text, if it is not recognised as text. Repeatable."]
Category = Annotated[list[str] | None, "Column of categories that is recognised as something else. Repeatable."]

Number = Annotated[list[str] | None, "Column of numbers that is left out or recognised otherwise. Repeatable."]


def columns_of(drop: str | None) -> tuple[str, ...]:
    """Return the columns that the option `--drop` names, separated by commas; none if the option was left out."""
    return () if drop is None else parse_names(drop)


NOISE_RATE = (
    "Share of labels that are wrong: a lower bound with --noise-type symmetric, an upper bound with --noise-type any."
)
NOISE_TYPE = (
    "symmetric: a wrong label is any of the other classes, with equal probability. any: nothing is assumed about which "
    "labels are wrong."
)


def parse_rate(text: str) -> float:
    """Return the noise rate in a text; raise an error if the text is no number, such as a percentage."""
    try:
        return float(text)
    except ValueError:
        percent = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", text)
        question = f" Did you mean {float(percent[1]) / 100:g}?" if percent else ""
        raise ValueError(expected("noise_rate", "a number", text) + question) from None


def refuse(what: str, **given: object) -> None:
    """Raise an error for the first option whose value is not None.

    Args:
        what: how these options should be, for the message "Expected OPTION to be ...", such as "left out".
        **given: the values by option.

    Raises:
        ValueError: if an option has a value.
    """
    for option, value in given.items():
        if value is not None:
            raise ValueError(expected(option, what, str(value)))


Threads = Annotated[int | None, typer.Option(help="Threads of the network [all cores].")]
Device = Annotated[str, typer.Option(help="Where the network runs, such as cpu or cuda.")]


def use_threads(threads: int | None) -> None:
    """Let PyTorch compute on `threads` threads; None leaves their number unchanged.

    Raises:
        ValueError: if there is not at least one thread.
    """
    if threads is not None:
        check_count("threads", threads, minimum=1)
        import torch  # here, since commands without a network do not wait for it

        torch.set_num_threads(threads)


Result = TypeVar("Result")


def grouped(command: Callable[..., Result]) -> Callable[..., Result]:
    """Return a command in which each parameter of a dataclass type is replaced by one parameter for each field.

    Typer makes an option of each parameter. A text beside the type of a parameter is the help of its option. All
    parameters are given by keyword.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Size:
        ...     width: int = 2
        >>> @grouped
        ... def area(height: int, size: Size) -> int:
        ...     return height * size.width
        >>> area(height=3), area(height=3, width=5), list(inspect.signature(area).parameters)
        (6, 15, ['height', 'width'])
    """
    hints = get_type_hints(command, include_extras=True)
    parts = {name: hints[name] for name in inspect.signature(command).parameters if is_dataclass(hints[name])}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in parts:
            parameters.append(_parameter(name, parameter.default, hints[name]))
            continue
        inner = get_type_hints(parts[name], include_extras=True)
        parameters += [_parameter(field.name, field.default, inner[field.name]) for field in fields(parts[name])]
    signature = inspect.Signature(parameters, return_annotation=hints.get("return"))

    @wraps(command)
    def run(**options: Any) -> Result:
        bound = signature.bind(**options)
        bound.apply_defaults()
        given = bound.arguments
        for name, part in parts.items():
            given[name] = part(**{each.name: given.pop(each.name) for each in fields(part)})
        return command(**given)

    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": hints.get("return")}
    return run


def typed(options: Any) -> list[str]:
    """Return the words of a command line for those options of a group that differ from their defaults.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Rows:
        ...     noise_rate: str = "0"
        ...     text: tuple[str, ...] | None = None
        >>> typed(Rows(noise_rate="0.1", text=("a", "b")))
        ['--noise-rate', '0.1', '--text', 'a', '--text', 'b']
    """
    words = []
    for field in fields(options):
        value = getattr(options, field.name)
        for each in value if isinstance(value, list | tuple) else [] if value == field.default else [value]:
            words += [f"--{field.name.replace('_', '-')}", *([] if each is True else [str(each)])]
    return words


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    """Return a keyword-only parameter. The option of a bool is a flag, without an opposite flag `--no-NAME`."""
    if get_origin(annotation) is Annotated and isinstance(help := annotation.__metadata__[0], str):
        flag = [f"--{name.replace('_', '-')}"] if annotation.__origin__ is bool else []
        annotation = Annotated[annotation.__origin__, typer.Option(*flag, help=help)]
    given = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=given, annotation=annotation)
