"""Read a person's decisions on labels, and check that they fit the rows of a table, in the same way in all commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from mgce._messages import NAMED, expected, listed, nearest
from mgce._text import printable
from mgce.desk.columns.spellings import respelt, spelling
from mgce.desk.review.keys import number_text
from mgce.desk.review.rows_of_csv import count_in, one_of, probability_in, rows_of_csv

COLUMNS = ("key", "row", "line", "given", "decision", "label", "shown_as", "draw", "draw_probability")
# The page writes two columns more: the label that it suggested, which older pages did not save, and a note of the
# person, which nothing reads, like any further column.
SUGGESTED, NOTE = "suggested", "note"
HEAD = (*COLUMNS, SUGGESTED, NOTE)
KEEP, SUGGESTION, OTHER, DROP, SKIP = "keep", "suggestion", "other", "drop", "skip"
DECISIONS = (KEEP, SUGGESTION, OTHER, DROP, SKIP)
# Where looks are asked for. Measured with 200 and 500 looks, at errors of 0.1 and 0.2; `tests/risk/test_looked_up.py`
# draws such worlds.
ON_LOOKS = (
    "Bounds assume that the decisions are right. Skip a row that you cannot tell: it counts as an error. Where 3 "
    "of 100 decisions wrongly agreed with the model, 28% to 72% of simulated bounds were false, instead of 5%. Where "
    "rows were left out because their label was wrong, nearly all were false."
)
SUSPECT, RANDOM = "suspect", "random"  # why an example was shown; of both reasons, the one that came first stands first
BOTH = " and "
SHOWN_AS = (SUSPECT, RANDOM, f"{SUSPECT}{BOTH}{RANDOM}", f"{RANDOM}{BOTH}{SUSPECT}")
WRITTEN_ANEW = "A spreadsheet that saves a file again may change labels, as 01 to 1. "


@dataclass(frozen=True)
class Decision:
    """The decision of a person about the label of one example.

    Attributes:
        key: key of the example: see :mod:`mgce.desk.review.keys`.
        given: the label before the review.
        decision: one of `DECISIONS`.
        label: the right label; "" if the example was dropped or skipped.
        is_random: whether the page showed the example as a row drawn at random, and not first as a suspect.
        draw: position of the example in a random order of all examples, from 1; None if unknown.
        draw_probability: probability with which the example is the first draw: see `mgce.desk.review.draws.Draws`.
        name: the name of the example in the id column, or its number; for errors.
        is_both: whether the example is one of the suspects of the page and also one of its rows drawn at random.
    """

    key: str
    given: str
    decision: str
    label: str
    is_random: bool = False
    draw: int | None = None
    draw_probability: float = 0.0
    name: str = field(default="", compare=False)
    is_both: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether the person stated the right label or dropped the example, instead of skipping it."""
        return self.decision != SKIP


def saved_as(name: str, checked: int) -> str:
    """Return the name of the decision file that a review page saves, given how many decisions were made before.

    Example:
        >>> saved_as("people", 0), saved_as("people", 120)
        ('people.decisions.csv', 'people.decisions-after-120.csv')
    """
    return f"{name}.decisions-after-{checked}.csv" if checked else f"{name}.decisions.csv"


def read_decisions(*paths: Path) -> tuple[list[Decision], int]:
    """Read files of decisions; return the last decision on each example, and how many earlier ones were replaced.

    Equal decisions on the same example count as one decision. Columns may stand in any order, beside others.

    Raises:
        FileNotFoundError: if there is no file at one of the paths.
        ValueError: if a file is damaged, is no file of decisions, or has two decisions on an example that differ.
    """
    found: dict[str, Decision] = {}
    replaced = 0
    for path in paths:
        for one in _decisions_in(path):
            replaced += _differ(found.get(one.key, one), one)
            found[one.key] = one
    return list(found.values()), replaced


