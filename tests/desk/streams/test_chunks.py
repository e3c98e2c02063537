"""Chunks of a table: each row is in one, equal rows are in the same, whatever the parts."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mgce.desk.files.parts import Parts
from mgce.desk.streams.chunks import FIXED_BYTES, ROW, Chunks, chunk_of, n_chunks, parse_memory
from mgce.desk.tables.rows import Split

N = 400


def table():
    rng = np.random.default_rng(0)
    flags = np.where(rng.random(N) < 0.1, None, rng.random(N) < 0.5)
    whole = pd.array(rng.integers(0, 50, N), dtype="Int64")
    whole[::7] = None
    columns = {"flag": pd.array(flags, dtype="boolean"), "n": whole, "x": rng.normal(size=N).round(1)}
    frame = pd.DataFrame({**columns, "text": rng.choice(["a", "b", None], N), "label": rng.choice(["u", "v"], N)})
    return pd.concat([frame, frame[:50].assign(label="w")], ignore_index=True)


def chunked(folder, frame, sizes, n=3):
    (folder / "table").mkdir(parents=True)
    start = 0
    for number, size in enumerate(sizes):
        frame[start : start + size].to_parquet(folder / "table" / f"{number}.parquet", row_group_size=37)
        start += size
    parts = Parts.of(folder / "table")
    (folder / "chunks").mkdir()
    chunks = Chunks.of(folder / "chunks", n, parts, Split("label"))
    for numbered in enumerate(parts.units):
        chunks.scatter(numbered)
    return [chunks.frame(chunk) for chunk in range(n)]


def test_chunks_divide_the_rows_and_keep_equal_rows_together(tmp_path):
    frame = table()
    found = chunked(tmp_path, frame, [len(frame)])
    places = [set(rows.tolist()) for _, rows in found]
    assert sorted(row for some in places for row in some) == [*range(len(frame))]
    assert all(80 < len(some) < 220 for some in places)
    for some, rows in found:
        pd.testing.assert_frame_equal(some.astype(str), frame.iloc[rows].reset_index(drop=True).astype(str))
        assert all((row + N in rows) == (row in rows) for row in range(50))  # copies but for the label


def test_chunks_do_not_depend_on_how_the_table_is_divided_into_parts(tmp_path):
    frame = table()
    one = chunked(tmp_path / "one", frame, [len(frame)])
    # In the parts of a few rows, columns of truth values and whole numbers have no missing value, or nothing else.
    many = chunked(tmp_path / "many", frame, [1, 2, 3, 4, 200, len(frame) - 210])
    for (_, rows), (_, same) in zip(one, many, strict=True):
        assert rows.tolist() == same.tolist()


def test_rows_of_a_group_stay_together():
    rows = pa.table({"group": [*"abcdefgh"] * 20, "x": np.arange(160.0)})
    place = chunk_of(rows, ("group",), 4)
    assert all(len({*place[start::8].tolist()}) == 1 for start in range(8))
    assert len({*place.tolist()}) > 1


def test_less_memory_makes_more_chunks(tmp_path):
    table().to_parquet(tmp_path / "table.parquet")
    parts = Parts.of(tmp_path / "table.parquet")
    assert n_chunks(parts, Split("label"), parse_memory("2GB")) == 1
    # The least memory, in tenths of a GB, is that of a thousand rows, for a table of more.
    frame = pd.DataFrame({"x": np.arange(1800.0), "label": [f"class {row % 400}" for row in range(1800)]})
    frame.to_parquet(tmp_path / "table.parquet")
    parts = Parts.of(tmp_path / "table.parquet")
    with pytest.raises(ValueError, match=r"^Expected `memory` to be at least .*GB for rows of") as refused:
        n_chunks(parts, Split("label"), FIXED_BYTES + 10_000)
    least = round(10**9 * float(str(refused.value).split("at least ")[1].split("GB")[0]))
    assert n_chunks(parts, Split("label"), least) == 2
    with pytest.raises(ValueError, match=f"at least {least / 10**9:g}GB"):
        n_chunks(parts, Split("label"), least - 10**8)


def test_a_table_may_begin_with_empty_cells(tmp_path):
    frame = pd.DataFrame({"x": [None] * 600 + [1.0, 2.0] * 300, "label": ["a", "b"] * 600})
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=600)
    assert n_chunks(Parts.of(tmp_path / "table.parquet"), Split("label"), parse_memory("2GB")) == 1


@pytest.mark.parametrize("text", ["", "two GB", "2PB", "-1GB", "100MB", str(FIXED_BYTES)])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="^Expected `memory` to be"):
        parse_memory(text)


def test_sizes_may_be_decimal_or_binary():
    assert [parse_memory(text) for text in ("2GB", "2GiB", "1.5gb", "3000000000")] == [
        2_000_000_000,
        2**31,
        1_500_000_000,
        3_000_000_000,
    ]


@pytest.mark.parametrize("different", [1, 3])
def test_chunks_without_rows_are_none(tmp_path, different):
    frame = pd.DataFrame({"x": np.arange(60) % different, "label": [*"ab"] * 30})
    frame.to_parquet(tmp_path / "table.parquet")
    parts = Parts.of(tmp_path / "table.parquet")
    chunks = Chunks.of(tmp_path, 50, parts, Split("label"))
    chunks.scatter((0, parts.units[0]))
    (tmp_path / "table.parquet").unlink()
    if different == 1:
        with pytest.raises(ValueError, match="^Expected `table` to be of rows, or of groups of them, that differ"):
            chunks.with_rows()
        return
    found = chunks.with_rows()
    places = [found.frame(chunk)[1].tolist() for chunk in range(found.n)]
    assert sorted(places) == [[*range(first, 60, 3)] for first in range(3)]


def test_nested_cells_are_divided_by_their_content_too():
    cells = [{"a": [1, 2]}, {"a": [1, 2]}, {"a": [3]}] * 20
    place = chunk_of(pa.table({"x": cells, "y": [[1.0], [1.0], [2.0, 3.0]] * 20}), ["x", "y"], 7)
    assert (place[::3] == place[1::3]).all()
    assert (place[::3] == place[0]).all()


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"label": ["a"]}, "a table with a column beside the target"),
        ({ROW: [1], "label": ["a"]}, "one without a column of this name"),
    ],
)
def test_a_table_without_features_or_with_a_column_of_ours_is_refused(tmp_path, columns, sentence):
    pd.DataFrame(columns).to_parquet(tmp_path / "table.parquet")
    with pytest.raises(ValueError, match=f"^Expected `table` to be {sentence}"):
        Chunks.of(tmp_path, 2, Parts.of(tmp_path / "table.parquet"), Split("label"))
