"""Define the options that several commands have: on tables, on wrong labels, and on networks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

import typer

from mgce._validation import check_count, expected
from mgce.desk.files.text_tables import TextFormat


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in a text that are separated by commas, without blanks around them."""
    return tuple(name.strip() for name in text.split(","))


TABLE = (
    "A table: .csv, .tsv, .txt, .xlsx, .jsonl (JSON lines), .parquet, .arrow or .feather, also with .gz; "
    "- for standard input."
)


@dataclass(frozen=True)
class Form(TextFormat):
    """The options on the format of a file with a table."""

    sep: Annotated[
        str | None, typer.Option(help=r"Character between two values, \t for tab [found in the first 1,000 lines].")
    ] = None
    decimal: Annotated[str, typer.Option(help="Decimal separator of numbers.")] = "."
    encoding: Annotated[str, typer.Option(help="Character encoding of a text file, such as latin-1.")] = "utf-8"
    sheet: Annotated[str | None, typer.Option(help="Sheet of an Excel file [the first].")] = None
    header: Annotated[
        int | None, typer.Option(help="Row with the names of the columns, from 1 [found: the first row below titles].")
    ] = None


Drop = Annotated[str | None, typer.Option(help="Columns that are no features, separated by commas.")]


Text = Annotated[list[str] | None, typer.Option(help="Column of text, if it is not recognised as text. Repeatable.")]
Category = Annotated[
    list[str] | None, typer.Option(help="Column of categories that is recognised as something else. Repeatable.")
]


def columns_of(drop: str | None) -> tuple[str, ...]:
    """Parse names of columns that are separated by commas."""
    return () if drop is None else parse_names(drop)


NOISE_RATE = (
    "Share of labels that are wrong: a lower bound with --noise-type symmetric, an upper bound with --noise-type any."
)
NOISE_TYPE = (
    "symmetric: a wrong label is any of the other classes, with equal probability. any: nothing is assumed about which "
    "labels are wrong."
)


def parse_rate(text: str) -> float:
    """Parse a noise rate."""
    try:
        return float(text)
    except ValueError:
        percent = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", text)
        question = f" Did you mean {float(percent[1]) / 100:g}?" if percent else ""
        raise ValueError(expected("noise_rate", "a number", text) + question) from None


Threads = Annotated[int | None, typer.Option(help="Threads of the network [all cores].")]
Device = Annotated[str, typer.Option(help="Where the network runs, such as cpu or cuda.")]


def use_threads(threads: int | None) -> None:
    """Let PyTorch compute on so many threads; None leaves their number as it is.

    Raises:
        ValueError: if there is not at least one thread.
    """
    if threads is not None:
        check_count("threads", threads, minimum=1)
        import torch  # here, since commands without a network do not wait for it

        torch.set_num_threads(threads)
