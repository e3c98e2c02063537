"""`mgce review NAME.suspects.csv`: write an HTML page on which a person reviews suspect labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mgce._files import write_files
from mgce._messages import check_count, expected
from mgce.desk.cli.outputs import Quiet, check_outputs
from mgce.desk.cli.shared_options import grouped
from mgce.desk.cli.terminal import Terminal
from mgce.desk.review.decision_file import saved_as
from mgce.desk.review.sheet import (
    Beside,
    Shown,
    check_column,
    chosen,
    is_page_of_others,
    misspelt,
    open_suspects,
    read_pictures,
    sheet,
    small_pictures,
)
from mgce.desk.review.suspect_file import PICTURE, Suspect, read_suspects
from mgce.desk.tables.neighbours import neighbours

ENDING = ".suspects"


@dataclass(frozen=True)
class Asked:
    """The options on the rows of the page, and on what it shows of them."""

    most: Annotated[int, typer.Option("--suspects", help="Suspects to show, at most.")] = 5000
    random: Annotated[int, "Rows drawn at random from all rows, to mix in."] = 100
    image: Annotated[
        str | None,
        "Column with image files, relative to the folder of the file of suspects [the column "
        f"{PICTURE} of small pictures, which mgce fit writes for a folder].",
    ] = None
    text: Annotated[str | None, "Column whose text is shown large."] = None


@grouped
def review(
    *,
    suspects: Annotated[Path, typer.Argument(help="A file of suspects that `mgce fit` has written.")],
    asked: Asked,
    quiet: Quiet = False,
    out: Annotated[Path | None, "File for the page [NAME.review.html]."] = None,
) -> None:
    """Write an HTML page on which you review suspect labels with the keyboard.

    The page is one HTML file that needs no server and reaches no network. For each row, keep the label, choose the
    suggested or another class, drop the row, or skip it; every step can be undone. The browser keeps the decisions when
    it is closed, and the page saves them as NAME.decisions.csv for `mgce fit --checked`. Rows drawn at random are mixed
    in and not marked: they yield bounds on the errors of the model, and on the labels that are still wrong.
    """
    check_count("suspects", asked.most, minimum=0)
    check_count("random", asked.random, minimum=0)
    name = suspects.name.removesuffix(".csv").removesuffix(ENDING)
    check_outputs({"out": out or suspects.parent / f"{name}.review.html"}, [suspects])
    every = read_suspects(suspects)
    for option, column in (("image", asked.image), ("text", asked.text)):
        check_column(option, column, every)
    _check_drawn(every, asked.random)
    shown = chosen(every, asked.most, asked.random)
    if not shown:
        raise ValueError(expected("suspects", "a file with rows to review", "none that is not checked yet"))
    cells = [dict(one.suspect.cells) for one in shown]
    column = asked.image or PICTURE
    check_outputs({"out": out}, [suspects.parent / every[column] for every in cells if column in every])
    if asked.image is not None:
        pictures = read_pictures(shown, asked.image, suspects.parent)
    else:
        pictures = small_pictures(shown, suspects.parent)
    page, kept = _free_page(out, suspects.parent / f"{name}.review", shown)
    number = "" if out else page.stem.removeprefix(f"{name}.review")  # so that no decisions overwrite others
    decisions = saved_as(f"{name}{number}", sum(one.is_checked for one in every))
    near = neighbours(every, [one.suspect for one in shown], suspects.parent / f"{name}.features.npz")
    beside = Beside(asked.text, pictures, near, misspelt(every))
    write_files(page.parent, {page.name: sheet(shown, f"Labels of {name}", decisions, beside)})
    old = (
        f" {kept} is kept: if you have decided on rows there, open it too and save its decisions. `--checked` accepts "
        "several files, separated by commas."
    )
    counts = _counts(every, len(shown), asked.most, asked.random)
    Terminal(quiet=quiet).print(
        f"{len(shown):,} rows to review are in {page}: {counts}. Open it in a browser, and save the decisions as "
        f"{decisions}.{old if kept else ''}\nFor fewer rows, add --suspects N or --random N."
    )


def _check_drawn(every: Sequence[Suspect], random: int) -> None:
    """Raise an error if more rows were asked for than were drawn at random, as may happen for a table in chunks.

    If `random` is at least the number of all rows left to review, the page shows all of them, which is no error.
    """
    left = [one for one in every if not one.is_checked]
    drawn = sum(one.draw_probability > 0 for one in left)
    if any(one.draw_probability for one in every) and drawn < random < len(left):
        raise ValueError(expected("random", f"at most {drawn:,}, the rows left that were drawn at random", random))


def _counts(every: Sequence[Suspect], n: int, most: int, random: int) -> str:
    """Say how many of the n rows on a page are suspects, and how many were drawn at random; a row may be both."""
    open_rows = [one for one in every if not one.is_checked]
    suspects = min(most, len(open_suspects(every)))
    drawn = min(random, len(open_rows))
    both = suspects + drawn - n
    said = f"{suspects:,} suspects, whose label is not the likeliest, and {drawn:,} drawn at random" + (
        f", {both:,} of them suspects too" if both else ""
    )
    said += ", which are all that were not checked yet" if drawn < random else ""
    # More than the default were asked for.
    asked = most > Asked.most and suspects < min(most, len(open_rows))
    return said + ("; every other label is the likeliest of its row, so none of them is suspect" if asked else "")


def _free_page(out: Path | None, name: Path, shown: Sequence[Shown]) -> tuple[Path, Path | None]:
    """Return where to write a page of the rows `shown`, and the newest page of other rows that is kept, or None.

    A page of the same rows is overwritten: the browser finds its decisions again. A page of other rows is kept, since
    its decisions may not be saved yet.

    Raises:
        ValueError: if `out` is a page of other rows.
    """
    if out is not None:
        if is_page_of_others(out, shown):
            what = "the path of no other page of `mgce review`, whose decisions may not be saved yet"
            raise ValueError(expected("out", what, str(out)))
        return out, None
    page, kept, number = Path(f"{name}.html"), None, 1
    while is_page_of_others(page, shown):
        number += 1
        page, kept = Path(f"{name}-{number}.html"), page
    return page, kept
