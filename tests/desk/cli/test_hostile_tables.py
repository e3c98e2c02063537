"""Tables as strangers have them, through fit, predict and certify, as CSV and as Parquet: twins of one content."""

import json
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.pipeline import Pipeline

import commands
from mgce.desk.columns.kinds import Columns
from mgce.desk.files import preprocessor
from mgce.desk.files.table_files import read_frame
from mgce.desk.tables.model import TableModel, row_prints
from mgce.estimators import MGCEClassifier

RNG = np.random.default_rng(0)
N, N_LATER = 60, 20
DAYS = pd.Series(pd.date_range("2023-12-30", periods=N, freq="7h"))
X = RNG.normal(size=N).round(3)
LABELS = np.where(X + RNG.normal(size=N) > 0, "yes", "no")


@dataclass(frozen=True)
class Case:
    """A column of training rows and one of later rows, and what is right of them."""

    train: list
    later: list
    kind: str
    values: list | None = None  # of the later rows, as the model sees them; None if their table is refused
    said: tuple = ()  # beginnings of what is said about the later rows: notes, or the sentence that refuses them
    typed: dict = field(default_factory=dict)  # further Parquet types that hold the same later rows, by name


def days(dates):
    return [(date - pd.Timestamp(0)) / pd.Timedelta(days=1) for date in dates]


def repeated(*cells, n=N):
    return [cells[i % len(cells)] for i in range(n)]


LATER = DAYS[:N_LATER]
UNITS = {
    f"timestamp {unit} {zone}": pa.timestamp(unit, tz=zone)
    for unit in ("s", "ms", "us", "ns")
    for zone in (None, "UTC")
}
FAR = ["9999-12-31", "1600-01-01", "0001-01-01", "2024-05-31"]
FAR_DAYS = repeated(2_932_896, -135_140, -719_162, 19_874, n=N_LATER)
NO_NUMBER = "Column `c` holds numbers, but something else in 1 row ('{}'), which counts as missing."
FORMS = {
    "blank": "%Y-%m-%d %H:%M:%S",
    "T": "%Y-%m-%dT%H:%M:%S",
    "Z": "%Y-%m-%dT%H:%M:%S.%fZ",
    "UTC": "%Y-%m-%d %H:%M:%S UTC",
    "slashes": "%Y/%m/%d %H:%M",
}
CASES = {
    **{
        f"{trained} then {asked}": Case(
            DAYS.dt.strftime(FORMS[trained]).tolist(),
            LATER.dt.strftime(FORMS[asked]).tolist(),
            "date",
            days(LATER),
            (),
            UNITS if trained == "T" else {},
        )
        for trained, asked in zip(FORMS, [*list(FORMS)[1:], "blank"], strict=True)
    },
    "months": Case(
        repeated("2024-01", "2024-05"), repeated("2024-05", "2024-05-01", n=N_LATER), "date", [19_844] * N_LATER
    ),
    "weeks": Case(
        repeated("2024-W01-1", "2024-W22-5"),
        repeated("2024-W22-5", "2024-05-31", n=N_LATER),
        "date",
        [19_874] * N_LATER,
    ),
    "days of the year": Case(
        repeated("2024-001", "2024-152"), repeated("2024-152", "2024-05-31", n=N_LATER), "date", [19_874] * N_LATER
    ),
    "eight digits": Case(
        repeated(20240101, 20240531),
        repeated("2024-05-31", n=N_LATER),
        "date",
        [19_874] * N_LATER,
        (),
        {"date32": pa.date32()},
    ),
    "eight digits later": Case(
        repeated("2024-01-01", "2024-05-31"), repeated(20240531, n=N_LATER), "date", [19_874] * N_LATER
    ),
    "far dates": Case(
        repeated(*FAR),
        repeated(*FAR, n=N_LATER),
        "date",
        FAR_DAYS,
        (),
        {"date32": pa.date32(), "timestamp us": pa.timestamp("us"), "timestamp s": pa.timestamp("s", tz="UTC")},
    ),
    "far dates later": Case(
        repeated("2024-01-01", "2024-05-31"), repeated(*FAR, n=N_LATER), "date", FAR_DAYS, (), {"date32": pa.date32()}
    ),
    "no date": Case(
        repeated("2024-05-31", "2024-01-01"),
        ["never", *["2024-05-31"] * (N_LATER - 1)],
        "date",
        [np.nan, *[19_874] * (N_LATER - 1)],
        ("Column `c` holds dates, but something else in 1 row ('never'), which counts as missing.",),
    ),
    "no dates": Case(
        repeated("2024-05-31", "2024-01-01"),
        ["31.5.24"] * N_LATER,
        "date",
        None,
        ("Error: Expected `c` to be a column of dates like 2024-05-31, but got '31.5.24' in data row 1.",),
    ),
    "days first later": Case(repeated("2024-05-31", "2024-01-01"), ["31.5.2024"] * N_LATER, "date", [19_874] * N_LATER),
    "a word among truths": Case(
        repeated("True", "False", "False"),
        ["True", "maybe", *["False"] * (N_LATER - 2)],
        "number",
        [1, np.nan, *[0] * (N_LATER - 2)],
        (NO_NUMBER.format("maybe"),),
    ),
    "words among truths": Case(
        repeated("True", "False", "False"),
        ["maybe"] * N_LATER,
        "number",
        None,
        ("Error: Expected `c` to be a column of finite numbers, but got 'maybe' in data row 1.",),
    ),
    "a word among numbers": Case(
        repeated("7", "8.5", "9"),
        ["7", "maybe", *["9"] * (N_LATER - 2)],
        "number",
        [7, np.nan, *[9] * (N_LATER - 2)],
        (NO_NUMBER.format("maybe"),),
    ),
    "thousands": Case(
        repeated("1,234", "5,678", "12,345"),
        repeated("1,234", "2,000,000", n=N_LATER),
        "number",
        repeated(1234, 2_000_000, n=N_LATER),
    ),
    "thousands beside others": Case(
        repeated("1,234", "999", "850"),
        repeated("999", "12,345", n=N_LATER),
        "number",
        repeated(999, 12_345, n=N_LATER),
    ),
    "thousands later": Case(
        repeated("7", "999", "850"),
        ["1,234", *["999"] * (N_LATER - 1)],
        "number",
        [np.nan, *[999] * (N_LATER - 1)],
        (NO_NUMBER.format("1,234") + " Numbers with thousands separators are read only where",),
    ),
    "decimal commas": Case(
        repeated("1,5", "2,25", "7,125"),
        repeated("1,5", "7,125", n=N_LATER),
        "number",
        repeated(1.5, 7.125, n=N_LATER),
    ),
    "line breaks": Case(
        repeated("a", "b", "c"),
        ["a,1,x\nb,2,y\nc", *["b"] * (N_LATER - 1)],
        "category",
        ["a,1,x\nb,2,y\nc", *["b"] * (N_LATER - 1)],
        (
            "In column `c`, 1 cell holds 2 line breaks (that of data row 1, for one: 'a,1,x\\nb,2,y\\nc').",
            "In 1 row, column `c` holds a category that no",
        ),
    ),
}


