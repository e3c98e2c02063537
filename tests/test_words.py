"""README and docs keep the rules of writing that can be measured; a page that is not there yet may only get better."""

import ast
import json
from pathlib import Path

import pytest

from words import CEILINGS, GOALS, above_goals, figures, pages, prose

PAGES = pages()
KNOWN = json.loads(CEILINGS.read_text())
MUCH = 0.9  # below this part of its ceiling, a figure gets a new one

PAGE = """# A heading of 100 words

Two words. It has 98.2 in place of .05; CIFAR-10 and `beta=1.4` are names: [a link](a.md) is text.

- One item
  of two lines, with $x = 3$.

```python
x = 1
```

| a table | 7 |
|---|---|
| of | 9 |

:::{grid-item-card} A card
:link: a.md
Text after code, 1,000 or 40 % or 2.
:::
"""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_within_the_goals_or_its_ceilings(page):
    limits = GOALS | KNOWN.get(page, {})
    worse = {name: value for name, value in figures(page, PAGES[page]).items() if value > limits[name]}
    assert not worse, f"`python tests/words.py {page}` names the sentences; at most {limits}"


@pytest.mark.parametrize("page", KNOWN)
def test_ceilings_follow_a_page_that_got_better(page):
    found = figures(page, PAGES[page]) if page in PAGES else dict.fromkeys(KNOWN[page], 0.0)
    better = {
        name: found[name] for name, ceiling in KNOWN[page].items() if found[name] <= max(MUCH * ceiling, GOALS[name])
    }
    assert not better, "`python tests/words.py --record` lowers the ceilings"


def test_prose_is_without_code_tables_and_headings():
    text = prose(PAGE)
    assert text.sentences == [
        "Two words.",
        "It has 98.2 in place of .05;",
        "CIFAR-10 and CODE are names:",
        "a link is text.",
        "One item of two lines, with FORMULA.",
        "Text after code, 1,000 or 40 % or 2.",
    ]
    # "%" is no word.
    assert [text.before_code, text.words] == [25, 33]


def test_figures_of_a_page():
    found = figures("README.md", PAGE + "\n" + "word " * 29)
    assert found == {
        "long sentences, %": round(100 / 7, 1),
        "numbers to 100 words": round(500 / 62, 1),  # 98.2, .05, 1,000, 40, 2
        "words": 62,
        "riddles": 2,
        "numbers like .05": 1,
        "lines": 21,
        "words before code": 25,
    }
    assert figures("docs/a.md", "word " * 28)["long sentences, %"] == 0
    assert set(above_goals(found)) == {"long sentences, %", "numbers to 100 words", "riddles", "numbers like .05"}


def test_what_a_function_returns_is_returned_and_not_given():
    root = Path(__file__).parents[1]
    given = [
        f"{path.relative_to(root)}:{node.lineno}"
        for folder in ("src", "soak", "benchmarks", "docs", "examples", "tests")
        for path in (root / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and (ast.get_docstring(node) or "").startswith("Give ")
    ]
    assert not given
