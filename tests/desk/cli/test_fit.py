import io
import json
import re
import sys
from html import escape
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score

from mgce import certify
from mgce._rounding import percent_up
from mgce.desk.files.table_files import read_frame
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.rows import Split, split_rows
from mgce.estimators import load

KINDS = {"age": "number", "weight": "number", "job": "category", "smoker": "number"}
FIT = ("fit", "people.csv", "--target", "sick", "--model", "linear")


@pytest.fixture
def table(people, tmp_path):
    people.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_the_summary_is_of_the_model_of_the_training_rows_and_the_file_holds_that_of_all(mgce, people, table, tmp_path):
    code, output, errors = mgce(*FIT, "--id", "person", "--out", "results/model.mgce")
    assert code == 0, errors
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "results"}
    assert {path.name for path in (tmp_path / "results").iterdir()} == {
        "model.mgce",
        "model.html",
        "model.suspects.csv",
    }
    read = read_frame(table, "table", text=["sick", "person"], classes=["sick"])
    fit = run(read, FitPlan("sick", "person", model="linear"))
    pipeline, stored = fit.measured.pipeline, load(tmp_path / "results" / "model.mgce")
    assert len(stored.table_["trained_rows"]) == 240 and stored.table_["n_measured"] == 180
    held_out = split_rows(read, Split("sick", "person")).held_out
    assert len(held_out) == 60
    features = people.loc[held_out, ["age", "weight", "job", "smoker"]].astype({"job": object, "smoker": float})
    given = people["sick"].to_numpy(dtype=str)[held_out]
    words = " ".join(output.split())
    np.testing.assert_array_equal(stored.predict_proba(features), fit.model.pipeline.predict_proba(features))
    report = " ".join((tmp_path / "results" / "model.html").read_text().split())
    assert "The model in the file was fitted to all 240 rows. The figures and the bound are of the same model" in report
    assert f"agrees with the given label in {accuracy_score(given, pipeline.predict(features)):.1%}" in words
    certificate = certify(np.searchsorted(pipeline.classes_, given), pipeline.predict_proba(features))
    assert fit.certificate.argmax_error == certificate.argmax_error
    assert f"it disagrees with the given label in at most {percent_up(certificate.argmax_error)}" in words
    assert "ECE" not in words and "(ECE)" in (tmp_path / "results" / "model.html").read_text()  # for experts
    first, second, third = re.match(r"(Accuracy: .*) (Wrong labels: .*) (Next: .*) Read people.csv", words).groups()
    assert "linear MGCE with an L1 penalty, convex" in report
    assert len(first) < 250 and re.match(r"Wrong labels: 0 to \d+ of the 240 \([\d.]+%\), if on every row", second)
    asked, others = fit.judgement.expected_wrong
    assert f"A rough estimate is {asked + others:.0f}; on two of three public tables" in second
    assert f"{fit.n_asked} labels are more likely wrong than right; {asked:.0f} of them, by this estimate." in second
    assert third.startswith("Next: mgce review results/model.suspects.csv writes a page")
    judged = pd.read_csv(tmp_path / "results" / "model.suspects.csv", dtype={"person": str})
    assert sorted(judged["person"]) == people["person"].tolist() and judged["p_wrong"].is_monotonic_decreasing
    for text in ("Most suspect labels", "person", "results/model.html"):
        assert text in words


