import numpy as np
import pandas as pd
import pytest

from mgce.desk.tables.rows import Split, split_rows

N = 200
RNG = np.random.default_rng(0)


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "x": RNG.normal(size=N),
            "key": [f"k{i}" for i in range(N)],
            "ward": [f"w{i // 5}" for i in range(N)],
            "day": pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d").tolist(),
            "y": RNG.choice(["a", "b"], N),
        }
    )


def test_rows_are_those_of_the_file_by_number_or_id(frame):
    frame.loc[[3, 50], "y"] = None
    rows = split_rows(frame, Split("y"))
    numbers = np.setdiff1d(np.arange(N), [3, 50])
    assert rows.names.tolist() == [str(number + 1) for number in numbers]
    np.testing.assert_array_equal(rows.selected["x"], frame["x"][numbers])
    assert rows.labels.tolist() == rows.classes[rows.target].tolist() == frame["y"][numbers].tolist()
    assert rows.notes == ["2 rows have no label and were left out."]
    assert sorted([*rows.train, *rows.held_out]) == list(range(198)) and len(rows.held_out) == 50
    assert split_rows(frame, Split("y", "key")).names.tolist() == [f"k{number}" for number in numbers]


def test_mistyped_labels_are_left_out_with_a_note(frame):
    frame.loc[7, "y"], frame.loc[9, "y"] = "aa", "A"
    rows = split_rows(frame, Split("y"))
    assert rows.classes.tolist() == ["a", "b"] and len(rows.names) == 198 and not {"8", "10"} & {*rows.names}
    n = len(rows.unknown)
    assert rows.notes == [
        "2 rows were left out: fewer than two training rows have their label ('A', 'aa')."
        + (f" The bound counts {n:,} of them as errors of the model, since they were held out." if n else "")
    ]
    assert min(np.bincount(rows.target[rows.train])) >= 2
    without = split_rows(frame.drop(index=[7, 9]).reset_index(drop=True), Split("y"))
    assert set(rows.classes) == set(without.classes)


def test_columns_that_are_not_learnt_from(frame):
    rows = split_rows(frame, Split("y", "key", drop=("x",), time="day"))
    assert rows.columns.kinds == {"ward": "category"}


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_held_out_whole(frame, seed):
    rows = split_rows(frame.assign(ward=frame["ward"].where(frame.index > 2)), Split("y", groups="ward", seed=seed))
    train, held_out = (set(rows.groups[part]) for part in (rows.train, rows.held_out))
    assert not train & held_out and "ward" not in rows.columns.kinds
    assert len(train | held_out) == 43  # of the first five rows, three have no group and are their own
    assert len(held_out) == round(43 / 4)


