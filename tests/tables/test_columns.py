import numpy as np
import pandas as pd
import pytest

from mgce.tables.columns import Columns, unseen_categories


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "key": ["007", None, "009"],
            "age": [20, 30, 40],
            "sure": [True, None, False],
            "job": ["a", None, "b"],
            "size": pd.array([1, None, 3], dtype="Int64"),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "empty": [None, None, None],
            "class": [0, 1, 0],
        }
    )


def test_kinds_are_told_from_the_values(frame):
    columns = Columns.of(frame, "class", "key")
    assert columns.kinds == {"age": "number", "sure": "number", "job": "category", "size": "number", "day": "category"}
    assert columns.categories == ["job", "day"] and columns.text == ["job", "day", "class", "key"]


def test_selected_columns_are_numbers_and_text(frame):
    columns = Columns.of(frame, "class")
    selected = columns.select(frame[frame.columns[::-1]].assign(age=["20", " 30", "4e1"]))
    assert selected.columns.tolist() == ["key", "age", "sure", "job", "size", "day"]
    assert selected.select_dtypes("number").columns.tolist() == ["age", "sure", "size"]
    np.testing.assert_array_equal(selected["age"], [20.0, 30.0, 40.0])
    np.testing.assert_array_equal(selected["sure"], [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(selected["size"], [1.0, np.nan, 3.0])
    assert selected["job"].isna().tolist() == [False, True, False] and selected["job"][2] == "b"
    assert selected["day"][0].startswith("2020-01-01") and selected["day"].isna()[1]
    assert columns.labels(frame).tolist() == ["0", "1", "0"]


def test_rows_are_named_by_their_id_or_number(frame):
    columns = Columns.of(frame, "class", "key")
    assert columns.row_names(frame).tolist() == ["007", "", "009"]
    numbers = columns.row_names(frame.drop(columns="key"))
    assert numbers.name == "row" and numbers.tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"age": [1, "two", 3]}, "Expected `age` to be a column of finite numbers, but got 'two' in row 2."),
        ({"age": ["", "2", "x"]}, "Expected `age` to be a column of finite numbers, but got '' in row 1."),
        ({"age": [1, 2, -np.inf]}, "Expected `age` to be a column of finite numbers, but got -inf in row 3."),
    ],
)
def test_numbers_have_to_be_numbers(frame, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Columns.of(frame, "class").select(frame.assign(**change))


def test_unseen_categories_are_counted():
    selected = pd.DataFrame({"job": ["a", "x", "y"], "town": ["t", np.nan, "t"], "pet": ["cat", "cat", "cat"]})
    sentences = unseen_categories(selected, {"job": ["a", "b"], "town": ["t"], "pet": ["cat", np.nan]})
    assert [sentence.split(";")[0] for sentence in sentences] == [
        "In 2 rows, column `job` holds a category that no training row had ('x', for one)",
        "In 1 row, column `town` holds a category that no training row had (a missing value, for one)",
    ]
    assert unseen_categories(selected, {"town": ["t", np.nan]}) == []
