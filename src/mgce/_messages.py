"""Word the errors of arguments, and check numbers and choices. Imports no library, so that an error comes at once."""

from __future__ import annotations

import difflib
import math
import os
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from mgce._text import printable

NAMED = 3  # things that a sentence names: enough to look them up; it counts the others


def expected(name: str, what: str, got: object) -> str:
    """Return the error message "Expected NAME to be WHAT, but got GOT" in one line, even if a part has line breaks."""
    got = os.fspath(got) if isinstance(got, os.PathLike) else got
    said = got if isinstance(got, str) and got == "none" else repr(got)  # of nothing, nobody typed a word
    return printable(f"Expected `{name}` to be {what}, but got {said}.")


def not_installed(who: str, library: str, extra: str) -> str:
    """Return the error message for a missing library, with the command that installs an extra of this package.

    The package is not on PyPI, so the command must run in a checkout, as in docs/installation.md.

    Example:
        >>> not_installed("Bars need", "rich", "cli")
        "Bars need rich, which is not installed: in a checkout of mgce, run `pip install -c constraints.txt '.[cli]'`."
    """
    install = f"`pip install -c constraints.txt '.[{extra}]'`"
    return f"{who} {library}, which is not installed: in a checkout of mgce, run {install}."


def unknown_name(option: str, what: str, got: object, known: Iterable[object]) -> str:
    """Return the error message for an unknown name, with a list of known names and the most similar one.

    Args:
        option: the name of the argument.
        what: what the name should be, such as "a column of the table".
        got: the name that was passed.
        known: all known names.

    Example:
        >>> unknown_name("target", "a column of the table", "chruned", ["age", "churned"])
        "Expected `target` to be a column of the table (age, churned), but got 'chruned'. Did you mean 'churned'?"
    """
    names = [str(name) for name in known]
    return expected(option, f"{what} ({listed(names)})", got) + nearest(got, names)


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names separated by commas: at most the first `most`, and how many more there are.

    Twenty are enough to see which file was read, and few enough for a sentence.

    Example:
        >>> listed(["a", "b"]), listed([str(i) for i in range(100)])[-18:], listed(["a", "b", "c"], 2)
        ('a, b', '18, 19 and 80 more', 'a, b and 1 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def nearest(got: object, known: Iterable[object]) -> str:
    """Return a question with the known name that is most similar to `got`, after a blank; "" if none is similar.

    Upper and lower case, and blanks around a name, are ignored.

    Example:
        >>> nearest("Age ", ["age", "churned"])
        " Did you mean 'age'?"
    """
    plain: dict[str, str] = {}
    for name in map(str, known):
        plain.setdefault(name.strip().casefold(), name)
    # Comparing takes the product of the lengths, and what came may be long.
    found = difflib.get_close_matches(str(got)[:200].strip().casefold(), plain, n=1)
    return printable(f" Did you mean {plain[found[0]]!r}?") if found else ""


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Require `value` to be one of `choices`."""
    if value not in choices:
        sentence = expected(name, "one of " + ", ".join(map(repr, choices)), value)
        raise ValueError(sentence + (nearest(value, choices) if isinstance(value, str) else ""))


def check_count(name: str, value: object, minimum: int = 1) -> None:
    """Require `value` to be an integer of at least `minimum`."""
    what = f"an integer of at least {minimum}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(expected(name, what, value))
    if value < minimum:
        raise ValueError(expected(name, what, value))


def check_fraction(name: str, value: object) -> None:
    """Require `value` to be a real number in [0, 1]."""
    what = "a float in [0, 1]"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(expected(name, what, value))
    if not 0 <= value <= 1:  # type: ignore[operator]  # a Real compares with numbers
        raise ValueError(expected_share(name, what, value))


def expected_share(name: str, what: str, got: Any) -> str:
    """Return the error message for an invalid share; if the value looks like a percentage, suggest the share it means.

    Example:
        >>> expected_share("noise_rate", "in [0, 1)", 40)
        'Expected `noise_rate` to be in [0, 1), but got 40. Did you mean 0.4?'
    """
    return expected(name, what, got) + (f" Did you mean {float(got) / 100:g}?" if 1 < got < 100 else "")


def check_number(name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False) -> None:
    """Require `value` to be a finite number in [low, high], or in (low, high] if `above` is true.

    The message is formatted only on failure. So `torch.compile` can trace the comparison of a number that changes.
    """
    is_number = isinstance(value, Real) and not isinstance(value, (bool, Fraction))  # tensors take no fractions
    # An integer may be larger than any float. Other numbers are not compared with that: those of NumPy's would warn.
    finite = is_number and (abs(value) <= sys.float_info.max if isinstance(value, int) else abs(value) != math.inf)
    if finite and low <= value <= high and not (above and value == low):
        return
    left = "(" if above or low == -math.inf else "["
    what = f"a finite number in {left}{low:g}, {high:g}{')' if high == math.inf else ']'}"
    raise (ValueError if is_number else TypeError)(expected(name, what, value))
