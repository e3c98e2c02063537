"""Write the HTML page of all tables and figures of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mgce.desk.pages import web_page
from mgce_lab.engine.result import Result


def page(title: str, lead: str, results: Sequence[Result], facts: Mapping[str, str]) -> bytes:
    """Return the HTML page of tables and figures, encoded as UTF-8.

    Args:
        title: title of the page.
        lead: the first sentences of the page.
        results: tables and figures, in order.
        facts: settings of the runs and facts about the machines, by name.
    """
    sections = {result.title: section(result) for result in results}
    return web_page.document(title, lead, {**sections, "Runs": web_page.facts(facts)}, broad=True)


def section(result: Result) -> str:
    """Return the HTML of a result: its picture if it has one, its table and its notes."""
    image = "" if result.image is None else web_page.image(result.image, result.title)
    head = list(result.cells[0])
    rows = [list(row.values()) for row in result.cells]
    notes = web_page.bullets(result.notes.values()) if result.notes else ""
    return image + web_page.table(result.caption, head, rows, words=result.words) + notes
