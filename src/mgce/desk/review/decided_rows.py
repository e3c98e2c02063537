"""Find the rows that decisions are about: every command that takes decisions refuses the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from mgce._text import printable
from mgce._validation import NAMED, expected, listed, nearest
from mgce.desk.review.decision_file import DROP, SKIP, Decision
from mgce.desk.review.keys import number_text

WRITTEN_ANEW = "A spreadsheet that saves a file again may change labels, as 01 to 1. "


def check_decided(
    decisions: Sequence[Decision],
    now: Mapping[str, str],
    place: str,
    remedy: str,
    *,
    why_lost: str = "",
    unmended: Set[str] = frozenset(),
    option: str = "checked",
) -> None:
    """Raise an error unless each decision is about a row that is there, and about the label that the row has.

    A row that a person decided to drop may be gone. A label may already be the one that was decided on.

    Args:
        decisions: the decisions, at most one for each row.
        now: the label of each row, by the key of the row.
        place: where the rows are, for the error.
        remedy: a sentence on what to do.
        why_lost: why a row may not be found, for the error.
        unmended: keys of rows whose label must be the one before the review.
        option: the name of the option that took the decisions, for the error.

    Raises:
        ValueError: if a row is not found, or its label is neither the reviewed label nor the decided one.
    """
    lost = [one.name for one in decisions if one.key not in now and one.decision != DROP]
    changed = [one for one in decisions if one.key in now and now[one.key] not in _may_be(one, unmended)]
    if not lost and not changed:
        return
    pairs = [f"{one.name}: {one.given} became {now[one.key]}" for one in changed]
    why = f": {why_lost}" if why_lost else ""
    parts = [
        *([f"{len(lost):,} on rows that are not found ({listed(lost, NAMED)}){why}"] if lost else []),
        *([f"{len(changed):,} on rows whose label was changed since ({listed(pairs, NAMED)})"] if changed else []),
    ]
    alike = any(number_text(one.given).casefold() == number_text(now[one.key]).casefold() for one in changed)
    what = (
        f"Expected `{option}` to be {len(decisions):,} decisions on rows of {place}, but got {', and '.join(parts)}. "
    )
    raise ValueError(printable(f"{what}{WRITTEN_ANEW if alike else ''}{remedy}"))


def check_classes(decisions: Iterable[Decision], classes: Iterable[str], place: str) -> None:
    """Raise an error if the label of a decision is none of the classes.

    Args:
        decisions: the decisions.
        classes: the classes.
        place: where the classes are from, for the error.

    Raises:
        ValueError: if a label is no class.
    """
    known = dict.fromkeys(classes)
    for one in decisions:
        if one.label and one.label not in known:
            what = f"decisions for the {len(known)} classes of {place} ({listed(list(known))})"
            got = expected("checked", what, f"{one.label} for row {one.name}")
            raise ValueError(got + nearest(one.label, known))


def _may_be(one: Decision, unmended: Set[str]) -> tuple[str, ...]:
    """Return the labels that the row of a decision may have."""
    if one.key in unmended or one.decision == SKIP:
        return (one.given,)
    return one.given, one.label  # none, of a row that was dropped
