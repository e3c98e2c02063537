"""A file with other labels is the file of the person, but for the cells of one column: byte by byte, part by part."""

import csv
import io
import re
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from openpyxl import Workbook, load_workbook
from openpyxl.comments import Comment

from mgce.desk.files.changed_files import changed_text, changed_workbook
from mgce.desk.files.text_tables import TextFormat


def quoted(cell, sep, always):
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if always or re.search(f'["\r\n{sep}]', cell) else cell


@pytest.mark.parametrize("seed", range(10))
def test_a_text_file_keeps_each_line_but_for_the_field(seed):
    rng = np.random.default_rng(seed)
    sep, end = rng.choice([",", ";", "\t", "|"]), rng.choice(["\n", "\r\n", "\r"])
    encoding = rng.choice(["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-be"])
    text = ["a", "", " b ", "7.50", "ü", 'say "no"', f"x{sep}y", "two\nlines", "=1+1", "'t"]
    rows = [[quoted(str(cell), sep, rng.random() < 0.3) for cell in rng.choice(text, 4)] for _ in range(30)]
    lines = [
        [*row[:2], quoted(f"label {sep if n % 7 == 0 else ''}{n % 3}", sep, n % 5 == 0), *row[2:]]
        for n, row in enumerate(rows)
    ]
    head = [["title"], [], ["a", "b", "y", "c", "d"]]
    labels, gone = {3: "new", 20: f"of{sep}two", 29: 'so "so"'}, [4, 5]

    def content(lines):
        return end.join(sep.join(line) for line in [*head, *lines]).encode(encoding)

    given = content(lines)
    form = TextFormat(sep, encoding="utf-8" if encoding == "utf-8-sig" else encoding, header=3)
    found = changed_text(given, form, gone, ("y", labels))
    for row, label in labels.items():
        lines[row][2] = quoted(label, sep, lines[row][2].startswith('"'))
    assert found == content([line for row, line in enumerate(lines) if row not in gone])
    assert changed_text(given, form, []) == given


def test_fields_are_those_of_a_reader_of_csv():
    rows = ['a,"b,c"d,e\n', 'a, "b,c",d\n', '"a""b",c"d",e\n', "a,,\n", '"","","x\ny"\n']
    for row in rows:
        values = next(csv.reader(io.StringIO(row, newline="")))
        for place in range(len(values)):
            found = changed_text(
                f"y,y1,y2,y3\n{row}".encode(), TextFormat(","), [], (["y", "y1", "y2", "y3"][place], {0: "n,w"})
            )
            changed = next(csv.reader(io.StringIO(found.decode().split("\n", 1)[1], newline="")))
            assert changed == [*values[:place], "n,w", *values[place + 1 :]]


def office_book():
    """Return a workbook with formulas, formats, comments, merged cells and further sheets."""
    book = Workbook()
    sheet = book.active
    sheet.title = "Claims"
    sheet["A1"] = "Register"
    sheet.merge_cells("A1:C1")
    sheet.append(["no", "day", "state", "double"])
    for number in range(1, 9):
        sheet.append([number, f"2024-05-0{number}", ["open", "paid", 7, True][number % 4], f"=A{number + 2}*2"])
    sheet["C5"] = "=UPPER(B5)"
    sheet["C6"].comment = Comment("ask Bob", "Ann")
    sheet["C6"].number_format = "0.00"
    sheet.merge_cells("C9:C10")
    book.create_sheet("Summary")["A1"] = '=COUNTIF(Claims!C3:C10,"open")'
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def prefixed(content):
    """Return a workbook whose sheets have a prefix before every tag, as some programs write them."""
    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(content)) as given, ZipFile(buffer, "w", ZIP_DEFLATED) as written:
        for name in given.namelist():
            part = given.read(name)
            if name.startswith("xl/worksheets/sheet"):
                part = re.sub(rb"<(/?)(?=\w)", rb"<\1x:", part).replace(b"xmlns=", b"xmlns:x=")
            written.writestr(name, part)
    return buffer.getvalue()


@pytest.mark.parametrize("form", [bytes, prefixed])
def test_a_workbook_keeps_each_part_and_cell_but_for_the_labels(form):
    content = form(office_book())
    changes = {3: "open", 4: "never seen & <new>", 5: "kept", 6: "7", 7: "True", 8: "", 10: "paid"}
    found, formulas, stored = changed_workbook(content, "Claims", 3, changes)
    assert formulas == [5] and stored == 0  # what openpyxl writes has no values of formulas, and Excel calculates them
    with ZipFile(io.BytesIO(content)) as old, ZipFile(io.BytesIO(found)) as new:
        assert old.namelist() == new.namelist()
        parts = [name for name in old.namelist() if old.read(name) != new.read(name)]
        assert parts == ["xl/worksheets/sheet1.xml"]
        cut = re.compile(rb"<(?:x:)?c r=\"C\d+\".*?(?:</(?:x:)?c>|/>)", re.DOTALL)
        assert cut.sub(b"", old.read(parts[0])) == cut.sub(b"", new.read(parts[0]))
    before, after = (load_workbook(io.BytesIO(book))["Claims"] for book in (content, found))
    values = {3: "open", 4: "never seen & <new>", 5: "=UPPER(B5)", 6: 7, 7: True, 8: None, 9: before["C9"].value}
    assert {row: after.cell(row, 3).value for row in values} == values
    assert b'r="C10"' in ZipFile(io.BytesIO(found)).read("xl/worksheets/sheet1.xml")
    assert (after["C6"].number_format, after["C6"].comment.text) == ("0.00", "ask Bob")


@pytest.mark.parametrize("form", [bytes, prefixed])
def test_formulas_are_counted_whose_values_are_those_of_before(form):
    """As Excel saves them: with their values, and without the word that makes it calculate when it opens the file."""
    content = office_book()
    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(content)) as given, ZipFile(buffer, "w", ZIP_DEFLATED) as written:
        for name in given.namelist():
            part = given.read(name).replace(b' fullCalcOnLoad="1"', b"")
            part = part.replace(b"<f>A4*2</f><v />", b'<f t="shared" si="0"/><v>4</v>')
            written.writestr(name, re.sub(rb"</f><v ?/>", b"</f><v>3</v>", part))
    saved = form(buffer.getvalue())
    assert changed_workbook(saved, "Claims", 3, {3: "open"})[2] == 8 + 1 + 1  # doubles, a label, and the other sheet


def test_a_cell_that_is_not_there_is_put_in_its_place():
    book = Workbook()
    book.active.append(["a", "y", "b"])
    book.active.append([1, None, 2])
    book.active.append([1, "x"])
    book.active.append([1])
    buffer = io.BytesIO()
    book.save(buffer)
    found, *_ = changed_workbook(buffer.getvalue(), "Sheet", 2, {2: "x", 4: "z"})
    assert [*load_workbook(io.BytesIO(found)).active.values] == [
        ("a", "y", "b"),
        (1, "x", 2),
        (1, "x", None),
        (1, "z", None),
    ]


def test_formulas_get_apostrophes_where_that_is_asked_for():
    content = b'title,=1\na,"=x",y\n1, "+1+1",b\n2,=1;2,c\n'
    found = changed_text(content, TextFormat(header=2), [], formulas=False)
    assert found == b'title,\'=1\na,"\'=x",y\n1,"\' ""+1+1""",b\n2,\'=1;2,c\n'
