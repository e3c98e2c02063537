import math

from mgce_lab.engine.significance import Summary
from mgce_lab.paper.agreement import agreement, judge, notes_of


def test_a_wide_spread_is_no_agreement():
    paper = (40.0, 0.3)
    verdicts = {
        "a": judge("Near", Summary(40.1, 0.3, 5), paper),
        "b": judge("Far", Summary(41.0, 0.3, 5), paper),
        "c": judge("Wide", Summary(36.0, 9.0, 5), paper),
        "d": judge("Alone", Summary(40.1, math.nan, 1), paper),
    }
    assert [verdict.kind for verdict in verdicts.values()] == ["agrees", "differs", "too wide", "agrees"]
    assert notes_of(verdicts).keys() == {"b", "c"}
    assert "41.00 ± 0.30 against 40.00 ± 0.30, above the paper" in verdicts["b"].sentence
    assert "not told apart (p = 0.38), but the difference may be from -15.2 to +7.2 points" in verdicts["c"].sentence
    assert agreement(verdicts) == "2 of 4 numbers agree with the paper's, 1 differ, 1 is too uncertain to say"
    assert agreement({}) == "" and judge("", None, paper) is None and judge("", Summary(1, 1, 5), None) is None


def test_the_number_of_seeds_counts():
    # Within two of the larger deviation, and yet different: .37 apart with .15 and .15 over five and five.
    assert judge("Accuracy", Summary(8.44, 0.15, 5), (8.07, 0.15)).kind == "differs"
    assert judge("Accuracy", Summary(8.44, 0.15, 2), (8.07, 0.15)).kind == "agrees"
