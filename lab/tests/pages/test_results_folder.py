"""`results/` holds records, and of what is rendered from them only what a page shows."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RENDERED = ("csv", "html", "png", "tex", "txt")  # what `mgce-lab report` writes beside the records
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


@pytest.fixture(scope="module")
def shown():
    pattern = rf"results/[\w./-]+\.(?:{'|'.join(RENDERED)})\b"
    return {name for page in PAGES for name in re.findall(pattern, page.read_text(encoding="utf-8"))}


def test_git_ignores_what_is_rendered_but_for_what_a_page_shows(shown):
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {f"/results/**/*.{suffix}" for suffix in RENDERED} <= set(lines)
    assert {line.removeprefix("!/") for line in lines if line.startswith("!/results/")} == shown
    assert [name for name in shown if not (ROOT / name).is_file()] == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout, whose files git could list")
def test_nothing_rendered_is_committed_but_what_a_page_shows(shown):
    listed = subprocess.run(["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name for name in listed.splitlines() if name.rsplit(".", 1)[1] in RENDERED} == shown
