"""Options that take several numbers."""

from __future__ import annotations

from mgce._validation import expected


def parse_numbers(name: str, text: str) -> tuple[float, ...]:
    """Read numbers with commas between.

    Raises:
        ValueError: if one is no number; it names the option and the text.
    """
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise ValueError(expected(name, "numbers with commas between", text)) from None
