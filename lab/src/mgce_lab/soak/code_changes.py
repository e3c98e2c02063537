"""Small wrong changes of a source file, found in its syntax tree: what `python -m mgce_lab.soak mutants` tries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Each comparison becomes its boundary and its opposite, each operator the one that it is most easily mistaken for.
COMPARISONS = {
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
OPPOSITES = {"min": "max", "minimum": "maximum", "amin": "amax", "argmin": "argmax"}
OPPOSITES |= {most: least for least, most in OPPOSITES.items()}
CACHES = ("cache", "lru_cache")
SHOWN = ("__repr__", "extra_repr")  # text for people, which may be worded otherwise
SAID = ("expected", "warn")  # their arguments are sentences


@dataclass(frozen=True)
class Change:
    """One wrong change: the bytes from `start` to `end` are replaced."""

    kind: str
    start: int
    end: int
    new: str
    lines: tuple[int, int]  # of the statement, or of the body of the function whose default is changed
    everywhere: bool  # whether it acts where the module is imported, or behind a cache

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def described(self, source: bytes) -> str:
        """Return the first changed line before and after the change: a name that stays if lines above it change."""
        first, last = source.rfind(b"\n", 0, self.start) + 1, source.find(b"\n", self.end)
        before, after = source[first:last], source[first : self.start] + self.new.encode() + source[self.end : last]
        old, new = (text.decode().split("\n")[0].strip() for text in (before, after))
        return f"{old}  ->  {new}"


def changes(source: bytes) -> list[Change]:
    """Return all changes of a source, in its order."""
    return sorted(
        set(_Finder(source).statements(ast.parse(source).body)), key=lambda one: (one.start, one.end, one.new)
    )


class _Finder:
    """Walk a tree and know the statement and the function that a node is in."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = (1, 1)
        self.everywhere = True

    def at(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Return where a node begins and ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def change(self, kind: str, start: int, end: int, new: str) -> Change:
        return Change(kind, start, end, new, self.lines, self.everywhere)

    def statements(self, body: list[ast.stmt]) -> Iterator[Change]:
        for statement in body:
            nested = getattr(statement, "body", None)
            end = nested[0].lineno - 1 if nested else statement.end_lineno
            self.lines = statement.lineno, max(statement.lineno, end or 0)
            if isinstance(statement, ast.FunctionDef):
                yield from self.function(statement)
            elif isinstance(statement, ast.ClassDef):
                yield from self.statements(statement.body)
            elif not isinstance(statement, (ast.Import, ast.ImportFrom)) and not _is_text(statement):
                yield from self.removed(statement)
                yield from self.parts(statement)

    def function(self, node: ast.FunctionDef) -> Iterator[Change]:
        if node.name in SHOWN or any(_name(each) == "overload" for each in node.decorator_list):
            return
        before = self.everywhere
        self.everywhere = any(_name(each) in CACHES for each in node.decorator_list)
        self.lines = node.body[0].lineno, node.end_lineno or node.lineno
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if isinstance(default, ast.Constant):
                yield from self.constant(default, "default")
        yield from self.statements(node.body)
        self.everywhere = before

    def removed(self, node: ast.stmt) -> Iterator[Change]:
        stored = isinstance(node, ast.Assign) and not isinstance(node.targets[0], (ast.Name, ast.Tuple))
        called = isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Yield, ast.YieldFrom))
        if stored or called or isinstance(node, (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)):
            yield self.change("statement", *self.at(node), "pass")

    def parts(self, node: ast.AST) -> Iterator[Change]:
        """Yield the changes of a node and of its children; leave out type annotations and docstrings."""
        said = isinstance(node, ast.Call) and _name(node.func) in SAID
        if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
            return
        yield from self.own(node)
        if said or isinstance(node, (ast.Raise, ast.JoinedStr)):
            return
        for field, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.stmt):
                    yield from self.statements([each])
                elif isinstance(each, ast.ExceptHandler):
                    yield from self.statements(each.body)
                elif isinstance(each, ast.AST) and field != "annotation":
                    yield from self.parts(each)

    def own(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield self.change("return", *self.at(node.value), "None")
        elif isinstance(node, (ast.If, ast.IfExp)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
            start, end = self.at(node.test)
            yield self.change("not", start, end, f"(not ({self.source[start:end].decode()}))")
        elif isinstance(node, (ast.Compare, ast.BinOp, ast.BoolOp)):
            yield from self.operators(node)
        elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
            start, end = self.at(node.operand)
            yield self.change("not", *self.at(node), f"({self.source[start:end].decode()})")
        elif isinstance(node, ast.Constant):
            yield from self.constant(node, "constant")
        elif isinstance(node, ast.Call):
            yield from self.extreme(node)

    def operators(self, node: ast.Compare | ast.BinOp | ast.BoolOp) -> Iterator[Change]:
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
                old, *others = COMPARISONS[type(operator)]
                for new in others:
                    yield from self.between("comparison", left, right, old, new)
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self.between("and/or", left, right, old, new)
        elif type(node.op) in ARITHMETIC and not (
            _is_string(node.left) or _is_string(node.right) or self.is_type(node)
        ):
            yield from self.between("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])

    def is_type(self, node: ast.BinOp) -> bool:
        """Tell whether `a | b` is more likely a type than numbers."""
        return isinstance(node.op, ast.BitOr) and self.everywhere

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Change]:
        start, end = self.at(left)[1], self.at(right)[0]
        gap = self.source[start:end].decode()
        found = re.search(re.escape(old).replace(r"\ ", r"\s+"), gap)
        if found and "#" not in gap:
            yield self.change(kind, start + found.start(), start + found.end(), new)

    def constant(self, node: ast.Constant, kind: str) -> Iterator[Change]:
        value = node.value
        if isinstance(value, bool):
            yield self.change(kind, *self.at(node), str(not value))
        elif isinstance(value, int):
            for new in (value + 1, value - 1) if value else (1,):
                yield self.change(kind, *self.at(node), str(new))
        elif isinstance(value, float):
            near = (value + 1, value - 1) if value + 1 != value else (2 * value, value / 2)  # 1e30 + 1 is 1e30
            for new in near if value else (1.0,):
                yield self.change(kind, *self.at(node), f"({new!r})")

    def extreme(self, node: ast.Call) -> Iterator[Change]:
        """Swap minimum and maximum, as a function or as an argument of `clamp`."""
        name, function = _name(node.func), node.func
        if name in OPPOSITES:
            start, end = self.at(function)
            yield self.change("min/max", end - len(name), end, OPPOSITES[name])
        ends = [each for each in node.keywords if each.arg in ("min", "max")]
        if len(ends) == 1 and ends[0].arg is not None:
            start, _ = self.at(ends[0])
            yield self.change("min/max", start, start + 3, OPPOSITES[ends[0].arg])


def _name(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_text(node: ast.stmt) -> bool:
    """Tell whether a statement is a docstring, `...`, or a list of names of the module."""
    if isinstance(node, ast.Assign):
        return any(_name(target) == "__all__" for target in node.targets)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
