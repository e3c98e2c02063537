import base64
import math
import re
import shlex
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from mgce._rounding import percent_down, percent_up
from mgce.desk.review.draws import share_range
from mgce.desk.review.suspect_file import PICTURE
from mgce.desk.tables import report as fit_report
from mgce.desk.tables.checked import Findings
from mgce.desk.tables.choice import CORRECTING, NAMED
from mgce.desk.tables.class_report import class_sections
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.suspects_report import (
    FEW_LOOKS,
    checked_sentences,
    next_steps,
    suspect_cells,
    when_to_stop,
    worst_rows,
)
from mgce.labels.share import ASSUMPTION
from mgce.risk import Bounds
from web_pages import Page, check_phone, check_structure

EVIL = "<script>alert(1)</script>"
PLAN = FitPlan("y & z", id="name", model="linear", noise_rate=0.1)
ENVIRONMENT = {"mgce": "1.2.3", "processor": "<b>"}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    label = np.where(x > 0, EVIL, "a label of several words, longer than most")
    label[::9] = EVIL
    names = [f"{EVIL}{number}" for number in range(200)]
    kinds = rng.choice(["a", "b"], 200)
    return pd.DataFrame({EVIL: x, "kind": kinds, "a_name_" * 9: x**2, "none": np.nan, "name": names, "y & z": label})


@pytest.fixture(scope="module")
def fit(frame):
    return run(frame, PLAN)


@pytest.fixture(scope="module")
def corrected(frame):
    return run(frame, replace(PLAN, model="auto", noise_rate=0.0))


@pytest.fixture(scope="module")
def page(fit):
    with mock.patch.object(fit_report, "describe", lambda: ENVIRONMENT):
        return fit_report.page(fit, "my <table>.csv", "model.mgce").decode()


def test_the_page_says_everything_and_escapes_it(page, fit):
    parsed = check_structure(page)
    assert parsed.text("h1") == ["y & z in my <table>.csv"]
    # What a person needs stands in the first lines, as the terminal says it.
    assert "\n".join(fit_report.in_short(fit, next_steps(fit, "t.csv", "m"))[:2]) in parsed.text("p")
    cells = parsed.text("td") + parsed.text("th") + parsed.text("dd")
    for text in (EVIL, "a_name_" * 9, "category", "none (no value)", "model.mgce", "1.2.3", "<b>", "0.1"):
        assert text in cells, text
    assert f"{1 - fit.quality['accuracy']:.1%}" in cells and f"{fit.quality['sce_p']:.1%}" in cells
    for row in fit.judgement.suspects(50):
        assert all(text in cells for text in suspect_cells(fit, row))
    assert all(text in parsed.text("li") for text in fit.certificate.assumptions)
    assert parsed.count("svg") == 1


def test_a_named_model_is_shown_with_its_beta(page, fit):
    assert f"The {NAMED['linear'][0]}, with beta 1.4." in page and "The best was chosen." not in page
    points = sum(count > 0 for output in "hp" for count in fit.quality[f"reliability_{output}"]["count"])
    assert page.count("<circle") == points


def test_what_corrects_labels_is_described_and_says_what_its_probabilities_are(corrected):
    """All its probabilities are those of right labels, and it is compared with nothing."""
    page = fit_report.page(corrected, "t.csv", "m").decode()
    assert f"The {CORRECTING['correction']}." in page and "The best was chosen." not in page
    assert "h, p and q are equal" in page and corrected.model.about_q in page
    assert f"the right label of {corrected.sure:.1%} of the rows held out" in page
    assert "A forest and a kernel regression judge the label of each row, without having learnt it" in page


def test_classes_and_columns_are_shown(page, fit):
    parsed = check_structure(page)
    cells = parsed.text("td") + parsed.text("th")
    for count in fit.measures.confusion.ravel():
        assert f"{count:,}" in cells
    given, right = fit.measures.confusion.sum(1), fit.measures.confusion.diagonal()
    assert all(f"{share:.1%}" in cells for share in right / given)
    assert all(f"{100 * abs(each.mean):.1f}" in "".join(cells) for each in fit.measures.importance)
    assert "-0.0" not in cells
    assert any(f"{fit.measures.clean_accuracy:.1%}" in text for text in parsed.text("p"))


def test_of_many_classes_the_pairs_that_are_confused_most_are_shown(fit):
    k = 9
    confusion = np.diag(np.full(k, 50))
    confusion[3, 4], confusion[1, 0] = 12, 7
    many = SimpleNamespace(
        measures=replace(fit.measures, confusion=confusion, importance=None),
        model=SimpleNamespace(classes=np.array([f"class {i}" for i in range(k)])),
        quality=fit.quality,
        certificate=fit.certificate,
    )
    sections = class_sections(many)
    row = r'<tr><th scope="row">(class \d)</th><td>(class \d)</td><td class="number">(\d+)'
    rows = re.findall(row, sections["Class by class"])
    assert rows == [("class 3", "class 4", "12"), ("class 1", "class 0", "7")]
    assert "too many columns" in sections["Which columns matter"]


