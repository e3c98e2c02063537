import pytest

from mgce.desk.review.decided_rows import check_classes, check_decided
from mgce.desk.review.decision_file import Decision

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
