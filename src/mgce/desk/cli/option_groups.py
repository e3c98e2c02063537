"""Declare options once, as the fields of a dataclass, and let a command take all of them as one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

Result = TypeVar("Result")


def grouped(command: Callable[..., Result]) -> Callable[..., Result]:
    """Return a command with a parameter for each field of the dataclasses that are its parameters' types.

    Typer makes an option of each. All parameters are given by keyword.

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
    """Return the words that state the options of a group, on a command line, where they differ from their defaults.

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
    given = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=given, annotation=annotation)
