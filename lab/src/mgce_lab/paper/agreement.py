"""Test whether our numbers agree with the paper's, and write a sentence about each number that does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mgce_lab.engine.significance import LEVEL, Difference, Summary, difference_of_means
from mgce_lab.engine.summary import show

PAPER_SEEDS = 5  # "all the experiments are conducted for five times with randomization", section 5.1
# In points: about what separates the methods of the tables from one another. A test whose interval is wider finds no
# difference of that size, and so no agreement either.
MARGIN = 2.0


@dataclass(frozen=True)
class Verdict:
    """The result of testing one of our numbers against the paper's.

    Attributes:
        kind: "agrees", "differs", or "too wide" if the test finds no difference but cannot exclude a large one.
        sentence: a sentence with both numbers, if they do not agree; else "".
    """

    kind: str
    sentence: str = ""


def judge(what: str, ours: Summary | None, paper: Sequence[float] | None) -> Verdict | None:
    """Compare our number with the paper's mean and standard deviation of five seeds; None if one is missing."""
    if ours is None or paper is None:
        return None
    found = difference_of_means(ours, Summary(paper[0], paper[1], PAPER_SEEDS))
    values = f"{what}: {show(ours)} against {show(paper)}"
    if found.p < LEVEL:
        side = "above" if found.value > 0 else "below"
        return Verdict("differs", f"{values}, {side} the paper ({show_p(found)}).")
    if max(-found.low, found.high) > MARGIN:
        interval = f"from {found.low:+.1f} to {found.high:+.1f} points"
        return Verdict("too wide", f"{values}, not told apart ({show_p(found)}), but the difference may be {interval}.")
    return Verdict("agrees")


def show_p(found: Difference) -> str:
    """Return a p-value as text, for example `p = 0.021`."""
    return f"p = {found.p:.2g}" if found.p >= 0.001 else "p < 0.001"


def notes_of(verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    """Return the sentences about numbers that do not agree with the paper's, by key."""
    return {key: verdict.sentence for key, verdict in verdicts.items() if verdict.sentence}


def agreement(verdicts: Mapping[str, Verdict]) -> str:
    """Return a sentence that says how many of our numbers agree with the paper's; "" if there are none."""
    kinds = [verdict.kind for verdict in verdicts.values()]
    if not kinds:
        return ""
    wide = kinds.count("too wide")
    rest = f", {wide} {'is' if wide == 1 else 'are'} too uncertain to say" if wide else ""
    return (
        f"{kinds.count('agrees')} of {len(kinds)} numbers agree with the paper's, {kinds.count('differs')} differ{rest}"
    )
