import base64
import json
import re
from hashlib import sha256

from mgce.desk.pages.web_page import script_page
from web_pages import Page


def test_the_policy_names_the_one_script_and_the_one_style():
    page = script_page("a < b", "<main></main>", "p { margin: 0 }", "let a = 1 < 2;", {"x": "</script><!--é"}).decode()
    parsed = Page(page)
    (policy,) = [found["content"] for tag, found in parsed.elements if "http-equiv" in found]
    for kind, content in (("script-src", "let a = 1 < 2;"), ("style-src", "p { margin: 0 }")):
        assert f"{kind} 'sha256-{base64.b64encode(sha256(content.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http:" not in policy
    assert parsed.text("title") == ["a < b"] and parsed.count("script") == 2
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_data_end_no_element_and_come_back():
    data = {"x": "</script><script>alert(1)</script><!-- \u2028 é \x00", "n": [1.5, None]}
    page = script_page("t", "", "", "", data).decode()
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert json.loads(content) == data and "<" not in content and content.isascii()
