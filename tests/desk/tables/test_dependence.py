"""Signs that rows depend on one another: found where they do, and not in ordinary tables."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from mgce.desk.columns.dependence import NO_BOUND, _differ_within, dependence
from mgce.desk.columns.kinds import CATEGORY, NUMBER, Columns
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.report import headline, page
from mgce.desk.tables.summary import summary
from ordinary_tables import ORDINARY

RNG = np.random.default_rng(0)


def signs(frame, in_use=False):
    columns = Columns.of(frame, "y")
    return dependence(columns.select(frame), columns.kinds, columns.labels(frame), 0, in_use)


def independent(n=300):
    return pd.DataFrame(RNG.normal(size=(n, 5)), columns=list("abcde")).assign(y=RNG.integers(0, 2, n))


def visits():
    """Six hundred visits of sixty patients, whose measurements differ less than the patients do."""
    patient = RNG.integers(0, 60, 600)
    frame = pd.DataFrame(RNG.normal(size=(60, 4))[patient] + 0.3 * RNG.normal(size=(600, 4)), columns=list("abcd"))
    return frame.assign(patient=patient, sex=RNG.integers(0, 2, 60)[patient], y=RNG.integers(0, 2, 60)[patient])


def jittered():
    frame = independent(200)
    again = pd.concat([frame] * 2, ignore_index=True)
    return again.assign(**{name: again[name] + 1e-3 * RNG.normal(size=400) for name in "abcde"})


@pytest.mark.parametrize("draw", ORDINARY)
def test_ordinary_tables_show_no_signs(draw):
    for seed in range(3):
        frame = draw(np.random.default_rng(seed))
        assert signs(frame.assign(y=frame["y"].astype(str))) == []


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_data_sets_of_scikit_learn_show_none_although_they_are_sorted_by_class(load):
    data = load(as_frame=True)
    frame = data.data.assign(y=data.target.map(str)).sort_values("y", kind="stable")
    assert signs(frame.reset_index(drop=True)) == []


def test_how_much_rows_of_a_group_differ_is_a_ratio_of_variances():
    x, group = pd.Series(RNG.normal(size=40)), np.repeat(range(8), 5)
    assert _differ_within(x, NUMBER, group) == pytest.approx(x.groupby(group).var().mean() / x.var())


def test_missing_numbers_and_groups_without_any_do_not_count_in_the_ratio():
    x, group = pd.Series(RNG.normal(size=40)), np.repeat(range(8), 5)
    x[[0, 1, 5, 6, 7, 8, 9, 38, 39]] = np.nan  # all of the second group; of the first and the last some
    sizes, variances = x.groupby(group).count(), x.groupby(group).var()
    within = (variances * (sizes - 1)).sum() / (sizes[sizes > 0] - 1).sum()
    assert _differ_within(x, NUMBER, group) == pytest.approx(within / x.var())


def test_how_much_categories_of_a_group_differ_is_a_ratio_of_shares_of_pairs():
    category, group = pd.Series(RNG.choice(list("abc"), 30)), RNG.integers(0, 12, 30)
    every = list(combinations(range(30), 2))
    inside = [(i, j) for i, j in every if group[i] == group[j]]
    differ, differ_inside = (np.mean([category[i] != category[j] for i, j in pairs]) for pairs in (every, inside))
    assert _differ_within(category, CATEGORY, group) == pytest.approx(differ_inside / differ)
    assert _differ_within(pd.Series(list("aabb")), CATEGORY, np.array([0, 0, 1, 1])) == 0
    # Without two rows of a group, or two categories, there is nothing to compare.
    assert _differ_within(category, CATEGORY, np.arange(30)) == 1
    assert _differ_within(pd.Series(["a"] * 30), CATEGORY, group) == 1


def test_numbers_whose_squares_overflow_show_no_signs_and_warn_of_nothing(recwarn):
    frame = independent()
    assert signs(frame.assign(a=1e300 * frame["a"], b=np.where(frame["b"] > 0, 1e300, -1e300))) == []
    assert not recwarn.list


def test_nearly_equal_rows_are_counted():
    (found,) = signs(jittered())
    assert 150 <= int(found.what.split()[0]) <= 200 and "--groups" in found.note
    assert found.note.endswith(NO_BOUND)
    assert signs(jittered(), in_use=True) != []


@pytest.mark.parametrize(
    "own",
    [
        np.arange(400),
        [f"{2**40 + i * 7919:x}" for i in range(400)],
        [f"2024-01-01T00:{i // 60:02}:{i % 60:02}" for i in range(400)],
        [f"2024-01-01T00:{i // 300:02}:{i // 5 % 60:02}" for i in range(400)],  # five rows in each second
    ],
)
def test_copies_that_a_column_of_their_own_tells_apart_are_counted(own):
    frame = pd.concat([independent(100)] * 4, ignore_index=True).assign(own=own).sample(frac=1, random_state=0)
    (found,) = signs(frame)
    assert found.what == "300 rows nearly equal another one" and "all features but `own`" in found.note
    assert signs(independent(400).assign(own=own).sample(frac=1, random_state=0)) == []


@pytest.mark.parametrize("times", [2, 3, 4])
@pytest.mark.parametrize("classes", [("a", "b"), ("a",)])  # whose rows are repeated
def test_answers_that_were_repeated_are_noted(times, classes):
    rng = np.random.default_rng(times)
    drawn = pd.DataFrame(rng.integers(1, 6, (160, 4)), columns=list("qrst")).assign(y=rng.choice(["a", "b"], 160))
    again = pd.concat([drawn] + [drawn[drawn["y"].isin(classes)]] * (times - 1), ignore_index=True)
    assert "rows are repeated as draws are not" in [found.what for found in signs(again)]
    assert signs(drawn) == []
    bootstrap = drawn.sample(len(again), replace=True, random_state=0)  # draws of other draws: moments of a measure too
    assert "rows are repeated as draws are not" not in [found.what for found in signs(bootstrap)]


@pytest.mark.parametrize("name", [int, "p{}".format])
def test_a_column_that_repeats_with_what_stands_beside_it_looks_like_groups(name):
    frame = visits()
    (found,) = signs(frame.assign(patient=frame["patient"].map(name)))
    assert found.what == "column `patient` looks like groups" and "60 values in 600 rows" in found.note
    assert "alike in 5 of 5 other columns" in found.note and found.note.endswith(NO_BOUND)
    assert signs(frame, in_use=True) == []
    shuffled = frame.assign(patient=RNG.permutation(frame["patient"]))
    assert signs(shuffled) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_sorted_by_a_column_of_times(reverse):
    days = pd.Series(pd.date_range("2024-01-01", periods=300).strftime("%Y-%m-%d"))
    frame = independent().assign(day=days[::-1].tolist() if reverse else days)
    assert [found.what for found in signs(frame)] == ["they are sorted by `day`"]
    assert signs(frame.sample(frac=1, random_state=0)) == []
    assert signs(frame)[0].note.endswith(NO_BOUND)
    years = independent().assign(start_year=1900 + np.arange(300) // 3)
    assert [found.what for found in signs(years)] == ["they are sorted by `start_year`"]
    assert signs(independent().assign(height=np.sort(RNG.normal(size=300)))) == []  # sorted by a feature: no harm


def test_neighbours_that_are_alike():
    frame = independent(400)
    for row in range(1, 400):  # an autoregression: neighbours differ by a fifth of what random rows do
        frame.loc[row, list("abc")] = 0.8 * frame.loc[row - 1, list("abc")] + 0.6 * frame.loc[row, list("abc")]
    (found,) = signs(frame)
    assert found.what == "neighbouring rows of the file are alike" and "3 of 5 columns" in found.note
    assert found.note.endswith(NO_BOUND)
    assert signs(frame.sample(frac=1, random_state=0)) == []


def test_signs_stand_in_the_headline_the_report_and_the_json():
    plan = FitPlan("y", model="linear")
    fit = run(visits(), plan)
    words = "Rows may depend on one another, so that the bound may be too low: column `patient` looks like groups."
    assert words in headline(fit) and words in page(fit, "t.csv", "m").decode()
    found = json.loads(json.dumps(summary(fit)))
    assert found["dependence"] == ["column `patient` looks like groups"]
    assert any("pass --groups 'patient'" in note for note in found["notes"])
    grouped = FitPlan("y", model="linear", groups="patient")
    assert "may depend" not in headline(run(visits(), grouped))
