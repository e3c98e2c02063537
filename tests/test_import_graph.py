"""The picture in docs/architecture.md is that of the imports."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_picture_is_that_of_the_imports():
    program = runpy.run_path(str(DOCS / "import_graph.py"))
    graph = program["imports"]()
    assert graph["linear"] == {"kernels", "losses"} and "desk/tables" in graph["desk/cli"] and not graph["numerics"]
    assert program["draw"](graph) == (DOCS / "images" / "import-graph.svg").read_text(), (
        "run `python docs/import_graph.py`"
    )


def test_every_file_that_the_page_names_exists():
    source = DOCS.parent / "src" / "mgce"
    words = {word for line in (DOCS / "architecture.md").read_text().split("`") for word in line.split()}
    files = {
        word for word in words if word.endswith(".py") and "/" in word and word.split("/")[0] not in ("docs", "tests")
    }
    assert len(files) > 20
    for file in files:
        assert (DOCS.parent / file if file.startswith("lab/") else source / file).is_file(), file
