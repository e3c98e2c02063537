"""A table means the same in every type that columns of pandas, Arrow and polars have: in fit, predict and certify."""

import datetime as dt
import decimal
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from mgce import certify
from mgce._column_types import texts
from mgce.desk.columns.kinds import CATEGORY, DATE, EMBEDDING, NUMBER, TEXT, Columns
from mgce.desk.files.table_files import accounted, read_frame
from mgce.desk.files.vectors import matrix
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.rows import row_keys, split_rows

N, NEW = 90, 60
FAR = 1_234_567_890_123_456_700  # a float64 holds only every 256th number there
PLAN = FitPlan("y", id="key", category=("site",), model="linear")
KINDS = {"site": CATEGORY, "count": NUMBER, "large": NUMBER, "x": NUMBER, "yes": NUMBER, "day": DATE, "town": CATEGORY}


def table(rows, gaps):
    """Return rows as a table of Arrow, whose schema states each type, with a missing value in every tenth cell."""
    rng = np.random.default_rng(0)
    n = N + NEW
    site = rng.integers(1, 6, n)
    y = np.where(rng.random(n) < 0.1, rng.integers(0, 2, n), site % 2)
    columns = {
        "key": (pa.int64(), [FAR + place for place in range(n)]),
        "site": (pa.int32(), site.tolist()),
        "count": (pa.int16(), rng.integers(0, 50, n).tolist()),
        "large": (pa.uint64(), [2**40 * int(place) for place in rng.integers(0, 1000, n)]),
        "x": (pa.float64(), (np.rint(64 * rng.normal(size=n)) / 64).tolist()),  # equal when read from text
        "yes": (pa.bool_(), (rng.random(n) < 0.5).tolist()),
        "day": (pa.date32(), [dt.date(2024, 1, 1) + dt.timedelta(int(day)) for day in rng.integers(0, 99, n)]),
        "town": (pa.string(), rng.choice(["Ulm", "Köln", "Bern"], n).tolist()),
        "y": (pa.int64(), y.tolist()),
    }
    missing = {name: (rng.random(n) < 0.1) & (name != "key") for name in columns}
    return pa.table(
        {
            name: pa.array([None if gaps and missing[name][row] else cells[row] for row in rows], kind)
            for name, (kind, cells) in columns.items()
        }
    )


def polars_frame(arrow):
    return pytest.importorskip("polars", reason="needs polars").from_arrow(arrow)


def by_pandas(**options):
    return lambda arrow: arrow.to_pandas(**options)


NULLABLE = {pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}
NULLABLE |= {pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype(), pa.float64(): pd.Float64Dtype()}
NULLABLE |= {pa.string(): pd.StringDtype("python")}


def from_objects(arrow):
    """Return a frame of Python objects, in which `pandas.NA` stands for a missing value."""
    cells = {name: [pd.NA if cell is None else cell for cell in arrow[name].to_pylist()] for name in arrow.column_names}
    return pd.DataFrame(cells, dtype=object)


def in_file(suffix, write):
    def through(arrow, tmp_path):
        path = tmp_path / f"table{suffix}"
        write(arrow, path)
        return read_frame(path, "table", text=["key", "site", "town", "y"])

    return through


def json_lines(arrow, path):
    path.write_text("\n".join(json.dumps(row, default=str) for row in arrow.to_pylist()))


def csv(arrow, path):
    arrow.to_pandas(types_mapper=NULLABLE.get).to_csv(path, index=False)


BACKENDS = {
    "numpy_nullable": by_pandas(types_mapper=NULLABLE.get),
    "pyarrow": by_pandas(types_mapper=pd.ArrowDtype),
    "objects": from_objects,
    "categories of text": lambda arrow: by_pandas(types_mapper=NULLABLE.get)(arrow).astype({"town": "category"}),
    "string[pyarrow]": lambda arrow: by_pandas(types_mapper=NULLABLE.get)(arrow).astype({"town": "string[pyarrow]"}),
    "a table of Arrow": lambda arrow: arrow,
    "polars": polars_frame,
}
FILES = {
    "Parquet": in_file(".parquet", pq.write_table),
    "Feather": in_file(".feather", feather.write_feather),
    "JSON lines": in_file(".jsonl", json_lines),
    "CSV": in_file(".csv", csv),
}


OLD = table(range(N), gaps=False)
NEW_ROWS = table(range(N, N + NEW), gaps=True)


def read(name, arrow, tmp_path):
    return FILES[name](arrow, tmp_path) if name in FILES else accounted(BACKENDS[name](arrow))[0]


