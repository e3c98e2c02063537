"""`mgce review`, and `mgce fit --checked` with what its page saves."""

import csv
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import commands
from mgce.desk.files.table_files import read_frame
from mgce.desk.files.written_tables import to_table_file
from mgce.desk.review.decision_file import COLUMNS
from mgce.desk.review.sheet import chosen
from mgce.desk.review.suspect_file import read_suspects

FIT = ("fit", "people.csv", "--target", "sick", "--id", "person", "--model", "linear", "--jobs", "1")


@pytest.fixture(scope="module")
def fitted_once(people, tmp_path_factory):
    """The table whose labels are right, a folder with a first fit to one where some are wrong, and its output."""
    folder = tmp_path_factory.mktemp("fitted")
    right = people.assign(sick=np.where(people["age"].fillna(40) + 15 * (people["job"] == "nurse") > 45, "yes", "no"))
    right.insert(1, "file", "p.png")
    wrong = np.random.default_rng(1).random(len(right)) < 0.1
    given = np.where(wrong ^ (right["sick"] == "yes"), "yes", "no")
    right.assign(sick=given).to_csv(folder / "people.csv", index=False)
    done = commands.mgce(*FIT, folder=folder, columns=120)
    assert done.returncode == 0, done.stderr
    return right, folder, done.stdout


@pytest.fixture
def fitted(fitted_once, tmp_path):
    """The table whose labels are right, and the output of a first fit, whose files are in the folder of the test."""
    right, folder, output = fitted_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return right, output


def decide(folder, right, n, path):
    """Write the decisions of a person who knows the right labels on the first rows of the page."""
    labels = right.set_index("person")["sick"]
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for one in chosen(read_suspects(folder / "people.suspects.csv"), 5000, 60)[:n]:
            each, label = one.suspect, labels[one.suspect.name]
            what = "keep" if label == each.given else "suggestion"
            kind = "random" if one.is_random else "suspect"
            lines.writerow(
                [each.key, each.name, each.line, each.given, what, label, kind, each.draw, each.draw_probability]
            )


def test_the_loop(mgce, fitted, tmp_path):
    right, first = fitted
    steps = re.findall(r"^  (mgce .*)$", first, re.MULTILINE)
    assert steps[0] == "mgce review people.suspects.csv" and steps[2] == "mgce predict people.mgce NEW.csv"
    assert "Wrong labels: 0 to" in " ".join(first.split())
    code, output, errors = mgce("review", "people.suspects.csv", "--random", "60", "--image", "file")
    assert code == 2 and "p.png in row" in errors and not (tmp_path / "people.review.html").exists()
    code, output, errors = mgce("review", "people.suspects.csv", "--random", "60", "--text", "job")
    assert code == 0 and "people.decisions.csv" in output, errors
    page = (tmp_path / "people.review.html").read_text()
    data = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])
    assert "Labels of people" in page and {len(row["near"]) for row in data["rows"]} == {5} and data["others"]
    decide(tmp_path, right, 70, tmp_path / "people.decisions.csv")
    again = steps[1].split()[1:]
    assert again[-4:] == ["--checked", "people.decisions.csv", "--mended", "people.mended.csv"]
    code, output, errors = mgce(*again, "--out", "second.mgce", "--json", "found.json")
    assert code == 0, errors
    words = " ".join(output.split())
    # The first figure is against right labels, and the same in terminal, page and JSON; given labels come below.
    document, page = json.loads((tmp_path / "found.json").read_text()), (tmp_path / "second.html").read_text()
    error = document["checked"]["error"]
    first = f"The model is right on {error['n'] - error['errors']} of {error['n']} checked rows"
    assert words.startswith(first) and document["headline"].startswith(first) and first in page
    assert page.index(first) < page.index("the model agrees with the label given before the review")
    assert words.index("agrees with the label given before the review") < words.index("70 rows were checked")
    assert document["compared_with"] == "the label given before the review" and "Wrong labels:" in words
    assert "mgce clean second.suspects.csv" in words and "mgce clean" not in first
    assert "--checked people.decisions.csv,second.decisions-after-70.csv" in words
    found = json.loads((tmp_path / "found.json").read_text())["checked"]
    mended = pd.read_csv(tmp_path / "people.mended.csv", dtype=str)
    before = pd.read_csv(tmp_path / "people.csv", dtype=str)
    left = (mended["sick"] != right["sick"]).mean()
    assert left < (before["sick"] != right["sick"]).mean() and left <= found["wrong_left_at_most"] < 1
    assert found["changed"] == (mended["sick"] != before["sick"]).sum() and found["error"]["upper"] < 1
    pd.testing.assert_frame_equal(mended.drop(columns="sick"), before.drop(columns="sick"))
    page = (tmp_path / "second.html").read_text()
    assert "What checked rows tell" in page and "70 rows were checked" in page and "Do this next" in page
    suspects = pd.read_csv(tmp_path / "second.suspects.csv", dtype=str)
    assert suspects["checked"].notna().sum() == 70 and set(suspects["checked"].dropna()) == {"keep", "suggestion"}
    # The mended table itself: what it shows is no accuracy.
    code, output, errors = mgce("fit", "people.mended.csv", *FIT[2:])
    said = "Agreement with mended labels is not accuracy. Fit the table of before with --checked instead."
    first = f"The labels of people.mended.csv are mended, by its name. {said}"
    assert code == 0 and " ".join(output.split()).startswith(first), errors
    assert said in (tmp_path / "people.mended.html").read_text() and said not in words


