"""What the site needs and what can be held without building it: pictures, version, changelog, copy buttons, pins."""

import re
from pathlib import Path

import pytest

import mgce

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONF = (DOCS / "conf.py").read_text()
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
# ![text](path), and the directives {image}, {figure} and plot, whose options stand in the lines below.
INLINE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
DIRECTIVE = re.compile(r"^(?:```\{(?:image|figure)\}|\.\. plot::) (\S+)\n((?: *:\w+:.*\n)*)", re.MULTILINE)


def pictures(path):
    """Return the picture files of a page, each with the text for those who do not see it."""
    text = path.read_text(encoding="utf-8")
    found = [(_place(path.parent, file), alt) for alt, file in INLINE.findall(text)]
    for file, options in DIRECTIVE.findall(text):
        alt = re.search(r":alt: *(.*)", options)
        folder = DOCS if file.startswith("pictures/") else path.parent
        found.append((folder / file, alt.group(1) if alt else ""))
    return found


def _place(folder, file):
    """Return the path of a picture; a released README names it by its address, as PyPI follows no other links."""
    _, is_address, inside = file.partition("/raw/main/")
    return ROOT / inside if is_address else folder / file


def test_pictures_are_read_in_every_way_of_writing_them(tmp_path):
    page = tmp_path / "page.md"
    web = "![Web](https://example.org/a/raw/main/docs/w.svg)\n\n![A line](a.svg)"
    directives = "```{figure} b.svg\n:alt: Bars\n:width: 9px\n```\n\n```{image} c.svg\n```\n"
    page.write_text(f"{web}\n\n{directives}")
    found = [(file.name, alt) for file, alt in pictures(page)]
    assert found == [("w.svg", "Web"), ("a.svg", "A line"), ("b.svg", "Bars"), ("c.svg", "")]
    assert pictures(page)[0][0] == ROOT / "docs/w.svg"


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda path: path.stem)
def test_every_picture_exists_and_says_what_it_shows(path):
    for file, alt in pictures(path):
        assert file.is_file(), file
        assert len(alt) > 10, file


@pytest.mark.parametrize("name", ["choosing", "losses", "tables"])
def test_a_picture_stands_on_the_pages_that_compare(name):
    assert pictures(DOCS / f"{name}.md")


def test_no_picture_is_left_that_no_page_shows():
    used = {file.resolve() for path in [*PAGES, ROOT / "README.md"] for file, _ in pictures(path)}
    assert {*(DOCS / "images").iterdir(), *(DOCS / "pictures").glob("*.py")} <= used


def test_every_example_draws_a_picture_for_its_tile():
    assert not [path.name for path in (ROOT / "examples").glob("*.py") if "plt.show()" not in path.read_text()]


def test_the_citation_is_of_this_version():
    assert re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) == [mgce.__version__]


def test_the_citation_prefers_the_paper():
    preferred = re.search(
        r"^preferred-citation:\n((?:  .*\n)+)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE
    ).group(1)
    assert "title: Minimax Generalized Cross-Entropy\n" in preferred and "year: 2026" in preferred
    assert re.findall(r"family-names: (\S+)", preferred) == ["Bondugula", "Mazuelas", "Pérez", "Liu"]


def test_the_package_is_described_as_the_readme_begins():
    (described,) = re.findall(r'^description = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    title = (ROOT / "README.md").read_text().partition("\n")[0]
    assert described.lower().startswith(title.removeprefix("# mgce: "))


def test_the_changelog_is_on_the_site_and_the_version_in_its_header():
    assert "{include} ../CHANGELOG.md" in (DOCS / "changelog.md").read_text()
    (tree,) = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
    assert "changelog" in tree.split()
    assert '"text": f"mgce {release}"}' in CONF and "release = version = mgce.__version__" in CONF


def test_the_first_page_shows_what_comes_out_and_which_command_to_type():
    assert {"report.png", "review.png", "which-command.svg"} <= {file.name for file, _ in pictures(DOCS / "index.md")}
    drawn = re.findall(r">(mgce \w+)</text>", (DOCS / "images/which-command.svg").read_text())
    listed = re.findall(r"^\|.*\| \[`(mgce \w+)`\]", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert sorted(drawn) == sorted({*listed} - {"mgce env"})  # prints versions, and answers no question on data


def test_the_site_has_a_logo_and_leads_to_the_repository_once_it_has_an_address():
    files = re.findall(r'"(_static/\S+\.svg)"', CONF)
    assert len(files) == 3 and all((DOCS / file).is_file() for file in files)  # light, dark, and of the tab
    assert '"icon_links"' in CONF and "Project-URL" in CONF


@pytest.mark.parametrize("word", ["header", "sheets", "spellings", "exit codes"])
def test_a_heading_answers_what_people_search_for(word):
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES if path.stem != "changelog")
    assert re.search(rf"^##+ .*\b{word}\b", text, re.MULTILINE | re.IGNORECASE)


def test_code_has_copy_buttons():
    extensions = CONF.partition("extensions = [")[2].partition("]")[0]
    assert '"sphinx_copybutton"' in extensions


def test_a_table_leads_to_a_shell_command():
    (target,) = re.findall(r"I have a table\n:link: (\S+)", (DOCS / "index.md").read_text())
    assert re.search(r"^```sh\nmgce fit ", (DOCS / f"{target}.md").read_text(), re.MULTILINE)


def test_ci_builds_the_pages_with_tested_versions():
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    assert ".ci/docs --pages" in (ROOT / ".ci/run").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(re.match(r"mgce\[.*pages.*\]", line) for line in extras["dev"])
    pinned = {line.lower().partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {re.split(r"[><=]", line)[0] for line in extras["pages"]} <= pinned


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_line_begins_with_a_percent_sign(path):
    """MyST takes such a line for a comment, and leaves it out with the end of the sentence."""
    prose = re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"^\s*%.*", prose, re.MULTILINE)
