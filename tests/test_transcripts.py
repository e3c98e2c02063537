"""Every output that a page prints is what its commands and snippets print today."""

import doctest
import warnings
from pathlib import Path

import pytest

from transcripts import Printed, recorded, run

DOCS = Path(__file__).parents[1] / "docs"
# Many models and networks.
NIGHTLY = (
    "README",
    "benchmark",
    "compare",
    "demo",
    "estimators",
    "installation",
    "label-tools",
    "large-tables",
    "llm-labels",
    "own-data",
    "report",
    "targets",
    "train",
)
PAGES = [
    DOCS.parent / "README.md",
    # `mgce clean` waits for decisions of a person: its page prints no output.
    *sorted({*(DOCS / "commands").glob("*.md")} - {DOCS / "commands/clean.md"}),
    *(
        DOCS / f"{name}.md"
        for name in ("estimators", "installation", "label-tools", "large-tables", "llm-labels", "own-data", "targets")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=pytest.mark.nightly if page.stem in NIGHTLY else ()) for page in PAGES],
)
def test_a_page_prints_what_it_says(page, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a reader sees on standard error
        printed = [*run(page.read_text(), tmp_path)]
    assert printed
    flags = doctest.REPORT_NDIFF | doctest.ELLIPSIS
    differences = [
        doctest.OutputChecker().output_difference(doctest.Example("", block.said), block.came, flags)
        for block in printed
        if not block.is_true
    ]
    assert not differences, f"`python tests/transcripts.py {page.relative_to(DOCS.parent)}` writes the output of today"


PAGE = """
```python
x = 6 * 7
```

```sh
head -1 a.txt
```

```text
the first line
```

```sh
pip install something
```

```python
print(f"{x}, took {x} s")
```

```text
42, took 3 s
```
"""


def test_blocks_share_names_and_only_known_commands_run(tmp_path):
    (tmp_path / "a.txt").write_text("the first line\nanother\n")
    first, second = run(PAGE, tmp_path)
    assert first.came == "the first line\n" and first.is_true
    assert second.came == "42, took 42 s\n" and second.is_true


def test_what_sets_up_is_left_out_of_a_line_of_commands(tmp_path):
    line = """python3 -m venv .venv && pip install '.[cli]' && \\
python -c "t = open('a.txt', 'w'); \\
t.write('first\\nsecond\\n')" && head -1 a.txt"""
    (only,) = run(f"```sh\n{line}\n```\n\n```text\nfirst\n```\n", tmp_path)
    assert only.came == "first\n" and only.is_true


def test_a_changed_output_is_seen_and_written(tmp_path):
    (tmp_path / "a.txt").write_text("the first\n")
    first, second = run(PAGE, tmp_path)
    assert not first.is_true and second.is_true
    assert recorded(PAGE, tmp_path) == PAGE.replace("the first line", "the first")


def test_only_seconds_blanks_and_what_is_left_out_may_differ():
    assert Printed(0, 0, "a ... z\n in 3 s", "a b\nc z in  12 s").is_true
    assert not Printed(0, 0, "at most 7.1%", "at most 7.2%").is_true
    assert Printed(0, 0, "CE  81.5 0.05", "CE 81.9 0.05", of_python=True).is_true
    for other in ("CE 82.3 0.05", "CE 81.5 0.06", "CE 81.5", "CE 81 0.05"):
        assert not Printed(0, 0, "CE 81.5 0.05", other, of_python=True).is_true


def test_output_needs_a_block_that_runs(tmp_path):
    with pytest.raises(ValueError, match="no block that runs"):
        list(run("```sh\npip install x\n```\n\n```text\ndone\n```\n", tmp_path))
    with pytest.raises(RuntimeError, match="Error: "):
        list(run("```sh\nmgce fit missing.csv --target a\n```\n", tmp_path))
