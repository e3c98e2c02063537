"""What every HTML page has to be: read by a parser, and by a browser where there is one."""

import base64
import shutil
import subprocess
from hashlib import sha256
from html import escape
from html.parser import HTMLParser

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """The elements of a page, which have to be closed in their order, and its text by element."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "line", "polyline", "circle", "img", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else None, data))

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)

    def text(self, tag):
        return [data for name, data in self.texts if name == tag]


def check_structure(page):
    """A page for all readers, of one file, which runs nothing."""
    parsed = Page(page)
    assert page.lower().startswith("<!doctype html>") and ("html", {"lang": "en"}) in parsed.elements
    assert ("meta", {"charset": "utf-8"}) in parsed.elements
    assert [parsed.count(tag) for tag in ("h1", "title", "main")] == [1, 1, 1]
    assert [parsed.count(tag) for tag in ("script", "link", "iframe", "object")] == [0] * 4
    for tag, attributes in parsed.elements:
        assert not {"xlink:href", "onload", "onclick"} & set(attributes)
        assert attributes.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")
        if tag == "a":
            assert attributes["href"].startswith("#")
            assert attributes["href"][1:] in [other.get("id") for _, other in parsed.elements]
        else:
            assert "href" not in attributes
        if tag == "img":
            assert attributes["alt"]
        if tag == "svg":
            assert attributes["role"] == "img" and attributes["aria-label"]
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
        if attributes.get("role") == "region":
            assert attributes["aria-label"] and attributes["tabindex"] == "0"
    assert "url(" not in page and "@import" not in page
    (policy,) = [
        found["content"] for _, found in parsed.elements if found.get("http-equiv") == "Content-Security-Policy"
    ]
    (style,) = parsed.text("style")
    applied = f"style-src 'sha256-{base64.b64encode(sha256(style.encode()).digest()).decode()}'"
    # Without a source of its own, a kind of content has the default one; no element has a style of its own.
    assert policy == f"default-src 'none'; {applied}; img-src data:; base-uri 'none'; form-action 'none'"
    assert not any("style" in attributes for _, attributes in parsed.elements)
    return parsed


def check_phone(page, folder):
    """In a browser, 360 pixels suffice, and no script is there."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    probe = "document.title = [this.contentDocument.documentElement.scrollWidth, this.contentDocument.scripts.length]"
    frame = f'<iframe srcdoc="{escape(page)}" style="width: 360px; border: 0" onload="{probe}"></iframe>'
    (folder / "frame.html").write_text(f"<!doctype html><title></title>{frame}")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
    ]
    dump = subprocess.run(
        [*command, "--dump-dom", (folder / "frame.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "<title>360,0</title>" in dump.stdout
