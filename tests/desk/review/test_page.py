"""The script of the review page: what a press of a key decides, in a browser."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betaln, xlogy

from mgce._text import spreadsheet_cell
from mgce.desk.review.bounds import MORE
from mgce.desk.review.decision_file import read_decisions
from mgce.desk.review.draws import share_range
from mgce.desk.review.sheet import DIGITS, LETTERS, Beside, Shown, class_keys, sheet, sheet_id
from mgce.desk.review.suspect_file import Suspect

PNG = b"\x89PNG\r\n\x1a\n"  # which is enough to be taken for a picture


def suspect(row, given, suggested, *, alternative=None):
    """A row of a file of suspects."""
    return Suspect(
        rank=row,
        name=str(row),
        line=str(row + 1),
        key=f"r{row}",
        given=given,
        suggested=suggested,
        alternative=alternative or suggested,
        is_checked=False,
        draw=row,
        draw_probability=0.5,
        cells=(("row", str(row)), ("x", "1.5")),
    )


def shown(*labels):
    """Rows with these pairs of a given label and a suggestion, in this order."""
    return [Shown(suspect(row, *pair), False) for row, pair in enumerate(labels, 1)]


@pytest.fixture
def opened(browser, tmp_path):
    """Open the page of some rows; give the page, and a function that saves and reads its decisions."""
    pages = []

    def at(rows, **about):
        path = tmp_path / "t.html"
        path.write_bytes(sheet(rows, "Labels", "d.csv", Beside(**about)))
        page = browser.new_context(accept_downloads=True).new_page()
        page.on("pageerror", lambda error: pages.append(str(error)))
        page.goto(path.as_uri())

        def saved():
            with page.expect_download() as download:
                page.keyboard.press("Control+s")
            download.value.save_as(tmp_path / "d.csv")
            return [
                (one["decision"], one["label"]) for one in csv.DictReader((tmp_path / "d.csv").read_text().splitlines())
            ]

        return page, saved

    yield at
    assert pages == []  # no error in the script


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (["0", "1"], "01"),
        ([str(i) for i in range(6)], "012345"),
        ([str(i) for i in range(10)], "0123456789"),
        (["2", "3", "unknown"], "23a"),
        (["-1", "1"], "a1"),
        (["01", "02"], "ab"),
        (["1.0", "2.0"], "ab"),
        (["10", "20", "30"], "abc"),
        (["1 star", "2 stars"], "ab"),
        (["\u0661", "\u0662"], "ab"),  # digits that few keyboards have
        (["no", "yes"], "12"),
        ([f"class {letter}" for letter in "abcdefghij"], DIGITS),
    ],
)
def test_a_digit_is_the_key_of_the_class_of_that_name(classes, keys):
    assert class_keys(classes) == list(keys)


def test_of_many_classes_none_has_a_key_and_no_key_has_two_uses():
    assert class_keys([str(i) for i in range(11)]) == [""] * 11
    assert len(set(DIGITS)) == len(DIGITS) == len(LETTERS) and not set(LETTERS) & set("ksdxuonfj")


def test_decisions_are_found_again_only_with_the_same_classes_and_suggestions():
    """The browser keeps the place of a class among those of the page."""
    rows = shown(("b", "c"), ("c", "b"))
    assert sheet_id(rows) == sheet_id([replace(one) for one in rows])
    others = [shown(("b", "a"), ("c", "b")), shown(("b", "d"), ("c", "b")), shown(("b", "c"), ("c", "c"))]
    assert len({sheet_id(each) for each in [rows, *others]}) == 4


@pytest.mark.integration
def test_digits_choose_the_classes_of_these_names(opened):
    page, saved = opened(shown(("0", "1"), ("0", "1"), ("1", "0"), ("0", "1")))
    assert page.locator("#classes kbd").all_inner_texts() == ["0", "1"]
    for key, said in (("1", "row 1: 0 becomes 1."), ("0", "row 2 keeps 0."), ("1", "row 3 keeps 1.")):
        page.keyboard.press(key)
        assert page.inner_text("#message") == said
    page.keyboard.press("2")
    assert page.inner_text("#message") == "The key 2 does nothing here. Each button shows its key."
    assert page.inner_text("#count") == "3 of 4 decided" and "4 of 4" in page.inner_text("#where")
    assert saved() == [("suggestion", "1"), ("keep", "0"), ("keep", "1")]


@pytest.mark.integration
def test_classes_from_0_to_5(opened):
    page, saved = opened(shown(*((str(i), str((i + 1) % 6)) for i in range(6))))
    for key in "543210":
        page.keyboard.press(key)
    assert [label for _, label in saved()] == list("543210")


@pytest.mark.integration
def test_a_class_of_another_name_has_the_key_on_its_button(opened):
    page, saved = opened(shown(("01", "02"), ("01", "02"), ("02", "01")))
    assert page.locator("#classes kbd").all_inner_texts() == ["A", "B"]
    for key, said in (("1", "The key 1 does nothing here."), ("2", "The key 2 does nothing"), ("b", "01 becomes 02.")):
        page.keyboard.press(key)
        assert said in page.inner_text("#message")
    assert page.inner_text("#count") == "1 of 3 decided"
    assert saved() == [("suggestion", "02")]


@pytest.mark.integration
def test_every_decision_is_echoed_and_so_is_what_has_no_effect(opened):
    page, saved = opened(shown(("no", "yes"), ("yes", "no"), ("no", "yes"), ("yes", "no")))
    steps = [
        ("ArrowLeft", "There is no row before this one."),
        ("u", "Nothing to undo."),
        ("k", "row 1 keeps no."),
        ("s", "row 2: yes becomes no."),
        ("d", "row 3 is dropped."),
        ("u", "Undone: row 3 is open again."),
        ("x", "row 3 is skipped."),
        ("q", "The key q does nothing here. Each button shows its key."),
        ("o", "The key o does nothing here. Each button shows its key."),
        ("2", "row 4 keeps yes."),
        ("ArrowRight", "There is no row behind this one."),
    ]
    for key, said in steps:
        page.keyboard.press(key)
        assert page.inner_text("#message") == said, key
    page.click("[data-class='0']")
    assert page.inner_text("#message") == "row 4: yes becomes no."
    page.keyboard.press("u")
    assert page.inner_text("#message") == "Undone: row 4 keeps yes."
    assert [decision for decision, _ in saved()] == ["keep", "suggestion", "skip", "keep"]


@pytest.mark.integration
def test_a_key_that_is_held_down_decides_one_row(opened):
    page, saved = opened(shown(*[("no", "yes")] * 5))
    for _ in range(4):
        page.keyboard.down("k")
    page.keyboard.up("k")
    assert page.inner_text("#count") == "1 of 5 decided" and saved() == [("keep", "no")]


@pytest.mark.integration
def test_of_many_classes_one_is_chosen_by_its_name(opened):
    page, saved = opened(shown(*((str(i), str(i + 1)) for i in range(12))))
    page.keyboard.press("5")
    assert page.inner_text("#message") == "The key 5 does nothing here. Type O, then the name of a class."
    page.keyboard.press("o")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    assert page.inner_text("#message") == "row 1: 0 becomes 5." and saved() == [("other", "5")]


@pytest.mark.integration
def test_the_focus_stays_and_what_comes_next_is_told(opened):
    page, saved = opened(shown(*[("no", "yes")] * 4))
    focused = "document.activeElement.dataset.decision || document.activeElement.id"
    page.focus("[data-decision=keep]")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert page.evaluate(focused) == "keep" and page.inner_text("#count") == "2 of 4 decided"
    page.click("[data-decision=skip]")
    assert page.evaluate(focused) == "skip"
    assert page.get_attribute("#next", "role") == page.get_attribute("#message", "role") == "status"
    assert page.text_content("#next") == "row 4: no, or yes?"
    assert [decision for decision, _ in saved()] == ["keep", "keep", "skip"]


@pytest.mark.integration
def test_rows_are_found_by_what_was_decided_by_label_and_by_words(opened):
    page, _ = opened(shown(("no", "yes"), ("yes", "no"), ("no", "yes"), ("maybe", "no")))
    for key in "xsk":
        page.keyboard.press(key)
    page.keyboard.press("f")

    def listed(which="", label=""):
        page.select_option("#which", which)
        page.select_option("#of", label=label or "every label")
        return [text.split(":")[0] for text in page.locator("#found li").all_inner_texts()]

    assert listed() == ["row 1", "row 2", "row 3", "row 4"] and listed("skip") == ["row 1"]
    assert listed("changed") == ["row 2"] and listed("open") == ["row 4"] and listed("", "maybe") == ["row 4"]
    page.select_option("#of", "")
    page.fill("#search", "nothing like it")
    assert page.inner_text("#n-found") == "0 of 4 rows"
    page.fill("#search", "")
    page.locator("#found button").nth(1).click()
    assert "2 of 4" in page.inner_text("#where")


@pytest.mark.integration
def test_notes_stay_and_are_saved_as_harmless_cells(opened, tmp_path):
    page, saved = opened(shown(("no", "yes"), ("yes", "no")))
    page.keyboard.press("n")
    page.keyboard.type('=1+1, "sure"; @x')
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    assert page.input_value("#note") == ""
    page.reload()
    page.keyboard.press("ArrowLeft")
    assert page.input_value("#note") == '=1+1, "sure"; @x'
    assert saved() == [("keep", "no")]
    (row,) = csv.DictReader((tmp_path / "d.csv").read_text().splitlines())
    assert row["note"] == spreadsheet_cell('=1+1, "sure"; @x') == "'=1+1, \"sure\";' @x"
    assert read_decisions(tmp_path / "d.csv")[0][0].label == "no"


@pytest.mark.integration
def test_twenty_thousand_rows_open_and_a_phone_shows_them(opened):
    page, _ = opened(shown(*[("no", "yes")] * 20_000))
    begin = page.evaluate("performance.now()")
    page.keyboard.press("k")
    page.keyboard.press("f")
    assert page.inner_text("#n-found") == "20000 of 20000 rows, of which the first 200 are listed"
    assert page.evaluate("performance.now()") - begin < 2000
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for width in (1400, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.integration
def test_many_rows_are_decided_at_once_by_the_keyboard_and_one_step_takes_them_back(opened):
    page, saved = opened(shown(("no", "yes"), ("yes", "no"), ("no", "yes"), ("no", "yes")), pictures=[PNG] * 4)
    page.keyboard.press("k")
    page.keyboard.press("f")
    page.select_option("#which", "open")
    assert page.locator("#found img").count() == 3
    page.focus("#all")
    page.keyboard.press("Space")
    page.locator("#found input").nth(0).press("Space")  # row 2 is no longer marked
    page.select_option("#bulk", "suggestion")
    page.focus("#apply")
    page.keyboard.press("Enter")
    assert page.inner_text("#message") == "2 rows are decided. Undo takes all of them back."
    assert saved() == [("keep", "no"), ("skip", ""), ("suggestion", "yes"), ("suggestion", "yes")]
    page.focus("#apply")
    page.keyboard.press("u")
    assert page.inner_text("#message") == "Undone: 2 rows are as they were." and saved() == [("keep", "no")]
    page.select_option("#bulk", label="is no")
    page.click("#apply")
    assert page.inner_text("#message") == "No row is marked."


@pytest.mark.integration
def test_a_spelling_is_joined_by_one_key(opened):
    rows = shown(("Aproved", "Rejected"), ("Approved", "Rejected"), ("Aproved", "Approved"))
    page, saved = opened(rows, asked={"Aproved": "Approved"})
    assert "Is Aproved (2 of the rows here) the class Approved?" in page.inner_text("#asked")
    page.keyboard.press("j")
    assert page.inner_text("#asked") == "" and page.inner_text("#count") == "2 of 3 decided"
    assert saved() == [("other", "Approved"), ("skip", ""), ("suggestion", "Approved")]
    page.keyboard.press("j")
    assert page.inner_text("#message") == "The page asks about no spelling."


@pytest.mark.integration
def test_rows_like_one_stand_beside_it_with_their_labels(opened):
    rows = shown(("no", "yes"), ("yes", "no"))
    other = suspect(9, "maybe", "no")
    page, _ = opened(rows, near=[[rows[1].suspect, other], [rows[0].suspect, other]])
    page.click("#like summary")
    assert page.locator("#like-rows tr").all_inner_texts() == ["2\tyes\t1.5", "9\tmaybe\t1.5"]
    page.keyboard.press("s")
    assert page.locator("#like-rows tr").all_inner_texts() == ["1\tyes\t1.5", "9\tmaybe\t1.5"]


def range_by_scipy(wrong, n):
    """The shares that a beta mixture does not beat by 20 to 1: its weight by scipy, the ends by a root finder."""

    def beaten(share):
        log = betaln(wrong + 0.5, n - wrong + 0.5) - betaln(0.5, 0.5)
        return log - xlogy(wrong, share) - xlogy(n - wrong, 1 - share) - np.log(20)

    return brentq(beaten, 1e-12, wrong / n), brentq(beaten, wrong / n, 1 - 1e-12)


@pytest.mark.integration
def test_what_was_found_so_far_has_a_range_from_the_random_rows_alone(opened):
    # Every other row comes as a suspect, and was drawn too: it counts as both.
    rows = [
        Shown(suspect(row, "no", "yes" if row % 2 else "no", alternative="yes"), not row % 2, row % 2 > 0)
        for row in range(1, 41)
    ]
    page, _ = opened(rows)
    page.click("#so-far summary")
    for place in range(30):
        page.keyboard.press("s" if place % 3 == 0 else "k")
    said = page.inner_text("#share")
    assert said.startswith(
        "Suspects: 5 of 15 (roughly 33%) were wrong. Rows drawn at random: 10 of 30 (roughly 33%) were wrong,"
    )
    lower, upper = range_by_scipy(10, 30)
    assert share_range(10, 30) == pytest.approx((lower, upper))  # as `mgce fit --checked` says it
    assert f"With confidence 0.95, so were {lower:.1%} to {upper:.1%} of" in said
    later = (range_by_scipy(round(10 * (30 + n) / 30), 30 + n) for n in MORE)
    ends = ", ".join(f"{low:.1%} to {high:.1%} after {n}" for n, (low, high) in zip(MORE, later, strict=True))
    assert said.endswith(f"If further random rows show as many, this will be about {ends} more.")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("k")  # behind a row that was passed over nothing counts, since a person may choose what to pass
    assert "Rows drawn at random: 10 of 30" in page.inner_text("#share")


def test_the_range_of_the_page_holds_whenever_a_person_stops():
    n, share = np.arange(1, 201), 0.2
    wrong = (np.random.default_rng(0).random((2000, 200)) < share).cumsum(1)
    log = betaln(wrong + 0.5, n - wrong + 0.5) - betaln(0.5, 0.5) - xlogy(wrong, share) - xlogy(n - wrong, 1 - share)
    assert (log > np.log(20)).any(1).mean() <= 0.05


@pytest.mark.integration
def test_without_scripts_the_page_says_what_it_needs(browser, tmp_path):
    (tmp_path / "t.html").write_bytes(sheet(shown(("no", "yes")), "Labels", "d.csv"))
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto((tmp_path / "t.html").as_uri())
    assert "which your browser does not run" in page.inner_text("main")
