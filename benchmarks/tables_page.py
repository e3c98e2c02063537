"""The results of `mgce fit` beside other methods as a page: `python -m benchmarks.tables_page`."""

from __future__ import annotations

from pathlib import Path

RESULTS, PAGE = Path("results/tables/results.jsonl"), Path("docs/tables.md")
TABLES = (
    *("digits", "breast_cancer", "segment", "pendigits", "spambase"),
    *("magic", "nursery", "letter", "adult", "covertype_sample"),
)


def main() -> None:
    """Write the page."""
