"""What pages have in common: tables in Markdown, and the line that names the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is aligned to the left and all others to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_between(page: Path, begin: str, text: str, end: str) -> None:
    """Replace what a page has between two lines, which are kept."""
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}")


def machine_line(machine: dict[str, str]) -> str:
    """Say on which machine, and with which software, it was measured."""
    names = ("processor", "threads", "torch", "kernel", "numba", "python", "mgce")
    line = "Measured on: `" + ", ".join(f"{name} {machine[name]}" for name in names if name in machine) + "`."
    # Results that name a version of numba were measured while the CPU kernel was compiled by it; now it is C++.
    return line if "numba" not in machine else line + " These figures are of an earlier CPU kernel, compiled by numba."
