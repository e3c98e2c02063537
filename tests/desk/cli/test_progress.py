"""Progress is shown where a person sees it, and nowhere else."""

import io
import sys
import time

from mgce.desk.cli import terminal
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
    assert "left" in sys.stderr.getvalue()
    to_terminal = Terminal(file=Tty())
    assert on_a_terminal(to_terminal) is to_terminal
    assert on_a_terminal(Terminal(file=io.StringIO(), quiet=True)).quiet


def test_without_a_terminal_a_line_a_minute_says_what_is_done(monkeypatch):
    monkeypatch.setattr(terminal, "MINUTE", 0.01)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with steps_shown(Terminal(file=io.StringIO()), "Fitting") as told:
        told("Fitting a forest", 1, 4)
        until = time.monotonic() + 5
        while "2 min" not in sys.stderr.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    said = sys.stderr.getvalue().splitlines()
    assert said[1] == "Fitting a forest, 1 of 4, after 2 min."
    with steps_shown(Terminal(file=io.StringIO(), quiet=True), "Fitting"):
        time.sleep(0.05)
    assert len(sys.stderr.getvalue().splitlines()) <= len(said) + 1