def _decisions_in(path: Path) -> list[Decision]:
    head, *rows = rows_of_csv(path, "checked") or [[]]
    missing = [name for name in COLUMNS if name not in head]
    if missing:
        what = f"a file of decisions as the page of `mgce review` saves it, with the columns {', '.join(COLUMNS)}"
        raise ValueError(expected("checked", what, f"{path.name} without {', '.join(missing)}"))
    if not rows:
        raise ValueError(expected("checked", "a file with decisions", f"{path.name} without any"))
    found: dict[str, tuple[int, Decision]] = {}
    for line, row in enumerate(rows, 2):
        one = _decision(row, head, f"line {line} of {path.name}")
        first, before = found.setdefault(one.key, (line, one))
        if _differ(before, one):
            what = "a file with one decision on each row"
            raise ValueError(
                expected("checked", what, f"two on row {one.name} in lines {first} and {line} of {path.name}")
            )
    return [one for _, one in found.values()]


def _differ(one: Decision, other: Decision) -> bool:
    """Return whether two decisions on an example differ in the decision or in the label."""
    return (one.decision, one.label) != (other.decision, other.label)


def _decision(row: list[str], head: list[str], place: str) -> Decision:
    if len(row) != len(head):
        raise ValueError(expected("checked", f"a file of {len(head)} values in each line", f"{len(row)} in {place}"))
    cell = dict(zip(head, row, strict=True))
    place = f"{place}, row {cell['row']}"
    cell["decision"] = cell["decision"].strip().lower()
    decision, given, label = one_of(cell, "decision", DECISIONS, "checked", place), cell["given"], cell["label"]
    if (decision in (DROP, SKIP)) != (not label):
        got, action = ("no label", "Write the label there, or say skip")
        if label:
            got, action = repr(label), "Empty the label, or say other"
        what = "a file with a label for each decision but drop and skip"
        said = f"Expected `checked` to be {what}, but got {got} beside {decision} in {place}. {action}."
        raise ValueError(printable(said))
    _check_label(decision, label, given, cell.get(SUGGESTED), place)
    shown_as = one_of(cell, "shown_as", SHOWN_AS, "checked", place)
    drawn, probability = None, 0.0
    if cell["draw"]:
        number = count_in(cell, "draw", "checked", place)
        probability = probability_in(cell, "draw_probability", "checked", place)
        drawn = number if probability else None  # most rows of a table in chunks are in no random order
    why = shown_as.startswith(RANDOM), drawn, probability, cell["row"], BOTH in shown_as
    return Decision(cell["key"], given, decision, label, *why)


def _check_label(decision: str, label: str, given: str, suggested: str | None, place: str) -> None:
    """Raise an error if a label contradicts the decision on it: somebody has changed the label and not the decision."""
    what = ""
    if decision == KEEP and spelling(label) != spelling(given):
        what = f"a file where a kept label is the given one, {given!r}"
    elif decision == SUGGESTION and spelling(label) != spelling(suggested or label):
        what = f"a file where a suggestion that was taken is {suggested!r}"
    elif decision in (SUGGESTION, OTHER) and label == given:
        what = f"a file where a label that was changed is not the given one, {given!r}"
    if what:
        change = "Change labels on the page of `mgce review`, or say other in the column decision."
        raise ValueError(f"{expected('checked', what, f'{label} in {place}')} {change}")


def spelt_alike(decisions: Sequence[Decision], labels: Iterable[str]) -> list[Decision]:
    """Return decisions with their given and decided labels in the spelling of the known labels `labels`."""
    import pandas as pd

    known = {*labels}
    given, label = (
        respelt(pd.Series([getattr(one, name) for one in decisions], dtype=object), known).tolist()
        for name in ("given", "label")
    )
    return [replace(one, given=given[n], label=label[n]) for n, one in enumerate(decisions)]


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
    """Raise an error unless the row of each decision exists, and has the label that the decision is about.

    A row that a person decided to drop may be gone. The label of a row may already be the decided one.

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
