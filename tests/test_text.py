import pytest

from mgce._text import html_text, printable

PERSIAN, HINDI, FAMILY = (
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0930\u094d\u200d\u092f",
    "\U0001f469\ufe0f\u200d\U0001f467",
)


@pytest.mark.parametrize("text", [PERSIAN, HINDI, FAMILY, PERSIAN[2:], "plain", ""])
def test_joiners_of_ordinary_spelling_are_shown_as_they_are(text):
    assert printable(text) == text and html_text(text) == text


@pytest.mark.parametrize("text", ["pay\u200dpal", "\u200ca", "\u200d", f"{PERSIAN}\u202e", "a\u200b"])
def test_what_nobody_sees_in_other_scripts_is_made_visible(text):
    assert "\ufffd" in printable(text)
