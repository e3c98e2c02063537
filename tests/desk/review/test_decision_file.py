import pytest

from mgce.desk.review.decision_file import (
    COLUMNS,
    SUGGESTED,
    Decision,
    check_classes,
    check_decided,
    read_decisions,
    spelt_alike,
)

HEAD = ",".join(COLUMNS) + "\n"


def write(path, *rows):
    path.write_text(HEAD + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def test_of_several_files_the_last_decision_counts(tmp_path):
    one = write(tmp_path / "1.csv", "ra,1,2,yes,keep,yes,suspect,7,0.01", "rb,2,3,yes,skip,,random,1,0.02")
    two = write(tmp_path / "2.csv", "rb,2,3,yes,other,'=no,random,1,0.02", "rc,3,4,no,drop,,suspect,,")
    found = {each.key: each for each in read_decisions(one, two)[0]}
    assert found == {
        "ra": Decision("ra", "yes", "keep", "yes", False, 7, 0.01),
        "rb": Decision("rb", "yes", "other", "=no", True, 1, 0.02),
        "rc": Decision("rc", "no", "drop", "", False, None, 0.0),
    }
    assert [found[key].is_settled for key in ("ra", "rb", "rc")] == [True] * 3
    assert not read_decisions(one)[0][1].is_settled


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            "ra,x,2,yes,kept,yes,suspect,7,0.01",
            "keep, suggestion, other, drop or skip in the column decision, but got 'kept",
        ),
        (
            "ra,x,2,yes,,yes,suspect,7,0.01",
            "keep, suggestion, other, drop or skip in the column decision, but got 'nothing in",
        ),
        ("ra,x,2,yes,keep,no,suspect,7,0.01", "a kept label is the given one"),
        ("ra,x,2,yes,other,yes,suspect,7,0.01", "changed is not the given one, 'yes', but got 'yes in line 3 of d.csv"),
        ("ra,x,2,yes,suggestion,yes,suspect,7,0.01", "a label that was changed is not the given one"),
        ("ra,x,2,yes,other,,suspect,7,0.01", "but got no label beside other in line 3 of d.csv, row x. Write the lab"),
        ("ra,x,2,yes,keep,,suspect,7,0.01", "but got no label beside keep in line 3 of d.csv, row x. Write the label"),
        ("ra,x,2,yes,skip,no,suspect,7,0.01", "but got 'no' beside skip in line 3 of d.csv, row x. Empty the label, "),
        (
            "ra,x,2,yes,keep,yes,why,7,0.01",
            "suspect, random, suspect and random or random and suspect in the column shown_as, but got 'why in",
        ),
        ("ra,x,2,yes,keep,yes,random,first,0.01", "a whole number from 1 in the column draw, but got 'first in"),
        ("ra,x,2,yes,keep,yes,random,1.5,0.01", "a whole number from 1 in the column draw, but got '1.5 in"),
        ("ra,x,2,yes,keep,yes,random,0,0.01", "a whole number from 1 in the column draw, but got '0 in"),
        ("ra,x,2,yes,keep,yes,random,1,-1", "a number in [0, 1] in the column draw_probability, but got '-1 in"),
        ("ra,x,2,yes,keep,yes,random,1,nan", "a number in [0, 1] in the column draw_probability, but got 'nan in"),
        ("ra,x,2,yes,keep,yes,random,1,2", "a number in [0, 1] in the column draw_probability, but got '2 in"),
    ],
)
def test_what_a_column_may_not_hold_is_refused_with_its_row(tmp_path, row, sentence):
    path = write(tmp_path / "d.csv", "rb,1,2,yes,keep,yes,suspect,7,0.01", row)
    with pytest.raises(ValueError, match="Expected `checked`") as error:
        read_decisions(path)
    assert sentence in str(error.value) and "line 3 of d.csv, row x" in str(error.value)


