"""Commands read text, and tables of every format, alike."""

import json

import numpy as np
import pandas as pd
import pytest

QUICK = ("--target", "topic", "--model", "linear")


@pytest.fixture
def tickets(tmp_path):
    rng = np.random.default_rng(0)
    words = {"bill": ["invoice", "please", "pay", "again"], "fault": ["server", "down", "now", "outage"]}
    topic = rng.choice([*words], 160)
    texts = [" ".join([*rng.choice(words[each], 3), f"#{rng.integers(999)}"]) for each in topic]
    frame = pd.DataFrame({"subject": texts, "hours": rng.integers(24, size=160), "zip": rng.integers(10, 14, 160)})
    frame["zip"] = "z" + frame["zip"].astype(str)
    frame["topic"] = topic
    frame.to_csv(tmp_path / "tickets.csv", index=False)
    return frame


def fitted(mgce, tmp_path, *options, table="tickets.csv"):
    code, output, errors = mgce("fit", table, *QUICK, "--json", "fit.json", *options)
    assert code == 0, errors
    return json.loads((tmp_path / "fit.json").read_text()), output


def test_a_text_is_learnt_from_and_said_to_be_one(mgce, tickets, tmp_path):
    found, output = fitted(mgce, tmp_path)
    assert found["columns"] == {"subject": "text", "hours": "number", "zip": "category"}
    assert found["accuracy"] > 0.95
    assert any(note.startswith("Column `subject` is read as text: 1") for note in found["notes"])
    assert "--category 'subject'" in " ".join(output.split())
    code, output, errors = mgce("predict", "tickets.mgce", "tickets.csv")
    assert code == 0, errors
    predicted = pd.read_csv(tmp_path / "tickets-predictions.csv")["prediction"]
    assert (predicted == tickets["topic"]).mean() > 0.95


def test_the_guess_can_be_overruled(mgce, tickets, tmp_path):
    found, _ = fitted(mgce, tmp_path, "--category", "subject", "--category", "hours", "--text", "zip")
    assert found["columns"] == {"subject": "category", "hours": "category", "zip": "text"}
    assert found["accuracy"] < 0.8
    for option in ("--text", "--category"):
        code, _, errors = mgce("fit", "tickets.csv", *QUICK, option, "subjct")
        assert code == 2 and "Did you mean 'subject'?" in errors
    code, _, errors = mgce("fit", "tickets.csv", *QUICK, "--text", "zip", "--category", "zip")
    assert code == 2 and "Expected `category` to be a column that is not text too, but got 'zip'." in errors
    code, _, errors = mgce("fit", "tickets.csv", *QUICK, "--category", "zip", "--number", "zip")
    assert code == 2 and "Expected `number` to be a column that is not of categories too, but got 'zip'." in errors
    code, _, errors = mgce("fit", "tickets.csv", *QUICK, "--text", "topic")
    assert code == 2 and "Expected `text` to be another column than the target" in errors


@pytest.mark.parametrize(
    "suffix",
    ["xlsx", *(pytest.param(suffix, marks=pytest.mark.nightly) for suffix in ("jsonl", "feather"))],
)
def test_every_format_gives_the_same_fit(mgce, tickets, tmp_path, suffix):
    if suffix == "xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
        tickets["subject"] = "\n" + tickets["subject"]  # as people type into cells
        tickets.to_csv(tmp_path / "tickets.csv", index=False)
        with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
            pd.DataFrame({"a": [1]}).to_excel(book, sheet_name="notes", index=False)
            tickets.to_excel(book, sheet_name="rows", index=False)
    elif suffix == "jsonl":
        tickets.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    else:
        tickets.to_feather(tmp_path / "t.feather")
    csv, _ = fitted(mgce, tmp_path)
    cleaned = ("--cleaned", "clean.xlsx" if suffix == "xlsx" else "clean.csv")
    found, said = fitted(mgce, tmp_path, *cleaned, table=f"t.{suffix}")
    for same in ("accuracy", "columns", "certificate", "wrong_labels", "confusion"):
        assert found[same] == csv[same]
    n_wrong = round(found["wrong_labels"]["all"]["look_wrong"] * 160)
    if suffix == "xlsx":
        kept = pd.read_excel(tmp_path / "clean.xlsx", sheet_name="rows", dtype=str)
        assert set(kept["subject"]) <= set(tickets["subject"]) and kept.columns.tolist() == tickets.columns.tolist()
        words = " ".join(said.split())
        assert "closing quote" not in words and "apostrophe" not in words and "--mended t.mended.xlsx" in words
    else:
        kept = pd.read_csv(tmp_path / "clean.csv", dtype=str)
    assert len(kept) == 160 - n_wrong
    code, _, errors = mgce("predict", "t.mgce", f"t.{suffix}")
    assert code == 0, errors
    if suffix == "xlsx":
        code, _, errors = mgce("certify", "t.mgce", "t.xlsx", "--sheet", "row")
        assert code == 2 and "(notes, rows), but got 'row'. Did you mean 'rows'?" in errors


def test_percent_are_asked_about(mgce, tickets, tmp_path):
    code, _, errors = mgce("fit", "tickets.csv", *QUICK, "--noise-rate", "40")
    assert code == 2 and errors.rstrip().endswith("but got 40.0. Did you mean 0.4?")


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "t.xlsx", "--target", "topic"),
        ("compare", "t.xlsx", "--target", "topic"),
        ("compare", "t.xlsx"),
        ("predict", "MODEL", "t.xlsx"),
        ("certify", "MODEL", "t.xlsx"),
        ("certify", "t.xlsx", "--target", "topic"),
        ("embed", "t.xlsx", "--column", "subject", "--encoder", "E", "--out", "e.npz"),
    ],
)
def test_of_a_wrong_sheet_every_command_names_the_others(refuses, model_file, tmp_path, arguments):
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
    book = openpyxl.Workbook()
    book.active.title = "about"
    book.active.append(["Read me"])
    book.active.append(["Tickets of a year"])
    book.create_sheet("all tickets").append(["no such column"])
    book.save(tmp_path / "t.xlsx")
    arguments = [str(model_file) if each == "MODEL" else each for each in arguments]
    other = "The file also has 'all tickets': to read another, add --sheet 'all tickets'."
    refuses(other, *arguments)


def test_an_empty_first_sheet_is_left_for_the_one_with_the_labels(refuses, tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
    book = openpyxl.Workbook()
    book.create_sheet("a").append(["x", "Decision"])
    book.create_sheet("b")
    book.save(tmp_path / "t.xlsx")
    found = "Sheet 'a' was read, the only one with the column 'x'. The file also has 'Sheet', 'b'"
    refuses(found, "fit", "t.xlsx", "--target", "x")
    none = "but got none. Sheet 'Sheet' was read, since no sheet has the column 'y'. The file also has 'a', 'b'"
    refuses(none, "fit", "t.xlsx", "--target", "y")
    book["a"].append([1, "yes"])
    book["b"].append(["decision"])  # as near, but behind the first
    book.save(tmp_path / "t.xlsx")
    near = "(x, Decision), but got 'Decison'. Did you mean 'Decision'? Sheet 'a' was read, since no sheet has"
    refuses(near, "fit", "t.xlsx", "--target", "Decison")