def test_the_cleaned_table_is_the_table_without_the_rows_that_look_wrong(mgce, people, table, tmp_path):
    options = ("--id", "person", "--suspects", "1")
    people = people.assign(note="=1+1")
    people.to_csv(tmp_path / "people.csv", index=False)
    for name in ("cleaned.csv", "cleaned.parquet"):
        code, output, errors = mgce(*FIT, *options, "--cleaned", name)
        assert code == 0 and name in " ".join(output.split()), errors
    judged = pd.read_csv(tmp_path / "people.suspects.csv", dtype={"person": str})
    issues = judged["person"][judged["is_issue"]]
    assert 0 < len(issues) < 120
    expected = people[~people["person"].isin(issues)].reset_index(drop=True)
    read = pd.read_csv(tmp_path / "cleaned.csv", dtype={"person": str, "sick": people["sick"].dtype})
    pd.testing.assert_frame_equal(read, expected.assign(note="'=1+1"), check_dtype=False)
    assert len(pd.read_parquet(tmp_path / "cleaned.parquet")) == len(expected)
    assert "The most suspect rows, 1 of them." in (tmp_path / "people.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("encoding, sep", [("utf-8", ","), ("utf-8-sig", ";"), ("utf-16", "\t")])
def test_the_rows_of_the_cleaned_table_are_the_lines_of_the_table(mgce, tmp_path, encoding, sep):
    """Codes, long numbers, missing values, rows without a label and of rare labels: every cell as it is written."""
    rng = np.random.default_rng(0)
    rows = []
    for row in range(200):
        label = "+-"[row % 2] if row % 5 else "-+"[row % 2]  # one of five is wrong
        cells = [
            f"{row:05d}",
            f"{1 - 2 * (row % 2) + rng.normal(0, 0.1):.3f}0",
            str(12345678901234561 + row),
            "NA" if row % 3 else "1.50",
            label,
        ]
        rows.append([*cells[:2], "" if row == 7 else cells[2], *cells[3:]])
    rows += [["x y", "0.20", "1", "None", ""], ["'=1+1", "0.30", "1", "1.0", "rare"]]
    lines = [sep.join(row) for row in [["code", "x", "long", "empty", "label"], *rows]]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding=encoding)
    arguments = ["fit", "t.csv", "--target", "label", "--id", "code", "--model", "linear", "--cleaned", "c.csv"]
    code, _, errors = mgce(*arguments, "--encoding", encoding)
    assert code == 0, errors
    kept = (tmp_path / "c.csv").read_text(encoding=encoding).splitlines()
    assert 160 <= len(kept) < 203 and kept == [line for line in lines if line in kept]
    judged = pd.read_csv(tmp_path / "t.suspects.csv")
    assert len(lines) - len(kept) == judged["is_issue"].sum()
    assert kept[0] == lines[0] and kept[-2:] == lines[-2:]


def test_csv_and_parquet_give_the_same_model(mgce, people, table, tmp_path):
    people.to_parquet(tmp_path / "same.parquet")
    for name in ("people.csv", "same.parquet"):
        code, _, errors = mgce("fit", name, "--target", "sick", "--id", "person", "--model", "linear")
        assert code == 0, errors
    one, other = load(tmp_path / "people.mgce"), load(tmp_path / "same.mgce")
    np.testing.assert_array_equal(one[-1].coef_, other[-1].coef_)
    assert one[-1].beta_ == 1.4 and one.table_["kinds"] == KINDS


