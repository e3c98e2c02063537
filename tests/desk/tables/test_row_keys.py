import io

import numpy as np
import pandas as pd
import pytest

from mgce.desk.files.table_files import read_frame
from mgce.desk.files.written_tables import to_table_file
from mgce.desk.tables.rows import row_keys


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 50
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "count": np.where(np.arange(n) % 7 == 0, np.nan, np.arange(n)),
            "kind": rng.choice(["a b", "=1+1", "007", "two\nlines"], n),
            "day": [f"2024-05-{1 + i % 28:02d}" for i in range(n)],
            "y": rng.choice(["yes", "no"], n),
        }
    )


def again(frame, **options):
    """Write a table, and read it as another program may have left it."""
    buffer = io.BytesIO()
    frame.to_csv(buffer, index=False, **options)
    return pd.read_csv(io.BytesIO(buffer.getvalue()))


def test_a_table_that_was_sorted_relabelled_and_saved_again_has_the_same_keys(frame):
    keys = dict(zip(frame.index, row_keys(frame, "y"), strict=True))
    assert len(set(keys.values())) == len(frame)
    other = frame.sample(frac=1, random_state=1)[["y", "day", "count", "x", "kind"]].assign(y="no", empty=np.nan)
    assert row_keys(other, "y") == [keys[row] for row in other.index]
    assert row_keys(again(other, float_format="%.15g"), "y") == [keys[row] for row in other.index]
    # With one cell of another kind, all numbers of the column are texts; dates may be read as dates.
    typed = frame.astype({"x": object, "count": "Float64"}).assign(day=pd.to_datetime(frame["day"]))
    assert row_keys(typed, "y") == list(keys.values())
    escaped = frame.assign(kind=frame["kind"].replace("=1+1", "'=1+1")).rename(columns={"x": "x"})
    assert row_keys(escaped, "y") == list(keys.values())


def test_another_cell_gives_another_key(frame):
    keys = np.array(row_keys(frame, "y"))
    for column, value in (("x", 1.0), ("count", 3.0), ("kind", "other"), ("day", "2024-06-01")):
        other = frame.copy()
        other.loc[5, column] = value
        assert (np.array(row_keys(other, "y")) != keys).nonzero()[0].tolist() == [5], column


@pytest.mark.parametrize("first", [10**12 - 3, 3 * 10**12, 2**52])
def test_whole_numbers_are_told_apart_by_their_last_digit_in_columns_of_every_type(first):
    """A column with a gap is read as floats, which have all digits of whole numbers up to 2^53."""
    numbers = [first + place for place in range(6)]
    texts = [*map(str, numbers), ""]
    keys = row_keys(pd.DataFrame({"n": texts, "y": "a"}), "y")
    assert len(set(keys)) == 7
    for column in (pd.Series([*numbers, np.nan]), pd.Series([*numbers, None], dtype="Int64"), [*numbers, None]):
        assert row_keys(pd.DataFrame({"n": column, "y": "a"}), "y") == keys


def test_names_of_rows_are_their_keys_where_they_differ(frame):
    named = frame.assign(name=[f"{i:03d}" for i in range(50)])
    keys = row_keys(named, "y", "name")
    assert keys == row_keys(named.assign(x=0.0), "y", "name") != row_keys(named, "y")
    assert row_keys(named.assign(name="same"), "y", "name") != row_keys(named.assign(x=0.0, name="same"), "y", "name")


def test_values_do_not_move_between_columns():
    one = pd.DataFrame({"a": ["x", None], "b": [None, "x"], "y": [0, 0]})
    assert len({key.partition("-")[0] for key in row_keys(one, "y")}) == 2
    assert row_keys(pd.DataFrame({"y": [0, 1]}), "y")[1].endswith("-2")


IDS = [1234567890123456789 + row for row in range(20)]  # equal in their first 17 digits


