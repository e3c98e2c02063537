"""What a command of `mgce` takes and does, as Markdown for its page, from the command itself."""

from __future__ import annotations

import re
import typing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any

from typer.core import TyperArgument

from mgce.desk.cli import commands
from mgce_lab.cli import commands as lab_commands

PROGRAMS = {"mgce": commands.Program, "mgce-lab": lab_commands.Program}
KINDS = {Path: "PATH", int: "N", float: "NUMBER", str: "TEXT"}
FIRST = "Options"  # the heading of those that the command puts under none
# A default in words ends a help text in square brackets.
DEFAULT_IN_WORDS = re.compile(r"\s*\[([^\]]+)\](?=\.?$)")
# What Sphinx would typeset: --option as a dash and a word, $NAME as a formula.
LITERAL = re.compile(r"(?<![\w-])(--?[a-z][\w-]*|\$\w+|\./\w+|\\t)(?!\w)")
CODE = re.compile(r"(`[^`]*`)")


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command, as a reader sees it."""

    name: str  # how it is written: "--seed N", "TABLE"
    help: str
    default: str | None
    group: str | None  # None of an argument
    required: bool

    @property
    def markdown(self) -> str:
        """Return the entry: an argument as a line of a list, an option as one that can be linked to."""
        said = self.help if self.default is None else f"{self.help} Default: {self.default}."
        said += " Required." if self.required and self.group is not None else ""
        return f"- `{self.name}`: {said}" if self.group is None else f"```{{option}} {self.name}\n{said}\n```"


def program(command: str) -> str:
    """Return the name of the program that has a command."""
    return next(name for name, group in PROGRAMS.items() if command in group.sentences)


def parameters(command: str) -> list[Parameter]:
    """Return the arguments and options of a command in the order in which it lists them."""
    group = PROGRAMS[program(command)]
    hints = typing.get_type_hints(getattr(import_module(f"{group.package}.{command}"), command))
    shown = [one for one in group.load(command).params if one.name in hints and not getattr(one, "hidden", False)]
    return [_parameter(one, hints[one.name]) for one in shown]


def _parameter(one: Any, hint: Any) -> Parameter:
    said = str(one.help)
    in_words = DEFAULT_IN_WORDS.search(said)
    text = _literal(DEFAULT_IN_WORDS.sub("", said))
    if isinstance(one, TyperArgument):
        name = one.name.upper()
        return Parameter(name if one.required else f"[{name}]", text, None, None, one.required)
    default = None
    if in_words:
        default = _literal(in_words.group(1))
    elif not one.required and one.default is not None and not one.is_flag:
        default = f"`{one.default}`"
    kind = "" if one.is_flag else f" {KINDS[_type(hint)]}"
    return Parameter(
        ", ".join(f"{option}{kind}" for option in one.opts), text, default, one.rich_help_panel or FIRST, one.required
    )


def _type(hint: Any) -> Any:
    """Return the type of a value that may be left out or come several times: of `list[str] | None` str."""
    one = typing.get_args(hint)[0] if isinstance(hint, UnionType) else hint
    return typing.get_args(one)[0] if typing.get_origin(one) is list else one


def _literal(text: str) -> str:
    """Mark as code what is not yet, between the spans of code that the text has."""
    parts = CODE.split(text)
    return "".join(part if CODE.match(part) else LITERAL.sub(r"`\1`", part) for part in parts)


def synopsis(command: str) -> str:
    """Return the line that a reader types: arguments and required options by name, the rest as [OPTIONS]."""
    taken = parameters(command)
    words = [one.name for one in taken if one.group is None or one.required]
    options = [] if len(words) == len(taken) else ["[OPTIONS]"]
    return " ".join([program(command), command, *words, *options])


def page(command: str) -> str:
    """Return what follows the example on the page of a command, as Markdown."""
    taken = parameters(command)
    parts = [
        f"```sh\n{synopsis(command)}\n```",
        _literal(PROGRAMS[program(command)].load(command).help),
        f"```{{program}} {program(command)} {command}\n```",
    ]
    parts += ["\n".join(one.markdown for one in taken if one.group is None)]
    for group in dict.fromkeys(one.group for one in taken if one.group is not None):
        parts += [f"### {group}", *(one.markdown for one in taken if one.group == group)]
    return "\n\n".join(part for part in parts if part)
