import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.spellings import alike, joined, near, on_joined, respelt, spelling
from mgce.desk.tables.fit import run
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.model import TableModel

ONE = ["Approved", "approved", "APPROVED", " Approved ", "Approved.", "Appro\u200bved", "\uff21pproved", "Approved…"]
OTHERS = ["A", "a b", "ab", "A+", "A-", "a,", "1", "01", "1.5", "no!", "\u00df.x"]


def test_spellings_of_one_class_differ_in_case_blanks_hyphens_width_or_final_points():
    assert {spelling(label) for label in ONE} == {"approved"}
    assert len({spelling(label) for label in OTHERS}) == len(OTHERS)
    hyphens = ["Retest", "Re-test", "re test", "RE_TEST", "Re\u2011test", "Re \u2013 test"]
    assert {spelling(label) for label in hyphens} == {"retest"}
    apart = ["1-2", "12", "1 2", "A-1", "A1", "type A-B", "type AB", "5-fold", "5fold", "Rh-", "Rh", "x_1", "x1"]
    assert len({spelling(label) for label in apart}) == len(apart)
    assert spelling("...") == "..." and spelling("a \n b") == spelling("A B")


def test_classes_take_the_most_frequent_spelling_without_blanks_around():
    labels = pd.Series(["yes "] * 5 + ["yes"] * 2 + ["YES"] * 3 + ["no", "no."] + [None])
    changed = joined(labels)
    assert changed == {"yes ": "YES", "yes": "YES", "no.": "no"}
    (said,) = on_joined(changed)
    assert said.startswith("5 spellings are taken for 2 classes: ") and "'YES' (also 'yes', 'yes ')" in said
    (said,) = on_joined({"yes": "YES", "yes ": "YES"}, "label")
    assert said == "3 spellings are taken for 1 label: 'YES' (also 'yes', 'yes '). --apart keeps them apart."
    assert respelt(labels, ["YES", "no"]).dropna().value_counts().to_dict() == {"YES": 10, "no": 2}
    assert respelt(pd.Series(["Yes", "maybe"]), ["yes", "YES"]).tolist() == ["Yes", "maybe"]  # either may be meant
    assert joined(pd.Series(["a", "b"])) == {} and on_joined({}) == []


def test_rare_classes_spelt_nearly_as_frequent_ones_are_asked_about():
    counts = {
        "Approved": 300,
        "Aproved": 2,
        "Rejected": 200,
        "Pending": 30,
        "Type 1": 1,
        "Type 2": 300,
        "cat": 300,
        "car": 1,
    }
    question = "Is 'Aproved' (2 rows) the class 'Approved' (300)? "
    assert [*near(counts, {}, counts)] == [question + "The page of `mgce review` joins them."]
    assert [*near(counts, {"Aproved": 1}, [])] == [
        question + "If so, write both alike, and fit again before you review."
    ]
    assert [*near(counts, {"Aproved": 2}, counts)] == [*near({})] == []
    assert [*alike(pd.Series(["1", "01", "x", "X"]), "classes")] == [
        "The classes '01', '1' are one number. Are they one?",
        "The classes 'X', 'x' differ in case, blanks, hyphens or points only. Are they one?",
    ]


@pytest.fixture(scope="module")
def typed():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, 200)
    ways = [["Prepaid", "pre-paid", "Pre paid"], ["Open", "OPEN", "open."]]
    labels = [ways[one][way] for one, way in zip(right, rng.choice(3, 200, p=[0.6, 0.2, 0.2]), strict=True)]
    return pd.DataFrame({"x": right + 0.1 * rng.standard_normal(200), "state": labels})


@pytest.mark.parametrize("apart", [False, True])
def test_a_model_knows_which_spellings_it_joined(typed, apart, tmp_path):
    plan = FitPlan("state", model="linear", apart=apart)
    fit = run(typed, plan)
    classes = ["Open", "Prepaid"] if not apart else sorted({*typed["state"]})
    assert fit.model.classes.tolist() == classes
    assert len(fit.asked) == (not apart) and any("differ in case" in note for note in fit.notes) == apart
    (tmp_path / "t.mgce").write_bytes(fit.model.to_bytes())
    model = TableModel.load(tmp_path / "t.mgce")
    labels = model.columns.labels(pd.DataFrame({"state": ["PRE-PAID", "open", "neither"]}))
    assert labels.tolist() == (["PRE-PAID", "open", "neither"] if apart else ["Prepaid", "Open", "neither"])
