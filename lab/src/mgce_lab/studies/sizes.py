"""How large a Python package is: `python -m mgce_lab.studies.sizes FOLDER ...` prints a line for each folder."""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mgce_lab.engine.markdown import table

MANY = 6  # parameters; a function with more is counted
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Size:
    """What is counted of a package.

    Attributes:
        code: lines of code, without docstrings, comments and blank lines.
        files: files of Python.
        wide: functions with more than `MANY` parameters, `self` and `cls` left out.
        numbers: constants in capitals at the top of a module whose value holds a number.
        public: names of `__all__` of the package itself.
        all_public: those of all its modules whose names do not begin with an underscore.
    """

    code: int
    files: int
    wide: int
    numbers: int
    public: int
    all_public: int


def size(package: Path) -> Size:
    """Count a package, without folders named `tests`."""
    paths = [path for path in sorted(package.rglob("*.py")) if "tests" not in path.relative_to(package).parts]
    trees = {path: ast.parse(path.read_text()) for path in paths}
    names = {path: list(_exported(tree)) for path, tree in trees.items()}
    shown = [path for path in paths if not any(part.startswith("_") for part in _places(path, package))]
    top = names.get(package / "__init__.py") or _top(package)
    return Size(
        code=sum(len(_code_lines(path.read_text(), tree)) for path, tree in trees.items()),
        files=len(paths),
        wide=sum(_parameters(node) > MANY for tree in trees.values() for node in ast.walk(tree) if _is_function(node)),
        numbers=sum(1 for tree in trees.values() for _ in _numbers(tree)),
        public=len(top),
        all_public=len({*top, *(name for path in shown for name in names[path])}),
    )


def _top(package: Path) -> list[str]:
    """Return the names of a package whose `__all__` is computed, of a process that imports it; none if that fails."""
    program = f"import {package.name}; print(*getattr({package.name}, '__all__', ()))"
    command, paths = [sys.executable, "-c", program], {"PYTHONPATH": str(package.resolve().parent)}
    return subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False).stdout.split()


def _places(path: Path, package: Path) -> list[str]:
    return [part.removesuffix(".py") for part in path.relative_to(package).parts if part != "__init__.py"]


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _parameters(node: ast.AST) -> int:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        for inner in getattr(node, "body", []) if isinstance(getattr(node, "body", []), list) else []:
            if (
                isinstance(inner, ast.Expr)
                and isinstance(inner.value, ast.Constant)
                and isinstance(inner.value.value, str)
            ):
                lines.difference_update(range(inner.lineno, (inner.end_lineno or inner.lineno) + 1))
    return lines


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that is assigned at the top of a module, with its value."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for target in targets:
            for name in ast.walk(target):
                if value is not None and isinstance(name, ast.Name):
                    yield name.id, value


def _numbers(tree: ast.Module) -> Iterator[str]:
    for name, value in _assigned(tree):
        held = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
        if name.isupper() and any(isinstance(each, int | float) and not isinstance(each, bool) for each in held):
            yield name


def _exported(tree: ast.Module) -> Iterator[str]:
    for name, value in _assigned(tree):
        if name == "__all__" and isinstance(value, ast.List | ast.Tuple):
            yield from (
                each.value for each in value.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def main() -> None:
    """Print a line for each folder."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.sizes", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of packages, as src/mgce")
    header = [
        "package",
        "code lines",
        "files",
        f"functions with more than {MANY} parameters",
        "constants with a number",
    ]
    header += ["in 1,000 lines", "public names, top / all"]
    rows = []
    for folder in parser.parse_args().folders:
        found = size(folder)
        share = f"{1000 * found.numbers / max(1, found.code):.1f}"
        counts = [f"{value:,}" for value in (found.code, found.files, found.wide, found.numbers)]
        rows.append([str(folder), *counts, share, f"{found.public} / {found.all_public}"])
    print(table(header, rows))


if __name__ == "__main__":
    main()
