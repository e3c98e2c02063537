"""Compute keys that identify an example even after its file was sorted, edited or saved by another program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

DIGEST = 8  # bytes: among a million examples, two different ones share a hash with probability 3e-8
# A key begins with this letter, so that no spreadsheet takes its digits for a number.
PREFIX = "r"
DIGITS = 12  # significant digits of a number that count: spreadsheets keep 15, and round the last ones


def example_keys(examples: Iterable[Sequence[str]], labels: Sequence[str]) -> list[str]:
    """Return a key for each example: a hash of its content without the label; equal examples get a number appended.

    Equal examples are numbered by increasing label. So keys do not depend on the order of the examples. Only examples
    that also have equal labels may swap keys, and such examples are interchangeable.

    Args:
        examples: the content of each example, as texts; convert numbers with :func:`number_text`.
        labels: the label of each example, by which equal examples are numbered.

    Example:
        >>> example_keys([["1.5", "a"], ["2", "a"], ["1.5", "a"]], ["no", "no", "no"])
        ['r84164b8b6162e6ef', 'r81c435272e11e208', 'r84164b8b6162e6ef-2']
    """
    hashes = [_hash(example) for example in examples]
    keys = list(hashes)
    if len(set(hashes)) == len(hashes):
        return keys
    seen: Counter[str] = Counter()
    for place in sorted(range(len(hashes)), key=lambda place: (hashes[place], labels[place])):
        seen[hashes[place]] += 1
        number = seen[hashes[place]]
        keys[place] = hashes[place] if number == 1 else f"{hashes[place]}-{number}"
    return keys


def number_text(text: str) -> str:
    """Return a number in one standard form, however a program wrote it; of any other text, strip the blanks.

    Example:
        >>> [number_text(text) for text in ("1.50", "3", "0.1000000000000000055", " new ")]
        ['1.5', '3', '0.1', 'new']
    """
    try:
        return f"{float(text):.{DIGITS}g}"
    except ValueError:
        return text.strip().replace("\r\n", "\n")


def _hash(example: Sequence[str]) -> str:
    # Each text is preceded by its length, so that no two examples give the same bytes.
    content = "".join(f"{len(text)}:{text}" for text in example)
    return PREFIX + blake2b(content.encode("utf-8", "surrogatepass"), digest_size=DIGEST).hexdigest()
