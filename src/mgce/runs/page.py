"""The page of all tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mgce.pages import web_page
from mgce.runs.result import Result


def page(title: str, lead: str, results: Sequence[Result], facts: Mapping[str, str]) -> bytes:
    """Return the HTML page as UTF-8.

    Args:
        title: of the page.
        lead: its first sentences.
        results: tables and figures, in order.
        facts: settings of the runs and facts of the machines, by name.
    """
    sections = {result.title: section(result) for result in results}
    return web_page.document(title, lead, {**sections, "Runs": web_page.facts(facts)}, broad=True)


def section(result: Result) -> str:
    """Return the HTML of a table or figure: picture, table, notes."""
    image = "" if result.image is None else web_page.image(result.image, result.title)
    head = list(result.cells[0])
    rows = [list(row.values()) for row in result.cells]
    notes = web_page.bullets(result.notes.values()) if result.notes else ""
    return image + web_page.table(result.caption, head, rows, words=result.words) + notes
