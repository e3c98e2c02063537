"""Every command has a page, whose options are those that the command has."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest

import commands
from mgce.desk.cli.commands import Program
from mgce_lab.cli.commands import Program as LabProgram

DOCS = Path(__file__).parents[1] / "docs"
PROGRAMS = {"mgce": Program, "mgce-lab": LabProgram}
COMMANDS = [(name, command) for name, group in PROGRAMS.items() for command in group.sentences]


@pytest.fixture(scope="module")
def command_text():
    spec = importlib.util.spec_from_file_location("command_text", DOCS / "command_text.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "command_text", module)
        spec.loader.exec_module(module)
        yield module


def shown(program, command, folder):
    return commands.run(program, command, "--help", folder=folder, columns=200).stdout


def test_every_command_has_a_page_that_the_list_names():
    written = {path.stem for path in (DOCS / "commands").glob("*.md")}
    listed = (DOCS / "commands.md").read_text()
    names = [command for _, command in COMMANDS]
    assert written == set(names) == set(re.findall(r"\(commands/(\w+)\.md\)", listed))
    assert re.findall(r"^commands/(\w+)$", listed, re.MULTILINE) == names


@pytest.mark.parametrize(("program", "command"), COMMANDS)
def test_a_page_shows_every_option_of_the_help(program, command, command_text, tmp_path):
    page = (DOCS / f"commands/{command}.md").read_text()
    assert page.startswith(f"# {program} {command}\n") and f"```{{command}} {command}\n" in page
    options = set(re.findall(r"^│ \*? *(--[\w-]+)", shown(program, command, tmp_path), re.MULTILINE)) - {"--help"}
    assert set(re.findall(r"^```\{option\} (--[\w-]+)", command_text.page(command), re.MULTILINE)) == options


@pytest.mark.parametrize(("program", "command"), COMMANDS)
def test_a_help_ends_with_an_example_that_the_command_takes(program, command, tmp_path):
    example = PROGRAMS[program].examples[command]
    assert shown(program, command, tmp_path).rstrip().endswith(f"Example: {example}")
    name, called, *arguments = shlex.split(example)
    assert (name, called) == (program, command)
    # Raises on an option or an argument too many or too few.
    PROGRAMS[program].load(command).make_context(command, arguments)


@pytest.mark.parametrize(
    ("program", "command"),
    [("mgce", "fit"), ("mgce", "certify"), *(("mgce-lab", name) for name in ("compare", "benchmark", "reproduce"))],
)
def test_a_long_help_has_headings(program, command, tmp_path):
    headings = re.findall(r"^╭─ (.+?) ─", shown(program, command, tmp_path), re.MULTILINE)
    assert headings[:2] == ["Arguments", "Options"] and len(headings) >= 5
    assert len(headings) == len(set(headings)) and set(headings[2:]) <= set(PROGRAMS[program].panels)


def test_every_option_under_a_heading_is_one_of_some_command():
    options = {option.name for program, command in COMMANDS for option in PROGRAMS[program].load(command).params}
    for group in PROGRAMS.values():
        placed = [name for names in group.panels.values() for name in names]
        assert set(placed) <= options and len(placed) == len(set(placed))


def test_defaults_groups_and_literals(command_text):
    made = {one.name.split()[0]: one for one in command_text.parameters("fit")}
    assert made["TABLE"].group is None and made["--target"].default == "of a folder of classes: label"
    (out,) = [one for one in command_text.parameters("embed") if one.name.startswith("--out ")]
    assert out.required
    assert made["--delta"].default == "`0.05`" and made["--delta"].name == "--delta NUMBER"
    assert made["--out"].default == "TABLE's name with .mgce"
    assert made["--formulas"].default is None and made["--formulas"].name == "--formulas"
    assert made["--quiet,"].name == "--quiet, -q"
    groups = [made[name].group for name in ("--target", "--model", "--noise-rate", "--sep", "--json")]
    assert groups == ["Options", "The model", "Wrong labels", "Reading the table", "Writing the results"]
    assert "`--cleaned`" in made["--formulas"].help
    assert "`mgce certify PREDICTIONS.csv --target COLUMN`" in command_text.page("certify")
    assert command_text.synopsis("fit") == "mgce fit TABLE [OPTIONS]"
    assert command_text.synopsis("certify") == "mgce certify MODEL [TABLE] [OPTIONS]"
    assert command_text.synopsis("env") == "mgce env"
