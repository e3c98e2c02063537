import numpy as np
import pandas as pd
import pytest

from mgce.tables.rows import Split, split_rows

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
    assert rows.notes == [
        "2 rows were left out, with a label that fewer than two training rows have: 'A', 'aa'. "
        "Those held out count as errors in the certificate."
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
        ({"drop": ("z",)}, "Expected `drop` to be columns of the table"),
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
    monkeypatch.setattr("mgce.tables.rows.MOST_PROBABILITIES", 1000)
    with pytest.raises(ValueError, match="Expected `table` to be of at most 500 rows for 2 classes, but got 501"):
        split_rows(pd.DataFrame({"x": np.arange(501.0), "y": np.arange(501) % 2}), Split("y"))