def test_a_short_row_is_refused_with_its_line(tmp_path):
    with pytest.raises(ValueError, match="9 values in each line, but got '3 in line 2 of d.csv'"):
        read_decisions(write(tmp_path / "d.csv", "ra,1,2"))


def test_decisions_may_have_capitals_and_blanks_as_a_person_types_them(tmp_path):
    path = write(tmp_path / "d.csv", "ra,1,2,yes,Suggestion ,no,suspect,7,0.01", "rb,2,3,yes, SKIP,,random,8,0.01")
    assert [(one.decision, one.label) for one in read_decisions(path)[0]] == [("suggestion", "no"), ("skip", "")]


def test_a_program_may_write_draws_as_floats(tmp_path):
    path = write(tmp_path / "d.csv", 'ra,1,2,yes,keep,yes,random,7.0,"0,01"')
    assert [(one.draw, one.draw_probability) for one in read_decisions(path)[0]] == [(7, 0.01)]


def test_other_files_are_refused_with_what_they_lack(tmp_path):
    write(tmp_path / "d.csv", "a,1,2,no,keep,no,suspect,1,0.5").write_text(HEAD.replace("shown_as,draw,", ""))
    with pytest.raises(
        ValueError, match="as the page of `mgce review` saves it, .* but got 'd.csv without shown_as, d"
    ):
        read_decisions(tmp_path / "d.csv")


