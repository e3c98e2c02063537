"""Files as offices have them: the same small table, kept in thirty ways."""

import csv
import datetime as dt
import gzip
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
from openpyxl import Workbook
from openpyxl.comments import Comment

NAMES = ["No", "Date", "Branch", "Amount", "Days", "Remark", "Outcome"]
N = 60
SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"


def table(seed: int = 0) -> pd.DataFrame:
    """Return the table; one label in eight is wrong."""
    rng = np.random.default_rng(seed)
    amount, days = rng.gamma(2, 300, N).round(2), rng.integers(1, 60, N)
    right = np.where(amount > 550, "Rejected", "Approved")
    wrong = rng.random(N) < 1 / 8
    return pd.DataFrame(
        {
            "No": range(1001, 1001 + N),
            "Date": [dt.datetime(2024, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 300, N)],
            "Branch": rng.choice(["Leeds", "York", "K\u00f6ln"], N),
            "Amount": amount,
            "Days": days,
            "Remark": rng.choice(["", "called twice", "see file"], N),
            "Outcome": np.where(wrong, np.where(right == "Approved", "Rejected", "Approved"), right),
        }
    )


@dataclass(frozen=True)
class Office:
    """A file: its content, the options that it needs, and how its labels are typed."""

    suffix: str
    content: bytes
    options: dict[str, str] = field(default_factory=dict)


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with its classes typed in four ways."""
    ways = [str, str.lower, lambda label: f"{label} ", lambda label: f"{label.upper()}."]
    return frame.assign(Outcome=[ways[row % 4](label) for row, label in enumerate(frame["Outcome"])])


def text(
    frame: pd.DataFrame,
    sep: str = ",",
    end: str = "\n",
    encoding: str = "utf-8",
    above: str = "",
    below: str = "",
    quoting: int = csv.QUOTE_MINIMAL,
) -> bytes:
    """Return a text file."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=sep, lineterminator=end, quoting=quoting)
    writer.writerow(frame.columns)
    for row in frame.assign(Date=frame["Date"].dt.strftime("%Y-%m-%d")).itertuples(index=False):
        writer.writerow(row)
    return (above + out.getvalue() + below).encode(encoding)


def book(
    frame: pd.DataFrame,
    above: tuple[list[object], ...] = (),
    below: tuple[list[object], ...] = (),
    left: int = 0,
    change: Callable[[Workbook], None] | None = None,
) -> bytes:
    """Return an Excel file."""
    made = Workbook()
    sheet = made.active
    sheet.title = "Claims"
    for row in (*above, list(frame.columns), *frame.astype(object).to_numpy().tolist(), *below):
        sheet.append([None] * left + [None if cell == "" else cell for cell in row])
    if change is not None:
        change(made)
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def sheets(made: Workbook) -> None:
    """Add further sheets, one of them in front."""
    made.create_sheet("Read me", 0)["A1"] = "The second sheet has the claims."
    made.create_sheet("Sums")["A1"] = "=SUM(Claims!D2:D61)"


def formats(made: Workbook) -> None:
    """Set formats, comments, colours and widths of cells, and hide some."""
    sheet = made["Claims"]
    for row in range(2, N + 2):
        sheet.cell(row, 2).number_format = "DD/MM/YYYY"
        sheet.cell(row, 4).number_format = '"\u20ac"#,##0.00'
    sheet["G5"].comment = Comment("ask Bob", "Ann")
    sheet.column_dimensions["F"].hidden = True
    sheet.row_dimensions[7].hidden = True
    sheet.auto_filter.ref = f"A1:G{N + 1}"
    sheet.freeze_panes = "A2"


def merged(made: Workbook) -> None:
    """Merge a title over the columns."""
    made["Claims"].merge_cells("A1:G1")


def branches(made: Workbook) -> None:
    """Merge the cells of rows of one branch."""
    sheet = made["Claims"]
    for row in range(2, N, 2):
        if sheet.cell(row, 3).value == sheet.cell(row + 1, 3).value:
            sheet.merge_cells(start_row=row, end_row=row + 1, start_column=3, end_column=3)