def test_a_noise_rate_lowers_the_bound_as_certify_does(mgce, table, tmp_path):
    outputs, bounds = [], []
    for rate in ("0", "0.05"):
        outputs.append(" ".join(mgce(*FIT, "--noise-rate", rate, "--json", "c.json")[1].split()))
        found = json.loads((tmp_path / "c.json").read_text())["certificate"]
        bounds.append((found["conditional"] or found)["argmax_error"])
    assert abs(bounds[1] - (bounds[0] - 0.05) / (1 - 2 * 0.05)) < 1e-3
    assert "if 0.05 or more of the given labels are wrong" in outputs[1]
    assert "corrected for a noise rate of 0.05" in (tmp_path / "people.html").read_text()


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--metric", "f1"], "Expected `metric` to be"),
        (["--target", "age of reason"], "Expected `target` to be a column of the table (person, age, weight, "),
        (["--target", "nothing"], "Expected `nothing` to be a column with labels, but got none."),
        (["--target", "age"], "Expected `target` to be a column of classes, each with several rows"),
        (["--target", "person"], "Expected `target` to be a column of classes, each with several rows"),
        (["--target", "always"], "Expected `target` to be a column of at least two classes, but got \"only 'a'\"."),
        (["--drop", "sick"], "Expected `drop` to be another column than the target, but got 'sick'."),
        (["--drop", "age,wait"], "sick, always), but got 'wait'. Did you mean 'weight'?"),
        (["--groups", "ward"], "Expected `groups` to be a column of the table"),
        (["--groups", "job", "--time", "age"], "Expected `time` to be left out where there are groups"),
        (["--time", "job"], "Expected `time` to be a column of numbers, or of dates like 2024-05-31"),
        (["--jobs", "0"], "Expected `jobs` to be a positive number, or -1, but got 0."),
        (["--json", "people.mgce"], "Expected `json` to be the path of a file that nothing else uses"),
        (["--sep", ", "], r"Expected `sep` to be one character, or \t, but got ', '."),
        (["--id", "sick"], "Expected `id` to be another column than the target, but got 'sick'."),
        (["--id", "name"], "Expected `id` to be a column of the table"),
        (["--suspects", "-1"], "Expected `suspects` to be an integer of at least 0, but got -1."),
        (
            ["--cleaned", "people.csv"],
            "Expected `cleaned` to be the path of a file that nothing else uses",
        ),
        (
            ["--cleaned", "people.html"],
            "Expected `cleaned` to be the path of a file that nothing else uses",
        ),
        (["--cleaned", "people.txt"], "Expected `cleaned` to be the path of a .csv, .xlsx or .parquet file"),
        (["--seed", "99999999999999999999"], "Expected `seed` to be an integer in [0, 2^32), but got 9999"),
        (["--model", "tree"], "Expected `model` to be one of 'auto', 'forest', 'linear', but got 'tree'"),
        (["--delta", "0"], "Expected `delta` to be "),
        (["--delta", "1.5"], "Expected `delta` to be "),
        (["--noise-rate", "0.5"], "Expected `noise_rate` to be in [0, 1/2)"),
        (["--noise-rate", "-0.1"], "Expected `noise_rate` to be in [0, 1/2)"),
        (["--holdout", "1"], "Expected `holdout` to be a float in (0, 1), but got 1.0."),
        (["--holdout", "0.001"], "Expected `table` to be of so many rows that a share of 0.001 can be held out"),
        (["--seed", "-1"], "Expected `seed` to be an integer of at least 0, but got -1."),
        (["--out", "people.csv"], "Expected `out` to be the path of a file that nothing else uses"),
        (["--out", "people.html"], "Expected `out` to be the path of a file that nothing else uses"),
        (["--out", "."], "Expected `out` to be the path of a file, but got '., which is a folder'."),
        (
            ["--out", "people.csv/model.mgce"],
            "Expected `out` to be the path of a file in a folder that can be written",
        ),
    ],
)
def test_bad_options_are_refused(refuses, people, table, options, sentence):
    people.assign(always="a").to_csv(table, index=False)
    refuses(sentence, *FIT, *options)


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        ("nowhere.csv", None, "Expected `table` to be the path of a file that exists, but got 'nowhere.csv'."),
        ("t.csv", b"", "Expected `table` to be a table, but t.csv could not be read: "),
        ("t.csv", b"x,sick\n1,a\n2,b\n3,a\n", "Expected `table` to be rows enough that two classes have two each"),
        ("t.csv", b"x,sick\n", "Expected `table` to be a table with rows, but got none. Write the names"),
        ("t.csv", b"\xff\xfe,sick\n1,2\n", "Expected `table` to be a table in the encoding utf-8, but got 't.csv, "),
        (
            "t.csv",
            b"x,sick\n1,2,3\n4,5,6\n",
            "t.csv could not be read: the row that ends on line 2 has more values than there are names, 2",
        ),
        ("t.csv", b"sick\n" + b"a\nb\n" * 9, "Expected `table` to be a table with a column beside the target"),
        (
            "t.csv",
            b"x,sick\n" + b"1,a\ninf,b\n" * 9,
            "Expected `x` to be a column of finite numbers, but got inf in data row",
        ),
        ("t.parquet", b"no parquet", "Expected `table` to be a table, but t.parquet could not be read: "),
        ("t.csv.gz", b"x,sick\n1,a\n", "Expected `table` to be a table, but t.csv.gz could not be read: "),
    ],
)
def test_bad_tables_are_refused(refuses, tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refuses(sentence, "fit", name, "--target", "sick")


def test_without_rich_it_says_what_to_install(refuses, table, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    refuses("the command line needs rich, which is not installed: in a checkout of mgce, run `pip install", *FIT)


def test_a_failure_while_writing_leaves_what_was_there(refuses, table, tmp_path, monkeypatch):
    (tmp_path / "people.mgce").write_text("earlier")

    write_bytes = Path.write_bytes

    def full(path, content):
        if "html" in path.name:
            raise OSError(28, "No space left on device")
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    refuses("No space left on device: 'people.html'", *FIT)


def test_an_interrupt_writes_nothing_and_says_so(mgce, table, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mgce.desk.cli.fit.run", interrupt)
    code, output, _ = mgce(*FIT)
    assert code == 130 and "Interrupted: nothing was written." in output
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_a_later_interrupt_says_so_too(mgce, table, tmp_path, monkeypatch):
    monkeypatch.setattr("mgce.desk.cli.fit_files.write_files", mock.Mock(side_effect=KeyboardInterrupt))
    code, _, errors = mgce(*FIT, "--model", "linear", "--cleaned", "c.csv")
    assert (code, errors) == (130, "Interrupted. No file is half written.\n")
    assert (tmp_path / "people.mgce").exists() and not (tmp_path / "c.csv").exists()


def test_a_table_of_the_wild_from_standard_input(mgce, people, tmp_path, monkeypatch):
    """Semicolons, decimal commas, latin-1, a stray word, a missing and a mistyped label, a column without a name."""
    wild = people.drop(columns=["person", "nothing"]).assign(day=pd.date_range("2024-01-01", periods=240).astype(str))
    wild["age"] = wild["age"].map(lambda age: "" if np.isnan(age) else f"{age:.3f}".replace(".", ","))
    wild.loc[5, "age"], wild.loc[7, "job"] = "unknown", "bäcker"
    wild.loc[9, "sick"], wild.loc[11, "sick"] = "", "yess"
    content = wild.to_csv(sep=";", decimal=",").encode("latin-1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    options = ["--decimal", ",", "--encoding", "latin-1", "--drop", "weight", "--json", "-"]
    code, output, errors = mgce("fit", "-", *FIT[2:], *options)
    assert code == 0, errors
    found = json.loads(output)
    assert found["files"] == ["stdin.mgce", "stdin.html", "stdin.suspects.csv"]
    assert {path.name for path in tmp_path.iterdir()} == set(found["files"])
    assert found["columns"] == {
        "age": "number",
        "job": "category",
        "smoker": "number",
        "day": "date",
    }
    assert [note.split(",")[0].split(".")[0] for note in found["notes"][:4]] == [
        "Column `Unnamed: 0` was left out",
        "1 row has no label and was left out",
        "1 row was left out: fewer than two training rows have their label ('yess')",
        "Column `age` holds numbers",
    ]
    assert found["rows"]["trained"] + found["rows"]["held_out"] == 238
    pipeline = load(tmp_path / "stdin.mgce")
    assert pipeline.predict_proba(pd.DataFrame([[40.0, "nurse", 0.0, 19000.0]], columns=[*found["columns"]])).shape
    page = (tmp_path / "stdin.html").read_text()
    assert all(escape(note) in page for note in found["notes"])


def test_quiet_says_nothing_and_writes_all(mgce, table, tmp_path):
    code, output, errors = mgce(*FIT, "--quiet", "--json", "found.json")
    assert (code, output, errors) == (0, "", "")
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".mgce", ".html", ".json"}
    found = json.loads((tmp_path / "found.json").read_text())
    assert 0.7 < found["accuracy"] <= 1 and found["classes"] == ["no", "yes"]
    assert set(found["wrong_labels"]) == {"all", "no", "yes"}