def said(model, frame):
    """Return everything that a model and its certificate say of a table."""
    selected, labels = model.columns.select(frame), model.columns.labels(frame)
    predictions = model.predict(selected)
    known = labels.notna()
    labelled = model.labelled_predictions(selected[known], labels[known])
    return {
        "names": model.columns.row_names(frame).tolist(),
        "labels": labels.tolist(),
        "classes": predictions.label.tolist(),
        "h": predictions.h.tolist(),
        "bound": certify(labelled.target, labelled.probs).argmax_error,
        "notes": model.unseen(selected),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return a model that was fitted to the table of Arrow without gaps, as it comes from its file."""
    fit = run(OLD, PLAN)
    assert fit.model.columns.kinds == KINDS
    path = tmp_path_factory.mktemp("model") / "model.mgce"
    path.write_bytes(fit.model.to_bytes())
    return TableModel.load(path)


@pytest.fixture(scope="module")
def expected(model):
    """Return what the model says of new rows, whose cells are texts as they stand in the schema's values."""
    cells = {
        name: [None if cell is None else str(cell) for cell in NEW_ROWS[name].to_pylist()]
        for name in NEW_ROWS.column_names
    }
    found = said(model, pd.DataFrame(cells, dtype=object))
    assert found["names"][:2] == [str(FAR + N), str(FAR + N + 1)] and {*found["labels"]} >= {"0", "1"}
    return found


@pytest.mark.parametrize("name", [*BACKENDS, *FILES])
def test_a_model_says_the_same_of_new_rows_in_every_type(name, model, expected, tmp_path):
    assert said(model, read(name, NEW_ROWS, tmp_path)) == expected


@pytest.mark.parametrize("name", [*BACKENDS, *FILES])
def test_a_model_is_fitted_to_the_same_rows_in_every_type(name, tmp_path):
    """What follows from a table follows from these: labels, features with their kinds, rows held out, and keys."""
    plan = replace(PLAN, category=("site", "town"))
    gaps = table(range(N), gaps=True)
    wanted, found = (split_rows(frame, plan) for frame in (accounted(gaps)[0], read(name, gaps, tmp_path)))
    assert found.columns.kinds == wanted.columns.kinds == {**KINDS, "town": CATEGORY}
    pd.testing.assert_frame_equal(found.selected, wanted.selected)
    assert found.labels.tolist() == wanted.labels.tolist() and {*found.labels} == {"0", "1"}
    assert found.names.tolist() == wanted.names.tolist()
    assert found.train.tolist() == wanted.train.tolist() and found.held_out.tolist() == wanted.held_out.tolist()
    assert row_keys(found.frame, "y") == row_keys(wanted.frame, "y")


def test_whole_numbers_that_pandas_made_floats_are_the_categories_and_labels_that_they_were(model, expected):
    frame = NEW_ROWS.to_pandas()
    assert frame["site"].dtype == frame["y"].dtype == float
    found = said(model, accounted(frame)[0])
    assert {name: found[name] for name in found if name != "names"} == {
        name: expected[name] for name in expected if name != "names"
    }


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("us"), pa.timestamp("ms", "Asia/Tokyo")])
def test_columns_of_dates_of_arrow_are_dates(kind):
    days = [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(place) for place in range(20)]
    cells = pa.array([*days, None]).cast(pa.timestamp("us")).cast(kind)
    frame = pd.DataFrame({"day": pd.Series(cells, dtype=pd.ArrowDtype(kind)), "y": 0})
    columns = Columns.of(frame, "y")
    assert columns.kinds == {"day": DATE}
    assert columns.select(frame)["day"].tolist()[:2] == [19723, 19724]


@pytest.mark.parametrize("name", ["numpy_nullable", "pyarrow", "a table of Arrow", "polars"])
@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float32(), 3), pa.large_list(pa.int64())])
def test_lists_of_numbers_are_embeddings_in_every_type(kind, name):
    arrow = pa.table({"e": pa.array([[1, 2, 3], [4, 5, 6]], kind), "y": [0, 1]})
    frame = accounted(BACKENDS[name](arrow))[0]
    columns = Columns.of(frame, "y")
    assert columns.kinds == {"e": EMBEDDING}
    np.testing.assert_array_equal(matrix(columns.select(frame)["e"]), [[1, 2, 3], [4, 5, 6]])


def test_decimals_and_dictionaries_keep_their_values():
    decimals = pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")])
    sites = pa.array([7, None, FAR + 1], pa.int64()).dictionary_encode()
    large = pa.array([1, None, 2**64 - 1], pa.uint64())
    arrow = pa.table({"d": decimals, "s": sites, "u": large})
    for frame in (arrow, arrow.to_pandas(types_mapper=pd.ArrowDtype)):
        frame = accounted(frame)[0].assign(y=0)
        assert texts(frame["u"]).tolist()[::2] == ["1", str(2**64 - 1)]
        frame = frame[["d", "s", "y"]]
        columns = Columns.of(frame, "y")
        assert columns.kinds == {"d": NUMBER, "s": CATEGORY}
        selected = columns.select(frame)
        assert selected["d"].tolist()[::2] == [1.5, 2.25] and np.isnan(selected["d"][1])
        assert texts(frame["s"]).tolist()[::2] == ["7", str(FAR + 1)] and pd.isna(selected["s"][1])


@pytest.mark.parametrize("values", [[1, 2, 1], ["1", "2", "1"], [True, False, True], [1.5, 2.5, 1.5]])
def test_a_column_of_categories_is_not_taken_for_numbers(values, tmp_path):
    frame = pd.DataFrame({"site": pd.Series(values * 10).astype("category"), "y": [0, 1] * 15})
    frame.to_parquet(tmp_path / "table.parquet")  # which keeps the type in its metadata alone
    for read_again in (accounted(frame)[0], read_frame(tmp_path / "table.parquet", "table")):
        columns = Columns.of(read_again, "y")
        assert columns.kinds == {"site": CATEGORY}
        assert columns.select(read_again)["site"].tolist() == [str(value) for value in values * 10]


def test_dates_and_texts_of_the_type_of_categories_are_dates_and_texts():
    days = pd.Series([f"2024-05-{day:02}" for day in range(1, 31)])
    comments = pd.Series([f"the {word} of day {number}" for number, word in enumerate(["cup", "road", "sea"] * 10)])
    frame = pd.DataFrame({"day": days, "at": pd.to_datetime(days), "said": comments}).astype("category").assign(y=0)
    assert Columns.of(accounted(frame)[0], "y").kinds == {"day": DATE, "at": DATE, "said": TEXT}


def test_the_frame_of_the_caller_stays_as_it_is():
    frame = NEW_ROWS.to_pandas(types_mapper=pd.ArrowDtype)
    before = frame.copy()
    accounted(frame)
    pd.testing.assert_frame_equal(frame, before)
