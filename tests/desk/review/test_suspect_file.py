import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mgce.desk.review.decision_file import DECISIONS, SHOWN_AS
from mgce.desk.review.decision_file import HEAD as HEAD_OF_DECISIONS
from mgce.desk.review.suspect_file import (
    CHECK,
    CHECKED_CELLS,
    COLUMNS,
    Suspect,
    check_overwritten,
    read_suspects,
    row_checks,
    some_suspects,
)

HEAD = ",".join(name or "person" for name in COLUMNS) + ",size,given\n"
ROWS = (
    "1,ann,4,rab,yes,no,no,0.95,0.05,0.95,True,0.95,,2,0.25,1.5,'=1+1\n"
    '2,"b, ""b""",2,rcd,no,no,yes,0.01,0.9,0.9,False,0.5,keep,1,0.125,,"two\nlines"\n'
)


def test_a_file_is_read_also_after_a_spreadsheet_has_saved_it(tmp_path):
    path = tmp_path / "t.suspects.csv"
    path.write_text(HEAD + ROWS, encoding="utf-8")
    first, second = read_suspects(path)
    assert (first.rank, first.name, first.line, first.key, first.draw, first.draw_probability) == (
        1,
        "ann",
        "4",
        "rab",
        2,
        0.25,
    )
    assert first.cells == (("person", "ann"), ("size", "1.5"), ("given", "=1+1"))
    assert second.name == 'b, "b"' and second.cells[-1] == ("given", "two\nlines")
    assert (first.given, first.suggested, second.alternative) == ("yes", "no", "yes")
    assert not first.is_checked and second.is_checked
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame["draw_probability"] = frame["draw_probability"].str.replace(".", ",")  # as in half of Europe
    frame.columns = HEAD.strip().split(",")
    path.write_bytes(frame.to_csv(index=False, sep=";", lineterminator="\r\n").encode("utf-8-sig"))
    again = read_suspects(path)
    assert again[0] == first and again[1].name == second.name and again[1].cells[-1][1].split() == ["two", "lines"]


@pytest.mark.parametrize("column", ["p_wrong", "p_given", "p_suggested", "draw_probability"])
def test_probabilities_lie_in_the_closed_unit_interval(tmp_path, column):
    path = tmp_path / "t.suspects.csv"
    row, place = ROWS.splitlines()[0].split(","), COLUMNS.index(column)
    for value in ("0", "1", "1.0", "1e-300"):
        path.write_text(HEAD + ",".join([*row[:place], value, *row[place + 1 :]]))
        assert getattr(read_suspects(path)[0], column) == float(value)
    for value in ("1.0000000000000002", "-1e-300", "inf", "nan", ""):
        path.write_text(HEAD + ",".join([*row[:place], value, *row[place + 1 :]]))
        with pytest.raises(ValueError, match=rf"a number in \[0, 1\] in the column {column}"):
            read_suspects(path)


