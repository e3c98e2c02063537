"""Tables in several files, as Spark, Dask and DuckDB write them; what cannot be read is named."""

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from mgce.desk.files.parts import Parts, is_parts, part_files
from mgce.desk.files.table_files import read_accounted


def written(folder, **parts):
    for name, columns in parts.items():
        path = folder / f"{name.replace('__', '/')}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, row_group_size=2)
    return folder


def test_a_folder_of_parts_is_the_table_of_their_rows_in_the_order_of_their_names(tmp_path):
    whole = pd.DataFrame({"a": range(7), "b": [*"uvwxyz", None]})
    for number, rows in enumerate((slice(0, 3), slice(3, 3), slice(3, 7))):
        whole[rows].to_parquet(tmp_path / f"part-{number}.parquet")
    frame, reading = read_accounted(tmp_path, "table")
    pd.testing.assert_frame_equal(frame, whole, check_dtype=False)
    assert str(reading) == f"{tmp_path.name}: 7 rows of 2 columns, from 3 parts of Parquet."
    assert reading.notes == ["1 of the 3 parts have no rows: part-1.parquet."]


def test_what_spark_leaves_beside_parts_is_none(tmp_path):
    written(tmp_path, a={"x": [1]}, _delta_log__b={"y": [1]}, deep__c={"x": [2]})
    for name in ("_SUCCESS", ".part-0.parquet.crc", "._a.parquet"):
        (tmp_path / name).write_bytes(b"no table")
    assert [path.name for path in part_files(tmp_path)] == ["a.parquet", "c.parquet"]
    assert read_accounted(tmp_path, "table")[0]["x"].tolist() == [1, 2]


def test_names_of_folders_are_columns(tmp_path):
    written(tmp_path, **{"day=1__a": {"x": [1, 2]}, "day=2__a": {"x": [3]}})
    assert read_accounted(tmp_path, "table")[0].to_dict("list") == {"x": [1, 2, 3], "day": [1, 1, 2]}


def test_a_column_may_be_empty_in_one_part_and_of_wider_numbers_in_another(tmp_path):
    written(tmp_path, a={"x": pa.array([1], pa.int32())}, b={"x": pa.nulls(1)}, c={"x": [2**40]}, d={"x": [0.5]})
    assert Parts.of(tmp_path).schema.field("x").type == pa.float64()
    assert read_accounted(tmp_path, "table")[0]["x"].fillna(-1).tolist() == [1, -1, 2**40, 0.5]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            {"x": ["text"], "y": [1]},
            "one type of values in column `x`, such as int64 in a.parquet, but got 'string in",
        ),
        ({"x": [1]}, "the same columns as a.parquet, but b.parquet has no column 'y'"),
        ({"x": [1], "y": [1], "z": [1]}, "but b.parquet has other columns (z)"),
    ],
)
def test_a_part_of_another_schema_is_named(tmp_path, other, said):
    written(tmp_path, a={"x": [1], "y": [1]}, b=other)
    with pytest.raises(ValueError, match="^Expected `table` to be parts") as error:
        Parts.of(tmp_path)
    assert said in str(error.value)


@pytest.mark.parametrize("content", [b"", b"no table", None])
def test_a_part_that_cannot_be_read_is_named(tmp_path, content):
    written(tmp_path, a={"x": [1]}, b={"x": [*range(5000)]})
    broken = tmp_path / "b.parquet"
    if content is None:  # the footer is whole, but not the rows before it
        content = bytearray(broken.read_bytes())
        content[100:3000] = bytes(2900)
    broken.write_bytes(content)
    with pytest.raises(ValueError, match=r"parts that can be read, but b\.parquet could not be"):
        read_accounted(tmp_path, "table")


def test_a_part_that_would_fill_the_memory_is_named(tmp_path):
    written(tmp_path, a={"x": ["a"]})
    shared = pa.array(["a" * 20_000]).dictionary_encode().take(pa.array([0] * 200_000))
    pq.write_table(pa.table({"x": shared}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet could not be: its table takes more than 1\.6 GB"):
        Parts.of(tmp_path)


def test_text_that_is_not_utf8_is_named_with_its_part(tmp_path):
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    written(tmp_path, a={"x": ["a"]}, b=pa.table({"x": bad}))
    with pytest.raises(ValueError, match=r"but b\.parquet could not be: .*UTF"):
        read_accounted(tmp_path, "table")


def test_arrow_parts_are_read_but_not_beside_parquet(tmp_path):
    pyarrow.feather.write_feather(pa.table({"x": [1, 2]}), tmp_path / "a.feather")
    assert is_parts(tmp_path)
    assert read_accounted(tmp_path, "table")[0]["x"].tolist() == [1, 2]
    written(tmp_path, b={"x": [1]})
    with pytest.raises(ValueError, match="a folder with parts of one format"):
        Parts.of(tmp_path)


def test_parts_without_any_row_are_no_table(tmp_path):
    written(tmp_path, a={"x": pa.array([], pa.int64())})
    with pytest.raises(ValueError, match="a table with rows"):
        Parts.of(tmp_path)