def written(folder, name, case_column, typed, n, shift=0.0):
    """Write twins of a table, and give their paths; with a shift, its rows are none of those without one."""
    x = X[:n] + shift
    frame = pd.DataFrame({"c": case_column, "x": x, "y": LABELS[:n]})
    frame.to_csv(folder / f"{name}.csv", index=False)
    frame.to_parquet(folder / f"{name}.parquet")
    paths = [folder / f"{name}.csv", folder / f"{name}.parquet"]
    for number, kind in enumerate(typed.values()):
        moments = pd.Series(case_column, dtype="str").str.replace("/", "-").str.replace(" UTC", "").str.replace("Z", "")
        array = pa.array(moments.str.replace(" ", "T").to_numpy(dtype="datetime64[us]"))
        column = array.cast(pa.timestamp(kind.unit)).cast(kind) if pa.types.is_timestamp(kind) else array.cast(kind)
        table = pa.table({"c": column, "x": x, "y": LABELS[:n].tolist()})
        paths.append(folder / f"{name}-{number}.parquet")
        pq.write_table(table, paths[-1])
    return paths


def fitted(path, target="y"):
    """Fit a model to a file as `mgce fit` does, in milliseconds."""
    frame = read_frame(path, "table", text=[target], classes=[target])
    columns = Columns.of(frame, target)
    selected, labels = columns.select(frame), columns.labels(frame)
    pipeline = Pipeline([("columns", preprocessor(selected)), ("classifier", MGCEClassifier(max_iter=20))])
    pipeline.fit(selected, labels.to_numpy(dtype=str))
    return TableModel(pipeline, columns, np.sort(row_prints(selected, labels)))


def outcome(command, model, path):
    """Return what a command makes of a table: its predictions or certificate and its notes, or the error."""
    done = commands.mgce(command, model, path, "--json", "of.json", folder=path.parent)
    if done.returncode:
        return done.stderr.replace(path.name, "FILE")
    document = json.loads((path.parent / "of.json").read_text())
    content = ""
    if command == "predict":  # in the format of the table
        suffix = path.suffix if path.suffix in (".parquet", ".xlsx") else ".csv"
        written = read_frame(path.parent / f"{path.stem}-predictions{suffix}", "table")
        content = written.round(6).to_csv(index=False)
    return document | {"file": "", "table": "", "content": content}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_twins_are_read_alike_and_right(tmp_path, name):
    case = CASES[name]
    first, second = written(tmp_path, "train", case.train, {}, N)
    model = fitted(first)
    assert model.columns == Columns.of(read_frame(second, "table"), "y") and model.columns.kinds["c"] == case.kind
    (tmp_path / "model.mgce").write_bytes(model.to_bytes())
    later = written(tmp_path, "later", case.later, case.typed, N_LATER, 0.001)
    # Both read by the same call; a third of the cases show that `certify` does.
    commands = ("predict", "certify") if [*CASES].index(name) % 3 == 0 else ("predict",)
    outcomes = {command: [outcome(command, "model.mgce", path) for path in later] for command in commands}
    for first, *others in outcomes.values():
        assert all(other == first for other in others)
        said = [first] if isinstance(first, str) else first["notes"]
        assert len(said) == len(case.said), said
        assert all(one.startswith(beginning) for one, beginning in zip(said, case.said, strict=True)), said
        assert isinstance(first, str) == (case.values is None)
    if case.values is not None:
        expected = pd.Series(case.values, name="c")
        for path in later:
            values = model.columns.select(read_frame(path, "table", text=model.columns.text))["c"]
            pd.testing.assert_series_equal(values, expected, check_dtype=False, check_exact=True)


