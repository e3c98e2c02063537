"""Parse options whose value is a list of methods or numbers, separated by commas."""

from __future__ import annotations

from mgce._messages import expected
from mgce.desk.cli.shared_options import parse_names


def parse_methods(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of methods in a text, separated by commas; the text "all" means all known methods."""
    return known if text.strip() == "all" else parse_names(text)


def parse_numbers(name: str, text: str) -> tuple[float, ...]:
    """Return the numbers in a text that are separated by commas.

    Args:
        name: the name of the option, for the error.
        text: the value of the option.

    Raises:
        ValueError: if one of them is not a number.
    """
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise ValueError(expected(name, "numbers with commas between", text)) from None
