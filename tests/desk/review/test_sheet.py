import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from mgce._text import spreadsheet_text
from mgce.desk.review.decision_file import HEAD, read_decisions
from mgce.desk.review.sheet import Beside, check_column, chosen, misspelt, read_pictures, sheet
from mgce.desk.review.suspect_file import Suspect
from web_pages import Page

EVIL = '</script><img src=x onerror="alert(1)">'
PNG = b"\x89PNG\r\n\x1a\n0000"


def suspects(n, classes=("yes", "no", "=1+1"), seed=0):
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(n) + 1
    made = []
    for place in range(n):
        given, other = rng.permutation(len(classes))[:2]
        suggested = other if place < n // 2 else given
        made.append(
            Suspect(
                rank=place + 1,
                name=f"{EVIL}{place}",
                line=str(place + 2),
                key=f"r{place}",
                given=classes[given],
                suggested=classes[suggested],
                alternative=classes[other],
                is_checked=False,
                draw=int(drawn[place]),
                draw_probability=1 / n,
                cells=(
                    ("person", f"{EVIL}{place}"),
                    ("=size", "1.5"),
                    ("words", f"{EVIL}\x1b[31m\ntwo"),
                    ("file", "p.png"),
                ),
            )
        )
    return made


def data_of(page):
    return json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])


def test_suspects_and_draws_alternate_and_none_is_shown_twice():
    every = suspects(60)
    shown = chosen(every, most=20, n_random=30)
    keys = [one.suspect.key for one in shown]
    assert len(keys) == len(set(keys))
    drawn = [one.suspect.draw for one in shown if one.is_random]
    assert drawn == sorted(drawn) and set(range(1, 31)) <= {one.suspect.draw for one in shown}
    ranked = [one.suspect.rank for one in shown if not one.is_random]
    assert ranked == sorted(ranked) and set(range(1, 21)) <= {one.suspect.rank for one in shown}
    # In each beginning, about half are of either kind, and which comes first in a pair cannot be foretold.
    kinds = [one.is_random for one in shown[:30]]
    assert 9 <= sum(kinds) <= 21 and len({tuple(kinds[i : i + 2]) for i in range(0, 30, 2)}) > 2


def test_the_order_of_the_file_does_not_matter():
    every = suspects(60)
    shown = chosen(every, most=20, n_random=30)
    assert chosen(every[::-1], most=20, n_random=30) == shown
    assert chosen(sorted(every, key=lambda one: one.draw), most=20, n_random=30) == shown


def test_a_row_of_both_kinds_is_shown_where_it_comes_first():
    every = suspects(40)
    for one in chosen(every, most=20, n_random=40):
        in_ranks = one.suspect.rank if one.suspect.rank <= 20 else np.inf
        assert one.suspect.draw <= in_ranks if one.is_random else in_ranks <= one.suspect.draw


def test_what_was_decided_before_is_left_out_and_the_next_draws_come():
    every = [replace(one, is_checked=one.draw <= 10) for one in suspects(60)]
    shown = chosen(every, most=0, n_random=5)
    assert [one.suspect.draw for one in shown] == [11, 12, 13, 14, 15] and all(one.is_random for one in shown)


def test_rows_of_a_label_that_may_be_misspelt_are_shown_whatever_the_model_says():
    every = [replace(one, given="Approved", suggested="Approved") for one in suspects(60)]
    every[50] = replace(every[50], given="Aproved", suggested="Aproved")
    assert misspelt(every) == {"Aproved": "Approved"}
    shown = chosen(every, most=20, n_random=0)
    assert [one.suspect.key for one in shown] == [every[50].key]
    data = data_of(sheet(shown, "t", "d.csv", Beside(asked=misspelt(every))).decode())
    assert [[data["classes"][i]["text"] for i in pair] for pair in data["asked"]] == [["Aproved", "Approved"]]
    every[50] = replace(every[50], is_checked=True)
    assert chosen(every, most=20, n_random=0) == []


def test_the_page_says_neither_probabilities_nor_which_rows_were_drawn():
    shown = chosen(suspects(20), 10, 10)
    data = data_of(sheet(shown, "t", "d.csv").decode())
    for row, one in zip(data["rows"], shown, strict=True):
        assert set(row) == {"name", "line", "given", "alternative", "cells", "csv"}
        # Of each row another class is offered, so that an offer does not give a suspect away.
        assert row["given"] != row["alternative"]
        assert data["classes"][row["given"]]["text"] == one.suspect.given