@pytest.mark.nightly
def test_the_commands_make_the_same_of_a_table_of_all_and_its_twin(tmp_path):
    """One fit to every column at once, from CSV and from Parquet."""
    columns = {f"column {i}": case.train for i, case in enumerate(CASES.values())}
    frame = pd.DataFrame({**columns, "x": X, "y": LABELS})
    for name, table in (("all", frame), ("fresh-all", frame.assign(x=X + 0.001))):
        table.to_csv(tmp_path / f"{name}.csv", index=False, sep=";")
        table.set_index("column 0").to_parquet(tmp_path / f"{name}.parquet")
    fits = []
    for path in ("all.csv", "all.parquet"):
        options = ("--target", "y", "--model", "linear", "--json", "fit.json")
        done = commands.mgce("fit", path, *options, "--out", "m.mgce", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        document = json.loads((tmp_path / "fit.json").read_text())
        assert document["columns"] == {f"column {i}": case.kind for i, case in enumerate(CASES.values())} | {
            "x": "number"
        }
        assert "60 rows of" in done.stdout and "60 rows of" in (tmp_path / "m.html").read_text()
        assert document["reading"]["rows"] == 60 and document["reading"]["formats"]["x"] == "plain"
        predicted = outcome("predict", "m.mgce", tmp_path / path)
        certified = outcome("certify", "m.mgce", tmp_path / f"fresh-{path}")
        assert certified["n"] == 60
        fits.append(
            {
                **document,
                "candidates": "",
                "table": "",
                "reading": document["reading"]["formats"],
                "p": predicted,
                "c": certified,
            }
        )
    assert fits[0] == fits[1]


def test_every_command_says_which_lines_may_be_lost(tmp_path):
    lines = [f"n{i % 6},{label},{x}" for i, (x, label) in enumerate(zip(X, LABELS, strict=True))]
    lines[10], lines[30] = f'"Lee,yes,{X[10]}', f'"Kim,no,{X[30]}'
    (tmp_path / "t.csv").write_text("name,y,x\n" + "\n".join([*lines, "n1,yes", ""]) + "\n")
    fresh = (tmp_path / "t.csv").read_text().replace(",no,", ",NO,").replace(",yes,", ",no,").replace(",NO,", ",yes,")
    (tmp_path / "fresh.csv").write_text(fresh)  # other labels, so that the model has not learnt from them
    model = ("--target", "y", "--model", "linear")
    compare = ("--target", "y", "--methods", "ce", "--seeds", "1", "--epochs", "1")
    for command in (
        ("fit", "t.csv", *model, "--json", "fit.json"),
        ("predict", "t.mgce", "t.csv"),
        ("certify", "t.mgce", "fresh.csv"),
        ("certify", "t.csv", "--target", "y", "--prediction", "y"),
        ("compare", "t.csv", *compare),
    ):
        done = commands.mgce(*command, folder=tmp_path, columns=400)
        assert done.returncode == 0, done.stderr
        assert (
            "Note: 1 row has fewer values than there are names (the one that ends on line 62, for one); " in done.stdout
        )
        assert "Note: In column `name`, 1 cell holds 20 line breaks (that of data row 11, for one: 'Lee," in done.stdout
        if command[0] == "fit":
            account = (
                "t.csv: 41 rows of 3 columns, divided by ','; 63 lines: 41 rows, 1 of names, 20 inside cells, 1 blank."
            )
            assert f"Read {account} Columns: 1 of numbers, 1 of categories." in done.stdout
            assert account.replace("'", "&#x27;") in (tmp_path / "t.html").read_text()
    reading = json.loads((tmp_path / "fit.json").read_text())["reading"]
    assert {name: reading[name] for name in ("rows", "columns", "separator", "encoding", "left_out")} == {
        "rows": 41,
        "columns": 3,
        "separator": ",",
        "encoding": "utf-8",
        "left_out": {},
    }
    assert (
        reading["lines"]["total"] == 63 and reading["lines"]["in_cells"] == 20 and reading["lines"]["short_rows"] == 1
    )
