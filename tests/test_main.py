import subprocess
import sys

import pytest

INTERRUPTED_AT = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background, which ignores it
importing = builtins.__import__

def interrupted(name, *others):
    if name.partition(".")[0] == {name!r}:
        os.kill(os.getpid(), {number})
    return importing(name, *others)

from mgce.desk.cli.main import main
builtins.__import__ = interrupted
sys.argv = ["mgce", "fit", "-", "--target", "y"]
main()
"""


def test_the_package_runs_as_a_module(tmp_path):
    result = subprocess.run([sys.executable, "-m", "mgce", "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "predict" in result.stdout and "certify" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="another kind of signals")
@pytest.mark.parametrize(("name", "number"), [("typer", 2), ("rich", 15), ("pandas", 2), ("torch", 15)])
def test_an_interrupt_while_libraries_are_imported_is_one_line(tmp_path, name, number):
    command = [sys.executable, "-c", INTERRUPTED_AT.format(name=name, number=number)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (
        128 + number,
        "",
        "Interrupted: nothing was written.\n",
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_an_output_that_cannot_be_written_is_named(tmp_path):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(
            [sys.executable, "-m", "mgce", "--version"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    assert (result.returncode, result.stderr) == (
        2,
        "Error: [Errno 28] No space left on device: standard output\n",
    )


@pytest.mark.parametrize("command", ["fit", "review", "clean", "predict", "certify"])
def test_a_missing_file_is_said_before_libraries_are_imported(tmp_path, command):
    code = f"""if True:
        import sys
        from mgce.desk.cli.main import main
        sys.argv = ["mgce", {command!r}, "missing", "--out", "x"]
        try:
            main()
        finally:
            assert not {{"torch", "pandas", "numpy", "sklearn"}} & {{*sys.modules}}
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("Error: Expected `"), done.stderr
    assert done.stderr.endswith("to be the path of a file that exists, but got 'missing'.\n")