def test_labels_typed_into_the_file_of_suspects_are_not_lost_silently(mgce, fitted, refuses, tmp_path):
    path = tmp_path / "people.suspects.csv"
    listed = pd.read_csv(path, dtype=str, keep_default_na=False)
    listed.loc[0, "given"] = "no" if listed.loc[0, "given"] == "yes" else "yes"
    listed.to_csv(path, index=False)
    edited = f"edited in row {listed.loc[0, 'person']}. No command reads labels that are typed into this file. Decide"
    refuses(edited, "review", "people.suspects.csv")
    refuses(edited, "clean", "people.suspects.csv")
    refuses(edited, *FIT)


def test_a_page_whose_decisions_may_not_be_saved_is_kept(mgce, fitted, refuses, tmp_path):
    def rows():
        return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text())[1])["rows"]

    page = tmp_path / "people.review.html"
    code, output, _ = mgce("review", "people.suspects.csv", "--random", "40")
    every, words = read_suspects(tmp_path / "people.suspects.csv"), " ".join(output.split())
    suspects, drawn = ({one.key for one in every if one.suggested != one.given}, {o.key for o in every if o.draw <= 40})
    said = f"{len(suspects)} suspects, whose label is not the likeliest, and 40 drawn at random, "
    said += f"{len(suspects & drawn)} of them suspects too."
    assert code == 0 and "is kept" not in words and said in words and len(rows()) == len(suspects | drawn)
    assert output.endswith("For fewer rows, add --suspects N or --random N.\n")
    assert "wrongly agreed" not in words and page.read_text().count("wrongly agreed") == 1
    before = page.read_bytes()
    assert mgce("review", "people.suspects.csv", "--random", "40", "--text", "job")[0] == 0  # the same rows
    assert page.read_bytes() != before and len(rows()) == len(suspects | drawn)
    before = page.read_bytes()
    for n, kept in ((30, "people.review.html"), (20, "people.review-2.html")):
        code, output, _ = mgce("review", "people.suspects.csv", "--random", str(n))
        assert code == 0 and f"{kept} is kept: if you have decided on rows there, open it" in " ".join(output.split())
    assert all("people-3.decisions.csv" in said for said in (output, (tmp_path / "people.review-3.html").read_text()))
    assert page.read_bytes() == before and (tmp_path / "people.review-3.html").exists()
    other = "the path of no other page of `mgce review`"
    refuses(other, "review", "people.suspects.csv", "--random", "10", "--out", "people.review.html")
    code, output, _ = mgce("review", "people.suspects.csv", "--random", "9999", "--quiet", "--out", "all.html")
    assert code == 0 and output == ""


def test_a_page_is_not_written_over_a_picture_that_it_shows(fitted, refuses, tmp_path):
    name = read_suspects(tmp_path / "people.suspects.csv")[0].name
    (tmp_path / name).write_bytes(b"a picture")
    (tmp_path / "link.html").symlink_to(tmp_path / name)
    for out in (name, "link.html"):
        refuses("nothing else uses", "review", "people.suspects.csv", "--image", "person", "--out", out)