def test_the_page_refers_to_nothing_outside_and_runs_nothing_of_others():
    page = sheet(chosen(suspects(20), 10, 10), EVIL, "d.csv", Beside("words")).decode()
    parsed = Page(page)
    assert parsed.text("h1") == [EVIL] and parsed.text("title") == [EVIL]
    assert [parsed.count(tag) for tag in ("script", "img", "link", "iframe", "object", "a")] == [2, 1, 0, 0, 0, 0]
    for tag, attributes in parsed.elements:
        assert not {"src", "href", "style"} & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes)
    assert "http://" not in page and "https://" not in page and "url(" not in page and "@import" not in page
    for call in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
        "WebSocket",
    ):
        assert call not in page
    assert data_of(page)["rows"][0]["text"] == f"{EVIL}␛[31m\ntwo" and "words" not in data_of(page)["columns"]


def test_lines_as_the_page_joins_them_are_read_back(tmp_path):
    shown = chosen(suspects(20), 10, 10)
    data = data_of(sheet(shown, "t", "d.csv").decode())
    assert data["named"] == shown[0].suspect.cells[0][0]  # "row", or the column that names the rows
    assert data["head"] == ",".join(HEAD)
    lines = [data["head"]]
    for row in data["rows"]:  # as `csv` in page.js
        lines.append(
            ",".join([row["csv"][0], "suggestion", data["classes"][row["alternative"]]["csv"], row["csv"][1], ""])
        )
    path = tmp_path / "d.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for one, decision in zip(shown, read_decisions(path)[0], strict=True):
        assert (decision.key, decision.given, decision.label) == (
            one.suspect.key,
            one.suspect.given,
            one.suspect.alternative,
        )
        assert (decision.is_random, decision.draw) == (one.is_random, one.suspect.draw)
        assert decision.is_both == one.is_both == (one.suspect.draw <= 10 and one.suspect.rank <= 10)
        assert decision.draw_probability == one.suspect.draw_probability
    cells = [cell for row in csv.reader(io.StringIO(path.read_text())) for cell in row]
    assert "'=1+1" in cells and "=1+1" not in cells


def test_pictures_are_in_the_page(tmp_path):
    shown = chosen(suspects(6), 3, 3)
    (tmp_path / "p.png").write_bytes(PNG)
    pictures = read_pictures(shown, "file", tmp_path)
    rows = data_of(sheet(shown, "t", "d.csv", Beside(pictures=pictures)).decode())["rows"]
    assert all(row["picture"].startswith("data:image/png;base64,iVBORw0KGg") for row in rows)
    (tmp_path / "p.png").write_bytes(b"<svg onload='alert(1)'/>")
    with pytest.raises(ValueError, match="a column of PNG, JPEG, GIF or WebP files"):
        sheet(shown, "t", "d.csv", Beside(pictures=read_pictures(shown, "file", tmp_path)))
    (tmp_path / "p.png").unlink()
    with pytest.raises(ValueError, match=r"a column of files that exist, but got 'p\.png in row"):
        read_pictures(shown, "file", tmp_path)


def test_pictures_that_are_too_large_for_a_page_are_refused(tmp_path, monkeypatch):
    (tmp_path / "p.png").write_bytes(PNG)
    monkeypatch.setattr("mgce.desk.review.sheet.PICTURE_BYTES", 3 * len(PNG))
    with pytest.raises(ValueError, match="show fewer rows"):
        read_pictures(chosen(suspects(6), 3, 3), "file", tmp_path)


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="Expected `image` to be a column of the table"):
        check_column("image", "picture", suspects(2))
    check_column("image", None, suspects(2))


@pytest.mark.parametrize("name", ["a\nb", "a\rb", 'a"b', "a,b", "=a\r\nb"])
def test_a_name_of_several_lines_is_one_cell_of_the_decisions(name):
    one = replace(suspects(1)[0], name=name)
    parts = data_of(sheet(chosen([one], most=1, n_random=1), "t", "d.csv").decode())["rows"][0]["csv"]
    (row,) = csv.reader(io.StringIO(f"{parts[0]},keep,x,{parts[1]},\r\n", newline=""))
    assert len(row) == len(HEAD) and spreadsheet_text(row[1]) == name
