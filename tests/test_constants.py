"""Numbers at the level of a module: each has its reason beside it."""

import ast
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


@pytest.mark.parametrize("file", FILES)
def test_each_number_has_its_reason_beside_it(file):
    without = [name for name, reason in numbers((SOURCE / file).read_text()) if len(reason) < len("# of bytes")]
    assert not without, f"{file} gives no reason for {', '.join(without)}"


def test_a_number_without_a_reason_is_found():
    text = "A = 1  # the first\n\n# Both of the second.\nB, C = 2, 3\nD = 4\n\nE = 5\nF = NamedLoss(6)\n"
    assert [(name, bool(reason)) for name, reason in numbers(text)] == [
        ("A", True), ("B, C", True), ("D", True), ("E", False),
    ]  # fmt: skip