def test_it_fits_a_phone(page, tmp_path):
    check_phone(page, tmp_path)


def test_without_a_noise_rate_bounds_count_disagreements(frame):
    plan = FitPlan("y & z", model="linear")
    fit = run(frame.drop(columns="name"), plan)
    page = fit_report.page(fit, "t.csv", "m").decode()
    assert "bounds are on disagreements with the labels as given" in page and "beta 1.4" in page
    for text in (page, fit_report.headline(fit), str(fit.certificate)):
        assert (
            "disagrees with the given label" in text and "class is wrong" not in text and "it is wrong on" not in text
        )
    assert "labelled like these." in page and "They bound errors of the model if the labels are right." in page


def test_with_a_noise_rate_the_model_is_wrong_and_the_condition_stands_beside(fit, page):
    for text in (page, fit_report.headline(fit), str(fit.certificate)):
        assert "disagrees with the given label" not in text
    assert re.search(r"it is wrong on at most [\d.]+% of rows drawn like these, if 0.1 or more", page)
    assert "most probable class is wrong" in page


def test_the_headline_never_understates_the_bound(fit):
    for error in (0.10001, 0.1, 0.0999999):
        certificate = replace(fit.certificate, conditional=Bounds(error))
        (bound,) = re.findall(r"at most ([\d.]+)%", fit_report.headline(replace(fit, certificate=certificate)))
        assert error * 100 <= float(bound) <= error * 100 + 0.1
    nothing = replace(fit, certificate=replace(fit.certificate, conditional=Bounds(1.0)))
    assert fit_report.headline(nothing).endswith("These rows do not suffice for a bound.")


def test_no_suspects_is_said(fit):
    agreed = replace(fit.judgement, suggestion=fit.judgement.target)
    page = fit_report.page(replace(fit, judgement=agreed), "t.csv", "m").decode()
    assert "None: every label is the most probable class of its row." in page


def test_the_first_section_has_the_worst_rows_with_their_cells(page, fit, frame):
    parsed = check_structure(page)
    assert parsed.text("h2")[:2] == ["The ten most suspect labels", "Do this next"]
    first = page[page.index("The ten most suspect") : page.index("Do this next")]
    cells = Page(first[first.index("<table>") : first.index("</table>") + len("</table>")])
    shown = cells.text("td") + cells.text("th")
    worst = fit.judgement.suspects(10)
    assert first.count("<tr>") == 1 + len(worst) and fit.listing.lines is None
    for row in worst:
        for text in (frame["name"][row], str(frame[EVIL][row]), frame["kind"][row]):
            assert text in shown
    assert "a_name_" * 9 in shown and "y & z" not in shown


