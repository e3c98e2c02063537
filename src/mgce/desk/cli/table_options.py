"""Define the options of all commands that read tables: the format of a text file, and columns to leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from mgce.desk.cli.list_options import parse_names
from mgce.desk.files.text_tables import TextFormat

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


Drop = Annotated[str | None, typer.Option(help="Columns that are no features, separated by commas.")]


Text = Annotated[list[str] | None, typer.Option(help="Column of text, if it is not recognised as text. Repeatable.")]
Category = Annotated[
    list[str] | None, typer.Option(help="Column of categories that is recognised as something else. Repeatable.")
]


def columns_of(drop: str | None) -> tuple[str, ...]:
    """Parse names of columns that are separated by commas."""
    return () if drop is None else parse_names(drop)