def test_what_cannot_be_reviewed_is_refused(mgce, fitted, refuses, tmp_path):
    (tmp_path / "d.csv").write_text(",".join(COLUMNS) + "\nr1,1,2,yes,keep,yes,suspect,,\n")
    refuses("1 on rows that are not found (1): they were deleted, their names were changed", *FIT, "--checked", "d.csv")
    refuses("Expected `checked` to be a file of decisions", *FIT, "--checked", "people.csv")
    refuses("Expected `checked` to be the path of a file that exists", *FIT, "--checked", "none.csv")
    first = ("fit", "d.csv", "--target", "sick", "--checked", "none.csv")  # before the table, which may be long
    refuses("Expected `checked` to be the path of a file that exists, but got 'none.csv'", *first)
    refuses("Expected `mended` to be given with decisions", *FIT, "--mended", "m.csv")
    refuses("nothing else uses", *FIT, "--checked", "d.csv", "--mended", "d.csv")
    refuses("Expected `suspects` to be a file of suspects", "review", "people.csv")
    refuses(
        "Expected `text` to be a column of the table (person, file, age,",
        "review",
        "people.suspects.csv",
        "--text",
        "x",
    )
    refuses(
        "Expected `suspects` to be a file with rows",
        "review",
        "people.suspects.csv",
        "--suspects",
        "0",
        "--random",
        "0",
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", pytest.param("csv", marks=pytest.mark.nightly)])
def test_labels_that_are_numbers_stay_numbers_in_a_mended_table(mgce, tmp_path, suffix):
    rng = np.random.default_rng(0)
    x = rng.normal(size=120).round(6)
    frame = pd.DataFrame({"x": x, "y": (x > 0).astype(int)})
    frame.loc[:5, "y"] = 1 - frame["y"]
    write = frame.to_csv if suffix == "csv" else frame.to_parquet
    write(tmp_path / f"t.{suffix}", index=False)
    quick = ("fit", f"t.{suffix}", "--target", "y", "--model", "linear")
    assert mgce(*quick)[0] == 0
    suspects = read_suspects(tmp_path / "t.suspects.csv")
    one = next(each for each in suspects if each.name == "1")
    (tmp_path / "d.csv").write_text(
        f"{','.join(COLUMNS)}\n{one.key},1,,{one.given},suggestion,{one.alternative},suspect,,\n"
        f"{suspects[-1].key},,,{suspects[-1].given},drop,,suspect,,\n"
    )
    for out in ("m.csv", "m.parquet"):
        code, _, errors = mgce(*quick, "--checked", "d.csv", "--mended", out)
        assert code == 0, errors
        mended = pd.read_csv(tmp_path / out) if out.endswith("csv") else pd.read_parquet(tmp_path / out)
        expected = frame.assign(y=frame["y"].where(frame.index > 0, 1 - frame["y"]))
        expected = expected.drop(index=int(suspects[-1].name) - 1).reset_index(drop=True)
        pd.testing.assert_frame_equal(mended.astype({"y": int}), expected)
        # Of a text file, labels are texts.
        assert mended["y"].dtype.kind == "i" or (suffix, out) == ("csv", "m.parquet")


@pytest.mark.slow
@pytest.mark.parametrize(
    "suffix", ["csv", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("parquet", "xlsx"))]
)
def test_decisions_reach_their_rows_by_ids_that_differ_in_the_last_digits(mgce, tmp_path, suffix):
    rng = np.random.default_rng(0)
    x = rng.normal(size=120).round(3)
    right = pd.DataFrame({"id": 1234567890123456789 + np.arange(120), "x": x, "y": np.where(x > 0, "yes", "no")})
    frame = right.copy()
    frame.loc[frame.index[x > 0][:8], "y"] = "no"
    wrong = [str(name) for name in frame["id"][frame["y"] != right["y"]]]
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(to_table_file(frame, path))
    quick = ("--target", "y", "--id", "id", "--model", "linear", "--jobs", "1")
    assert mgce("fit", path.name, *quick)[0] == 0
    key = {one.name: one.key for one in read_suspects(tmp_path / "t.suspects.csv")}
    assert len(set(key.values())) == 120 and {*key} == {*right["id"].map(str)}
    (tmp_path / "d.csv").write_text(
        "\n".join([",".join(COLUMNS), *(f"{key[name]},{name},,no,suggestion,yes,suspect,," for name in wrong)]) + "\n"
    )
    # Some labels were mended in the table since, which once moved the keys of the rows below them.
    frame.loc[[i for i, name in enumerate(right["id"].map(str)) if name in wrong[:4]], "y"] = "yes"
    path.write_bytes(to_table_file(frame.sample(frac=1, random_state=1), path))
    code, _, errors = mgce("fit", path.name, *quick, "--checked", "d.csv", "--mended", f"m.{suffix}", "--out", "n.mgce")
    assert code == 0, errors
    mended = read_frame(tmp_path / f"m.{suffix}", "table", text=["id"])
    assert dict(zip(mended["id"].map(str), mended["y"], strict=True)) == dict(
        zip(right["id"].map(str), right["y"], strict=True)
    )


