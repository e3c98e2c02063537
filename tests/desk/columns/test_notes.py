import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.kinds import Columns
from mgce.desk.columns.notes import notes_on, without_label
from mgce.desk.columns.texts import unread

N = 40
RNG = np.random.default_rng(0)
CLEAN = {"size": RNG.normal(size=N).round(2), "town": RNG.choice(["a", "b", "c"], N), "y": ["no", "yes"] * (N // 2)}


def notes(kinds=None, **changes):
    frame = pd.DataFrame({**CLEAN, **{name.replace("__", " "): values for name, values in changes.items()}})
    told = {kind: [name] for name, kind in (kinds or {}).items()}
    columns = Columns.of(frame, "y", **told)
    return notes_on(frame, columns.select(frame), columns.labels(frame), columns, kinds or {})


def test_of_a_clean_table_nothing_is_said():
    assert notes() == []
    assert (
        notes(
            year=[2020, 2020, 2021, 2021] * (N // 4), when=["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"] * 10
        )
        == []
    )


ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
NAMES = [f"person {i}" for i in range(N)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, values, beginning",
    [
        ("town.1", CLEAN["town"][::-1], "Columns `town` and `town.1` may have had the same name in the file."),
        ("Unnamed: 0", RNG.normal(size=N), "Column `Unnamed: 0` has no name in the file."),
        ("Unnamed: 3", range(N), "Column `Unnamed: 3` has no name in the file."),
        ("key", NAMES, "Column `key` has 40 different values in 40 rows."),
        ("key", [*NAMES[:-2], *NAMES[:2]], "Column `key` has 38 different values in 40 rows."),
        ("number", range(5, 5 + N), "Column `number` has a different whole number in every row."),
        ("number", RNG.permutation(10**6)[:N], "Column `number` has a different whole number in every row."),
        ("same", ["x"] * N, "Column `same` has the same value in every row."),
        ("same", [7] * N, "Column `same` has the same value in every row."),
        ("copy", CLEAN["y"], "Column `copy` determines the label of every row. If it is a copy of `y`"),
        ("copy", [3, 9] * (N // 2), "Column `copy` determines the label of every row."),
        ("price", [f"{i},5" for i in range(N)], "Column `price` is read as numbers with decimal commas, '0,5' as 0.5"),
        ("price", ["1,5", "2.5", "3,5", "4,5"] * 10, "Column `price` looks like numbers with a decimal comma"),
        ("day", [f"{1 + i % 28}/2/2024" for i in range(N)], "Column `day` is read as dates, '1/2/2024' as 2024-02-01."),
        ("day", [f"{1 + i % 12}/2/2024" for i in range(N)], "Column `day` looks like dates, but is taken as categor"),
        (
            "day",
            [f"{1 + i}.2.24" for i in range(N)],
            "Column `day` looks like dates, but is taken as categories: they ",
        ),
        (
            "price",
            ["142", "22", "999", *(f"{i}.{i}7" for i in range(10, 47))],
            "Column `price` is read with decimal poi",
        ),
        ("x", ["?"] * 4 + [f"{i / 7:.3f}" for i in range(N - 4)], "Column `x` holds numbers, but something else in 4 "),
        (
            "x",
            ["?"] * 25 + [f"{i}" for i in range(N - 25)],
            "Column `x` holds numbers, but something else in 25 rows ('?'",
        ),
        ("x", ["-", "."] * 6 + [f"{i}" for i in range(N - 12)], "Column `x` holds numbers, but something else in 12 "),
        ("x", ["0000-00-00"] * 4 + [f"2024-01-{i % 28 + 1:02}" for i in range(36)], "Column `x` holds dates, but some"),
        ("x", [f"${i},000" for i in range(1, 41)], "Column `x` looks like numbers with something around them ('$1,0"),
        ("x", [f"({i})" if i % 2 else f"{i}" for i in range(N)], "Column `x` looks like numbers with something around"),
        ("x", [f"{i} kg" for i in range(N)], "Column `x` looks like numbers with something around them ('0 kg', for"),
        ("x", [f"{i / 8}%" for i in range(N)], "Column `x` looks like numbers with something around them ('0.0%', fo"),
        ("x", [f"{i:03}".translate(ARABIC) for i in range(N)], "Column `x` looks like numbers with something around"),
        ("x", [f"{i % 28 + 1} Mar 2024" for i in range(N)], "Column `x` looks like dates, but is taken as categories"),
        ("x", [f"2024-05-{i % 28 + 1:02} 12:00 CET" for i in range(N)], "Column `x` looks like dates, but is taken as"),
        (
            "x",
            [f"{2000 + i % 20}/0{i % 9 + 1}" for i in range(N)],
            "Column `x` looks like dates, but is taken as categ",
        ),
        (
            "x",
            pd.to_timedelta(np.arange(N) * 7919, unit="s"),
            "Column `x` looks like times, but is taken as categories.",
        ),
        ("x", [f"12:{i:02}:00" for i in range(N)], "Column `x` looks like times, but is taken as categories."),
        (
            "price",
            ["1,234", "5,67", "9,1"] * 13 + ["1,5"],
            "Column `price` is read as numbers with decimal commas, '1,",
        ),
        ("price", ["1.234,56", "7,5", "2,5"] * 13 + ["1,5"], "Column `price` is read as numbers with decimal commas"),
        ("price", ["1.234.567", "1.234", "9"] * 13 + ["8"], "Column `price` is read as numbers with thousands separat"),
        ("price", ["1.234.567", "1.234", "9"] * 13 + ["3 kg"], "Column `price` looks like numbers with points betwee"),
        (
            "price",
            ["1,234", "999", "7"] * 13 + ["8"],
            "Column `price` is read as numbers with thousands separators, '1,234' as",
        ),
        (
            "price",
            [f"{1 + i // 3},000" for i in range(N)],
            "Column `price` is read as numbers with thousands separators",
        ),
        (
            "text",
            ["a", "two\nlines", "b", "c"] * (N // 4),
            "In column `text`, 10 cells hold 10 line breaks (that of data row 2,",
        ),
        ("size", [*map(str, CLEAN["size"][1:]), "?"], "Column `size` holds numbers, but something else in 1 row ('?'"),
        (
            "y",
            ["no", "yes", "No", " yes"] * (N // 4),
            "The classes ' yes', 'yes' differ in case, blanks, hyphens or points only.",
        ),
    ],
)
def test_what_looks_like_a_mistake_is_said_once(name, values, beginning):
    said = notes(**{name: list(values)})
    assert said[0].startswith(beginning), said
    assert len(said) == (2 if name == "y" else 1), said


@pytest.mark.parametrize(
    "name, values",
    [
        ("nearly a copy", [*CLEAN["y"][:-1], "no"]),
        ("numbers of one row each", RNG.normal(size=N)),  # that is what measurements are like
        ("like a class, with more values", ["a", "b", "c", "b"] * (N // 4)),
        ("missing or one value", [None, "x"] * (N // 2)),
        ("dates in two of five cells", ["1/2/2024", "2/2/2024", "a", "b", "c"] * (N // 5)),
    ],
)
def test_what_is_no_mistake_is_not_noted(name, values):
    assert notes(**{name: values}) == []


@pytest.mark.parametrize(
    "kind, values",
    [
        ("number", range(5, 5 + N)),
        ("number", RNG.permutation(10**6)[:N]),
        ("category", NAMES),
        ("text", [f"the words of row {i}" for i in range(N)]),
    ],
)
def test_of_a_column_whose_kind_was_stated_no_other_kind_is_asked(kind, values):
    assert notes(told=list(values))
    assert notes({"told": kind}, told=list(values)) == []


def test_of_few_rows_little_is_said():
    frame = pd.DataFrame({"key": list("abcdefgh"), "same": 1, "copy": [1, 2] * 4, "y": ["no", "yes"] * 4})
    columns = Columns.of(frame, "y")
    assert notes_on(frame, columns.select(frame), columns.labels(frame), columns) == []


def test_rows_without_a_label_are_counted():
    assert without_label(0) == []
    assert without_label(1) == ["1 row has no label and was left out."]
    assert without_label(1200) == ["1,200 rows have no label and were left out."]


def test_no_advice_makes_numbers_wrong():
    said = notes(price=["1,5", "2,25", "2,5", "2.5"] * (N // 4), amount=["1,234", "999"] * (N // 2))
    assert [sentence for sentence in said if "--decimal" in sentence] == []
    assert any(sentence.endswith("a decimal comma for the file would misread column `amount`.") for sentence in said)
    assert notes(price=["1,5", "2,25", "2,5", "2.5"] * (N // 4))[0].endswith("See --decimal.")


@pytest.mark.parametrize(
    "whole, points, others, is_noted",
    [
        (3, 10, [], True),
        (2, 10, [], False),
        (3, 9, [], False),
        (27, 10, [], True),  # whole numbers are of no decimals, and tell nothing
        (4, 31, ["7.25"] * 5, True),
        (4, 30, [f"7.{i}5" for i in range(1, 7)], True),  # 30 of 36
        (4, 15, [f"7.{i}5" for i in range(1, 6)], False),  # three in four
        (4, 10, ["0.125"], False),  # no thousand is written so
        (4, 10, ["1000"], False),
        (4, 10, ["-999"], True),
    ],
)
def test_numbers_of_three_decimals_among_whole_ones_may_be_thousands(whole, points, others, is_noted):
    cells = [*map(str, range(1, whole + 1)), *(f"{i}.{i}7" for i in range(10, 10 + points)), *others]
    frame = pd.DataFrame({"price": pd.Series(cells, dtype=object), "y": CLEAN["y"][0]})
    columns = Columns({"price": "number"}, "y")
    said = notes_on(frame, columns.select(frame), columns.labels(frame), columns)
    assert [sentence.startswith("Column `price` is read with decimal points, as in ") for sentence in said] == (
        [True] * is_noted
    )


@pytest.mark.parametrize("read", ["{}", "2024-01-{:02}"])
@pytest.mark.parametrize("n_words, n_values, is_noted", [(5, 10, True), (6, 10, False), (5, 9, False), (0, 10, False)])
def test_a_few_words_beside_ten_numbers_or_dates_may_mark_missing_values(read, n_words, n_values, is_noted):
    words = pd.Series(["?", "see file", "open", "new", "none", "lost"][:n_words])
    cells = pd.concat([words, pd.Series([read.format(day) for day in range(10, 10 + n_values)])], ignore_index=True)
    kind = "numbers" if read == "{}" else "dates"
    holds = f"Column `x` holds {kind}, but something else in "
    assert ([f"{holds}{n_words} rows ('?', for one)"] if is_noted else []) == beginnings(cells, holds)
    # Several words are few, that is in half of the rows at most; one word may be in most of them.
    values = cells.tolist()[n_words:]
    for n in (n_values, n_values + 1):
        assert beginnings(["?"] * n + values, holds) == [f"{holds}{n} rows ('?', for one)"] * (n_values > 9)
    assert beginnings(["?", "-"] * 6 + values[:10], holds) == []


def beginnings(cells, holds):
    said = unread(pd.Series(list(cells), name="x"), [])
    return [said.partition(", and is")[0]] if said is not None and said.startswith(holds) else []


@pytest.mark.parametrize(
    "classes, sentence",
    [
        (["hi", "hi\u200b"], r"The classes 'hi', 'hi\u200b' differ in case, blanks, hyphens or points only."),
        (["caf\u00e9", "cafe\u0301"], "differ in case, blanks, hyphens or points only."),
        (["1", "1.0"], "The classes '1', '1.0' are one number."),
        (["01", "1"], "The classes '01', '1' are one number."),
    ],
)
def test_classes_that_look_the_same(classes, sentence):
    (note,) = notes(y=["no", *classes, "no"] * (N // 4))
    assert sentence in note


@pytest.mark.parametrize("name", ["12{}", "A-{}", "{}-{}", "user{}", "10.0.{}.1", "0x{:x}", "{}th street"])
def test_names_of_rows_are_not_taken_for_numbers(name):
    (note,) = notes(x=[name.format(i, i + 9) + "abcdefghij"[i % 10] for i in range(N)])
    assert "If it names the rows, pass --id 'x' before you review, since" in note
