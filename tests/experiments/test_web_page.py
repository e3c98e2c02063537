from html import escape

import pytest

from mgce.experiments.web_page import bullets, document, facts, figure, paragraph, table
from web_pages import Page, check_phone, check_structure

EVIL = "<script>alert('1')</script> & \"co\""


@pytest.fixture
def page():
    rows = [[EVIL, "x" * 100, "1"], ["b", "c", "2"]]
    sections = {
        EVIL: paragraph(EVIL) + bullets([EVIL]) + facts({EVIL: EVIL}),
        "Table": table(EVIL, ["", EVIL, "number"], rows, words=2) + figure("", "none"),
    }
    return document(EVIL, EVIL, sections).decode()


def test_every_text_is_escaped(page):
    parsed = check_structure(page)
    for tag in ("title", "h1", "h2", "p", "li", "dt", "dd", "figcaption", "th"):
        assert EVIL in parsed.text(tag), tag
    assert page.count("alert") == page.count(escape("alert('1')"))


def test_columns_after_the_words_are_numbers(page):
    parsed = Page(page)
    styles = [attributes.get("class") for tag, attributes in parsed.elements if tag in ("th", "td")]
    assert styles == [None, None, "number", None, None, "number", None, None, "number"]
    assert parsed.text("td") == ["x" * 100, "1", "c", "2"]


def test_it_fits_a_phone(page, tmp_path):
    check_phone(page, tmp_path)
