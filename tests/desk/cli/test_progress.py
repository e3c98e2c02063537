"""Progress is shown where a person sees it, and nowhere else."""

import io
import sys

from mgce.desk.cli.terminal import Terminal, on_a_terminal, steps_shown


def test_progress_is_shown_on_standard_error_if_only_the_output_goes_to_a_file(monkeypatch):
    class Tty(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Tty())
    to_file = Terminal(file=io.StringIO())
    assert on_a_terminal(to_file).is_terminal and not to_file.is_terminal
    with steps_shown(to_file, "Reading") as told:
        told("Fitting", 1, 2)
    assert "Fitting" in sys.stderr.getvalue() and "1/2" in sys.stderr.getvalue() and to_file.file.getvalue() == ""
    assert "left" not in sys.stderr.getvalue()
    with steps_shown(to_file, "Encoding", alike=True) as told:
        told("Encoding", 1, 3)
    assert "1/3" in sys.stderr.getvalue() and "left" in sys.stderr.getvalue()
    to_terminal = Terminal(file=Tty())
    assert on_a_terminal(to_terminal) is to_terminal
    assert on_a_terminal(Terminal(file=io.StringIO(), quiet=True)).quiet
