import base64
from html import escape

import pytest

from mgce.desk.pages.web_page import (
    bullets,
    commands,
    document,
    facts,
    figure,
    image,
    json_in_html,
    paragraph,
    shelf,
    table,
)
from web_pages import Page, check_phone, check_structure

EVIL = "<script>alert('1')</script> & \"co\""
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEANl9ngAAAAABJRU5ErkJggg==")


@pytest.fixture
def sections():
    rows = [[EVIL, "x" * 100, "1"], ["b", "c", "2"]]
    return {
        f"One: {EVIL}": paragraph(EVIL) + bullets([EVIL]) + facts({EVIL: EVIL}),
        "Table": table(EVIL, ["", EVIL, "number"], rows, words=2) + figure(image(PNG, EVIL), "none"),
    }


@pytest.fixture(params=[False, True], ids=["plain", "broad"])
def page(request, sections):
    return document(EVIL, EVIL, sections, broad=request.param).decode()


def test_every_text_is_escaped(page):
    parsed = check_structure(page)
    for tag in ("title", "h1", "p", "li", "dt", "dd", "figcaption", "th"):
        assert EVIL in parsed.text(tag), tag
    assert f"One: {EVIL}" in parsed.text("h2")
    assert ("img", EVIL) in [(tag, attributes.get("alt")) for tag, attributes in parsed.elements]
    assert page.count("alert") == page.count(escape("alert('1')"))


def test_columns_after_the_words_are_numbers(page):
    parsed = Page(page)
    styles = [attributes.get("class") for tag, attributes in parsed.elements if tag in ("th", "td")]
    assert styles == [None, None, "number", None, None, "number", None, None, "number"]
    assert parsed.text("td") == ["x" * 100, "1", "c", "2"]


def test_the_first_column_of_a_table_names_its_rows_and_its_head_is_aligned_as_its_cells():
    cells = [one for one in Page(table("", ["a", "b"], [["1", "2"]])).elements if one[0] in ("th", "td")]
    name, number = {"scope": "col"}, {"class": "number"}
    assert cells == [("th", name), ("th", name | number), ("th", {"scope": "row"}), ("td", number)]


def test_a_broad_page_begins_with_links_to_its_sections(sections):
    assert check_structure(document("", "", sections, broad=True).decode()).text("a") == ["One", "Table"]
    assert check_structure(document("", "", sections).decode()).text("a") == []


@pytest.mark.slow
def test_it_fits_a_phone(page, tmp_path):
    check_phone(page, tmp_path)


@pytest.mark.integration
def test_a_browser_applies_the_style_and_runs_nothing_that_was_not_escaped(browser, sections, tmp_path):
    evil = '<script>document.title = "ran"</script><img src="x" onerror="document.title = \'ran\'">'
    content = document("t", "t", {**sections, "Evil": evil}).decode()
    (tmp_path / "t.html").write_text(content)
    page, said = browser.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "t.html").as_uri())
    assert page.title() == "t" and sum("Content Security Policy" in text for text in said) >= 3
    assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "736px"
    assert page.evaluate("document.querySelector('figure img').naturalWidth") == 1


def test_parts_of_a_page_are_what_they_are_called():
    assert commands({"Do": "a < b"}) == "<ol><li>Do<pre>a &lt; b</pre></li></ol>"
    assert (shelf([]), shelf(["a", "b"])) == ("", '<div class="shelf">ab</div>')
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_in_html({"a": float("nan")})


def test_links_and_sections_are_numbered_from_one(sections):
    page = document("t", "l", sections, broad=True).decode()
    assert [page.count(f'{one}section-{number}"') for one in ('href="#', 'id="') for number in range(4)] == [
        *(0, 1, 1, 0),
        *(0, 1, 1, 0),
    ]
