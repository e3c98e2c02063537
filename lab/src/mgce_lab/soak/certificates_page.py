"""The measured part of docs/lab/certificates.md: tables of misses and of widths."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from scipy import stats

DOCS = Path(__file__).parents[4] / "docs"
START, END = "<!-- measured -->", "<!-- /measured -->"
RARE = 1e-3  # probability of so many misses of a valid bound, below which a cell is beyond
SHOWN = 0.05  # delta, of the figures on the page
LOOSE = 1.5  # times the true error: bounds above are on the page without another method too
STRENGTHS = (0.0, 0.5, 1.0)  # from noise by class alone to noise that grows with the model's uncertainty
BY_ROW = ("instance-rate", "instance-transition")  # kinds whose condition is false at every strength but 0


def write(record: dict[str, Any], kinds: dict[str, str]) -> None:
    """Write the tables of a record; `kinds` has a title for each kind."""
    # The record also keeps cells of kinds that are gone.
    drawn = {name: cell for name, cell in record.items() if cell["draws"] and name.split("/")[0] in kinds}
    found = [kind for kind in kinds if any(name.startswith(f"{kind}/") for name in drawn)]
    parts = [misses(drawn, kinds, found), broken(drawn, kinds), widths(drawn, kinds, found)]
    page = DOCS / "lab" / "certificates.md"
    before, rest = page.read_text().split(START)
    page.write_text(before + START + "\n\n" + "\n\n".join(parts) + "\n\n" + END + rest.split(END)[1])


def cells(record: dict[str, Any], kind: str) -> dict[tuple[int, int, float], Any]:
    """Return the cells of a kind of certificate, by numbers of classes k and rows n, and delta."""
    own = {name.split("/", 1)[1]: cell for name, cell in record.items() if name.startswith(f"{kind}/")}
    return {(int(k), int(n), float(d)): cell for key, cell in own.items() for k, n, d in [key.split("/")]}


def beyond(cell: dict[str, Any], delta: float) -> bool:
    """Return whether a cell has so many misses that a valid bound would have them once in a thousand runs at most."""
    return bool(cell["misses"] > allowed(cell, delta))


def allowed(cell: dict[str, Any], delta: float) -> float:
    """Return the number of misses above which a cell is beyond."""
    return float(stats.binom.ppf(1 - RARE, cell["draws"], delta))


def misses(record: dict[str, Any], kinds: dict[str, str], found: list[str]) -> str:
    """Return the table of misses in the worst cell of each kind."""
    lines = ["| kind | false |", "|---|---:|"]
    total = wrong = 0
    for kind in found:
        own = cells(record, kind)
        many = sum(beyond(cell, where[2]) for where, cell in own.items())
        total, wrong = total + len(own), wrong + many
        most = max(c["misses"] / c["draws"] for (_, _, delta), c in own.items() if delta == SHOWN)
        lines.append(f"| {kinds[kind]} | {most:.3f} |")
    draws = sum(cell["draws"] for cell in record.values())
    return f"{total} cells, {draws:,} draws; {wrong} cells beyond.\n\n" + "\n".join(lines)


def at(strength: float) -> str:
    """Return how noise of a strength is called in names of sums."""
    return f"at strength {strength:g}"


def shares_false(record: dict[str, Any], kind: str, strength: float) -> dict[tuple[int, int, float], float]:
    """Return the share of draws that print a conditional bound below the error, for each cell of a kind."""
    return {
        where: c["sums"][f"condition false {at(strength)}"] / c["draws"] for where, c in cells(record, kind).items()
    }


def broken(record: dict[str, Any], kinds: dict[str, str]) -> str:
    """Return the table of conditional bounds that are printed where their condition is false."""
    found = [(kind, strength) for kind in BY_ROW for strength in STRENGTHS[1:] if cells(record, kind)]
    shares = [shares_false(record, *one) for one in found]
    far = sum(
        share * cells(record, kind)[where]["draws"] > allowed(cells(record, kind)[where], where[2])
        for (kind, _), own in zip(found, shares, strict=True)
        for where, share in own.items()
    )
    lines = [
        f"Conditional bounds printed under noise by row: {far} of {sum(map(len, shares))} cells beyond. Misses in "
        "the worst cell:",
        "",
        "| kind | k | n = 50 | n = 200 | n = 2000 |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind, k in itertools.product(dict(found), sorted({k for own in shares for k, _, _ in own})[:2]):
        # The fewest classes, where most bounds are false.
        of_kind = [one for (name, _), own in zip(found, shares, strict=True) if name == kind for one in own.items()]
        worst = (max(share for (kk, n, _), share in of_kind if (kk, n) == (k, size)) for size in (50, 200, 2000))
        lines.append(f"| {kinds[kind].split(',')[0]} | {k} | {' | '.join(f'{share:.3f}' for share in worst)} |")
    return "\n".join(lines)


def widths(record: dict[str, Any], kinds: dict[str, str], found: list[str]) -> str:
    """Return mean bounds at k = 10, delta `SHOWN` and the largest n: the loosest, and those beside other methods."""
    lines = [
        "Mean bounds at `k = 10`, `delta = 0.05` and `n = 2000`; for sets, mean numbers of classes. The kinds are the "
        "loosest, and those with another method beside them. *Wrongly* marks a method whose assumption is false:",
        "",
        "| kind | true error | ours | others |",
        "|---|---:|---:|---|",
    ]
    for kind in [kind for kind in found if kind not in BY_ROW]:  # their bound is that of the last strength
        own = {n: cell for (k, n, delta), cell in cells(record, kind).items() if (k, delta) == (10, SHOWN)}
        if not own:
            continue
        cell = max(own.items())[1]
        mean = {name: value / cell["draws"] for name, value in cell["sums"].items()}
        truth, ours = mean.pop("truth"), mean.pop("bound")
        others = "; ".join(f"{name.replace('wrongly', '*wrongly*')} {value:.3f}" for name, value in mean.items())
        own_truth = "" if kind.startswith("sets") else f"{truth:.3f}"
        if others or (own_truth and ours > LOOSE * truth):
            lines.append(f"| {kinds[kind]} | {own_truth} | {ours:.3f} | {others} |")
    return "\n".join(lines)