def shared(content: bytes) -> bytes:
    """Return a workbook with its texts in a part of their own, as Excel writes them."""
    texts: list[str] = []

    def number(found: re.Match[str]) -> str:
        texts.append(found[1])
        return f't="s"><v>{len(texts) - 1}</v>'

    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(content)) as given, ZipFile(buffer, "w", ZIP_DEFLATED) as written:
        for name in given.namelist():
            part = given.read(name).decode()
            if name.startswith("xl/worksheets/sheet"):
                part = re.sub(r't="inlineStr"><is>(<t[^>]*>.*?</t>)</is>', number, part)
            elif name == "xl/_rels/workbook.xml.rels":
                part = part.replace(
                    "</Relationships>",
                    f'<Relationship Id="texts" Type="{KIND}" Target="sharedStrings.xml"/></Relationships>',
                )
            written.writestr(name, part)
        written.writestr(
            "xl/sharedStrings.xml", f'<sst xmlns="{SPREADSHEET}">{"".join(f"<si>{one}</si>" for one in texts)}</sst>'
        )
    return buffer.getvalue()


def offices(seed: int = 0) -> dict[str, Office]:
    """Return the files by the way in which they keep the table."""
    frame = table(seed)
    ways = typed(frame)
    total = f"Total,,,{frame['Amount'].sum():.2f},{frame['Days'].sum()},,\n"
    groups = [["Claim", None, None, "Money", "Handling", None, None]]
    csvs: dict[str, tuple[bytes, dict[str, str]]] = {
        "commas": (text(frame), {}),
        "semicolons": (text(frame, ";", "\r\n"), {}),
        "byte order mark": (text(frame, ";", "\r\n", "utf-8-sig"), {}),
        "utf-16": (text(frame, "\t", "\r\n", "utf-16"), {"encoding": "utf-16"}),
        "latin-1": (text(frame, ";", encoding="latin-1"), {"encoding": "latin-1"}),
        "old Mac": (text(frame, ";", "\r"), {}),
        "decimal commas": (
            text(frame.assign(Amount=frame["Amount"].map(lambda x: f"{x:.2f}".replace(".", ","))), ";"),
            {"decimal": ","},
        ),
        "all quoted": (text(frame, quoting=csv.QUOTE_ALL), {}),
        "line breaks": (text(frame.assign(Remark=frame["Remark"] + '\nsaid "yes", then no')), {}),
        "formulas": (text(frame.assign(Remark="=HYPERLINK(A1)")), {}),
        "line for Excel": (text(frame, ";", above="sep=;\n"), {}),
        "title": (text(frame, above="Claims register 2024/25\n"), {}),
        "padded title": (text(frame, above="Claims register,,,,,,\n,,,,,,\n"), {}),
        "remarks above": (text(frame, ";", above="Claims\n\nfrom: Ann, Bob; printed 1/2/2024\nOutcome\n"), {}),
        "groups of columns": (text(frame, above="Claim,,,Money,Handling,,\n"), {}),
        "totals": (text(frame, below=total), {}),
        "totals and a remark": (text(frame, below=f"{total}\nSource: the register\n"), {}),
        "empty rows": (text(frame, below=",,,,,,\n,,,,,,\n"), {}),
        "typed in four ways": (text(ways), {}),
        "no last line end": (text(frame).rstrip(b"\n"), {}),
    }
    books = {
        "workbook": (book(frame), {}),
        "title over groups": (book(frame, (["Claims register"], [], *groups), change=merged), {}),
        "table in the middle": (book(frame, ([], [], ["printed by Ann"]), left=2), {}),
        "several sheets": (book(frame, change=sheets), {}),
        "formats": (book(frame, change=formats), {}),
        "merged rows": (book(frame.sort_values(["Branch", "No"]), change=branches), {}),
        "formulas of totals": (book(frame, below=([], ["Total", None, None, "=SUM(D2:D61)"])), {}),
        "totals in values": (book(frame, below=(["Total", None, None, float(frame["Amount"].sum())],)), {}),
        "texts apart": (shared(book(ways)), {}),
        "title like a column": (book(ways, (["Outcome"], ["of claims"])), {}),
    }  # fmt: skip
    found = {name: Office(".csv", *one) for name, one in csvs.items()}
    found |= {name: Office(".xlsx", *one) for name, one in books.items()}
    found["tabs"] = Office(".tsv", text(frame, "\t"))
    found["bars"] = Office(".txt", text(frame, "|"))
    found["packed"] = Office(".csv.gz", gzip.compress(text(frame)))
    found["macros"] = Office(".xlsm", book(frame))
    return found