def test_the_last_rows_in_time_are_held_out(frame):
    shuffled = frame.sample(frac=1, random_state=0)
    shuffled.iloc[5, shuffled.columns.get_loc("day")] = None
    rows = split_rows(shuffled, Split("y", time="day"))
    days = rows.frame["day"].fillna("0").to_numpy()
    assert days[rows.train].max() < days[rows.held_out].min() and len(rows.held_out) == 50


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"groups": "all"}, "Expected `groups` to be a column of so many groups that a share of 0.25 can be held out"),
        ({"groups": "y"}, "Expected `groups` to be another column than the target, but got 'y'"),
        ({"time": "ward"}, "Expected `time` to be a column of numbers, or of dates like 2024-05-31, but got 'w0'"),
        ({"drop": ("z",)}, "Expected `drop` to be a column of the table"),
        ({"drop": ("x", "key", "ward", "day", "all")}, "a table with a column beside the target"),
    ],
)
def test_splits_that_cannot_be_made_are_refused(frame, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        split_rows(frame.assign(all="one"), Split("y", **options))


def test_a_table_that_would_take_hours_is_refused(monkeypatch):
    frame = pd.DataFrame({"x": np.arange(10_020.0), "y": np.repeat(np.arange(501), 20)})
    with pytest.raises(ValueError, match="Expected `target` to be a column of at most 500 classes, but got 501"):
        split_rows(frame, Split("y", holdout=0.1))
    monkeypatch.setattr("mgce.desk.tables.rows.MOST_PROBABILITIES", 1000)
    with pytest.raises(ValueError, match="Expected `table` to be of at most 500 rows for 2 classes, but got 501"):
        split_rows(pd.DataFrame({"x": np.arange(501.0), "y": np.arange(501) % 2}), Split("y"))


def with_copies(frame):
    """Copy ten rows twice; in the second copy, the ward and the day are other ones."""
    other = frame.iloc[:10].assign(ward=[f"v{i}" for i in range(10)], day="2030-01-01")
    return pd.concat([frame, frame.iloc[:10], other], ignore_index=True).assign(key=[f"k{i}" for i in range(N + 20)])


def sets_of(rows):
    """Return the rows of the file by copy, and whether one of them is trained on, or held out."""
    numbers = rows.frame.index.to_numpy()
    parts = {row: part for part in ("train", "held_out") for row in numbers[getattr(rows, part)]}
    copied = [[i, N + i, N + 10 + i] for i in range(10)]
    return [[parts.get(row) for row in rows_of_one] for rows_of_one in copied]


@pytest.mark.parametrize("options", [{}, {"groups": "ward"}, {"time": "day"}])
@pytest.mark.parametrize("seed", range(3))
def test_of_the_copies_of_a_row_one_is_trained_on_or_held_out(frame, options, seed):
    drop = tuple({"ward", "day"} - {*options.values()})
    rows = split_rows(with_copies(frame), Split("y", "key", drop, seed=seed, **options))
    assert rows.n_copies == 20 and "20 of the 220 rows are copies" in rows.notes[0]
    for parts in sets_of(rows):
        assert len([part for part in parts if part]) == 1
    used = np.concatenate([rows.train, rows.held_out])
    assert len(used) == len(np.unique(used)) == N and (rows.first[used] == used).all()
    assert rows.weight(used).sum() == N + 20 and sorted(np.unique(rows.weight(used))) == [1, 3]
    for column in ("x", "y"):
        values = rows.frame[column].to_numpy()
        assert (values[rows.first] == values).all()


def test_groups_that_share_copies_are_held_out_together(frame):
    shared = with_copies(frame)
    split = Split("y", "key", ("day",), groups="ward")
    rows = split_rows(shared, split)
    wards = shared["ward"].to_numpy()
    for copied in range(10):
        pair = [rows.groups[np.flatnonzero(wards == ward)[0]] for ward in (wards[copied], f"v{copied}")]
        assert pair[0] == pair[1]
    assert not {*rows.groups[rows.train]} & {*rows.groups[rows.held_out]}
    assert len(np.unique(rows.groups)) == 40  # those of the ten other copies are one with two of the forty


def test_the_first_copy_in_time_counts(frame):
    rows = split_rows(with_copies(frame), Split("y", "key", ("ward",), time="day"))
    assert all(parts[2] is None for parts in sets_of(rows))  # copied in 2030, long after the row was first seen
    assert rows.frame["day"].to_numpy()[rows.held_out].max() < "2025"


@pytest.mark.parametrize("options", [{}, {"groups": "ward"}, {"time": "day"}])
def test_the_order_of_the_file_does_not_matter(frame, options):
    table = with_copies(frame)
    split = Split("y", "key", tuple({"ward", "day"} - {*options.values()}), **options)
    rows, other = split_rows(table, split), split_rows(table.sort_values("x"), split)
    for part in ("train", "held_out"):
        pd.testing.assert_series_equal(
            *(each.selected["x"].iloc[getattr(each, part)].reset_index(drop=True) for each in (rows, other))
        )
        np.testing.assert_array_equal(*(each.weight(getattr(each, part)) for each in (rows, other)))


def test_without_copies_all_rows_weigh_the_same(frame):
    rows = split_rows(frame, Split("y", "key"))
    assert rows.n_copies == 0 and rows.weight(rows.train) is None and rows.notes == []
    np.testing.assert_array_equal(rows.first, np.arange(N))


@pytest.mark.parametrize("wrong", [0.15, 0.3, 0.5])
@pytest.mark.parametrize("options", [{}, {"groups": "who"}])
def test_the_labels_of_one_thing_are_held_out_together(wrong, options):
    """Five people labelled each of 120 things: a model that learnt four of the labels has seen the thing."""
    rng = np.random.default_rng(0)
    things = pd.DataFrame(rng.integers(0, 100, (120, 5)), columns=list("abcde"))
    table = pd.concat([things.assign(thing=range(120)) for _ in range(5)], ignore_index=True)
    right = table["thing"] % 2
    table["y"] = np.where(rng.random(600) < wrong, 1 - right, right)
    table["who"] = table["thing"].astype(str) + "/" + table.index.astype(str)
    rows = split_rows(table, Split("y", drop=("thing",) if options else ("thing", "who"), **options))
    thing = rows.frame["thing"].to_numpy()
    assert not {*thing[rows.train]} & {*thing[rows.held_out]}
    n_distinct = len(table[["thing", "y"]].drop_duplicates())
    assert len(rows.train) + len(rows.held_out) == n_distinct == 600 - rows.n_copies
