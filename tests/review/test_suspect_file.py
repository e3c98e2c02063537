import numpy as np
import pandas as pd
import pytest

from mgce.review.suspect_file import COLUMNS, read_suspects

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


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "with the columns rank, line"),
        ("a,b\n1,2\n", "as `mgce fit` writes it"),
        (HEAD, "a file with rows"),
        (HEAD + "1,2\n", "of 17 values in each row, but got '2 in row 2 of s.csv'"),
        (HEAD + ROWS.replace("1,ann", "one,ann"), "numbers in the columns rank, draw"),
    ],
)
def test_other_files_are_refused(tmp_path, content, sentence):
    (tmp_path / "s.csv").write_text(content)
    with pytest.raises(ValueError, match="Expected `suspects`") as error:
        read_suspects(tmp_path / "s.csv")
    assert sentence in str(error.value)


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "s.csv").write_bytes(np.arange(256, dtype=np.uint8).tobytes())
    with pytest.raises(ValueError, match="a CSV file in UTF-8"):
        read_suspects(tmp_path / "s.csv")
    with pytest.raises(FileNotFoundError, match="a file that exists"):
        read_suspects(tmp_path / "none.csv")
