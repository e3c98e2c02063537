"""The script of the review page: what a press of a key decides, in a browser."""

import csv
from dataclasses import replace

import pytest

from mgce._text import spreadsheet_cell
from mgce.desk.review.decision_file import read_decisions
from mgce.desk.review.sheet import DIGITS, LETTERS, Shown, class_keys, sheet, sheet_id
from mgce.desk.review.suspect_file import Suspect


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

    def at(rows):
        path = tmp_path / "t.html"
        path.write_bytes(sheet(rows, "Labels", "d.csv"))
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
    assert len(set(DIGITS)) == len(DIGITS) == len(LETTERS) and not set(LETTERS) & set("ksdxuonf")


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
    for width in (1400, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.integration
def test_without_scripts_the_page_says_what_it_needs(browser, tmp_path):
    (tmp_path / "t.html").write_bytes(sheet(shown(("no", "yes")), "Labels", "d.csv"))
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto((tmp_path / "t.html").as_uri())
    assert "which your browser does not run" in page.inner_text("main")
