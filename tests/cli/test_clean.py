"""`mgce clean`: it asks for rows until the bound is reached, and then writes the mended table."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from mgce.review.decision_file import COLUMNS as DECISION
from mgce.review.suspect_file import CHECK, CHECKED_CELLS, COLUMNS, read_suspects, row_checks

N = 400


@pytest.fixture
def right(tmp_path):
    """A file of suspects whose doubts are good, and the right label of each row."""
    rng = np.random.default_rng(0)
    labels = rng.choice(["no", "yes"], N)
    sure = rng.random(N)
    wrong = rng.random(N) < 0.5 * (1 - sure)
    given = np.where(wrong, np.where(labels == "no", "yes", "no"), labels)
    suggested = np.where(rng.random(N) < 1.2 * (1 - sure) ** 2, given, labels)
    frame = pd.DataFrame({
        "rank": range(1, N + 1), "": [f"n{row}" for row in range(N)], "line": range(2, N + 2),
        "key": [f"r{row}" for row in range(N)], "given": given, "suggested": suggested,
        "alternative": np.where(given == "no", "yes", "no"),
        "p_wrong": np.where(given == suggested, 0.1 * (1 - sure), 0.5 + 0.4 * sure),
        "p_given": np.where(given == suggested, 0.9, 0.1), "p_suggested": 0.9, "is_issue": False,
        "expected_precision": 0.5, "checked": "", "draw": range(1, N + 1), "draw_probability": 1 / N, "x": "=1+1",
    })  # fmt: skip
    frame.columns = [*COLUMNS[:1], "name", *frame.columns[2:]]
    frame.to_csv(tmp_path / "t.suspects.csv", index=False)
    return dict(zip(frame["key"], labels, strict=True))


def decide(folder, right, path, skip=0):
    """Write the decisions of a person who knows the right labels on the rows that are asked for."""
    with (folder / path).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(DECISION)
        for place, one in enumerate(read_suspects(folder / "t-to-check.suspects.csv")):
            what, label = ("keep" if right[one.key] == one.given else "suggestion"), right[one.key]
            what, label = ("skip", "") if place < skip else (what, label)
            draws = ["random", one.draw, one.draw_probability]
            lines.writerow([one.key, one.name, one.line, one.given, what, label, *draws])


def test_the_loop_ends_with_a_table_in_which_few_labels_are_wrong(mgce, right, tmp_path):
    options = ("clean", "t.suspects.csv", "--at-most", "0.1", "--json", "c.json")
    code, output, errors = mgce(*options)
    assert code == 0 and "drawn at random" in output and "mgce review t-to-check.suspects.csv" in output, errors
    first = json.loads((tmp_path / "c.json").read_text())["to_check"]
    assert 0 < first < 120 and not (tmp_path / "t.mended.csv").exists()
    assert mgce("review", "t-to-check.suspects.csv", "--suspects", "0", "--random", str(first))[0] == 0
    decide(tmp_path, right, "first.csv")
    code, output, errors = mgce(*options, "--checked", "first.csv")
    assert code == 0 and "most doubtful" in output, errors
    second = json.loads((tmp_path / "c.json").read_text())
    assert 0 < second["to_check"] < N / 2
    decide(tmp_path, right, "second.csv", skip=2)
    code, output, errors = mgce(*options, "--checked", "first.csv,second.csv")
    said = " ".join(output.split())
    assert code == 0 and "With confidence 0.95, at most" in said and "2 rows were left out" in said, errors
    mended = pd.read_csv(tmp_path / "t.mended.csv")
    assert list(mended.columns) == ["name", "x", "label"] and len(mended) == N - 2
    wrong = sum(right[f"r{name[1:]}"] != label for name, label in zip(mended["name"], mended["label"], strict=True))
    document = json.loads((tmp_path / "c.json").read_text())
    assert wrong <= 0.1 * N and document["wrong_at_most"] == 40 / (N - 2)
    assert (mended["x"] == "'=1+1").all() and mended["name"].tolist() == sorted(
        mended["name"], key=lambda n: int(n[1:])
    )


def test_the_mended_table_has_the_name_of_its_column_of_labels_and_may_be_an_excel_file(mgce, refuses, right, tmp_path):
    pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
    frame = pd.read_csv(tmp_path / "t.suspects.csv", keep_default_na=False)
    checks = row_checks(frame[[*CHECKED_CELLS]].to_dict("list"), frame.shape[1] + 2)
    frame.insert(len(COLUMNS), f"{CHECK}Team label", checks)
    frame.assign(zip="007").to_csv(tmp_path / "t.suspects.csv", index=False)
    refuses("Expected `out` to be the path of a .csv, .xlsx or .parquet", "clean", "t.suspects.csv", "--out", "m.xls")
    options = ("clean", "t.suspects.csv", "--at-most", "0.1", "--out", "m.xlsx")
    assert mgce(*options)[0] == 0
    decide(tmp_path, right, "1.csv")
    assert mgce(*options, "--checked", "1.csv")[0] == 0
    decide(tmp_path, right, "2.csv")
    code, _, errors = mgce(*options, "--checked", "1.csv,2.csv")
    assert code == 0, errors
    mended = pd.read_excel(tmp_path / "m.xlsx", dtype=object)
    assert mended.columns.tolist() == ["name", "x", "zip", "Team label"] and len(mended) == N
    assert set(mended["x"]) == {"=1+1"} and set(mended["zip"]) == {"007"}


def test_the_order_of_the_file_changes_nothing(mgce, right, tmp_path):
    assert mgce("clean", "t.suspects.csv")[0] == 0
    first = {one.key for one in read_suspects(tmp_path / "t-to-check.suspects.csv")}
    frame = pd.read_csv(tmp_path / "t.suspects.csv", dtype=str, keep_default_na=False)
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "t.suspects.csv", index=False)
    assert mgce("clean", "t.suspects.csv")[0] == 0
    assert {one.key for one in read_suspects(tmp_path / "t-to-check.suspects.csv")} == first


def test_decisions_on_other_rows_are_refused(mgce, right, tmp_path):
    assert mgce("clean", "t.suspects.csv")[0] == 0
    decide(tmp_path, right, "first.csv")
    text = (tmp_path / "first.csv").read_text().replace("\nr", "\ns", 1)
    (tmp_path / "first.csv").write_text(text)
    code, _, errors = mgce("clean", "t.suspects.csv", "--checked", "first.csv")
    assert code == 2 and "1 on other rows" in errors
