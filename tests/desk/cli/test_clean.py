"""`mgce clean`: it asks for rows until the bound is reached, and then writes the mended table."""

import csv
import json
import shlex

import numpy as np
import pandas as pd
import pytest

from mgce.desk.review.decision_file import COLUMNS as DECISION
from mgce.desk.review.suspect_file import CHECK, CHECKED_CELLS, COLUMNS, read_suspects, row_checks

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


def decide(folder, right, path, asked="t-to-check", skip=0, drop=0):
    """Write the decisions of a person who knows the right labels on the rows that are asked for."""
    with (folder / path).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(DECISION)
        for place, one in enumerate(read_suspects(folder / f"{asked}.suspects.csv")):
            what, label = ("keep" if right[one.key] == one.given else "suggestion"), right[one.key]
            what, label = ("skip" if place < skip else "drop", "") if place < skip + drop else (what, label)
            draws = ["random", one.draw, one.draw_probability]
            lines.writerow([one.key, one.name, one.line, one.given, what, label, *draws])


def test_the_rows_to_look_up_are_written_over_no_other_file(refuses, right, tmp_path):
    refuses("nothing else uses", "clean", "t.suspects.csv", "--json", "t-to-check.suspects.csv")
    (tmp_path / "t-to-check.suspects.csv").symlink_to(tmp_path / "t.suspects.csv")
    refuses("nothing else uses", "clean", "t.suspects.csv")


def test_the_loop_ends_with_a_table_in_which_few_labels_are_wrong(mgce, right, tmp_path):
    options = ("clean", "t.suspects.csv", "--at-most", "0.1", "--json", "c.json")
    code, output, errors = mgce(*options)
    assert code == 0 and "drawn at random" in output and "mgce review t-to-check.suspects.csv" in output, errors
    assert "Bounds assume that the decisions are right." in output
    first = json.loads((tmp_path / "c.json").read_text())["to_check"]
    assert 0 < first < 120 and not (tmp_path / "t.mended.csv").exists()
    assert mgce("review", "t-to-check.suspects.csv", "--suspects", "0", "--random", str(first))[0] == 0
    saved = output.split("--checked ")[1].strip()
    assert f'"{saved}"' in (tmp_path / "t-to-check.review.html").read_text()  # the page names the file that it saves
    decide(tmp_path, right, "first.csv")
    code, output, errors = mgce(*options, "--checked", "first.csv")
    assert code == 0 and "most doubtful" in output and "Bounds assume" not in output, errors
    second = json.loads((tmp_path / "c.json").read_text())
    assert 0 < second["to_check"] < N / 2
    decide(tmp_path, right, "second.csv", f"t-to-check-after-{first}", skip=2, drop=1)
    code, output, errors = mgce(*options, "--checked", "first.csv,second.csv")
    said = " ".join(output.split())
    assert code == 0 and "With confidence 0.95, at most 39 of 397 labels (9.9%) in t.mended.csv are wrong." in said, (
        errors
    )
    assert "1 row was dropped and left out. 2 rows were skipped: the given label stays" in said
    mended = pd.read_csv(tmp_path / "t.mended.csv")
    assert list(mended.columns) == ["name", "x", "label"] and len(mended) == N - 1
    given = pd.read_csv(tmp_path / "t.suspects.csv").set_index("name")["given"]
    decisions = pd.read_csv(tmp_path / "second.csv").set_index("row")["decision"]
    skipped, dropped = (decisions.index[decisions == what] for what in ("skip", "drop"))
    labels = mended.set_index("name")["label"]
    assert (labels[skipped] == given[skipped]).all() and not set(dropped) & set(labels.index)
    wrong = sum(right[f"r{name[1:]}"] != label for name, label in labels.drop(skipped).items())
    document = json.loads((tmp_path / "c.json").read_text())
    assert wrong <= 0.1 * N and document["wrong_at_most"] == 39 / (N - 3)
    assert (document["rows"], document["skipped"], document["dropped"]) == (N - 1, 2, 1)
    assert (mended["x"] == "'=1+1").all() and mended["name"].tolist() == sorted(
        mended["name"], key=lambda n: int(n[1:])
    )


def test_of_few_rows_all_are_looked_up(mgce, right, tmp_path):
    pd.read_csv(tmp_path / "t.suspects.csv").head(3).to_csv(tmp_path / "few.suspects.csv", index=False)
    _, output, _ = mgce("clean", "few.suspects.csv", "--at-most", "0.01")
    assert output.startswith("Look up all 3 rows. They are in few-to-check.suspects.csv. Bounds assume"), output


