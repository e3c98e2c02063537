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


def unnamed(then, now, section):
    """Return the names that changed between two descriptions, unless one entry of the changelog's section says what.

    The entries that have the name in their code, with the class where another class has a method of that name which
    did not change, also have each argument that came, went or has another kind or default.
    """
    before, after = ({line.partition("(")[0]: _parsed(line) for line in lines} for lines in (then, now))
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    gone_or_new = before.keys() ^ after.keys()
    entries = [_code(entry) for entry in re.split(r"\n(?=[-|])", section)]
    missing = []
    for name in sorted(name for name in changed if name.rpartition(".")[0] not in gone_or_new):
        ends = {".".join(name.split(".")[i:]) for i in range(name.count(".") + 1)}
        ends = {end for end in ends if not any(f".{one}".endswith(f".{end}") for one in after.keys() - changed)}
        old, new = before.get(name, {}), after.get(name, {})
        arguments = set() if name in gone_or_new else {one for one, _ in old.items() ^ new.items()}
        own = [entry for entry in entries if ends & entry]
        if not own or not arguments <= set().union(*own):
            missing.append(name)
    return missing


def _code(entry):
    """Return the names in the code of an entry; of `A.b` also A, and b."""
    names = re.findall(r"[A-Za-z_][\w.]*", " ".join(re.findall(r"`([^`]*)`", entry)))
    return {*names, *(part for name in names for part in (name.rpartition(".")[0], name.rpartition(".")[2]))}


def _parsed(line):
    """Return of each argument its kind, its place if that has a meaning, and its default as text."""
    text = re.sub(r"<[^<>]*>", "None", line.partition("(")[2])
    given = ast.parse(f"lambda {text[:-1]}: 0", mode="eval").body.args
    placed = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(placed) - len(given.defaults)) + given.defaults
    found = [(one, number, value) for number, (one, value) in enumerate(zip(placed, defaults, strict=True))]
    found += [(one, "by name", value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    found += [(one, "others", None) for one in (given.vararg, given.kwarg) if one]
    return {one.arg: (kind, value and ast.unparse(value)) for one, kind, value in found}


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
    place = ROOT / "src" / module.replace(".", "/")
    files = sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    body = [one for file in files for one in ast.parse(file.read_text()).body]
    (node,) = [one for one in body if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == name]
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