@pytest.mark.parametrize(
    ("p_wrong", "p_given", "p_suggested", "proposal"),
    [
        (0.9, 0.1, 0.7, ("no", 0.3, 0.3)),  # of ten rows nine are wrong; of these nine, seven are "no"
        (0.6, 0.1, 0.45, ("yes", 0.6, 0.9)),  # 0.6 * 0.45 / 0.9 = 0.3 of rows are "no", 0.4 are "yes"
        (0.95, 0.9, 0.05, ("no", 0.525, 0.95)),  # 0.95 * 0.05 / 0.1 = 0.475 are "no", 0.05 are "yes"
        (0.4, 0.1, 0.9, ("yes", 0.4, 0.9)),  # the given label is the likelier one, at 0.6
        (1.0, 0.0, 1.0, ("no", 0.0, 0.0)),
        (0.3, 1.0, 0.0, ("yes", 0.3, 0.0)),
    ],
)
def test_the_proposal_is_the_likelier_label_if_a_wrong_one_is_what_the_model_thinks(
    p_wrong, p_given, p_suggested, proposal
):
    opinion = {"p_wrong": p_wrong, "p_given": p_given, "p_suggested": p_suggested}
    one = Suspect(1, "a", "2", "r", "yes", "no", "no", False, 1, 0.5, (), **opinion)
    assert one.proposal == (proposal[0], pytest.approx(proposal[1]), pytest.approx(proposal[2]))
    assert replace(one, suggested="yes").proposal == ("yes", p_wrong, 1 - p_given)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "with the columns rank, line"),
        ("a,b\n1,2\n", "as `mgce fit` writes it"),
        (HEAD, "a file with rows"),
        (HEAD + "1,2\n", "of 17 values in each line, but got '2 in line 2 of s.csv'"),
        (
            HEAD + ROWS.replace("1,ann", "one,ann"),
            "number from 1 in the column rank, but got 'one in line 2 of s.csv, row ann",
        ),
        (
            HEAD + ROWS.replace(",keep,", ",maybe,"),
            "drop or skip in the column checked, but got 'maybe in line 3 of s.csv",
        ),
        (
            HEAD + ROWS.replace("0.01,0.9,", "1.01,0.9,"),
            "a number in [0, 1] in the column p_wrong, but got '1.01 in line 3",
        ),
        (
            HEAD + ROWS.replace(",0.25,", ",nan,"),
            "a number in [0, 1] in the column draw_probability, but got 'nan in line 2",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, content, sentence):
    (tmp_path / "s.csv").write_text(content)
    with pytest.raises(ValueError, match="Expected `suspects`") as error:
        read_suspects(tmp_path / "s.csv")
    assert sentence in str(error.value)


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "s.csv").write_bytes(np.arange(256, dtype=np.uint8).tobytes())
    with pytest.raises(ValueError, match="a CSV file, but"):
        read_suspects(tmp_path / "s.csv")
    with pytest.raises(FileNotFoundError, match="a file that exists"):
        read_suspects(tmp_path / "none.csv")


@pytest.fixture
def written(tmp_path):
    """A file of suspects of six rows as `mgce fit` writes it, as a frame and its path."""
    n = 6
    frame = pd.DataFrame({name or "person": ["0.5"] * n for name in COLUMNS})
    frame["key"], frame["person"] = [f"r{i}" for i in range(n)], [f"n{i}" for i in range(n)]
    frame["given"], frame["suggested"], frame["alternative"] = ["1.50", "yes", "True"] * 2, "no", "maybe"
    frame["rank"] = frame["draw"] = range(1, n + 1)
    frame["checked"] = ["", "keep"] * 3
    frame[f"{CHECK}its label"] = row_checks(
        frame[[*CHECKED_CELLS]].to_dict("list"), frame.shape[1] + 2
    )  # and this column and the next
    frame["note"] = "x"
    path = tmp_path / "t.suspects.csv"
    frame.to_csv(path, index=False)
    return frame, path


def test_a_file_that_a_spreadsheet_sorted_and_saved_is_as_it_was_written(written):
    frame, path = written
    frame.sort_values("person", ascending=False).to_csv(path, index=False, sep=";")
    assert [one.name for one in read_suspects(path)] == ["n5", "n4", "n3", "n2", "n1", "n0"]
    assert read_suspects(path)[0].cells == (("person", "n5"), ("note", "x"))
    assert read_suspects(path)[0].label_column == "its label"
    check_overwritten("out", path)
    check_overwritten("out", path.with_name("none.csv"))


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda frame: frame.assign(given=["1.50", "no", *frame["given"][2:]]), "were edited in row n1."),
        (lambda frame: frame.assign(suggested="yes"), "were edited in row n0, n1, n2 and 3 more."),
        (lambda frame: frame.assign(checked="keep"), "were edited in row n0, n2, n4."),
        (lambda frame: frame.head(4), "It has 4 of 6 rows."),
        (lambda frame: frame.assign(**{f"{CHECK}its label": ""}), "The column 'row_check: its label' was edited."),
    ],
)
def test_edits_are_refused_with_what_to_do(written, edit, sentence):
    frame, path = written
    edit(frame).to_csv(path, index=False)
    with pytest.raises(ValueError, match="Expected `suspects` to be a file as `mgce fit` wrote it") as error:
        read_suspects(path)
    assert sentence in str(error.value) and "Decide on the page of `mgce review`" in str(error.value)
    with pytest.raises(ValueError, match="Expected `out` to be a path whose t.suspects.csv is as") as error:
        check_overwritten("out", path)
    assert sentence in str(error.value) and "give it another name" in str(error.value)