@pytest.mark.parametrize("id", ["id", None])
@pytest.mark.parametrize("kind", ["int64", "Int64", "uint64", "string", "category", "object", "int64[pyarrow]"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx", "jsonl"])
def test_ids_of_19_digits_have_keys_of_their_own_in_every_type_and_file(tmp_path, id, kind, suffix):
    pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
    column = pd.Series(IDS).astype(kind)
    frame = pd.DataFrame({"id": column, "x": 1.5, "y": ["no"] * 20})
    keys = row_keys(frame, "y", id)
    assert len(set(keys)) == 20 and not any("-" in key for key in keys)
    path = tmp_path / f"t.{suffix}"
    text = frame.to_json(orient="records", lines=True).encode() if suffix == "jsonl" else to_table_file(frame, path)
    path.write_bytes(text)
    assert row_keys(read_frame(path, "table"), "y", id) == keys
    # The label of one row, the order, and a row that has no id change no other key.
    other = frame.assign(y=["yes", *["no"] * 19]).sample(frac=1, random_state=0)
    assert row_keys(other, "y", id) == [keys[row] for row in other.index]
    if id is None:
        gap = frame.astype({"id": kind.replace("uint", "UInt").replace("int64", "Int64")} if kind[-1] == "4" else {})
        gap.loc[3, "id"] = None
        assert [one == two for one, two in zip(row_keys(gap, "y"), keys, strict=True)] == [
            row != 3 for row in range(20)
        ]


@pytest.mark.parametrize("first", [2**53, 2**63, 2**64 - 2], ids=["signed", "unsigned", "20 digits"])
def test_ids_that_differ_in_the_last_digit_stay_apart_beside_a_missing_one(tmp_path, first):
    ids = [first, first + 1, None, 7]
    frame = pd.DataFrame({"id": pd.array(ids, "UInt64"), "x": 1.5, "y": "no"})
    written = [f"{'' if one is None else one},1.5,no" for one in ids]
    (tmp_path / "t.csv").write_text("\n".join(["id,x,y", *written]))
    read = read_frame(tmp_path / "t.csv", "table")
    assert read["id"].isna().tolist() == [False, False, True, False]
    assert [int(one) for one in read["id"].dropna()] == [first, first + 1, 7]
    keys = row_keys(read, "y")
    assert keys == row_keys(frame, "y") and len(set(keys)) == 4
    assert not any("-" in key for key in keys)  # no key depends on the order of rows or on labels


@pytest.mark.parametrize(
    "names",
    [
        [float(number) for number in range(2**60, 2**60 + 20 * 256, 256)],
        [1700000000000 + row / 8 for row in range(20)],
        [f"{row:0{width}d}" for row in range(10) for width in (1, 2)],
        [f"{blank}{row}" for row in range(10) for blank in ("", " ")],
        [pd.Timestamp("2024-05-31") + pd.Timedelta(row, "ns") for row in range(20)],
    ],
    ids=["floats", "decimals", "zeros in front", "blanks", "nanoseconds"],
)
def test_names_that_differ_give_keys_that_depend_on_no_label(names):
    frame = pd.DataFrame({"id": names, "y": ["no"] * 20})
    keys = row_keys(frame, "y", "id")
    other = frame.assign(y=[*["no"] * 10, *["yes"] * 5, *["no"] * 5]).sample(frac=1, random_state=0)
    assert len(set(keys)) == 20 and row_keys(other, "y", "id") == [keys[row] for row in other.index]


def test_rows_that_rounding_makes_equal_swap_no_keys():
    frame = pd.DataFrame({"x": [1 + row * 1e-14 for row in range(20)], "y": ["no"] * 20})
    keys = row_keys(frame, "y")
    other = frame.assign(y=["yes" if row % 3 else "no" for row in range(20)]).sample(frac=1, random_state=0)
    assert len(set(keys)) == 20 and row_keys(other, "y") == [keys[row] for row in other.index]