def test_no_page_overwrites_another_and_no_file_is_named_twice(mgce, right, tmp_path):
    asked, given = [], []
    for at_most in ("0.1", "0.1", "0.03", "0.01"):
        options = ("--checked", ",".join(given)) if given else ()
        code, output, errors = mgce("clean", "t.suspects.csv", "--at-most", at_most, *options)
        assert code == 0, errors
        if "Do this next" not in output:
            break
        review, again = (shlex.split(line) for line in output.splitlines()[-2:])
        assert review[:2] == ["mgce", "review"] and again[:3] == ["mgce", "clean", "t.suspects.csv"]
        files = again[-1].split(",")
        assert files[:-1] == given and len({*files}) == len(files) and review[2] not in asked
        asked.append(review[2])
        given = files
        decide(tmp_path, right, given[-1], review[2].removesuffix(".suspects.csv"))
    assert len(asked) >= 3
    # The command that was printed gives the same as the same files in another order, or named twice.
    said = [
        mgce("clean", "t.suspects.csv", "--at-most", "0.1", "--checked", ",".join(files))[1]
        for files in (given, given[::-1], [*given, given[0]])
    ]
    assert len({*said}) == 1 and "With confidence" in said[0]


@pytest.mark.parametrize("at_most", ["0.1", "0.033"])
def test_no_more_is_claimed_than_asked_whatever_is_skipped(mgce, right, tmp_path, at_most):
    given = []
    for _ in range(9):
        options = ("--checked", ",".join(given)) if given else ()
        code, output, errors = mgce("clean", "t.suspects.csv", "--at-most", at_most, "--json", "c.json", *options)
        assert code == 0, errors
        if "Do this next" not in output:
            break
        given.append(output.split(",")[-1].split("--checked ")[-1].strip())
        decide(tmp_path, right, given[-1], output.split("mgce review ")[1].split(".suspects")[0], skip=9, drop=5)
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["skipped"] >= 9 and 0 < document["wrong_at_most"] <= float(at_most)
    assert int(output.split("at most ")[1].split(" of")[0]) <= float(at_most) * document["rows"]
    assert float(output.split(" labels (")[1].split("%)")[0]) <= 100 * float(at_most)


@pytest.mark.parametrize("where", ["file", "decisions", "both"])
def test_a_dropped_row_stays_dropped(mgce, right, tmp_path, where):
    """The drop is in the file of suspects, as fit writes it after a review; or only in the decisions; or in both."""
    frame = pd.read_csv(tmp_path / "t.suspects.csv", dtype=str, keep_default_na=False)
    if where != "decisions":
        frame.loc[0, "checked"] = "drop"
        frame.to_csv(tmp_path / "t.suspects.csv", index=False)
    one = frame.iloc[0]
    line = [one["key"], one["name"], one["line"], one["given"], "drop", "", "suspect", "1", one["draw_probability"]]
    (tmp_path / "old.csv").write_text(",".join(DECISION) + "\n" + ",".join(line) + "\n")
    old = [] if where == "file" else ["old.csv"]
    assert mgce("clean", "t.suspects.csv", "--at-most", "0.9", *(["--checked", *old] if old else []))[0] == 0
    (asked,) = tmp_path.glob("t-to-check*.suspects.csv")
    assert one["key"] not in {each.key for each in read_suspects(asked)}
    decide(tmp_path, right, "new.csv", asked.name.removesuffix(".suspects.csv"))
    code, output, errors = mgce("clean", "t.suspects.csv", "--at-most", "0.9", "--checked", ",".join([*old, "new.csv"]))
    assert code == 0 and "1 row was dropped and left out" in " ".join(output.split()), errors
    mended = pd.read_csv(tmp_path / "t.mended.csv")
    assert len(mended) == N - 1 and one["name"] not in set(mended["name"])


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
    (second,) = tmp_path.glob("t-to-check-after-*.suspects.csv")
    decide(tmp_path, right, "2.csv", second.name.removesuffix(".suspects.csv"))
    code, said, errors = mgce(*options, "--checked", "1.csv,2.csv")
    assert code == 0, errors
    assert "m.xlsx is made from the file of suspects: it has no sheets, formats or formulas" in " ".join(said.split())
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


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        ({"key": "s1"}, "1 on rows that are not found (n1)"),
        ({"given": "maybe", "decision": "other"}, "1 on rows whose label was changed since (n1: maybe became "),
        (
            {"label": "maybe", "decision": "other"},
            "the 2 classes of this file of suspects (no, yes), but got 'maybe for ",
        ),
    ],
)
def test_decisions_on_other_rows_and_labels_are_refused(mgce, refuses, right, tmp_path, edit, sentence):
    assert mgce("clean", "t.suspects.csv")[0] == 0
    decide(tmp_path, right, "first.csv")
    frame = pd.read_csv(tmp_path / "first.csv", dtype=str, keep_default_na=False)
    row = frame.index[frame["row"] == "n1"][0]
    for name, value in edit.items():
        frame.loc[row, name] = value
    frame.to_csv(tmp_path / "first.csv", index=False)
    refuses(sentence, "clean", "t.suspects.csv", "--checked", "first.csv")


