"""Names and labels of strangers through every command: shown as they are, run by nothing, whatever the encoding."""

import ast
import csv
import io
import json
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from rich.table import Table

from commands import MODULES, program_of
from mgce._text import spreadsheet_cell, spreadsheet_text
from mgce.desk.cli import main
from mgce.desk.cli.terminal import Terminal
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import Run, Runs
from mgce_lab.paper.tabular import TabularRun

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "mgce", ROOT / "lab" / "src" / "mgce_lab"
BY_HAND = ("studies", "soak", "table_model")  # programs of the lab, which no stranger's file reaches
# Markup and emoji of rich, formulas, controls, letters that few encodings have.
LABELS = ["[/b]", "=HYPERLINK(1)"]
PARTS = ["[green]да", ":smile:", "x;=1+1", "@SUM\x1b[31m\x07", "\u202e\x9bc"]
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def run(folder, encoding, *arguments):
    """Run a command whose output goes to a pipe of an encoding; give its exit code, output and errors."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2)]
    before = Path.cwd()
    os.chdir(folder)
    code = 0
    try:
        with (
            mock.patch.object(sys, "argv", [program_of(*arguments[:1]), *arguments]),
            mock.patch.dict(os.environ, COLUMNS="70"),
            redirect_stdout(streams[0]),
            redirect_stderr(streams[1]),
        ):
            main.run(MODULES[program_of(*arguments[:1])])
    except SystemExit as stopped:
        code = stopped.code or 0
    finally:
        os.chdir(before)
    return code, *(stream.buffer.getvalue().decode(encoding) for stream in streams)


def has_formula(text):
    """Return whether a spreadsheet, whatever it divides lines at, finds a formula in a text."""
    parts = (part.strip(' "') for part in re.split(r"[,;\t|\r\n]", text))
    return any(part[:1] in {*"=+-@"} and not re.fullmatch(r"-?[\d.]*(e-?\d+)?", part) for part in parts if part)


def check_files(folder, names):
    """Check files for formulas, and pages for characters that are not to be seen; none of others may be there."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    for path in folder.glob("*.csv"):
        if path.name != "[b]in.csv":
            cells = [cell for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8"))) for cell in row]
            assert not [cell for cell in cells if has_formula(cell)]
            assert any("=" in cell for cell in cells)
    for path in folder.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not UNSEEN.search(text)
        assert "[/b]" in text and "да" in text


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    label, part = rng.choice(LABELS, 120), rng.choice(PARTS, 120)
    x = rng.normal(size=120).round(2) + 3 * (label == LABELS[0])
    return pd.DataFrame(
        {"[x]": x, "=part": part, "@id": [f"{name};-cmd{i}" for i, name in enumerate(part)], "y": label}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("cp1252", "utf-8"))]
)
def test_hostile_names_in_a_table(people, tmp_path, encoding):
    people.to_csv(tmp_path / "[b]in.csv", index=False)
    quick = ["--model", "linear", "--jobs", "1", "--target", "y", "--id", "@id"]
    commands = [
        ["fit", "[b]in.csv", *quick, "--out", "m.mgce", "--cleaned", "clean.csv"],
        ["review", "m.suspects.csv", "--text", "=part"],
        ["predict", "m.mgce", "[b]in.csv", "--out", "p.csv", "--probabilities", "--sets"],
        ["certify", "m.mgce", "[b]in.csv", "--by", "label"],
        ["certify", "m.mgce", "[b]in.csv", "--by", "=part"],
    ]
    said = []
    for command in commands:
        if command[0] == "certify":  # rows that the model has not learnt from
            people.assign(**{"[x]": people["[x]"] + 0.001}).to_csv(tmp_path / "[b]in.csv", index=False)
        code, output, errors = run(tmp_path, encoding, *command)
        assert (code, errors) == (0, ""), (command, errors)
        assert not UNSEEN.search(output)
        said.append(output)
    shown = "[green]да".encode(encoding, "backslashreplace").decode(encoding)
    assert "[/b]" in said[3] and LABELS[1] in said[3]
    assert shown in said[4] and ":smile:" in said[4]
    assert "--formulas leaves them as they are." in " ".join(said[0].split())
    # The page of review holds its cells as JSON in ASCII; tests/desk/review/test_sheet.py looks into it.
    assert (tmp_path / "m.review.html").read_text(encoding="utf-8").count("[/b]") > 10
    (tmp_path / "m.review.html").unlink()
    check_files(tmp_path, ["[b]in.csv", "m.mgce", "m.html", "m.suspects.csv", "clean.csv", "p.csv"])


