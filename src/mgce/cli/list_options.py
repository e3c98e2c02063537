"""Options that take several names or numbers."""

from __future__ import annotations

from mgce._validation import expected


def parse_names(text: str) -> tuple[str, ...]:
    """Read names with commas between, and blanks around them or not."""
    return tuple(name.strip() for name in text.split(","))


def parse_methods(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Read names of methods; `all` stands for all known ones."""
    return known if text.strip() == "all" else parse_names(text)


def parse_numbers(name: str, text: str) -> tuple[float, ...]:
    """Read numbers with commas between.

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
