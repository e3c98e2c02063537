"""Files as offices have them are read, reviewed, mended and answered; all but the labels stays as it was."""

import io
import re
from dataclasses import replace
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

import commands
from mgce.desk.cli.fit_files import Change, Origin, changed_table
from mgce.desk.columns.spellings import joined
from mgce.desk.files.table_files import content_of, read_accounted
from mgce.desk.files.text_tables import TextFormat
from office import NAMES, N, offices, table, typed

pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
FILES = offices()


def read(path, office):
    form = TextFormat(**office.options)
    return read_accounted(path, "table", text=["Outcome"], classes=["Outcome"], form=form)


@pytest.mark.parametrize("name", FILES)
def test_the_table_is_found_and_its_labels_alone_are_changed(tmp_path, name):
    office, wanted = FILES[name], table()
    path, out = tmp_path / f"t{office.suffix}", tmp_path / f"m{office.suffix.removesuffix('.gz')}"
    path.write_bytes(office.content)
    frame, reading = read(path, office)
    frame = frame.sort_values("No") if name == "merged rows" else frame
    assert [column for column in frame.columns if not column.startswith("Unnamed")] == NAMES and len(frame) == N
    assert frame["No"].astype(int).tolist() == wanted["No"].tolist()
    np.testing.assert_allclose(pd.to_numeric(frame["Amount"]), wanted["Amount"])
    assert frame["Branch"].tolist() == wanted["Branch"].tolist()
    labels = frame["Outcome"].replace(joined(frame["Outcome"]))
    assert labels.str.casefold().tolist() == wanted["Outcome"].str.casefold().tolist()
    assert all(len(note) < 300 for note in reading.notes)

    frame, _ = read(path, office)
    changes = {0: "Rejected", 5: "Approved", N - 1: 'new "one", so'}
    change = Change([], changes, "Outcome", mends=True)
    content, notes = changed_table(
        Origin(path, TextFormat(**office.options), reading), frame, change, out, formulas=False
    )
    out.write_bytes(content)
    again, _ = read(out, replace(office, suffix=out.suffix))
    assert notes == [] and again["Outcome"].iloc[[*changes]].tolist() == [*changes.values()]
    kept = frame.index.difference([*changes])
    assert again["Outcome"].iloc[kept].tolist() == frame["Outcome"].iloc[kept].tolist()
    pd.testing.assert_frame_equal(again.drop(columns="Outcome"), frame.drop(columns="Outcome"))
    if out.suffix.startswith(".xls"):
        with ZipFile(io.BytesIO(office.content)) as old, ZipFile(out) as new:
            changed = [part for part in old.namelist() if old.read(part) != new.read(part)]
        assert len(changed) == 1 and changed[0].startswith("xl/worksheets/")
    else:
        encoding = office.options.get("encoding", "utf-8")
        old, new = (re.split(r"(?<=[\r\n])", one.decode(encoding)) for one in (content_of(path), content))
        assert len(old) == len(new) and sum(one != other for one, other in zip(old, new, strict=True)) <= len(changes)


WALK = "fit t{0} --target Outcome --id No --model linear"


@pytest.mark.nightly
@pytest.mark.parametrize("name", FILES)
def test_the_whole_way_with_a_file(tmp_path, name):
    office = FILES[name]
    (tmp_path / f"t{office.suffix}").write_bytes(office.content)
    (tmp_path / f"new{office.suffix}").write_bytes(offices(1)[name].content)
    options = [word for option, value in office.options.items() for word in (f"--{option}", value)]

    def mgce(*words):
        done = commands.mgce(*words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    fit = [*WALK.format(office.suffix).split(), *options]
    said = mgce(*fit)
    assert "Accuracy:" in said and "Wrong labels:" in said and "Next:" in said
    mgce("review", "t.suspects.csv")
    rows = pd.read_csv(tmp_path / "t.suspects.csv", dtype=str)
    first = rows.iloc[:5].assign(decision="suggestion", label=rows["suggested"], shown_as="suspect")
    first = first[first["given"] != first["suggested"]]
    columns = ["key", "No", "line", "given", "decision", "label", "shown_as", "draw", "draw_probability"]
    first[columns].rename(columns={"No": "row"}).to_csv(tmp_path / "d.csv", index=False)
    mended = f"m{office.suffix.removesuffix('.gz')}"
    said = mgce(*fit, "--checked", "d.csv", "--mended", mended)
    assert f"{len(first)} rows were checked" in said
    again, _ = read(tmp_path / mended, office)
    truth = dict(zip(first["No"], first["label"], strict=True))
    got = dict(zip(again["No"].astype(str), again["Outcome"], strict=True))
    assert {number: got[number] for number in truth} == truth
    said = mgce("predict", "t.mgce", f"new{office.suffix}", *options)
    assert f"{N} rows" in said and "Approved" in said
    said = mgce("certify", "t.mgce", f"new{office.suffix}", *options)
    assert f"n = {N}" in said


def test_classes_are_typed_in_four_ways():
    assert typed(table())["Outcome"].nunique() == 8 and len(FILES) >= 30
