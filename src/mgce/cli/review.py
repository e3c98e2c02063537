"""`mgce review NAME.suspects.csv`: write an HTML page on which a person reviews suspect labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce._files import write_files
from mgce._validation import check_count, expected
from mgce.cli.outputs import Quiet, check_output
from mgce.cli.terminal import Terminal
from mgce.review.decision_file import saved_as
from mgce.review.sheet import check_column, chosen, read_pictures, sheet, small_pictures
from mgce.review.suspect_file import PICTURE, read_suspects

ENDING = ".suspects"


def review(
    suspects: Annotated[Path, typer.Argument(help="A file of suspects that `mgce fit` has written.")],
    most: Annotated[int, typer.Option("--suspects", help="Suspects to show, at most.")] = 5000,
    random: Annotated[int, typer.Option(help="Rows drawn at random from all rows, to mix in.")] = 100,
    image: Annotated[
        str | None,
        typer.Option(
            help="Column with image files, relative to the folder of the file of suspects [the column "
            f"{PICTURE} of small pictures, which mgce fit writes for a folder]."
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column whose text is shown large.")] = None,
    quiet: Quiet = False,
    out: Annotated[Path | None, typer.Option(help="File for the page [NAME.review.html].")] = None,
) -> None:
    """Write an HTML page on which you review suspect labels with the keyboard.

    The page is one HTML file that needs no server and reaches no network. For each row, keep the label, choose the
    suggested or another class, drop the row, or skip it; every step can be undone. The browser keeps the decisions when
    it is closed, and the page saves them as NAME.decisions.csv for `mgce fit --checked`. Rows drawn at random are mixed
    in and not marked: they yield bounds on the errors of the model, and on the labels that are still wrong.
    """
    check_count("suspects", most, minimum=0)
    check_count("random", random, minimum=0)
    name = suspects.name.removesuffix(".csv").removesuffix(ENDING)
    page = out or suspects.parent / f"{name}.review.html"
    check_output("out", page, suspects)
    every = read_suspects(suspects)
    for option, column in (("image", image), ("text", text)):
        check_column(option, column, every)
    shown = chosen(every, most, random)
    if not shown:
        raise ValueError(expected("suspects", "a file with rows to review", "none that is not checked yet"))
    if image is not None:
        pictures = read_pictures(shown, image, suspects.parent)
    else:
        pictures = small_pictures(shown, suspects.parent)
    decisions = saved_as(name, sum(one.is_checked for one in every))
    write_files(page.parent, {page.name: sheet(shown, f"Labels of {name}", decisions, text=text, pictures=pictures)})
    drawn = sum(one.is_random for one in shown)
    Terminal(quiet=quiet).print(
        f"{len(shown):,} rows to review, {drawn:,} of them drawn at random, are in {page}. Open it in a browser, and "
        f"save the decisions as {decisions}.",
        markup=False,
    )