def test_columns_may_stand_in_any_order_beside_others(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(f"comment,{SUGGESTED},{','.join(COLUMNS[::-1])}\nmine,no,0.5,1,suspect,no,suggestion,yes,2,n7,a\n")
    assert read_decisions(path)[0] == [Decision("a", "yes", "suggestion", "no", draw=1, draw_probability=0.5)]


def test_spreadsheets_may_save_decisions_in_their_own_encoding(tmp_path):
    path = write(tmp_path / "d.csv", "ra,1,2,klar,other,tr\u00fcb \u2013 \u20ac,suspect,7,0.01")
    said = read_decisions(path)
    for encoding in ("cp1252", "utf-8-sig"):
        (tmp_path / "e.csv").write_text(path.read_text("utf-8").replace(",", ";"), encoding)
        assert read_decisions(tmp_path / "e.csv") == said
    (tmp_path / "e.csv").write_bytes(path.read_bytes() + b"\x81\xff")  # no character of either
    with pytest.raises(ValueError, match="to be a CSV file, but got 'e.csv, which could not be read'"):
        read_decisions(tmp_path / "e.csv")


def test_two_decisions_of_one_file_on_a_row_that_differ_are_refused_with_their_lines(tmp_path):
    one = "ra,n7,2,yes,keep,yes,suspect,7,0.01"
    assert len(read_decisions(write(tmp_path / "d.csv", one, one))[0]) == 1
    write(tmp_path / "d.csv", one, "rb,2,3,yes,drop,,suspect,8,0.01", one.replace("keep,yes", "other,no"))
    with pytest.raises(ValueError, match="one decision on each row, but got 'two on row n7 in lines 2 and 4 of d.csv'"):
        read_decisions(tmp_path / "d.csv")


def test_a_label_may_be_spelt_otherwise_than_the_one_beside_it(tmp_path):
    path = tmp_path / "d.csv"
    rows = "ra,1,2,Retest,keep,re-test,suspect,7,0.01,No\nrb,2,3,Retest,suggestion,no.,suspect,8,0.01,No\n"
    path.write_text(f"{HEAD.strip()},{SUGGESTED}\n{rows}")
    decisions = read_decisions(path)[0]
    assert [one.label for one in decisions] == ["re-test", "no."]
    assert [one.label for one in spelt_alike(decisions, ["Retest", "No"])] == ["Retest", "No"]
    assert spelt_alike(decisions, ["Retest", "No", "re-test", "no."]) == decisions  # classes that are kept apart


def test_later_decisions_replace_others_and_are_counted(tmp_path):
    first, second, none = (tmp_path / name for name in ("first.csv", "second.csv", "none.csv"))
    head = ",".join(COLUMNS)
    first.write_text(f"{head}\na,1,2,no,keep,no,suspect,1,0.5\nb,2,3,no,keep,no,random,2,0.5\n")
    second.write_text(f"{head}\na,1,2,no,suggestion,yes,suspect,1,0.5\nb,2,3,no,keep,no,random,2,0.5\n")
    decisions, replaced = read_decisions(first, second)
    assert ([one.label for one in decisions], replaced) == (["yes", "no"], 1)
    none.write_text(head + "\n")
    with pytest.raises(ValueError, match="to be a file with decisions, but got 'none.csv without any'"):
        read_decisions(none)


def test_a_label_that_was_changed_without_its_decision_is_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(f"{HEAD.strip()},{SUGGESTED}\nra,n7,2,yes,suggestion,no,suspect,7,0.01,no\n")
    assert [(one.label, one.name) for one in read_decisions(path)[0]] == [("no", "n7")]
    path.write_text(path.read_text().replace("suggestion,no,", "suggestion,maybe,"))
    with pytest.raises(ValueError, match="that was taken is 'no', but got 'maybe in line 2 of d.csv, row n7'. Change"):
        read_decisions(path)
    path.write_text(path.read_text().replace("suggestion,maybe,", "other,maybe,"))
    assert read_decisions(path)[0][0].label == "maybe"


KEPT = Decision("ra", "01", "keep", "01", name="n1")
OTHER = Decision("rb", "01", "other", "02", name="n2")
DROPPED = Decision("rc", "02", "drop", "", name="n3")
EVERY = [KEPT, OTHER, DROPPED]
NOW = {"ra": "01", "rb": "01", "rc": "02"}


def check(now, decisions=EVERY, **options):
    check_decided(decisions, now, "this table", "Do so.", **options)


def test_labels_may_be_those_of_before_or_those_decided_on_and_dropped_rows_may_be_gone():
    check(NOW)
    check(NOW | {"rb": "02"})
    check({key: label for key, label in NOW.items() if key != "rc"})


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (
            {"ra": "01"},
            r"to be 3 decisions on rows of this table, but got 1 on rows that are not found \(n2\)\. Do so\.",
        ),
        (NOW | {"ra": "02"}, r"got 1 on rows whose label was changed since \(n1: 01 became 02\)\. Do so\."),
        (NOW | {"rc": "01"}, r"\(n3: 02 became 01\)\. Do so\."),
        (
            NOW | {"ra": "1"},
            r"\(n1: 01 became 1\)\. A spreadsheet that saves a file again may change labels, as 01 to 1",
        ),
        (
            {"ra": "02", "rc": "02"},
            r"not found \(n2\), and 1 on rows whose label was changed since \(n1: 01 became 02\)",
        ),
    ],
)
def test_other_rows_and_labels_are_named(now, sentence):
    with pytest.raises(ValueError, match=sentence):
        check(now)


def test_truth_values_that_a_spreadsheet_wrote_are_named_so():
    with pytest.raises(ValueError, match=r"\(n1: TRUE became True\)\. A spreadsheet that saves a file again"):
        check({"ra": "True"}, [Decision("ra", "TRUE", "keep", "TRUE", name="n1")])


def test_rows_that_no_review_has_corrected_have_the_label_of_before():
    check(NOW | {"rb": "02"}, unmended={"ra"})
    with pytest.raises(ValueError, match=r"\(n2: 01 became 02\)"):
        check(NOW | {"rb": "02"}, unmended={"ra", "rb"})


def test_a_label_that_is_no_class_is_named():
    check_classes(EVERY, ["01", "02"], "the table")
    with pytest.raises(ValueError, match=r"the 1 classes of the table \(01\), but got '02 for row n2'"):
        check_classes(EVERY, ["01"], "the table")
