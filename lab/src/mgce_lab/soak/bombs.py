"""Tables of some kilobytes that would take gigabytes, or minutes: each has to be refused in one sentence."""

from __future__ import annotations

import gzip
import io
import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

LETTER = 50_000_000  # characters of a text that many cells share


def _packed(*parts: tuple[bytes, int]) -> bytes:
    """Return gzip files, one behind the other, that unpack to each part as often as its number says."""
    return b"".join(gzip.compress(part * min(n, 1000), mtime=0) * max(1, n // 1000) for part, n in parts)


def _excel(rows: str, after: str = "", texts: str = "") -> bytes:
    """Return a small Excel file with further rows, parts of the sheet after them, and shared texts."""
    import openpyxl

    book = openpyxl.Workbook()
    for i in range(60):
        book.active.append([i, "no" if i % 2 else "yes"] if i else ["a", "y"])
    book.save(old := io.BytesIO())
    with zipfile.ZipFile(old) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    sheet, links = "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels"
    parts[sheet] = re.sub("<dimension[^>]*>", "", parts[sheet]).replace("</sheetData>", f"{rows}</sheetData>{after}")
    if texts:
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
        link = f'<Relationship Id="texts" Type="{kind}" Target="sharedStrings.xml"/></Relationships>'
        parts[links] = parts[links].replace("</Relationships>", link)
        parts["xl/sharedStrings.xml"] = f"<sst>{texts}</sst>"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return packed.getvalue()


def _rows(cells: str, first: int, last: int) -> str:
    return "".join(f'<row r="{i}">{cells.replace("#", str(i))}</row>' for i in range(first, last))


def _merged() -> str:
    one = '<mergeCell ref="A2:XFD9000"/>'
    return f"<mergeCells>{one * 100_000}</mergeCells>"


def _texts_of_dictionary() -> object:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(1500, np.int32)), pa.array(["A" * LETTER]))


def _parquet(column: Callable[[], object], **options: object) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": column()}), buffer := io.BytesIO(), compression="zstd", **options)
    return buffer.getvalue()


def _long_list() -> object:
    import pyarrow as pa

    return pa.ListArray.from_arrays([0, 250_000_000], pa.array(np.zeros(250_000_000, np.int8)))


def _arrow(column: Callable[[], object], compression: str | None = "zstd", batches: int = 1) -> bytes:
    import pyarrow as pa

    batch = pa.record_batch([column()], ["a"])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(buffer := io.BytesIO(), batch.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return buffer.getvalue()


def _zeros() -> object:
    import pyarrow as pa

    return pa.array(np.zeros(10_000_000))


def _nothing() -> object:
    import pyarrow as pa

    return pa.nulls(240_000_000)


def _one_view() -> object:
    import pyarrow as pa

    one = pa.array(["A" * LETTER]).cast(pa.string_view())
    views = pa.py_buffer(one.buffers()[1].to_pybytes()[:16] * 1500)
    return pa.StringViewArray.from_buffers(pa.string_view(), 1500, [None, views, *one.buffers()[2:]])


def _one_list() -> object:
    import pyarrow as pa

    n = 5000
    lengths = pa.array(np.full(n, 1_000_000, np.int32))
    return pa.ListViewArray.from_arrays(pa.array(np.zeros(n, np.int32)), lengths, pa.array(np.zeros(1_000_000)))


def _one_run() -> object:
    import pyarrow as pa

    return pa.RunEndEncodedArray.from_arrays(pa.array([200_000_000], pa.int32()), pa.array(["two words"]))


def _features() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        np.savez_compressed(path := Path(folder, "f.npz"), x=np.zeros((600_000, 256), np.float32))
        return path.read_bytes()


# By the name of the bomb: the name of the file, and what makes its content.
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "Excel: a row 10^12": ("t.xlsx", lambda: _excel('<row r="1000000000000"><c r="A1"><v>1</v></c></row>')),
    "Excel: the last column of 15,000 rows": ("t.xlsx", lambda: _excel(_rows('<c r="XFD#"><v>1</v></c>', 62, 15_000))),
    "Excel: a text of 60 MB in 3,000 cells": (
        "t.xlsx",
        lambda: _excel(_rows('<c t="s"><v>0</v></c>', 62, 3062), texts=f"<si><t>{'A' * 60_000_000}</t></si>"),
    ),
    "Excel: 10^8 tags": ("t.xlsx", lambda: _excel("<c/>" * 100_000_000)),
    "Excel: 100,000 merged ranges over all cells": (
        "t.xlsx",
        lambda: _excel(_rows('<c r="A#"><v>1</v></c><c r="Z#"><v>1</v></c>', 62, 9000), _merged()),
    ),
    "Parquet: a text of 50 MB in 1,500 rows": ("t.parquet", lambda: _parquet(_texts_of_dictionary)),
    "Parquet: the same without categories": ("t.parquet", lambda: _parquet(_texts_of_dictionary, store_schema=False)),
    "Parquet: a list of 250,000,000 numbers": ("t.parquet", lambda: _parquet(_long_list)),
    "Arrow: a gigabyte of zeros": ("t.arrow", lambda: _arrow(_zeros, batches=13)),
    "Arrow: 240,000,000 missing values": ("t.feather", lambda: _arrow(_nothing)),
    "Arrow: a text of 50 MB in 1,500 rows": ("t.arrow", lambda: _arrow(_texts_of_dictionary)),
    "Arrow: the same by views": ("t.arrow", lambda: _arrow(_one_view)),
    "Arrow: a list of a million in 5,000 rows": ("t.arrow", lambda: _arrow(_one_list)),
    "Arrow: a run of 200,000,000 rows": ("t.arrow", lambda: _arrow(_one_run)),
    "JSON lines: a new key in each": ("t.jsonl", lambda: b"".join(b'{"k%d":1}\n' % i for i in range(30_000))),
    "JSON lines: a list of lists": (
        "t.jsonl.gz",
        lambda: _packed((b'{"a":[', 1), (b"[]," * 1000, 100_000), (b"[]]}\n", 1)),
    ),
    "JSON lines: 30,000,000": ("t.jsonl.gz", lambda: _packed((b'{"a":12,"b":13}\n', 30_000_000))),
    "CSV: 400,000,000 commas": ("t.csv.gz", lambda: _packed((b"a\n", 1), (b"," * 1000, 400_000))),
    "CSV: 2,000,000 columns": (
        "t.csv",
        lambda: b",".join(b"%d" % i for i in range(2_000_000)) + b"\n" + b"," * 1999999,
    ),
    "CSV: 120,000,000 lines": ("t.csv.gz", lambda: _packed((b"a,b\n", 1), (b"1,2\n" * 1000, 120_000))),
    "CSV: 500,000,000 blank lines": ("t.csv.gz", lambda: _packed((b"a,b\n1,2\n", 1), (b"\n" * 1000, 500_000))),
    "CSV: a cell of 500 MB": ("t.csv.gz", lambda: _packed((b"a,b\n", 1), (b"A" * 1000, 500_000), (b",1\n", 1))),
    "CSV: a packed file of 4 GB under another name": ("t.csv", lambda: _packed((b"1,2\n" * 1000, 1_000_000))),
    "features: zeros of 600 MB": ("f.npz", _features),
}