def as_numbers(path, names):
    """Save a file again as a spreadsheet does that takes codes for numbers: 01 becomes 1."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.assign(**{name: frame[name].str.lstrip("0") for name in names}).to_csv(path, index=False)


@pytest.mark.slow
def test_codes_that_a_spreadsheet_made_numbers_are_no_classes(mgce, refuses, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    right = np.where(x > 0, "02", "01")
    given = np.where(rng.random(80) < 0.1, np.where(right == "01", "02", "01"), right)
    pd.DataFrame({"x": x, "code": given}).to_csv(tmp_path / "c.csv", index=False)
    fit = ("fit", "c.csv", "--target", "code", "--model", "linear")
    assert mgce(*fit)[0] == 0 and mgce("clean", "c.suspects.csv")[0] == 0
    of_key = {one.key: right[int(one.name) - 1] for one in read_suspects(tmp_path / "c.suspects.csv")}
    decide(tmp_path, of_key, "d.csv", "c-to-check")
    as_numbers(tmp_path / "d.csv", ["given", "label"])
    said = ("rows whose label was changed since (", ": 1 became 01", "A spreadsheet that saves a file again may change")
    for command in (("clean", "c.suspects.csv"), fit):
        for sentence in said:
            refuses(sentence, *command, "--checked", "d.csv")
    decide(tmp_path, of_key, "d.csv", "c-to-check")
    assert mgce("clean", "c.suspects.csv", "--checked", "d.csv")[0] == 0
    as_numbers(tmp_path / "c.suspects.csv", ["given", "suggested", "alternative"])
    refuses("Labels are written otherwise in row", "clean", "c.suspects.csv", "--checked", "d.csv")
    refuses("Labels are written otherwise in row", "review", "c.suspects.csv")


@pytest.mark.slow
@pytest.mark.parametrize("id", [("--id", "key"), ()], ids=["named by it", "a feature"])
def test_columns_with_the_names_of_ours_stand_once_and_keep_their_names(mgce, tmp_path, id):
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    frame = pd.DataFrame({"key": [f"k{row}" for row in range(80)], "given": x, "table: draw": "z", "rank": x > 0})
    frame.assign(code=np.where(x > 0, "b", "a")).to_csv(tmp_path / "t.csv", index=False)
    assert mgce("fit", "t.csv", "--target", "code", "--model", "linear", *id)[0] == 0
    head = (tmp_path / "t.suspects.csv").read_text().splitlines()[0].split(",")
    assert len({*head}) == len(head) and {"table: key", "table: given", "table: table: draw", "table: rank"} < {*head}
    names = [name for name, _ in read_suspects(tmp_path / "t.suspects.csv")[0].cells]
    assert sorted(names) == sorted([*frame.columns, *(() if id else ("row",))])
    assert mgce("review", "t.suspects.csv", "--text", "given")[0] == 0
    right = {one.key: one.given for one in read_suspects(tmp_path / "t.suspects.csv")}
    checked = []
    for turn in range(3):
        options = ("--checked", ",".join(checked)) if checked else ()
        code, output, errors = mgce("clean", "t.suspects.csv", *options)
        assert code == 0, errors
        if "Do this next" not in output:
            break
        checked.append(f"d{turn}.csv")
        decide(tmp_path, right, checked[-1], output.split("mgce review ")[1].split(".suspects")[0])
    assert {*frame.columns} < {*pd.read_csv(tmp_path / "t.mended.csv").columns}
