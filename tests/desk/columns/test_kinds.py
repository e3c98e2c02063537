import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.kinds import Columns, names_of_rows, unlike_their_column, unseen_categories

RNG = np.random.default_rng(0)


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
    assert columns.kinds == {"age": "number", "sure": "number", "job": "category", "size": "number", "day": "date"}
    assert columns.categories == ["job"] and columns.text == ["job", "class", "key"]
    assert list(Columns.of(frame, "class", drop=["job", "key", "day"]).kinds) == ["age", "sure", "size"]


def test_selected_columns_are_numbers_and_text(frame):
    columns = Columns.of(frame, "class")
    selected = columns.select(frame[frame.columns[::-1]].assign(age=["20", " 30", "4e1"]))
    assert selected.columns.tolist() == ["key", "age", "sure", "job", "size", "day"]
    assert selected.select_dtypes("number").columns.tolist() == ["age", "sure", "size", "day"]
    np.testing.assert_array_equal(selected["age"], [20.0, 30.0, 40.0])
    np.testing.assert_array_equal(selected["sure"], [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(selected["size"], [1.0, np.nan, 3.0])
    assert selected["job"].isna().tolist() == [False, True, False] and selected["job"][2] == "b"
    np.testing.assert_array_equal(selected["day"], [18262.0, np.nan, 18264.0])  # days since 1970
    assert columns.labels(frame).tolist() == ["0", "1", "0"]


def test_rows_are_named_by_their_id_or_number(frame):
    columns = Columns.of(frame, "class", "key")
    assert columns.row_names(frame).tolist() == ["007", "", "009"]
    numbers = columns.row_names(frame.drop(columns="key"))
    assert numbers.name == "row" and numbers.tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"age": [None, "two", "3!"]}, "Expected `age` to be a column of finite numbers, but got 'two' in data row 2."),
        ({"age": ["", "b", "x"]}, "Expected `age` to be a column of finite numbers, but got '' in data row 1."),
        ({"age": [1, 2, -np.inf]}, "Expected `age` to be a column of finite numbers, but got -inf in data row 3."),
    ],
)
def test_numbers_have_to_be_numbers(frame, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Columns.of(frame, "class").select(frame.assign(**change))


DATES = ["2024-02-28", "2024-03-01 12:00", None, "2024-3-1", "soon"]


@pytest.mark.parametrize("n, kind", [(20, "date"), (18, "category")])
def test_dates_are_days_and_a_few_words_among_them_are_missing(n, kind):
    frame = pd.DataFrame({"day": DATES[:2] * (n // 2) + DATES[2:3] + DATES[4:], "class": ["a"] * (n + 2)})
    columns = Columns.of(frame, "class")
    assert columns.kinds == {"day": kind}
    if kind == "date":
        selected = columns.select(frame)
        days = (np.datetime64("2024-02-28") - np.datetime64("1970-01-01")).astype(float)
        np.testing.assert_array_equal(selected["day"][[0, 1, n, n + 1]], [days, days + 2.5, np.nan, np.nan])
        assert unlike_their_column(frame, selected, columns.kinds) == [
            "Column `day` holds dates, but something else in 1 row ('soon'), which counts as missing."
        ]


def test_dates_of_other_forms_and_plain_years_are_no_dates():
    frame = pd.DataFrame({"day": ["1/2/2024", "2/1/2024"], "year": [2024, 2025], "class": ["a", "b"]})
    assert Columns.of(frame, "class").kinds == {"day": "category", "year": "number"}


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([], "number"),
        (["n. a."], "number"),
        (["n. a."] * 20, "number"),  # one word, in a third of the rows
        (["n. a.", "?", "see file", "open"] * 4, "number"),
        (["n. a.", "?", "see file", "open", "new"], "category"),  # fewer than ten numbers for each word
        (["n. a."] * 41, "category"),  # more words than numbers
        ([f"room {i}" for i in range(6)], "category"),
    ],
)
def test_words_that_come_again_among_numbers_are_missing_and_others_make_categories(words, kind):
    values = [*map(str, np.arange(40) / 4), *words]
    frame = pd.DataFrame({"size": values, "class": (["a", "b"] * len(values))[: len(values)]})
    columns = Columns.of(frame, "class")
    assert columns.kinds == {"size": kind}
    if kind == "number":
        assert columns.select(frame)["size"].isna().tolist() == [False] * 40 + [True] * len(words)
    days = pd.Series(pd.date_range("2024-01-01", periods=40).strftime("%Y-%m-%d").tolist() + words)
    assert Columns.of(frame.assign(size=days), "class").kinds["size"] == kind.replace("number", "date")
    assert Columns.of(frame, "class", category=["size"]).kinds == {"size": "category"}


def test_digits_with_a_zero_in_front_stay_codes_beside_words():
    frame = pd.DataFrame({"code": [f"{i:03}" for i in range(40)] + ["none"] * 8, "class": ["a", "b"] * 24})
    assert Columns.of(frame, "class").kinds == {"code": "category"}


def test_text_with_leading_zeros_is_a_code():
    frame = pd.DataFrame({"code": ["101", "007"], "size": ["0.5", "0"], "class": ["a", "b"]})
    assert Columns.of(frame, "class").kinds == {"code": "category", "size": "number"}


def test_rows_that_come_later_may_hold_more_words_than_those_the_kind_was_told_from():
    columns = Columns({"size": "number"}, "class")
    for cells in (["1", "2", "3", "4", "?"], ["1", "?", "?", "?"], ["?"], [None, None]):
        frame = pd.DataFrame({"size": pd.Series(cells, dtype=object)})
        sizes = columns.select(frame)["size"]
        np.testing.assert_array_equal(sizes, [float(cell) if cell and cell != "?" else np.nan for cell in cells])
        said = unlike_their_column(frame, columns.select(frame), columns.kinds)
        assert len(said) == ("?" in cells)
    with pytest.raises(
        ValueError, match=r"Expected `size` to be a column of finite numbers, but got '\?' in data row 2."
    ):
        columns.select(pd.DataFrame({"size": [None, "?", "1.5 kg"]}))


def test_unseen_categories_are_counted():
    selected = pd.DataFrame({"job": ["a", "x", "y"], "town": ["t", np.nan, "t"], "pet": ["cat", "cat", "cat"]})
    sentences = unseen_categories(selected, {"job": ["a", "b"], "town": ["t"], "pet": ["cat", np.nan]})
    assert [sentence.split(";")[0] for sentence in sentences] == [
        "In 2 rows, column `job` holds a category that no training row had ('x', for one)",
        "In 1 row, column `town` holds a category that no training row had (a missing value, for one)",
    ]
    assert unseen_categories(selected, {"town": ["t", np.nan]}) == []


@pytest.mark.parametrize("character", ["\n", "\r", "\x1b[31m", "\u202e"])
def test_errors_are_one_line_whatever_a_name_holds(character):
    name = f"a{character}b"
    frame = pd.DataFrame({name: [1.0, np.inf, 3.0], "y": ["u", "v", "u"]})
    columns = Columns({name: "number"}, name)
    attempts = [
        lambda: columns.select(frame),
        lambda: columns.select(frame[["y"]]),
        lambda: columns.labels(frame[["y"]]),
        lambda: Columns.of(frame, "z"),
        lambda: Columns.of(frame, "y", id="z"),
        lambda: columns.select(pd.DataFrame({name: [f"u{character}v"] * 3})),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match="Expected") as error:
            attempt()
        assert str(error.value).isprintable()


MOMENT = pd.Timestamp("2024-05-31")
ISO = {  # one day in every form
    "YYYY-MM-DD": [
        "2024-05-31",
        "2024-05-31T00:00:00Z",
        "2024-05-31 00:00:00 UTC",
        "2024/05/31",
        "2024-05-31T02:00+02:00",
    ],
    "YYYY-Www-D": ["2024-W22-5", "2024W225"],
    "YYYY-DDD": ["2024-152"],
    "YYYYMMDD": ["20240531", "20240531T000000Z", 20240531, 20240531.0],
}


@pytest.mark.parametrize("form", ISO)
def test_a_model_of_one_form_of_dates_reads_all(form):
    for cell in ISO[form]:
        frame = pd.DataFrame({"day": [cell] * 19 + [None], "class": ["a", "b"] * 10})
        columns = Columns.of(frame, "class")
        assert columns.kinds == {"day": "date"} and columns.formats == {"day": form}
        for other in (other for cells in ISO.values() for other in cells):
            selected = columns.select(pd.DataFrame({"day": [other, None]}))
            np.testing.assert_array_equal(selected["day"], [(MOMENT - pd.Timestamp(0)).days, np.nan])


def test_numbers_of_eight_digits_are_dates_only_if_all_have_months_and_days():
    for values, kind in (
        (RNG.integers(10**7, 10**8, 40), "number"),
        ([20240531] * 38 + [0, 20241399], "date"),
        ([10011001, 10011002] * 20, "number"),  # in the year 1001
        (["1001-101", "1002-102"] * 20, "category"),
    ):
        frame = pd.DataFrame({"n": values, "class": ["a", "b"] * 20})
        assert Columns.of(frame, "class").kinds == {"n": kind}


GERMAN = MOMENT.strftime("%d.%m.%Y")


@pytest.mark.parametrize("form, other", [("%d.%m.%Y", "%d.%m.%Y %H:%M"), ("%d/%m/%Y", "%d-%m-%Y"), ("%m/%d/%Y",) * 2])
def test_dates_with_the_year_last_are_those_of_pandas(form, other):
    days = pd.Series(pd.date_range("2023-12-01", periods=60))
    expected = (days - pd.Timestamp(0)).dt.days
    frame = pd.DataFrame({"day": days.dt.strftime(form), "class": ["a", "b"] * 30})
    columns = Columns.of(frame, "class")
    assert columns.kinds == {"day": "date"}
    for written in (days, days.dt.strftime(form), days.dt.strftime(other), days.dt.strftime("%Y-%m-%d")):
        np.testing.assert_array_equal(columns.select(pd.DataFrame({"day": written}))["day"], expected)
        of_dates = Columns.of(pd.DataFrame({"day": days, "class": ["a", "b"] * 30}), "class")
        np.testing.assert_array_equal(of_dates.select(pd.DataFrame({"day": written}))["day"], expected)
    second = pd.Timestamp("2024-02-01") if "%d" in form[:2] else pd.Timestamp("2024-01-02")
    (alone,) = columns.select(pd.DataFrame({"day": ["01/02/2024"]}))["day"]
    assert alone == (second - pd.Timestamp(0)).days  # one row does not show the order: the training rows did


@pytest.mark.parametrize(
    "cells", [["01/02/2024", "03/04/2024"], ["13/01/2024", "01/13/2024"], ["1.2.3024", "2.2.3024"]]
)
def test_dates_whose_order_does_not_show_are_categories(cells):
    frame = pd.DataFrame({"day": cells * 10, "class": ["a", "b"] * 10})
    assert Columns.of(frame, "class").kinds == {"day": "category"}


def test_dates_without_an_order_are_refused_with_the_question_that_they_leave():
    columns = Columns({"day": "date"}, "class", formats={"day": "YYYY-MM-DD"})
    with pytest.raises(ValueError, match="like 2024-05-31, but got '01/02/2024' in data row 1. Does the day or the"):
        columns.select(pd.DataFrame({"day": ["01/02/2024"] * 2}))
    assert columns.select(pd.DataFrame({"day": [GERMAN] * 2}))["day"].tolist() == [(MOMENT - pd.Timestamp(0)).days] * 2


def test_decimal_commas_stay_decimal_in_other_tables():
    cells = ["unknown", *["1.234,50", "12,5", "1.000", "7", "0,5"] * 10][:50]
    columns = Columns.of(pd.DataFrame({"n": cells, "class": ["a", "b"] * 25}), "class")
    assert columns.kinds == {"n": "number"} and columns.formats == {"n": "decimal comma"} and "n" in columns.text
    later = pd.DataFrame({"n": ["1.234", "0,25", "-1.234.567,8"]})
    assert columns.select(later)["n"].tolist() == [1234, 0.25, -1234567.8]
    plain = Columns({"n": "number"}, "class", formats={"n": "plain"})
    assert plain.select(pd.DataFrame({"n": ["1.234", "0,25"]}))["n"].tolist() == [1234, 0.25]
    with_points = columns.select(pd.DataFrame({"n": ["1.234", "0.25", "0,25"]}))["n"]
    np.testing.assert_array_equal(with_points, [1.234, 0.25, np.nan])


def test_two_forms_of_dates_in_one_column_are_categories():
    frame = pd.DataFrame({"day": ["2024-05-31", "2024-W22-5"] * 10, "class": ["a", "b"] * 10})
    assert Columns.of(frame, "class").kinds == {"day": "category"}


@pytest.mark.parametrize("cell", ["31.12.24", "soon", "2024-02-30", "0000-00-00"])
def test_a_cell_that_is_no_date_is_named_with_its_column(cell):
    columns = Columns({"day": "date"}, "class")
    frame = pd.DataFrame({"day": ["2024-05-31"] * 9 + [cell]})
    selected = columns.select(frame)
    assert unlike_their_column(frame, selected, columns.kinds) == [
        f"Column `day` holds dates, but something else in 1 row ({cell!r}), which counts as missing."
    ]
    with pytest.raises(ValueError, match="Expected") as error:
        columns.select(pd.DataFrame({"day": [cell] * 2}))
    assert (
        str(error.value) == f"Expected `day` to be a column of dates like 2024-05-31, but got {cell!r} in data row 1."
    )


def test_a_word_among_true_and_false_counts_as_missing_as_among_numbers():
    columns = Columns.of(pd.DataFrame({"sure": [True, False] * 20, "class": ["a", "b"] * 20}), "class")
    assert columns.kinds == {"sure": "number"} and columns.formats == {"sure": "true/false"}
    frame = pd.DataFrame({"sure": ["True", "maybe", "False", "true", "FALSE", "1", "0", "True"]})
    selected = columns.select(frame)
    np.testing.assert_array_equal(selected["sure"], [1, np.nan, 0, 1, 0, 1, 0, 1])
    assert unlike_their_column(frame, selected, columns.kinds) == [
        "Column `sure` holds numbers, but something else in 1 row ('maybe'), which counts as missing."
    ]
    with pytest.raises(
        ValueError, match="Expected `sure` to be a column of finite numbers, but got 'maybe' in data row 2."
    ):
        columns.select(frame.iloc[[1, 1]])
    words = pd.DataFrame({"sure": ["True", "False"] * 19 + ["maybe", None], "class": ["a", "b"] * 20})
    assert Columns.of(words, "class") == columns  # as one word among forty numbers


def test_thousands_separators_are_those_of_the_training_rows():
    frame = pd.DataFrame({"n": ["999", "1,234", "850"] * 10, "m": range(30), "class": ["a", "b"] * 15})
    columns = Columns.of(frame, "class")
    assert columns.formats == {"n": "thousands", "m": "plain"} and columns.kinds == {"n": "number", "m": "number"}
    later = pd.DataFrame({"n": ["1", "22", "12,345,678.5", "1,5", "7", "8"], "m": ["1", "2", "3", "4", "5", "1,234"]})
    selected = columns.select(later)
    np.testing.assert_array_equal(selected["n"], [1, 22, 12345678.5, np.nan, 7, 8])
    np.testing.assert_array_equal(selected["m"], [1, 2, 3, 4, 5, np.nan])
    sentences = unlike_their_column(later, selected, columns.kinds)
    assert sentences[0].endswith("something else in 1 row ('1,5'), which counts as missing.")
    assert sentences[1].endswith("Numbers with thousands separators are read only where training rows have them.")


def test_categories_that_are_different_in_every_row_name_the_rows():
    n = 40
    frame = pd.DataFrame(
        {
            "id": [f"C-{i}" for i in range(n)],
            "twice": ["C-0", *(f"C-{i}" for i in range(n - 1))],
            "gap": [None, *(f"C-{i}" for i in range(n - 1))],
            "number": np.random.default_rng(0).permutation(10 * n)[:n],
            "day": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "said": [f"the claim of customer {i} came by letter" for i in range(n)],
        }
    )
    assert names_of_rows(frame, [*frame], []) == ["id"]
    assert names_of_rows(frame, [*frame], ["id"]) == []  # it was said to be a category, or text
    assert names_of_rows(frame, ["id"], []) == []  # without it, nothing would be left
    assert names_of_rows(frame[:10], [*frame], []) == []
    assert names_of_rows(frame.iloc[::-1], [*frame], []) == ["id"]


@pytest.mark.parametrize(
    "numbers, runs",
    [
        (np.arange(1, 41), True),
        (np.random.default_rng(0).permutation(np.arange(1000.0, 1400.0, 10)), True),
        (np.array([*range(1, 40), 41]), False),  # a gap, as measurements have and numbers of files too
        (np.array([*range(1, 40), 39]), False),
        (np.array([*range(1, 40), np.nan]), False),
        (np.arange(40) / 4, False),
        (np.zeros(40), False),
    ],
)
def test_running_numbers_are_left_out_and_measurements_are_not(numbers, runs):
    frame = pd.DataFrame({"n": numbers, "x": RNG.normal(size=40)})
    assert names_of_rows(frame, ["n", "x"], []) == ["n"] * runs
    assert names_of_rows(frame, ["n", "x"], ["n"]) == []


def test_a_column_is_of_numbers_if_the_user_says_so():
    frame = pd.DataFrame({"zip": ["007", "101"] * 10, "word": ["a", "b"] * 10, "class": ["a", "b"] * 10})
    assert Columns.of(frame, "class").kinds["zip"] == "category"
    assert Columns.of(frame, "class", number=["zip"]).select(frame)["zip"].tolist() == [7, 101] * 10
    with pytest.raises(ValueError, match="Expected `word` to be a column of finite numbers, but got 'a' in data row 1"):
        Columns.of(frame, "class", number=["word"]).select(frame)
