import io

import numpy as np
import pandas as pd
import pytest
from rich.table import Table

from mgce.desk.cli.terminal import Terminal

HOSTILE = "a\x1b[31mb\x9b\u202ec\x07"


def printed(what, **options):
    file = io.StringIO()
    Terminal(file=file, width=60, **options).print(what, markup=False)
    return file.getvalue()


def test_no_character_of_a_text_is_obeyed():
    assert printed(HOSTILE) == "a␛[31mb��c\n"  # rich itself leaves out the bell
    assert printed("\u05d0b\nc") == "\u05d0b\nc\n"
    table = Table("head\x1b[2J")
    table.add_row("cell\u2066")
    assert all(char.isprintable() or char == "\n" for char in printed(table))


def test_styles_of_its_own_still_reach_a_terminal():
    text = printed("[x]", force_terminal=True, style="red")
    assert "\x1b[31m" in text


@pytest.mark.slow
def test_columns_and_labels_reach_no_terminal_as_they_are(mgce, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(80) < 0.5, HOSTILE, "=1+1")
    frame = pd.DataFrame(
        {HOSTILE: rng.normal(size=80) + 3 * (labels == "=1+1"), "id\x1b]0;t": range(80), "y\x1b": labels}
    )
    frame.to_csv("t.csv", index=False)
    frame.assign(**{HOSTILE: rng.normal(size=80)}).to_csv("new.csv", index=False)
    options = ["--target", "y\x1b", "--id", "id\x1b]0;t", "--model", "linear"]
    commands = {
        ("fit", "t.csv", *options): 0,
        ("predict", "t.mgce", "t.csv"): 0,
        ("certify", "t.mgce", "new.csv"): 0,
        ("certify", "t.mgce", "t.csv"): 2,  # rows that the model has learnt from
        ("fit", "t.csv", "--target", "\u202e"): 2,
        ("fit", "\x1b.csv", "--target", "y"): 2,
        ("compare", "t.csv", "--target", "\x1b"): 2,
    }
    for command, expected in commands.items():
        code, output, errors = mgce(*command)
        assert code == expected, errors
        assert all(char.isprintable() or char == "\n" for char in output + errors), command
