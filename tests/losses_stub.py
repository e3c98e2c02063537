"""The types of `mgce.losses`, from what is made there: `python tests/losses_stub.py` writes `__init__.pyi` anew."""

import inspect
import subprocess
import sys
from pathlib import Path

from mgce import losses
from mgce.losses import presets

STUB = Path(__file__).parents[1] / "src" / "mgce" / "losses" / "__init__.pyi"


def render():
    """Return the stub: where the written names come from, and the signatures of the names that are made."""
    made = [one for _, one in sorted(presets.MADE.items()) if one.__module__ == losses.__name__]
    bases = {module.__base__ for module in made if isinstance(module, type)}
    lines = [
        "# Written by `python tests/losses_stub.py`: what type checkers see.",
        "from torch import Tensor",
        *(f"from mgce.losses.{home} import {name} as {name}" for name, home in sorted(losses._HOMES.items())),
        *sorted(f"from {base.__module__} import {base.__name__}" for base in bases),
        "__all__: list[str]",
    ]
    for one in made:
        if isinstance(one, type):
            own = [f"    {name}: {type(default).__name__}" for name, default in one.defaults.items()]
            lines += [f"class {one.__name__}({one.__base__.__name__}):", *own, f"    def __init__{signed(one)}: ..."]
        else:
            lines.append(f"def {one.__name__}{signed(one)}: ...")
    return "\n".join(lines) + "\n"


def signed(made):
    """Return the signature of a function or of a module's `__init__` as source."""
    parts = ["self"] if isinstance(made, type) else []
    for one in inspect.signature(made).parameters.values():
        if one.kind == one.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if one.default is one.empty else f" = {one.default!r}"
        parts.append(f"{one.name}: {one.annotation}{default}")
    return f"({', '.join(parts)},) -> {inspect.signature(made).return_annotation}"


if __name__ == "__main__":
    STUB.write_text(render())
    for command in (("format",), ("check", "--fix"), ("format",)):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(STUB)], check=True)
