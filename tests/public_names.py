"""The public names with their arguments, as text: `python tests/public_names.py` writes those of a release.

`public_names.txt` is written when a version is released, never between. What has changed since needs a line in the
changelog (`test_public_api.py`).
"""

import ast
import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = Path(__file__).with_name("public_names.txt")


def listed():
    """Return the full name of every entry of docs/api.md."""
    module, names = "", set()
    for line in (ROOT / "docs/api.md").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [A-Za-z_][\w.]*", line):
            names.add(f"{module}.{line.strip()}")
    return names


def described():
    """Return a line for each public name, and for each method of a public class that its own package defines."""
    lines = []
    for full in sorted(listed()):
        if full.startswith("mgce.integrations."):  # whose libraries may be missing
            lines += _of_source(full)
        else:
            lines += _of_object(full)
    return lines


def _of_object(full):
    value = importlib.import_module("mgce")
    for part in full.split(".")[1:]:
        if inspect.ismodule(value) and not hasattr(value, part):
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    lines = [full + _arguments(value)]
    if inspect.isclass(value):
        names = {name for one in value.__mro__ if one.__module__.startswith("mgce") for name in vars(one)}
        names |= {
            name for one in value.__mro__ for name in getattr(one, "__annotations__", ()) if "mgce" in one.__module__
        }
        for name in sorted(name for name in names if not re.fullmatch(r"_.*|set_\w+_request", name)):  # of scikit-learn
            member = getattr(value, name, None)
            lines.append(
                f"{full}.{name}"
                + (_arguments(member) if inspect.isfunction(member) or inspect.ismethod(member) else "")
            )
    return lines


def _arguments(value):
    parameters = inspect.signature(value).parameters.values()
    bare = [one.replace(annotation=one.empty, default=_shown(one.default)) for one in parameters if one.name != "self"]
    return str(inspect.Signature(bare))


def _shown(default):
    """Return a default whose text is the same in every process."""
    simple = default is inspect.Parameter.empty or re.fullmatch(r"[^<>]*", repr(default))
    return default if simple else type(default)


def _of_source(full):
    module, name = full.rsplit(".", 1)
    tree = ast.parse((ROOT / "src" / module.replace(".", "/")).with_suffix(".py").read_text())
    (node,) = [one for one in tree.body if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == name]
    if isinstance(node, ast.FunctionDef):
        return [full + _of_arguments(node.args)]
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    made = [one for one in methods if one.name == "__init__"]
    lines = [full + (_of_arguments(made[0].args) if made else "")]
    return lines + sorted(f"{full}.{one.name}{_of_arguments(one.args)}" for one in methods if one.name[0] != "_")


def _of_arguments(arguments):
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if one is not None:
            one.annotation = None
    arguments.args = [one for one in arguments.args if one.arg != "self"]
    return f"({ast.unparse(arguments)})"


if __name__ == "__main__":
    RECORD.write_text("\n".join(described()) + "\n")
