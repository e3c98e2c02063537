from mgce_lab.engine.page import page
from mgce_lab.engine.result import Result
from mgce_lab.paper.items import headline
from web_pages import check_phone, check_structure


def result(**given):
    return Result("t", "Table 9: T", "C", [{"data": "a", "method": "b", "accuracy": "1.00"}], [{}], words=2, **given)


def test_headline_says_what_agrees():
    with_remarks = result(notes={"c": "A remark."})
    assert headline([result(agreement="One."), with_remarks, result(agreement="Two.")]) == "One. Two."
    assert headline([with_remarks]) == "Nothing here stands in the paper as a number."


def test_page_holds_results_and_facts(tmp_path):
    text = page("Title", "Lead.", [result(agreement="One.", notes={"a": "Far."})], {"finished runs": "3"}).decode()
    parsed = check_structure(text)
    assert parsed.text("h2") == ["Table 9: T", "Runs"] and parsed.text("a") == ["Table 9", "Runs"]
    assert parsed.text("li") == ["Far."] and parsed.text("dd") == ["3"]
    assert [attributes.get("class") for tag, attributes in parsed.elements if tag == "td"] == [None, "number"]
    check_phone(text, tmp_path)
