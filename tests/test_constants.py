"""Numbers at the level of a module, or in a record of settings: each has its reason beside it."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "mgce"
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def numbers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the reason of each number, or group of numbers, that a module names.

    A reason is a comment on the lines of the statement, or above it with no blank line between; constants that follow
    one another share the comment above them. Records made by a call, as of a loss, hold their sources themselves.
    """
    lines = text.splitlines()
    comments = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__)
        if token.type == tokenize.COMMENT
    }
    for statement in ast.parse(text).body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        if not names[0].isupper() or not any(held(statement.value)):
            continue
        assert statement.end_lineno is not None
        first = statement.lineno
        while lines[first - 2].strip() and first > 1:
            first -= 1
        reason = " ".join(comments[line] for line in range(first, statement.end_lineno + 1) if line in comments)
        yield ", ".join(names), reason


def held(value: ast.AST) -> Iterator[bool]:
    """Yield whether each constant of a value is a number, without those inside of records and functions."""
    if isinstance(value, ast.Lambda):
        return
    if isinstance(value, ast.Call) and not ast.unparse(value.func).startswith(("np.", "tl.", "tuple", "slice")):
        return
    if isinstance(value, ast.Constant):
        yield type(value.value) in (int, float)
    for part in ast.iter_child_nodes(value):
        yield from held(part)


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield each number of the records that a module makes without arguments, and what the docstring says of it."""
    module = ast.parse(text)
    made = {
        statement.value.func.id
        for statement in module.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and not statement.value.args
        and not statement.value.keywords
    }
    for record in module.body:
        if not isinstance(record, ast.ClassDef) or record.name not in made:
            continue
        attributes = re.split(r"(?m)^ {4}(\w+):", ast.get_docstring(record) or "")
        said = dict(zip(attributes[1::2], attributes[2::2], strict=True))
        for field in record.body:
            if isinstance(field, ast.AnnAssign) and field.value is not None and any(held(field.value)):
                name = ast.unparse(field.target)
                yield f"{record.name}.{name}", " ".join(said.get(name, "").split())


@pytest.mark.parametrize("file", FILES)
def test_each_number_has_its_reason_beside_it(file):
    text = (SOURCE / file).read_text()
    without = [name for name, reason in [*numbers(text), *settings(text)] if len(reason) < len("# of bytes")]
    assert not without, f"{file} gives no reason for {', '.join(without)}"


def test_a_number_without_a_reason_is_found():
    text = "A = 1  # the first\n\n# Both of the second.\nB, C = 2, 3\nD = 4\n\nE = 5\nF = NamedLoss(6)\n"
    assert [(name, bool(reason)) for name, reason in numbers(text)] == [
        ("A", True), ("B, C", True), ("D", True), ("E", False),
    ]  # fmt: skip


def test_a_number_of_a_record_without_a_reason_is_found():
    text = """
class Settings(NamedTuple):
    \"\"\"How it is done.

    Attributes:
        steps: more change no
            digit.
        patience: as in others.
    \"\"\"

    steps: int = 4
    patience: int = 2
    rate: float = 0.1
    name: str = "a"


class Result(NamedTuple):
    rows: int = 0


SETTINGS = Settings()
"""
    assert list(settings(text)) == [
        ("Settings.steps", "more change no digit."),
        ("Settings.patience", "as in others."),
        ("Settings.rate", ""),
    ]
