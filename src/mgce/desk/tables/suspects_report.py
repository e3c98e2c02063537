"""Write the texts on suspect rows, next steps, and checked rows, for the HTML report and the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mgce._rounding import confidence_text, percent_down, percent_up, share_text
from mgce._text import html_text
from mgce.desk.files.table_files import is_table
from mgce.desk.pages.web_page import bullets, commands, figure, image, paragraph, shelf, table
from mgce.desk.review.bounds import MORE, without_label
from mgce.desk.review.decision_file import saved_as
from mgce.desk.review.draws import HELD_OUT, share_range
from mgce.desk.review.suspect_file import PICTURE
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.listing import probability_text
from mgce.risk.looks import foretold_widths

NO_PICTURES: Mapping[int, bytes] = MappingProxyType({})
WORST = 10  # rows with their cells on the first page: what fits on a screen
CELLS = 12  # columns of these rows: more are not read across; the file has all
FEW_LOOKS = "mgce clean says which labels to look up until few can be wrong."
LONGEST = 60  # characters of a cell there: a line of a phone, or half of one elsewhere


def suspect_cells(fit: TableFit, row: int) -> list[str]:
    """Return a row of the table of suspects: name, given label, suggested label, probability that the label is wrong.

    Last is the number of the row's line in the file, if the file has lines.

    Args:
        fit: what :func:`mgce.desk.tables.fit.run` returned.
        row: index of the row.
    """
    judged = fit.judgement
    given, suggested = (str(labels[row]) for labels in (judged.given, judged.suggested))
    line = [] if fit.listing.lines is None else [str(fit.listing.lines[row])]
    return [fit.row_names.iloc[row], given, suggested, probability_text(float(judged.wrong[row])), *line]


def suspect_head(fit: TableFit) -> list[str]:
    """Return the column names for the cells of :func:`suspect_cells`."""
    return [fit.plan.id or "row", "given", "suggested", "wrong", *(["line"] if fit.listing.lines is not None else [])]


def worst_rows(fit: TableFit, pictures: Mapping[int, bytes] = NO_PICTURES) -> str:
    """Return HTML with the most suspect rows: their pictures, if there are any, and their first `CELLS` cells."""
    worst = fit.judgement.suspects(WORST)
    if not worst.size:
        return paragraph("None: every label is the most probable class of its row.")
    cells = fit.listing.cells.drop(columns=PICTURE) if pictures else fit.listing.cells
    shown = list(cells.columns[:CELLS])
    more = f" {cells.shape[1] - CELLS} more columns are in the file of suspects." if cells.shape[1] > CELLS else ""
    lines = " Lines are those of a spreadsheet." if fit.listing.lines is not None else ""
    texts = cells[shown].astype(object).where(cells[shown].notna(), "").iloc[worst]
    rows = [[*suspect_cells(fit, row), *map(_short, texts.iloc[n])] for n, row in enumerate(worst.tolist())]
    seen = shelf(
        figure(image(pictures[row], f"picture of row {cells[0]}", "jpeg"), _caption(*cells[:3]))
        for row, cells in zip(worst.tolist(), rows, strict=True)
        if row in pictures
    )
    return seen + table(
        f"The {len(rows)} rows with the most suspect labels. Probabilities are rounded, as fits with other seeds move "
        f"them.{lines}{more}",
        [*suspect_head(fit), *shown],
        rows,
        words=3,
    )


def next_steps(
    fit: TableFit,
    table_file: str,
    model_file: str,
    reviewed: Sequence[str] = (),
    options: Sequence[str] | None = None,
) -> dict[str, str]:
    """Return sentences on what to do next, each with the command to type.

    Args:
        fit: what :func:`mgce.desk.tables.fit.run` returned.
        table_file: path of the table's file.
        model_file: path of the model's file.
        reviewed: the files of decisions that the fit has used.
        options: the options of the `mgce fit` command, as they were typed; None for the target alone.
    """
    stem = str(Path(model_file).with_suffix(""))
    options = ["--target", fit.plan.target] if options is None else options
    own = Path(table_file).suffix.lower()
    mended = f"{stem}.mended{own if own in ('.xlsx', '.xlsm', '.tsv', '.txt') else '.csv'}"
    decisions = ",".join([*reviewed, saved_as(stem, fit.findings.n - fit.findings.skipped if fit.findings else 0)])
    again = ["mgce", "fit", table_file, *options, "--checked", decisions]
    if fit.consensus is None:  # several labels a row are no column that could be mended
        again += ["--mended", mended]
    clean = {"Prove that few labels are still wrong.": shlex.join(["mgce", "clean", f"{stem}.suspects.csv"])}
    return {
        "Check labels with the keyboard, on one page that works without a network, and save the decisions.": shlex.join(
            ["mgce", "review", f"{stem}.suspects.csv"]
        ),
        "Mend the table with the decisions, and fit a better model.": shlex.join(again),
        **(clean if fit.findings else {}),
        "Classify new rows.": shlex.join(["mgce", "predict", model_file, _new_rows(fit, own)]),
    }


def _new_rows(fit: TableFit, suffix: str) -> str:
    """Return a placeholder for new rows in a command: a table with this suffix, a file of features or a folder."""
    if PICTURE in fit.listing.cells.columns and fit.model.columns.width:
        return "NEW-PICTURES"
    return "NEW.npz" if fit.model.columns.width else f"NEW{suffix if is_table(Path('NEW' + suffix)) else '.csv'}"


def next_section(fit: TableFit, steps: Mapping[str, str]) -> str:
    """Return HTML on what to do next, and on the bounds on errors that checking rows would yield."""
    foretold = widths(fit)
    return commands(steps) + paragraph(when_to_stop(fit)) + (paragraph(foretold) if foretold else "")


def when_to_stop(fit: TableFit) -> str:
    """Return sentences on how many suspects are worth a check, without a promise about the other labels."""
    n, (asked, others) = fit.n_asked, fit.counts.expected
    bounds = "mgce clean bounds the share of labels that are still wrong."
    if fit.findings is not None and fit.findings.about is not None:  # how many are left is said above
        return f"Look at the first rows before you change many; {bounds}"
    if not n:
        return (
            f"No label is more likely wrong than right, by an estimate that expects {others:.0f} of them to be wrong. "
            f"It is often too low. Rows drawn at random show whether many are left, and {bounds}"
        )
    labels = "1 label is" if n == 1 else f"{n:,} labels are"
    return (
        f"{labels} more likely wrong than right, by an estimate that expects {asked:.0f} of them to be wrong, "
        f"and {others:.0f} of the others. Where classes overlap it may be none. Look at the first "
        f"rows before you change many; {bounds}"
    )


def widths(fit: TableFit) -> str:
    """Return a sentence on how much checking more rows tightens the bounds; "" for dependent or too few rows."""
    if fit.plan.groups is not None or fit.plan.time is not None:
        return ""
    checked = None if fit.findings is None else fit.findings.error
    if checked is None:
        delta, error = fit.certificate.delta, 1 - fit.quality["accuracy"]
        looks = [round(HELD_OUT * n) for n in MORE]
        above = foretold_widths(error, looks[-1], delta)[np.array(looks) - 1].tolist()
    else:
        above = [upper - checked.errors / checked.n for upper in checked.after]
    points = [f"{100 * width:.0f} points after {n}" for n, width in zip(MORE, above, strict=False)]
    if not points:
        return ""
    return (
        "If you check rows drawn at random, they bound the errors against right labels. The bound lies above the share "
        f"of errors that you find: by about {', '.join(points)} {'rows' if checked is None else 'more rows'}."
    )


def right_on_checked(fit: TableFit) -> str:
    """Return sentences on the accuracy against right labels of checked rows; "" if no row held out was checked."""
    found = fit.findings
    if found is None or found.error is None:
        return ""
    error = found.error
    right = error.n - error.errors
    measured = (
        f"The model is right on {share_text(right, error.n, 'checked rows')} that it had not seen, of "
        f"{max(error.n, found.drawn):,} drawn at random.{without_label(error.unsettled)}"
    )
    if error.upper >= 1:
        return f"{measured} These rows do not suffice for a bound."
    return (
        f"{measured} With confidence {confidence_text(1 - error.delta)}, it is wrong on at most "
        f"{percent_up(error.upper)} of rows drawn like these, if the decisions are right."
    )


def checked_sentences(fit: TableFit) -> list[str]:
    """Return sentences on what a review of labels changed; return none if there are no decisions."""
    found = fit.findings
    if found is None:
        return []
    kept = " Skipped rows keep their given label." if found.skipped else ""
    gone = " Dropped rows are left out." if found.dropped else ""
    sentences = [
        f"{found.n:,} rows were checked: {found.changed:,} with a label mended, {found.dropped:,} dropped, "
        f"{found.skipped:,} skipped.{gone}{kept}"
    ]
    if found.drawn and not found.note:
        lower, upper = share_range(found.wrong, found.drawn, found.delta)
        sentences.append(
            f"Of the rows drawn at random, {share_text(found.wrong, found.drawn)} were wrong, dropped or "
            f"skipped. With confidence {confidence_text(1 - found.delta)}, so were {percent_down(lower)} to "
            f"{percent_up(upper)} of all labels before the review, if the decisions are right."
        )
    if found.error is not None:
        sentences.append("If you decide on more rows and fit again, the new model has a bound of its own.")
    return sentences


def checked_section(fit: TableFit) -> str:
    """Return HTML on what a review of labels changed, and on the labels that figures compare with."""
    others = f"All other accuracies, bounds and calibration errors compare with {fit.given_label}."
    return bullets(filter(None, [right_on_checked(fit), others, *checked_sentences(fit)]))


def _caption(name: str, given: str, suggested: str) -> str:
    return html_text(f"{name}: {given}, or {suggested}?")


def _short(cell: object) -> str:
    """Return a cell as text, shortened if it is too long for a readable table."""
    text = str(cell).removesuffix(" 00:00:00") if isinstance(cell, datetime) else str(cell)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