def test_pictures_of_the_worst_rows_ask_which_label_is_right(fit):
    worst, picture = fit.judgement.suspects(3).tolist(), b"a picture"
    listing = replace(fit.listing, cells=fit.listing.cells.assign(**{PICTURE: "photos/1.jpg"}))
    shown = worst_rows(replace(fit, listing=listing), {row: picture for row in worst[:2]})
    page = Page(shown)
    judged = fit.judgement
    asked = [f"{fit.row_names[row]}: {judged.given[row]}, or {judged.suggested[row]}?" for row in worst[:2]]
    assert page.text("figcaption")[:2] == asked and EVIL in asked[0]
    images = [attributes for tag, attributes in page.elements if tag == "img"]
    assert [one["alt"] for one in images] == [f"picture of row {fit.row_names[row]}" for row in worst[:2]]
    assert {one["src"] for one in images} == {f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"}
    assert "photos/1.jpg" not in shown and PICTURE not in page.text("th")


def test_long_cells_are_cut_in_the_first_section_and_days_have_no_time(fit):
    cells = fit.listing.cells.assign(kind="x" * 200, day=pd.Timestamp("2024-05-31"))
    long = replace(fit.listing, cells=cells, lines=np.arange(200) + 2)
    page = worst_rows(replace(fit, listing=long))
    assert ">2024-05-31<" in page
    assert f"{'x' * 59}…" in page and "x" * 60 not in page
    assert f'<td class="number">{fit.judgement.suspects(1)[0] + 2}</td>' in page


def test_what_to_do_next_has_the_options_of_the_fit(fit):
    """Else the command would fit another model, or read another sheet."""
    options = ["--target", "y & z", "--drop", "a b", "--noise-rate", "0.1", "--sheet", "my sheet"]
    steps = [*next_steps(fit, "my table.csv", "out/m.mgce", ["d.csv"], options).values()]
    assert steps[0] == "mgce review out/m.suspects.csv" and steps[2] == "mgce predict out/m.mgce NEW.csv"
    words = shlex.split(steps[1])
    assert words[:3] == ["mgce", "fit", "my table.csv"] and words[3:11] == options
    assert words[11:] == ["--checked", "d.csv,out/m.decisions.csv", "--mended", "out/m.mended.csv"]


def test_after_a_review_one_estimate_and_one_bound_say_what_is_left_and_where_they_are_from(fit):
    review = Findings(n=40, changed=10, dropped=2, skipped=0, drawn=30, error=None, left=None, delta=0.05)
    review = replace(review, wrong=3, about=8.4)

    def said(**changes):
        return fit_report.wrong_labels(replace(fit, findings=replace(review, **changes)))

    by_model = math.floor(fit.share.upper * fit.share.n)
    begins = "Wrong labels: 10 found and mended so far. About 8 of the "
    bound = f"{fit.share.n} may be left, at most {by_model} ({percent_up(fit.share.upper)}). "
    source = f"The estimate is by the 30 rows drawn at random, the bound by the model, if {ASSUMPTION}. {FEW_LOOKS}"
    assert said() == said(left=0.9) == begins + bound + source
    least = fit.share.upper / 2
    by_rows = f"{begins}{len(fit.row_names)} may be left, at most {math.floor(least * len(fit.row_names))} ("
    assert said(left=least).startswith(by_rows) and ASSUMPTION not in said(left=least)
    assert "Both are by the 30 rows drawn at random, with confidence 0.95, if the decisions are right." in said(
        left=least
    )
    # A few rows drawn at random may suggest more than the bound of the model leaves possible: then it is not taken.
    more = said(left=0.9, about=170.0)
    assert more.startswith(
        "Wrong labels: 10 found and mended so far. About 170 of the 200 may be left, at most 180 (90.0%)."
    )
    assert ASSUMPTION not in more
    assert "A rough estimate is " in said(about=None, drawn=0) and "0 to " in said(about=None, drawn=0)
    assert all(text.count("%") == 1 for text in (said(), said(left=least)))
    reviewed = replace(fit, findings=review)
    assert "expects" in when_to_stop(fit) and "expects" not in when_to_stop(reviewed)  # that is another estimate


@pytest.mark.parametrize(("n", "off"), [(200, "20"), (25_000, "2,500"), (14, "1"), (4, "1")])
def test_a_rough_estimate_may_be_off_by_a_tenth_of_the_rows_but_not_by_less_than_one(fit, n, off):
    judged = replace(fit.judgement, share=replace(fit.share, n=n))
    said = fit_report.wrong_labels(replace(fit, judgement=judged, findings=None))
    assert f"such an estimate was off by {off} at most." in said


def test_the_range_that_was_promised_is_named_after_a_review(fit):
    """Before it, the output says how narrow the share would be known; of so few rows a share is rough."""
    review = Findings(n=40, changed=10, dropped=2, skipped=0, drawn=30, error=None, left=None, delta=0.05, wrong=3)
    told = " ".join(checked_sentences(replace(fit, findings=review)))
    lower, upper = share_range(3, 30)
    assert "Of the rows drawn at random, 3 of 30 (roughly 10%) were wrong, dropped or skipped." in told
    assert f"so were {percent_down(lower)} to {percent_up(upper)} of all labels before the review" in told
    for without in (replace(review, drawn=0), replace(review, note="no independent draws")):
        assert "drawn at random" not in " ".join(checked_sentences(replace(fit, findings=without)))


def test_the_reader_is_told_when_to_stop_reviewing(fit):
    """By the number that is expected to be wrong, which may be far smaller: nobody is told to change all of them."""
    rows = np.flatnonzero(fit.judgement.is_distinct)[:3]
    for chances, said, others in (
        (
            [0.9, 0.6, 0.3],
            "2 labels are more likely wrong than right, by an estimate that expects 2 of",
            "0 of the others.",
        ),
        (
            [0.51, 0.4, 0.4],
            "1 label is more likely wrong than right, by an estimate that expects 1 of",
            "1 of the others.",
        ),
        (
            [0.5, 0.4, 0.4],
            "No label is more likely wrong than right, by an estimate",
            "expects 1 of them to be wrong. It is often too low.",
        ),
    ):
        wrong = np.zeros_like(fit.judgement.wrong)
        wrong[rows] = chances
        told = replace(fit, judgement=replace(fit.judgement, wrong=wrong, is_issue=wrong > 0.5))
        assert when_to_stop(told).startswith(said) and others in when_to_stop(told)
        assert said in fit_report.page(told, "t.csv", "m").decode()


def test_notes_are_shown(fit):
    page = fit_report.page(replace(fit, notes=["beware of <dogs>"]), "t.csv", "m").decode()
    assert "Note: beware of &lt;dogs&gt;" in page


def test_classes_that_nothing_predicts_are_said_in_the_headline(fit):
    counts = fit.measures.confusion
    assert (counts.sum(0) > 0).all() and "never predicts" not in fit_report.headline(fit)
    lost = counts.copy()
    lost[:, 0] = 0
    lost[0, 1] = 4
    without = replace(fit, measures=replace(fit.measures, confusion=lost))
    said = f"It never predicts {str(fit.model.classes[0])!r}, the given label of {lost[0].sum()} rows held out."
    assert said in fit_report.headline(without)
    lost[0] = 0  # no row held out has it
    assert "never predicts" not in fit_report.headline(without)