@pytest.mark.integration
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1400, 900)])
def test_a_person_goes_through_the_page(mgce, fitted, browser, tmp_path, width, height):
    assert mgce("review", "people.suspects.csv", "--random", "30")[0] == 0
    shown = chosen(read_suspects(tmp_path / "people.suspects.csv"), 5000, 30)
    context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "people.review.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.inner_text("#given") == shown[0].suspect.given
    for key in "kskx":
        page.keyboard.press(key)
    page.keyboard.press("u")  # the fourth is open again
    assert page.inner_text("#count") == f"3 of {len(shown)} decided" and "4 of" in page.inner_text("#where")
    page.click("[data-decision=drop]")
    page.keyboard.press("ArrowRight")  # the fifth is passed over
    page.keyboard.press("1")  # the class no, in the sixth
    page.reload()
    assert page.inner_text("#count") == f"5 of {len(shown)} decided" and "7 of" in page.inner_text("#where")
    with page.expect_download() as download:
        page.keyboard.press("Control+s")
    assert download.value.suggested_filename == "people.decisions.csv"
    download.value.save_as(tmp_path / "people.decisions.csv")
    rows = list(csv.DictReader((tmp_path / "people.decisions.csv").read_text().splitlines()))
    assert [row["key"] for row in rows] == [one.suspect.key for one in shown[:6]]
    sixth = "keep" if shown[5].suspect.given == "no" else "suggestion"
    assert [row["decision"] for row in rows] == ["keep", "suggestion", "keep", "drop", "skip", sixth]
    assert rows[1]["label"] == shown[1].suspect.alternative and rows[5]["label"] == "no"
    assert said == [] and {url.partition("#")[0] for url in asked} == {(tmp_path / "people.review.html").as_uri()}
    for _ in range(len(shown)):
        page.keyboard.press("k")
    assert page.inner_text("#count").startswith(f"Finished: all {len(shown)} rows are decided. Save")
    context.close()
    code, output, errors = mgce(*FIT, "--checked", "people.decisions.csv")
    assert code == 0 and "6 rows were checked" in " ".join(output.split()), errors


@pytest.mark.integration
def test_the_key_1_saves_the_class_1(mgce, browser, tmp_path):
    rng = np.random.default_rng(0)
    cells = pd.DataFrame(rng.normal(size=(400, 4)).round(2), columns=list("abcd"))
    right = (cells["a"] + cells["b"] > 0).astype(int)
    cells.assign(sick=np.where(rng.random(400) < 0.15, 1 - right, right)).to_csv(tmp_path / "t.csv", index=False)
    assert mgce("fit", "t.csv", "--target", "sick", "--model", "linear", "--quiet")[0] == 0
    assert mgce("review", "t.suspects.csv")[0] == 0
    page = browser.new_context(accept_downloads=True).new_page()
    page.goto((tmp_path / "t.review.html").as_uri())
    for key in "110":
        page.keyboard.press(key)
    with page.expect_download() as download:
        page.keyboard.press("Control+s")
    download.value.save_as(tmp_path / "d.csv")
    assert pd.read_csv(tmp_path / "d.csv", dtype=str)["label"].tolist() == ["1", "1", "0"]


@pytest.mark.integration
def test_a_page_of_5000_suspects_takes_a_decision(mgce, browser, tmp_path):
    n, columns = 5000, 20
    rng = np.random.default_rng(0)
    cells = pd.DataFrame(rng.normal(size=(n, columns)), columns=[f"column {i}" for i in range(columns)])
    head = pd.DataFrame(
        {
            **{"rank": range(1, n + 1), "row": range(1, n + 1), "line": range(2, n + 2)},
            **{"key": [f"r{i}" for i in range(n)], "given": "a", "suggested": "b", "alternative": "b", "p_wrong": 0.9},
            **{"p_given": 0.1, "p_suggested": 0.9, "is_issue": True, "expected_precision": 0.9, "checked": ""},
            **{"draw": rng.permutation(n) + 1, "draw_probability": 1 / n},
        }
    )
    pd.concat([head, cells], axis=1).to_csv(tmp_path / "t.suspects.csv", index=False)
    assert mgce("review", "t.suspects.csv")[0] == 0
    page = browser.new_page()
    page.goto((tmp_path / "t.review.html").as_uri())
    page.keyboard.press("s")
    assert page.inner_text("#count") == "1 of 5000 decided"
