"""What all commands have in common: help, version, completion, and what help does not wait for."""

import os
import subprocess
import sys

import pytest

from mgce import __version__
from mgce.desk.cli.commands import COMMANDS, Program


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_command(mgce, option):
    code, output, _ = mgce(option)
    assert code == 0
    words = " ".join(output.replace("│", " ").split())
    assert all(f"{name} {sentence}" in words for name, sentence in COMMANDS.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_imported_by_its_name_and_says_what_the_list_says(mgce, name):
    assert Program.load(name).help.startswith(COMMANDS[name])
    code, output, _ = mgce(name, "-h")
    assert code == 0 and COMMANDS[name].split()[0] in output


def test_the_version_is_that_of_the_package(mgce):
    assert mgce("--version")[:2] == (0, f"mgce {__version__}\n")


def test_unknown_commands_are_refused(mgce):
    code, _, errors = mgce("fitt")
    assert code == 2 and "No such command 'fitt'. Did you mean 'fit'?" in errors


def test_help_imports_nothing_that_takes_long():
    code = (
        "import sys; sys.argv = ['mgce', '--help']\n"
        "from mgce.desk.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert "typer" in loaded
    assert not {"torch", "numpy", "pandas", "sklearn", "scipy", "matplotlib", "pyarrow"} & loaded


def test_a_shell_is_offered_the_commands():
    typed = {"_MGCE_COMPLETE": "complete_bash", "COMP_WORDS": "mgce pre", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['mgce']; from mgce.desk.cli.main import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | typed)
    assert result.stdout.split() == ["predict"], result.stderr
