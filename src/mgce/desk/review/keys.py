"""Compute keys that identify an example even after its file was sorted, edited or saved by another program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from hashlib import blake2b

# A key begins with this letter, so that no spreadsheet takes its digits for a number.
PREFIX = "r"
# Significant digits that count of a number with decimals: spreadsheets keep 15, and round the last ones. Of a whole
# number all digits count, since it may be a name: ids of 19 digits may differ in the last digit alone.
DIGITS = 12


def example_keys(
    examples: Iterable[str],
    labels: Sequence[str],
    exact: Callable[[list[int]], list[str]] | None = None,
) -> list[str]:
    """Return a key for each example: a hash of its content without the label; equal examples get a number appended.

    Equal examples are numbered by increasing label. So keys do not depend on the order of the examples. Only examples
    that also have equal labels may swap keys, and such examples are interchangeable. Examples that are equal in
    standard form alone get keys from their exact content.

    Args:
        examples: the content of each example, as :func:`packed` joins it, of texts in the standard form of
            :func:`number_text`.
        labels: the label of each example, by which equal examples are numbered.
        exact: a function that returns the exact content of the examples at some places; None if the content is exact.

    Example:
        >>> example_keys([packed("1.5", "a"), packed("2", "a"), packed("1.5", "a")], ["no", "no", "no"])
        ['r84164b8b6162e6ef', 'r81c435272e11e208', 'r84164b8b6162e6ef-2']
    """
    hashes = [_hash(example) for example in examples]
    equal = defaultdict(list)
    for place, key in enumerate(hashes):
        equal[key].append(place)
    shared = [place for places in equal.values() if len(places) > 1 for place in places]
    if exact is not None and shared:
        own = dict(zip(shared, (_hash(content, b"exact") for content in exact(shared)), strict=True))
        for places in equal.values():
            if len({own.get(place) for place in places}) > 1:
                for place in places:
                    hashes[place] = own[place]
    keys = list(hashes)
    seen: Counter[str] = Counter()
    for place in sorted(shared, key=lambda place: (hashes[place], labels[place])):
        seen[hashes[place]] += 1
        number = seen[hashes[place]]
        keys[place] = hashes[place] if number == 1 else f"{hashes[place]}-{number}"
    return keys


def packed(*texts: str) -> str:
    """Join texts, each behind its length, so that no two lists of texts become the same.

    Example:
        >>> packed("a", "bc"), packed("ab", "c")
        ('1:a2:bc', '2:ab1:c')
    """
    return "".join([f"{len(text)}:{text}" for text in texts])


def number_text(text: str) -> str:
    """Return a number in one standard form, however a program wrote it; return any other text without outer blanks.

    Example:
        >>> [number_text(text) for text in ("1.50", "3", "0.1000000000000000055", "1234567890123456789", " new ")]
        ['1.5', '3', '0.1', '1234567890123456789', 'new']
    """
    try:
        value = float(text)
    except ValueError:
        return text.strip().replace("\r\n", "\n")
    if is_long(value):
        exact = Decimal(text)
        return str(int(exact if exact == exact.to_integral_value() else value))
    return f"{value:.{DIGITS}g}"


def is_long(value: float) -> bool:
    """Return whether a number is whole and may have more than `DIGITS` digits.

    Example:
        >>> [is_long(value) for value in (1e15, 1e15 + 0.5, 12.0, float("inf"))]
        [True, False, False, False]
    """
    return abs(value) >= 10**DIGITS and value.is_integer()


def _hash(content: str, salt: bytes = b"") -> str:
    # Of 8 bytes: among a million examples, two different ones share a hash with probability 3e-8.
    return PREFIX + blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).hexdigest()