def test_predictions_with_apostrophes_are_certified_as_the_model_is(people, tmp_path):
    people.assign(y=people["y"].replace(LABELS[0], "x;=2")).to_csv(tmp_path / "in.csv", index=False)
    quick = ["--model", "linear", "--jobs", "1", "--target", "y"]
    assert run(tmp_path, "utf-8", "fit", "in.csv", *quick)[0] == 0
    train = pd.read_csv(tmp_path / "in.csv")
    fresh = train.assign(**{name: train[name] + 0.001 for name in train.select_dtypes("float")})
    fresh.to_csv(tmp_path / "in.csv", index=False)  # none of these rows is one of the training
    assert run(tmp_path, "utf-8", "predict", "in.mgce", "in.csv", "--out", "p.csv", "--probabilities")[0] == 0
    frame = pd.read_csv(tmp_path / "p.csv")
    assert {"h_x;'=2", "p_x;'=2"} < {*frame.columns} and {*frame["prediction"]} == {"x;'=2", "'" + LABELS[1]}
    frame.assign(y=pd.read_csv(tmp_path / "in.csv")["y"]).to_csv(tmp_path / "q.csv", index=False)
    of_model = run(tmp_path, "utf-8", "certify", "in.mgce", "in.csv")[1]
    of_table = run(tmp_path, "utf-8", "certify", "q.csv", "--target", "y")[1]
    assert of_table.split() == of_model.split()[: len(of_table.split())]
    by_class = run(tmp_path, "utf-8", "certify", "q.csv", "--target", "y", "--prediction", "prediction")
    assert by_class[0] == 0 and "x;'=2" not in by_class[1]


def test_a_cleaned_table_is_as_it_was_where_that_is_asked_for(people, tmp_path):
    people.to_csv(tmp_path / "in.csv", index=False)
    options = ["--model", "linear", "--jobs", "1", "--target", "y", "--cleaned", "clean.csv"]
    code, output, _ = run(tmp_path, "utf-8", "fit", "in.csv", *options, "--formulas")
    assert code == 0 and "--formulas leaves" not in " ".join(output.split())
    kept = (tmp_path / "clean.csv").read_text(encoding="utf-8").splitlines()
    assert len(kept) > 100 and {*kept} <= {*(tmp_path / "in.csv").read_text(encoding="utf-8").splitlines()}


def test_hostile_names_of_a_comparison(people, tmp_path):
    people.drop(columns="@id").to_csv(tmp_path / "[b]in.csv", index=False)
    options = ["--target", "y", "--methods", "ce", "--seeds", "1", "--epochs", "1", "--hidden", "4", "--out-dir", "out"]
    code, output, errors = run(tmp_path, "cp1252", "compare", "[b]in.csv", *options)
    assert code == 0, errors
    assert "[b]in, symmetric noise" in output


