"""Tables in parts through the commands: fitted to in chunks, predicted part by part, and nothing half-written."""

import errno
import json
import re
import signal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgce.desk.review.decision_file import HEAD
from mgce.desk.review.suspect_file import read_suspects
from mgce.desk.streams import chunks
from mgce.desk.streams import fit as streams
from mgce.desk.tables.model import TableModel

N = 300


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A folder with three parts, whose rows have to be divided into three chunks."""
    monkeypatch.setattr(chunks, "MOST_ROWS", 100)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, N)).round(4)
    label = np.where((x > 0) ^ (rng.random(N) < 0.1), "yes", "no")
    frame = pd.DataFrame({"id": [f"n{row}" for row in range(N)], "x": x, "y": y, "label": label})
    (tmp_path / "table").mkdir()
    for start in range(0, N, 100):
        frame[start : start + 100].to_parquet(tmp_path / "table" / f"part-{start}.parquet")
    return frame


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_table_in_chunks_goes_through_all_commands(mgce, tmp_path, parts):
    (tmp_path / "table.suspects").mkdir()
    (tmp_path / "table.suspects" / "part-00099.parquet").touch()  # of an earlier fit in more chunks
    code, output, errors = mgce("fit", "table", "--target", "label", "--id", "id", "--json", "fit.json")
    assert code == 0, errors
    assert names(tmp_path / "table.suspects") == [f"part-0000{chunk}-of-00003.parquet" for chunk in range(3)]
    assert "divided into 3 chunks" in output.replace("\n", " ")
    assert names(tmp_path) == sorted(
        ["fit.json", "table", "table.html", "table.mgce", "table.suspects", "table.suspects.csv"]
    )
    summary = json.loads((tmp_path / "fit.json").read_text())
    assert summary["fitted_to"]["file"] == N
    listed, every = (read_suspects(tmp_path / name) for name in ("table.suspects.csv", "table.suspects"))
    assert {one.key: one.given for one in listed} == {one.key: one.given for one in every}
    assert {one.name for one in every} == {*parts["id"]}
    doubts = [one.p_wrong for one in listed]
    assert doubts == sorted(doubts, reverse=True)

    drawn = sum(one.draw_probability > 0 for one in listed)
    code, output, errors = mgce("review", "table.suspects.csv", "--random", str(drawn + 1))
    assert code == 2 and f"`random` to be at most {drawn}, the rows left that were drawn at random" in errors
    code, output, errors = mgce("review", "table.suspects.csv", "--random", str(drawn))
    assert code == 0, errors
    # Suspects of other chunks than the first were not drawn; a person decides on them all the same.
    decided = [one for one in listed if not one.draw_probability][:5]
    assert len(decided) == 5
    rows = [
        [one.key, one.name, "", one.given, "keep", one.given, why, one.draw, "0.0"]
        for one, why in zip(decided, ["suspect", "random"] * 3, strict=False)
    ]
    pd.DataFrame(rows, columns=HEAD[:9]).to_csv(tmp_path / "table.decisions.csv", index=False)
    code, output, errors = mgce("clean", "table.suspects", "--at-most", "0.2", "--checked", "table.decisions.csv")
    assert code == 0, errors
    (tmp_path / "table.decisions.csv").unlink()
    code, output, errors = mgce("clean", "table.suspects", "--at-most", "0.2")
    assert code == 0, errors
    assert "table-to-check.suspects.csv" in output
    code, output, errors = mgce(*re.findall(r"mgce (review .*)", output)[0].split(), "--out", "rows.html")
    assert code == 0, errors

    code, output, errors = mgce("predict", "table.mgce", "table", "--keep-columns")
    assert code == 0, errors
    predicted = pd.read_parquet(tmp_path / "table-predictions")
    assert len(names(tmp_path / "table-predictions")) == 3
    assert predicted["id"].tolist() == parts["id"].tolist()
    model = TableModel.load(tmp_path / "table.mgce")
    assert predicted["prediction"].tolist() == model.predict(model.columns.select(parts)).label.tolist()
    assert mgce("predict", "table.mgce", "table")[0] == 2  # there is such a folder already

    (tmp_path / "new").mkdir()
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    new = pd.DataFrame({"id": "z", "x": x, "y": rng.normal(size=200), "label": np.where(x > 0, "yes", "no")})
    new[:90].to_parquet(tmp_path / "new" / "a.parquet")
    new[90:].to_parquet(tmp_path / "new" / "b.parquet")
    code, output, errors = mgce("certify", "table.mgce", "new", "--json", "-")
    assert code == 0, errors
    assert json.loads(output)["n"] == 200


@pytest.mark.slow
def test_a_folder_that_fits_is_fitted_to_like_one_file(mgce, tmp_path, parts, monkeypatch):
    monkeypatch.setattr(chunks, "MOST_ROWS", N)
    parts.to_parquet(tmp_path / "one.parquet")
    for table in ("one.parquet", "table"):
        code, _, errors = mgce("fit", table, "--target", "label", "--id", "id", "--memory", "2GB")
        assert code == 0, errors
    assert not (tmp_path / "table.suspects").exists()
    assert (tmp_path / "one.suspects.csv").read_bytes() == (tmp_path / "table.suspects.csv").read_bytes()


@pytest.mark.parametrize(
    ("stopped", "wanted"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (OSError(errno.ENOSPC, "No space left on device"), 2)],
)
def test_a_fit_that_is_stopped_leaves_nothing(mgce, tmp_path, parts, monkeypatch, stopped, wanted):
    def stop(work, _):
        jobs.append(work.jobs)
        if isinstance(stopped, OSError):
            raise stopped
        signal.getsignal(stopped)(stopped, None)  # as if it came now

    jobs = []
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    monkeypatch.setattr(streams.Work, "choose", stop)
    (tmp_path / "table.suspects").mkdir()  # an earlier fit has left one part
    parts.to_parquet(tmp_path / "table.suspects" / "part-00000.parquet")
    code, _, errors = mgce("fit", "table", "--target", "label", "--jobs", "3")
    signal.signal(signal.SIGINT, previous)
    assert jobs == [3]
    assert code == wanted, errors
    assert names(tmp_path) == ["table", "table.suspects"]
    assert names(tmp_path / "table.suspects") == ["part-00000.parquet"]


def test_other_files_are_not_taken_for_parts_of_suspects(refuses, tmp_path, parts):
    (tmp_path / "table.suspects").mkdir()
    (tmp_path / "table.suspects" / "notes.txt").write_text("mine")
    refuses("a path beside which table.suspects can be written", "fit", "table", "--target", "label")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--cleaned", "c.parquet"],
            "Expected `cleaned` to be left out for a table that does not fit 2GB; see --memory",
        ),
        (["--label-columns", "x,y", "--memory", "2GB"], "Expected `memory` to be left out with several labels a row"),
        (["--groups", "z"], "Expected `groups` to be a column of the table"),
        (["--time", "x"], "Expected `time` to be left out"),
        (["--memory", "much"], "Expected `memory` to be a number of bytes such as 2GB"),
        (["--scheduler", "nowhere"], "Expected `scheduler` to be the address of a Dask scheduler"),
    ],
)
def test_what_chunks_do_not_allow_is_refused(refuses, parts, options, said):
    if options[0] == "--scheduler":
        pytest.importorskip("distributed")
    target = [] if options[0] == "--label-columns" else ["--target", "label"]
    refuses(said, "fit", "table", *target, *options)


def test_memory_needs_a_table_in_parts(refuses, tmp_path, parts):
    parts.to_csv(tmp_path / "table.csv", index=False)
    refuses(
        "a Parquet or Arrow file, or a folder of such files", "fit", "table.csv", "--target", "label", "--memory", "2GB"
    )


def test_a_bad_part_is_named_and_nothing_is_written(refuses, tmp_path, parts):
    parts.drop(columns="y").to_parquet(tmp_path / "table" / "part-x.parquet")
    refuses("but part-x.parquet has no column 'y'", "fit", "table", "--target", "label")


def test_an_error_of_a_chunk_names_it(refuses, tmp_path, parts):
    for part in (tmp_path / "table").iterdir():
        pd.read_parquet(part).assign(label="yes").to_parquet(part)
    refuses(
        "Error: In chunk 1 of 3: Expected `target` to be a column of at least two", "fit", "table", "--target", "label"
    )


def test_nothing_is_written_among_the_parts(refuses, mgce, tmp_path, parts):
    said = "a path outside the folder table of the table"
    refuses(said, "fit", "table", "--target", "label", "--out", "table/model.mgce")
    assert mgce("fit", "table", "--target", "label", "--model", "linear")[0] == 0
    refuses(said, "predict", "table.mgce", "table", "--out", "table/new")
    assert mgce("predict", "table.mgce", "table")[0] == 0
    numbers = pd.read_parquet(tmp_path / "table-predictions")["row"]
    assert numbers.tolist() == [str(row) for row in range(1, N + 1)]


def test_a_part_that_is_a_broken_link_is_named(refuses, tmp_path, parts):
    (tmp_path / "table" / "part-z.parquet").symlink_to(tmp_path / "nowhere.parquet")
    refuses("but part-z.parquet could not be", "fit", "table", "--target", "label")


def test_columns_of_one_name_are_named(refuses, tmp_path, parts):
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0]), pa.array(["a"])], ["x", "x", "label"])
    pq.write_table(twice, tmp_path / "table" / "part-0.parquet")
    refuses("two columns 'x' in part-0.parquet", "fit", "table", "--target", "label")
