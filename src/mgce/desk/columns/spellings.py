"""Recognise spellings of one class: they differ in case, blanks, hyphens, width or final points alone."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mgce._messages import NAMED, listed

if TYPE_CHECKING:
    import pandas as pd

# Blanks, hyphens and the like between two letters. Two single letters stay apart, since A-B may be a range and AB a
# name of its own.
LETTER = r"[^\W\d_]"
BETWEEN_LETTERS = re.compile(
    rf"(?<={LETTER}{{2}})[ _\-\u2010\u2013]+(?={LETTER})|(?<={LETTER})[ _\-\u2010\u2013]+(?={LETTER}{{2}})"
)


def spelling(label: str) -> str:
    """Return a normal form of a label, which is equal for all spellings of one class.

    Example:
        >>> {spelling(label) for label in ("Approved", "approved ", "APPROVED.", "\uff21pproved")}
        {'approved'}
        >>> {spelling(label) for label in ("Retest", "re test", "Re-test")}, spelling("A-1") == spelling("A1")
        ({'retest'}, False)
    """
    shown = "".join(char for char in unicodedata.normalize("NFKC", label) if unicodedata.category(char) != "Cf")
    plain = " ".join(shown.split()).casefold()
    return BETWEEN_LETTERS.sub("", plain.rstrip(". …")) or plain


def joined(labels: pd.Series[Any]) -> dict[str, str]:
    """Return the main spelling for each label that differs from it: the most frequent one, without outer blanks.

    Example:
        >>> import pandas as pd
        >>> joined(pd.Series(["Yes", "yes ", "Yes", "no"]))
        {'yes ': 'Yes'}
    """
    counts = labels.value_counts()
    found = {}
    for same in _by(spelling, counts.index).values():
        if len(same) > 1:
            best = max(same, key=lambda label: (label == label.strip(), counts[label], -len(label)))
            found.update({label: best for label in same if label != best})
    return found


def respelt(labels: pd.Series[Any], known: Collection[str]) -> pd.Series[Any]:
    """Return labels in which an unknown label becomes the one known label that differs from it in spelling alone."""
    alike = _by(spelling, {*known})
    new = {label: alike.get(spelling(label), []) for label in {*labels.dropna().unique()}.difference(known)}
    changed = {label: found[0] for label, found in new.items() if len(found) == 1}
    return labels.replace(changed) if changed else labels


def on_joined(changed: Mapping[str, str], noun: str = "class") -> list[str]:
    """Return one sentence on the spellings that were joined, given the new spelling of each; none if there are none."""
    if not changed:
        return []
    of: dict[str, list[str]] = {}
    for label, best in changed.items():
        of.setdefault(best, []).append(label)
    classes = [f"{best!r} (also {listed([*map(_shown, others)], NAMED)})" for best, others in of.items()]
    nouns = noun if len(of) == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    said = f"{len(changed) + len(of):,} spellings are taken for {len(of):,} {nouns}: {listed(classes, NAMED)}."
    return [f"{said} --apart keeps them apart."]


def near(
    counts: Mapping[Any, int],
    decided: Mapping[Any, int] | None = None,
    listed: Collection[Any] = (),
    noun: str = "class",
) -> Iterator[str]:
    """Yield a question for each rare class spelt nearly like a frequent one, unless a person decided all its rows.

    Args:
        counts: the number of rows of each class.
        decided: the number of rows of each class that a person has decided on.
        listed: the classes whose rows a review shows; classes of one row are not learnt from, and so not shown.
        noun: what to call a class.
    """
    for label, other in near_pairs(counts):
        n = counts[label]
        if (decided or {}).get(label, 0) < n:
            rows, of = f"{n:,} row{'s' * (n != 1)}", f"{_shown(other)} ({counts[other]:,})"
            how = (
                "The page of `mgce review` joins them."
                if label in listed
                else "If so, write both alike, and fit again before you review."
            )
            yield f"Is {_shown(label)} ({rows}) the {noun} {of}? {how}"


class Misspelt(NamedTuple):
    """The limits within which the name of a rare class may be a typing error for that of a frequent class.

    Attributes:
        share: most rows of the rare class, as a share of the rows of the frequent class.
        letters: fewest letters of both names: shorter words, such as cat and car, may differ in one letter.
        similarity: least similarity of the names by `difflib`, which lets a letter or two of ten differ.
    """

    share: float = 0.1
    letters: int = 5
    similarity: float = 0.85


MISSPELT = Misspelt()


def near_pairs(counts: Mapping[Any, int]) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of a rare class and the frequent class that is spelt nearly like the rare one.

    Args:
        counts: the number of rows of each class.
    """
    most = max(counts.values(), default=0)
    often = [label for label, n in counts.items() if len(label) >= MISSPELT.letters]
    for label, n in counts.items():
        if n > MISSPELT.share * most or len(label) < MISSPELT.letters:
            continue
        others = [one for one in often if counts[one] * MISSPELT.share >= n and _digits(one) == _digits(label)]
        for other in difflib.get_close_matches(label, others, n=1, cutoff=MISSPELT.similarity):
            yield label, other


def alike(values: pd.Series[Any], noun: str) -> Iterator[str]:
    """Yield a question for each set of classes or categories that are one number or differ in spelling alone."""
    same = _by(lambda label: _number(label) or spelling(label), {*values.dropna().tolist()})
    for labels in same.values():
        if len(labels) > 1:
            how = "are one number" if _number(labels[0]) else "differ in case, blanks, hyphens or points only"
            yield f"The {noun} {', '.join(map(_shown, labels))} {how}. Are they one?"


def _by(key: Callable[[str], Any], labels: Iterable[str]) -> dict[Any, list[str]]:
    """Return lists of labels with the same key, sorted, by this key."""
    found = defaultdict(list)
    for label in sorted(labels):
        found[key(label)].append(label)
    return found


def _number(label: str) -> tuple[float] | None:
    """Return the number that a label states, in a tuple, since a bare 0 is false; None if the label is no number."""
    whole = re.fullmatch(r"\s*[-+]?\d{1,15}(?:\.\d*)?\s*", label)
    return (float(label),) if whole else None


def _digits(label: str) -> str:
    return "".join(filter(str.isdigit, label))


def _shown(label: str) -> str:
    """Return a label in quotes; if it has characters that cannot be seen, those outside ASCII are escaped too."""
    return repr(label) if label.isprintable() else ascii(label)
