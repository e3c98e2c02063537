"""Options that take several numbers."""

from __future__ import annotations

from mgce._validation import expected


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
