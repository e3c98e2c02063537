import contextlib
import subprocess
import sys

import pandas as pd
import pytest

from mgce.desk.cli.commands import COMMANDS
from mgce.desk.cli.first import check_first

# Runs a command in its process, and says which libraries it has imported.
PROGRAM = """
import sys
from mgce.desk.cli.main import main
for words in {calls!r}:
    sys.argv = ["mgce", *words]
    try:
        main()
    except SystemExit as end:
        print(end.code, *(name for name in ("torch", "sklearn", "scipy", "pandas") if name in sys.modules))
"""
CALLS = {
    (
        "fit",
        "t.xlsx",
        "--target",
        "y",
        "--sheet",
        "Shet1",
    ): "Expected `sheet` to be a sheet of t.xlsx (Sheet1), but",
    (
        "fit",
        "t.xlsx",
    ): "Expected `target` to be the name of the column with the labels, but got none. Add --target",
    (
        "fit",
        "t.xlsx",
        "--target",
        "y",
        "--checked",
        "t.csv",
    ): "Expected `checked` to be a file of decisions as the",
    (
        "fit",
        "t.xlsx",
        "--target=y",
        "--checked=none.csv",
    ): "Expected `checked` to be the path of a file that exists",
    (
        "predict",
        "t.xlsx",
        "t.xlsx",
    ): "Expected `model` to be an undamaged file written by `mgce fit`, but got 't.xlsx'",
    (
        "fit",
        "t.csv",
        "--target",
        "y",
        "--mended",
        "t.csv",
    ): "Expected `mended` to be the path of a file that nothing",
    ("fit", "t.csv", "--target=y", "--json=folder"): "Expected `json` to be the path of a file, but got 'folder, which",
    ("clean", "t.csv", "--out", "t.csv/m.csv"): "Expected `out` to be the path of a file ",
    ("certify", "t.mgce", "t.csv"): "Expected `model` to be an undamaged file written by `mgce fit`, but got 't.mgce'",
}


def test_what_shows_without_a_library_is_said_before_any_is_imported(tmp_path):
    table = pd.DataFrame({"x": [1, 2], "y": ["a", "b"]})
    table.to_excel(tmp_path / "t.xlsx", index=False)
    for name in ("t.csv", "t.mgce"):
        table.to_csv(tmp_path / name, index=False)
    (tmp_path / "folder").mkdir()
    code = PROGRAM.format(calls=[list(words) for words in CALLS])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["2"] * len(CALLS), done.stdout + done.stderr
    said = done.stderr.splitlines()
    assert len(said) == len(CALLS)
    assert all(one.startswith(f"Error: {wanted}") for one, wanted in zip(said, CALLS.values(), strict=True)), said


def test_an_option_that_is_nearly_the_target_is_asked_about(mgce, tmp_path):
    pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}).to_csv(tmp_path / "t.csv", index=False)
    code, _, errors = mgce("fit", "t.csv", "--taget", "y")
    assert code == 2 and "--target" in errors and "Add --target" not in errors


@pytest.mark.parametrize("words", [[], ["--out"], ["t.csv"], ["--", "-"]], ids=" ".join)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_typed_may_be_incomplete(command, words, tmp_path, monkeypatch):
    """What is missing is said in a sentence, or by the command itself."""
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(ValueError, FileNotFoundError):
        assert check_first(command, words) is None


def test_a_command_without_arguments_runs(mgce):
    assert mgce("env")[0] == 0
