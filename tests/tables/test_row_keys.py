import io

import numpy as np
import pandas as pd
import pytest

from mgce.tables.row_keys import row_keys


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


def test_names_of_rows_are_their_keys_where_they_differ(frame):
    named = frame.assign(name=[f"{i:03d}" for i in range(50)])
    keys = row_keys(named, "y", "name")
    assert keys == row_keys(named.assign(x=0.0), "y", "name") != row_keys(named, "y")
    assert row_keys(named.assign(name="same"), "y", "name") != row_keys(named.assign(x=0.0, name="same"), "y", "name")


def test_values_do_not_move_between_columns():
    one = pd.DataFrame({"a": ["x", None], "b": [None, "x"], "y": [0, 0]})
    assert len({key.partition("-")[0] for key in row_keys(one, "y")}) == 2
    assert row_keys(pd.DataFrame({"y": [0, 1]}), "y")[1].endswith("-2")