@pytest.mark.parametrize("given", [["1.5", "yes", "True"], ["1.50", "yes", "TRUE"], ["01.5", "yes", "True"]])
def test_labels_that_a_spreadsheet_wrote_otherwise_are_another_class(written, given):
    frame, path = written
    frame.assign(given=given * 2).to_csv(path, index=False)
    with pytest.raises(ValueError, match="Labels are written otherwise in row n[02], n[35], as a spreadsheet writes 1"):
        read_suspects(path)
    check_overwritten("out", path)  # nobody typed anything that would be lost


def test_files_whose_check_does_not_tell_how_labels_are_written_are_read(written):
    frame, path = written
    name = f"{CHECK}its label"
    frame.assign(**{name: frame[name].str.rsplit("-", n=1).str[0]}).to_csv(path, index=False)
    assert len(read_suspects(path)) == 6


def test_a_column_of_notes_may_be_reviewed_and_is_not_overwritten(written):
    frame, path = written
    frame.assign(right="yes").to_csv(path, index=False)
    assert read_suspects(path)[0].cells[-1] == ("right", "yes")
    with pytest.raises(ValueError, match="It has 18 columns, and had 17"):
        check_overwritten("out", path)


def test_some_of_the_rows_are_a_whole_file_again(written, tmp_path):
    _, path = written
    some = tmp_path / "some.csv"
    some.write_bytes(some_suspects(path, {"r1", "r4"}))
    assert [one.key for one in read_suspects(some)] == ["r1", "r4"]
    check_overwritten("out", some)


def test_a_skipped_row_is_not_decided_and_a_dropped_one_is(tmp_path):
    path = tmp_path / "t.suspects.csv"
    decided = ("", "keep", "drop", "skip")
    path.write_text(HEAD + "".join(ROWS.splitlines(keepends=True)[0].replace(",,2", f",{one},2") for one in decided))
    read = read_suspects(path)
    assert [one.is_checked for one in read] == [False, True, True, False]
    assert [one.is_dropped for one in read] == [False, False, True, False]


def test_the_page_on_reviews_lists_every_column_and_every_value_of_a_closed_list():
    page = (Path(__file__).parents[3] / "docs/commands/review.md").read_text("utf-8")
    section = page.partition("## The columns of the files")[2].partition("\n## ")[0]
    first = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| "))
    named = {name.strip(" ,") for name in first.replace(",", " ").split()}
    assert {*filter(None, COLUMNS), *HEAD_OF_DECISIONS} <= named and CHECK.rstrip() in first
    assert all(f"`{value}`" in section for value in (*DECISIONS, *SHOWN_AS))


@pytest.mark.parametrize("left", [(0, 2), (0, 1), (2,)])
def test_a_folder_that_lacks_a_part_is_refused_with_its_name(tmp_path, left):
    every = [f"part-0000{part}-of-00003.parquet" for part in range(3)]
    (tmp_path / "t.suspects").mkdir()
    for part in left:
        pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "t.suspects" / every[part])
    lost = ", ".join(name for part, name in enumerate(every) if part not in left)
    said = f"Expected `suspects` to be a folder with all its parts, but got 't.suspects without {lost}'."
    with pytest.raises(ValueError, match=re.escape(said)):
        read_suspects(tmp_path / "t.suspects")
