"""Write the texts on suspect rows, next steps, and checked rows, for the HTML report and the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType

from mgce._rounding import confidence_text, percent_up
from mgce._text import html_text
from mgce.pages.web_page import bullets, commands, figure, image, paragraph, shelf, table
from mgce.review.bounds import width_after
from mgce.review.decision_file import saved_as
from mgce.review.draws import HELD_OUT
from mgce.review.suspect_file import PICTURE
from mgce.tables.fit import FitPlan, TableFit
from mgce.tables.listing import probability_text

NO_PICTURES: Mapping[int, bytes] = MappingProxyType({})
WORST = 10  # rows with their cells on the first page: what fits on a screen
CELLS = 12  # columns of these rows: more are not read across; the file has all
LONGEST = 60  # characters of a cell there: a line of a phone, or half of one elsewhere
CHECKED = (50, 100, 200)  # numbers of checked rows whose bound is foretold: an hour's work, and twice and half of it


def suspect_cells(fit: TableFit, row: int) -> list[str]:
    """Return a row of the table of suspects: name, given label, suggested label, probability that the label is wrong.

    Args:
        fit: what :func:`mgce.tables.fit.run` returned.
        row: index of the row.
    """
    judgement, classes = fit.judgement, fit.model.classes
    given, suggested = (str(classes[labels[row]]) for labels in (judgement.target, judgement.suggested))
    return [fit.row_names.iloc[row], given, suggested, probability_text(float(judgement.wrong[row]))]


def suspect_head(fit: TableFit, plan: FitPlan) -> list[str]:
    """Return the column names for the cells of :func:`suspect_cells` and :func:`line_cells`."""
    return [plan.id or "row", "given", "suggested", "wrong", *(["line"] if fit.listing.lines is not None else [])]


def line_cells(fit: TableFit, row: int) -> list[str]:
    """Return a cell with the line number of a row in the file; no cell if the file has no lines."""
    return [] if fit.listing.lines is None else [str(fit.listing.lines[row])]


def worst_rows(fit: TableFit, plan: FitPlan, pictures: Mapping[int, bytes] = NO_PICTURES) -> str:
    """Return HTML with the rows whose labels are most suspect, with their pictures if there are any, and all cells."""
    worst = fit.judgement.suspects(WORST)
    if not worst.size:
        return paragraph(f"None: every label is the one the {fit.judge} would give.")
    cells = fit.listing.cells.drop(columns=PICTURE) if pictures else fit.listing.cells
    shown = list(cells.columns[:CELLS])
    more = f" {cells.shape[1] - CELLS} more columns are in the file of suspects." if cells.shape[1] > CELLS else ""
    lines = " Lines are those of a spreadsheet." if fit.listing.lines is not None else ""
    texts = cells[shown].astype(object).where(cells[shown].notna(), "").iloc[worst]
    rows = [
        [*suspect_cells(fit, row), *line_cells(fit, row), *map(_short, texts.iloc[place])]
        for place, row in enumerate(worst.tolist())
    ]
    seen = shelf(
        figure(image(pictures[row], f"picture of row {cells[0]}", "jpeg"), _caption(*cells[:3]))
        for row, cells in zip(worst.tolist(), rows, strict=True)
        if row in pictures
    )
    return seen + table(
        f"The {len(rows)} rows with the most suspect labels. Probabilities are rounded, as fits with other seeds move "
        f"them.{lines}{more}",
        [*suspect_head(fit, plan), *shown],
        rows,
        words=3,
    )


def next_steps(
    fit: TableFit,
    plan: FitPlan,
    table_file: str,
    model_file: str,
    reviewed: Sequence[str] = (),
    others: Mapping[str, str | None] | None = None,
) -> dict[str, str]:
    """Return sentences on what to do next, each with the command to type.

    Args:
        fit: what :func:`mgce.tables.fit.run` returned.
        plan: the settings of the fit.
        table_file: path of the table's file.
        model_file: path of the model's file.
        reviewed: the files of decisions that the fit has used.
        others: options of the command that are not in the plan, by name; None for those that were not given.
    """
    stem = str(Path(model_file).with_suffix(""))
    options = ["--target", plan.target]
    for field in fields(plan):
        value = getattr(plan, field.name)
        if field.name != "target" and value != field.default:
            for each in value if field.name in ("text", "category") else [value]:
                options += [_option(field.name), ",".join(each) if isinstance(each, tuple) else str(each)]
    written = {"--decimal": (fit.reading.decimal, ".")} if fit.reading else {}
    written |= {"--encoding": (fit.reading.encoding, "utf-8")} if fit.reading else {}
    given = {name: value for name, (value, default) in written.items() if value != default} | dict(others or {})
    options += [part for name, value in given.items() if value is not None for part in (name, value)]
    mended = f"{stem}.mended.csv"
    decisions = ",".join([*reviewed, saved_as(stem, fit.findings.n - fit.findings.skipped if fit.findings else 0)])
    again = ["mgce", "fit", table_file, *options, "--checked", decisions]
    if fit.consensus is None:  # several labels a row are no column that could be mended
        again += ["--mended", mended]
    return {
        "Check labels with the keyboard, on one page that works without a network, and save the decisions.": shlex.join(
            ["mgce", "review", f"{stem}.suspects.csv"]
        ),
        "Mend the table with the decisions, and fit a better model.": shlex.join(again),
        "Classify new rows.": shlex.join(["mgce", "predict", model_file, _new_rows(fit)]),
    }


def _new_rows(fit: TableFit) -> str:
    """Return what new rows may be called: a table, features or a folder of pictures."""
    if PICTURE in fit.listing.cells.columns and fit.model.columns.width:
        return "NEW-PICTURES"
    return "NEW.npz" if fit.model.columns.width else "NEW.csv"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def next_section(fit: TableFit, plan: FitPlan, steps: Mapping[str, str]) -> str:
    """Return HTML on what to do next, and on the bounds on errors that checking rows would yield."""
    foretold = widths(fit, plan)
    return commands(steps) + (paragraph(foretold) if foretold else "")


def widths(fit: TableFit, plan: FitPlan) -> str:
    """Return a sentence on how much checking more rows tightens the bounds; "" if rows are not independent draws."""
    if plan.groups is not None or plan.time is not None:
        return ""
    delta, error = fit.certificate.delta, 1 - fit.quality["accuracy"]
    points = [f"{100 * width_after(round(HELD_OUT * n), error, delta):.0f} points" for n in CHECKED]
    first, second, third = (f"{point} after {n}" for point, n in zip(points, CHECKED, strict=True))
    return (
        "If you check rows drawn at random, they bound the errors against right labels. The bound lies above the share "
        f"of errors that you find: by about {first} rows, {second}, {third}."
    )


def checked_sentences(fit: TableFit) -> list[str]:
    """Return sentences on what a review of labels changed, and on its bounds on errors; none without decisions."""
    found = fit.findings
    if found is None:
        return []
    sentences = [
        f"{found.n:,} rows were checked: {found.changed:,} labels mended, {found.dropped:,} rows dropped, "
        f"{found.skipped:,} skipped."
    ]
    sure = f"With confidence {confidence_text(1 - found.delta)}"
    error = found.error
    if error is not None:
        counted = f", as {error.unsettled:,} skipped or dropped ones count" if error.unsettled else ""
        sentences.append(
            f"Of {found.drawn:,} rows drawn at random, {error.n:,} were held out. The model of the training rows is "
            f"wrong on {error.errors:,} of them{counted}. {sure}, this model is wrong on at most "
            f"{percent_up(error.upper)} of rows drawn like these, if the decisions are right. The file holds the model "
            "of all rows, which this number is not about."
        )
    if found.left is not None:
        sentences.append(
            f"{sure}, at most {percent_up(found.left)} of the labels in the mended table are still wrong, if the "
            "decisions are right."
        )
    if found.left is not None:
        sentences.append("You may check more rows and look again: the bound on labels holds at all looks together.")
    if error is not None:
        sentences.append(
            "The bound on errors does so for one model. A model that is trained again with more decisions has a bound "
            "of its own."
        )
    return sentences


def checked_section(fit: TableFit) -> str:
    """Return HTML on what a review of labels changed, and on its bounds on errors."""
    return bullets(checked_sentences(fit))


def terminal_steps(steps: Mapping[str, str]) -> list[str]:
    """Return the lines for the terminal on what the user can do next."""
    return ["Do this next:", *(f"  {command}" for command in steps.values())]


def _caption(name: str, given: str, suggested: str) -> str:
    return html_text(f"{name}: {given}, or {suggested}?")


def _short(cell: object) -> str:
    """Return a cell as text, shortened if it is too long for a readable table."""
    text = str(cell)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
