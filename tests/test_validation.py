"""The sentences of errors: the nearest name, how many more there are, and percent that were meant as a share."""

from pathlib import Path

import pandas as pd
import pytest

from mgce import certify
from mgce._messages import check_choice, check_fraction, expected, listed, nearest, unknown_name
from mgce.desk.cli.shared_options import parse_rate
from mgce.desk.columns.kinds import Columns
from mgce.desk.files.table_files import require_column
from mgce.desk.tables.fit import FitPlan, run
from mgce_lab.losses import robust_loss


@pytest.mark.parametrize(
    "got, known, name",
    [
        ("chruned", ["age", "churned"], "churned"),
        ("Churned ", ["age", "churned"], "churned"),
        ("AGE", ["age", "churned"], "age"),
        ("id", [1, "Id"], "Id"),
    ],
)
def test_the_nearest_name_is_asked_for(got, known, name):
    assert nearest(got, known) == f" Did you mean {name!r}?"


def test_nothing_is_asked_where_no_name_is_near():
    assert nearest("salary", ["age", "churned"]) == nearest("x", []) == nearest(None, ["age"]) == ""
    assert nearest("x" * 10**6, ["x" * 10**5]) == ""  # in no time


def test_names_that_are_not_listed_are_counted():
    names = [f"c{i}" for i in range(31)]
    assert listed(names).endswith("c19 and 11 more")
    assert listed(names[:20]).endswith("c19")
    # The right name is found where the list does not show it.
    assert unknown_name("target", "a column", "C30", names).endswith("and 11 more), but got 'C30'. Did you mean 'c30'?")


def test_names_of_files_cannot_move_the_cursor():
    assert "\x1b" not in nearest("\x1b[31mred", ["\x1b[31mred!"])


FRAME = pd.DataFrame({"age": [1, 2] * 20, "city": ["a", "b"] * 20, "churned": ["no", "yes"] * 20})


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: run(FRAME, FitPlan("chruned")), "churned"),
        *(
            (lambda option=option, value=value: run(FRAME, FitPlan("churned", **{option: value})), "city")
            for option, value in {"id": "citi", "groups": "ctiy", "time": "City", "drop": ("ciyt",)}.items()
        ),
        (lambda: run(FRAME, FitPlan("churned", text=("citty",))), "city"),
        (lambda: run(FRAME, FitPlan("churned", category=("Cities",))), "city"),
        (lambda: FitPlan("churned", model="forrest"), "forest"),
        (lambda: Columns.of(FRAME, "churn"), "churned"),
        (lambda: Columns.of(FRAME, "churned").select(FRAME.rename(columns={"age": "Age"})), "Age"),
        (lambda: require_column(FRAME, "agee", "by"), "age"),
        (lambda: robust_loss("gec", "cifar10"), "gce"),
        (lambda: certify([0, 1], [[0.5, 0.5]] * 2, noise_type="symetric"), "symmetric"),
    ],
)
def test_every_mistyped_name_is_answered_with_the_nearest(call, name):
    with pytest.raises(
        ValueError, match=rf"Expected `\w+` .*\. Did you mean '{name}'\?|none of that name. Did you mean"
    ):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: certify([0, 1], [[0.5, 0.5]] * 2, noise_rate=40),
        lambda: certify([0, 1], [[0.5, 0.5]] * 2, noise_rate=40, noise_type="any"),
        lambda: check_fraction("noise_rate", 40.0),
        lambda: FitPlan("y", coverage=40),
        lambda: FitPlan("y", holdout=40),
        lambda: certify([0, 1], [[0.5, 0.5]] * 2, delta=40),
        lambda: parse_rate("40 %"),
    ],
)
def test_percent_are_asked_about(call):
    with pytest.raises(ValueError, match=r"but got '?40[^.]*\.?0?'?\. Did you mean 0\.4\?"):
        call()


def test_what_is_no_number_of_percent_is_not_asked_about():
    for got in (-0.1, 100.5, float("inf")):
        with pytest.raises(ValueError, match=r"but got [^?]*$"):
            check_fraction("noise_rate", got)
    with pytest.raises(ValueError, match=r"but got 'atuo'\.$"):
        parse_rate("atuo")
    with pytest.raises(ValueError, match=r"but got 3\.$"):
        check_choice("loss", 3, ("a", "b"))


def test_a_path_is_shown_as_people_write_it():
    assert expected("cleaned", "left out", Path("a/c.csv")) == "Expected `cleaned` to be left out, but got 'a/c.csv'."