@pytest.mark.filterwarnings("ignore:Glyph")  # of pictures of controls, which the font lacks
def test_hostile_records_in_a_report(tmp_path):
    hostile = "=cmd|'/C x'!A0;=1 $\\frac{$ \x1b[31m\x07\u202e<b>[/b] \\input{x}"
    measures = dict.fromkeys(("accuracy", "ece_h", "ece_p", "sce_h", "sce_p", "validation_accuracy"), 0.5)
    record = {"method": "mgce", "beta": 1.4, "seed": 0, "best_epoch": 1, **measures}
    record |= {"test_accuracy_by_epoch": [0.5, 0.6], "objective_by_epoch": [1.0, 0.9]}
    store = Runs(tmp_path / "runs")
    for noise in (0.0, 0.2, 0.4):
        made = {**document(TabularRun("wine", noise, (0,), (("mgce", 1.4),), epochs=2)), "dataset": hostile}
        store.write(Run(made, [{**record, "noise_rate": noise}], {"mgce": "0.1.0", "seconds": 1.5, hostile: hostile}))
    store.pack()
    (tmp_path / "runs" / "reasons.json").write_text(json.dumps({"*": hostile}))
    code, output, errors = run(tmp_path, "cp1252", "report", "runs", "--out-dir", "out")
    assert (code, errors) == (0, "") and not UNSEEN.search(output)
    table = (tmp_path / "out" / "table3.csv").read_text(encoding="utf-8")
    assert "'=cmd|'/C x'!A0;'=1" in table
    assert not [cell for row in csv.reader(io.StringIO(table)) for cell in row if has_formula(cell)]
    for name in ("report.html", "table3.txt", "table3.tex", "figure6.tex"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "=cmd" in text and "<b>" not in text[text.index("=cmd") :] * name.endswith("html")
        assert not UNSEEN.search(text) and r"\input" not in text * name.endswith("tex")


@pytest.mark.parametrize("name", ["[/b].csv", "[green].mgce", "да.csv", "a\x1b[31m.csv"])
def test_hostile_names_in_errors(tmp_path, name):
    for command in (
        ["fit", name, "--target", "[/b]"],
        ["predict", name, name],
        ["certify", name, name],
        ["report", name],
    ):
        code, output, errors = run(tmp_path, "cp1252", *command)
        assert (code, output) == (2, "") and errors.startswith("Error: ") and not UNSEEN.search(errors)


def test_a_terminal_searches_no_text_for_markup():
    file = io.StringIO()
    console = Terminal(file=file, width=60)
    table = Table("[b]head[/b]", title="[/title]", caption=":smile:")
    table.add_row("[/b]")
    for what in ("[green]text :smile:", table):
        console.print(what)
    console.print_whole("[/whole]")
    for text in ("[b]head[/b]", "[/title]", ":smile:", "[/b]", "[green]text :smile:", "[/whole]"):
        assert text in file.getvalue()


@cache
def calls():
    """Return every call in the package with its file and the name of what is called."""
    found = []
    files = [(path, path.relative_to(source)) for source in SOURCES for path in source.rglob("*.py")]
    for path, name in files:
        if name.parts[0] in BY_HAND:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                options = {word.arg: word.value for word in node.keywords}
                found.append((name.as_posix(), called, options))
    return found


def test_no_text_reaches_rich_as_markup():
    """Where rich reads markup by itself it is told not to, and nothing else asks it to."""
    for file, called, options in calls():
        markup = options.get("markup")
        assert markup is None or getattr(markup, "value", None) is False, file
        assert called not in ("from_markup", "render_str", "rprint", "inspect"), file
        assert called != "Console" or file == "desk/cli/terminal.py", file
        assert called != "TextColumn" or markup is not None, file
        assert called != "Terminal" or not {"markup", "emoji"} & {*options}, file


def test_tables_and_pages_are_written_in_one_way_each():
    """A CSV file is written where formulas are taken care of, and a text gets into HTML by the one function for it."""
    for file, called, _ in calls():
        assert called not in ("to_csv", "writer", "DictWriter") or file in CSV, file
        assert called != "escape" or file in ("_text.py", "desk/files/changed_files.py"), file  # the latter writes XML


# `to_csv` here is that of `desk/files/written_tables.py`, or writes no text of others but by `spreadsheet_cell`.
CSV = {
    "desk/files/written_tables.py",
    "compare/compared.py",
    "engine/render.py",
    "engine/result.py",
    "desk/tables/annotations.py",
    "desk/tables/listing.py",
    "desk/tables/looked_up.py",
    "desk/review/sheet.py",
    "desk/review/suspect_file.py",
    "desk/cli/predict.py",
    "desk/cli/fit_files.py",
    "desk/cli/clean.py",
    "desk/cli/demo.py",
    "integrations/label_tools.py",
}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("\nCan someone call me?", "\nCan someone call me?"),  # no spreadsheet runs it
        ("\r\nHello", "\r\nHello"),
        ("\n=1+1", "\n'=1+1"),
        ("\r\n@SUM(A1)", "\r\n'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("\t=1", "'\t'=1"),
        ("\u3000=1+1", "'\u3000=1+1"),  # blanks, and characters that nobody sees
        ("\v=1+1", "'\v=1+1"),
        ("x;\f \ufeff\u200b@SUM(A1)", "x;'\f \ufeff\u200b@SUM(A1)"),
        ("\u3000-1.5", "\u3000-1.5"),
    ],
)
def test_what_stands_before_a_formula_does_not_hide_it_and_a_line_break_is_none(text, cell):
    assert spreadsheet_cell(text) == cell and spreadsheet_text(cell) == text
