import io
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline

from mgce import certify
from mgce.desk.columns.kinds import Columns
from mgce.desk.files import preprocessor
from mgce.desk.files.written_tables import to_csv
from mgce.desk.tables.model import TableModel, TablePipeline, predictions_frame, row_prints
from mgce.estimators import MGCEClassifier, load, save


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    label = rng.choice(["low", "mid", "top"], 90)
    x = rng.normal(size=90) + 2 * (label == "top") - 2 * (label == "low")
    return pd.DataFrame({"h": [f"r{i}" for i in range(90)], "x": x, "kind": rng.choice(["a", "b"], 90), "y": label})


@pytest.fixture(scope="module")
def model(frame):
    columns = Columns.of(frame, "y", "h")
    selected, labels = columns.select(frame), columns.labels(frame)
    steps = [("columns", preprocessor(selected)), ("classifier", MGCEClassifier())]
    pipeline = Pipeline(steps).fit(selected, labels.to_numpy(dtype=str))
    return TableModel(pipeline, columns, np.sort(row_prints(selected[:60], labels[:60])))


def test_a_file_gives_back_the_model(model, frame, tmp_path):
    path = tmp_path / "model.mgce"
    path.write_bytes(model.to_bytes())
    loaded = TableModel.load(path)
    assert (loaded.columns, loaded.version, loaded.beta) == (model.columns, model.version, 1.4)
    selected = model.columns.select(frame)
    before, after = model.predict(selected), loaded.predict(selected)
    for name in ("label", "h", "p"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert loaded.count_trained(selected, model.columns.labels(frame)) == 60
    assert loaded.n_measured is None
    assert type(loaded.pipeline) is Pipeline and not hasattr(model.pipeline, "table_")


def categories(n, seed, values=12):
    """Rows that are often equal by chance: two categories and a label."""
    rng = np.random.default_rng(seed)
    columns = {name: [f"c{value}" for value in rng.integers(values, size=n)] for name in ("one", "two")}
    return pd.DataFrame(columns), pd.Series(rng.choice(["no", "yes"], n), name="y")


@pytest.mark.parametrize("values", [12, 40, 1000])  # of 200 fresh rows, about 130, 20 and none are among the 300
def test_fresh_rows_may_equal_those_of_the_training_by_chance_and_its_own_rows_may_not(model, values):
    rows, labels = categories(300, 0, values)
    seen = replace(model, trained_rows=np.sort(row_prints(rows, labels)))
    for seed in range(1, 41):  # at a level of 0.001
        fresh = categories(200, seed, values)
        n = seen.count_trained(*fresh)
        notes = seen.require_unseen(*fresh)
        assert len(notes) == (n > 0) and all(note.startswith(f"{n} of the 200 rows equal") for note in notes)
    assert n > 100 if values == 12 else n < 40
    with pytest.raises(ValueError, match="but it learnt from 200 of the 200, labels included"):
        seen.require_unseen(rows[:200], labels[:200])
    part, rest = categories(150, 1, values), (rows[:50], labels[:50])
    if values > 12:  # a quarter of the rows, where few are equal by chance
        with pytest.raises(ValueError, match="has not learnt from"):
            seen.require_unseen(*(pd.concat(pair, ignore_index=True) for pair in zip(part, rest, strict=True)))


def categories_of_every_kind(n):
    rng = np.random.default_rng(0)
    few = rng.choice(["b", "é", ""], n).astype(object)
    many = np.array([f"c{i}" for i in (90 * rng.random(n) ** 2).astype(int)], dtype=object)
    few[::7], few[1::7], many[::5] = None, np.nan, np.nan
    exactly_fifty = np.array([f"{i % 50:02}" for i in range(n)], dtype=object)
    return {"few": few, "many": many, "fifty": exactly_fifty, "one": np.array(["a"] * n, dtype=object)}


@pytest.mark.parametrize(
    "chosen",
    [
        ("x", "gaps", "few", "many", "fifty", "one"),
        ("x",),
        ("gaps", "nothing"),
        ("few",),
        ("many", "x"),
        ("one", "fifty"),
    ],
    ids=" ".join,
)
def test_a_file_gives_back_the_very_numbers_of_every_kind_of_column(chosen, tmp_path):
    n, rng = 150, np.random.default_rng(0)
    numbers = {
        "x": rng.normal(size=n),
        "gaps": np.where(rng.random(n) < 0.2, np.nan, 5.0),
        "nothing": np.full(n, np.nan),
    }
    table = pd.DataFrame({**numbers, **categories_of_every_kind(n)})[[*chosen]]
    kinds = {name: "number" if name in numbers else "category" for name in chosen}
    labels = np.where(rng.random(n) < 0.5, "no", "yes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the column without a value
        pipeline = Pipeline([("columns", preprocessor(table)), ("classifier", MGCEClassifier())]).fit(table, labels)
        columns = Columns(kinds, "y")
        (tmp_path / "m.mgce").write_bytes(TableModel(pipeline, columns, np.zeros(0, np.uint64)).to_bytes())
        loaded = TableModel.load(tmp_path / "m.mgce")
        new = table.sample(frac=1, random_state=0).reset_index(drop=True)
        for name in chosen:
            new.loc[:2, name] = np.nan if name in numbers else "never seen"
        np.testing.assert_array_equal(loaded.pipeline[0].transform(new), pipeline[0].transform(new))
        np.testing.assert_array_equal(loaded.predict(new).h, pipeline.predict_proba(new))
    assert loaded.unseen(new) == TableModel(pipeline, columns, np.zeros(0)).unseen(new)


def test_a_file_holds_a_pipeline_that_names_its_table(model, frame, tmp_path):
    path = tmp_path / "model.mgce"
    path.write_bytes(model.to_bytes())
    pipeline = load(path)
    assert type(pipeline) is TablePipeline and pipeline.table_["target"] == "y"
    selected = model.columns.select(frame)
    np.testing.assert_array_equal(pipeline.predict_proba(selected), model.predict(selected).h)


def test_predictions_are_the_pipelines(model, frame):
    selected = model.columns.select(frame)
    predictions = model.predict(selected)
    assert predictions.label.tolist() == model.pipeline.predict(selected).tolist()
    np.testing.assert_array_equal(predictions.h, model.pipeline.predict_proba(selected))
    np.testing.assert_array_equal(predictions.label, model.classes[predictions.h.argmax(1)])
    np.testing.assert_allclose(predictions.p.sum(1), 1)


def test_the_certificate_is_that_of_the_probabilities(model, frame):
    selected, labels = model.columns.select(frame), model.columns.labels(frame)
    target = labels.map({"low": 0, "mid": 1, "top": 2}).to_numpy()
    expected = certify(target, model.pipeline.predict_proba(selected), delta=0.1, noise_rate=0.02)
    found = model.labelled_predictions(selected, labels)
    assert certify(found.target, found.probs, delta=0.1, noise_rate=0.02) == expected


def test_equal_rows_have_equal_prints_and_others_have_not(model, frame):
    selected, labels = model.columns.select(frame), model.columns.labels(frame)
    prints = row_prints(selected, labels)
    assert len(set(prints.tolist())) == 90
    order = np.random.default_rng(1).permutation(90)
    np.testing.assert_array_equal(row_prints(selected.iloc[order], labels.iloc[order]), prints[order])
    for changed in (selected.assign(x=selected["x"] + 1e-9), selected.assign(kind="c")):
        assert not set(row_prints(changed, labels).tolist()) & set(prints.tolist())
    assert not set(row_prints(selected, labels + "?").tolist()) & set(prints.tolist())


def test_an_id_may_have_the_name_of_another_column(model, frame):
    predictions, names = model.predict(model.columns.select(frame)), model.columns.row_names(frame)
    content = to_csv(predictions_frame(model, predictions, names, every_class=False))
    header, first, *_ = content.decode().splitlines()
    assert header == "h,prediction,h,p" and first.startswith("r0,")
    assert len(pd.read_csv(io.BytesIO(content))) == 90


FORGERIES = {
    "no version": lambda pipeline: pipeline.table_.pop("version"),
    "no rows": lambda pipeline: pipeline.table_.update(trained_rows=np.zeros(3)),
    "no kinds": lambda pipeline: pipeline.table_.update(kinds={"x": "word"}),
    "another column": lambda pipeline: pipeline.table_["kinds"].update(z="number"),
    "a text as id": lambda pipeline: pipeline.table_.update(id=3),
    "no table": lambda pipeline: delattr(pipeline, "table_"),
    "one step": lambda pipeline: pipeline.steps.pop(),
    "other steps": lambda pipeline: pipeline.steps.reverse(),
    "coefficients of another shape": lambda pipeline: setattr(pipeline[-1], "coef_", np.zeros((2, 2))),
    "no coefficients": lambda pipeline: delattr(pipeline[-1], "coef_"),
    "coefficients of text": lambda pipeline: setattr(pipeline[-1], "coef_", np.array(["a"])),
    "classes missing": lambda pipeline: setattr(pipeline[-1], "classes_", pipeline[-1].classes_[:2]),
    "beta below one": lambda pipeline: setattr(pipeline[-1], "beta_", 0.5),
    "a scaler without a mean": lambda pipeline: delattr(pipeline[0].named_transformers_["numbers"][-1], "mean_"),
    "categories missing": lambda pipeline: setattr(pipeline[0].named_transformers_["categories"], "categories_", []),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_model_that_was_changed_by_hand_is_refused_in_one_sentence(model, tmp_path, forge):
    path = tmp_path / "model.mgce"
    path.write_bytes(model.to_bytes())
    pipeline = load(path)
    forge(pipeline)
    save(pipeline, path)
    with pytest.raises(
        ValueError, match="^Expected `model` to be an undamaged file written by `mgce fit`, but got 'mo"
    ):
        TableModel.load(path)


@pytest.mark.parametrize(
    "kinds", [{}, {"x": "number", "kind": "word"}, {"x": "word", "kind": "category"}, {"x": "", "kind": "category"}]
)
def test_kinds_of_columns_that_there_are_not_are_refused_by_name(model, tmp_path, kinds):
    """Whatever is built of them later: a column of a kind that nobody knows would be read as numbers."""
    path = tmp_path / "model.mgce"
    path.write_bytes(model.to_bytes())
    pipeline = load(path)
    pipeline.table_["kinds"] = kinds
    save(pipeline, path)
    with pytest.raises(ValueError, match="undamaged file") as refusal:
        TableModel.load(path)
    assert str(refusal.value.__cause__).startswith("Expected `kinds` to be columns of (")


@pytest.mark.parametrize(
    ("kinds", "width"),
    [
        ({"x": "number", "kind": "category"}, 4),
        ({"x": "number"}, 4),
        ({"x": "embedding"}, 0),
        ({"x": "embedding", "kind": "category"}, 0),
        ({"x": "embedding", "kind": "category"}, 4),
    ],
)
def test_a_width_without_a_column_of_embeddings_alone_is_refused(model, tmp_path, kinds, width):
    path = tmp_path / "model.mgce"
    path.write_bytes(model.to_bytes())
    pipeline = load(path)
    pipeline.table_.update(kinds=kinds, width=width)
    save(pipeline, path)
    with pytest.raises(ValueError, match="undamaged file") as refusal:
        TableModel.load(path)
    said = f"Expected `width` to be that of a column of embeddings alone, but got {width}."
    assert str(refusal.value.__cause__) == said


def test_a_file_of_another_format_names_its_version(model, tmp_path, monkeypatch):
    path = tmp_path / "model.mgce"
    with monkeypatch.context() as later:
        later.setattr("mgce.estimators.archive.FORMAT", 9)
        later.setattr("mgce.estimators.archive.build", lambda: "7.1")
        path.write_bytes(model.to_bytes())
    with pytest.raises(ValueError, match=r"`model` to be a file of the format that mgce 0.* writes, .*of mgce 7.1'"):
        TableModel.load(path)


def test_more_probabilities_than_there_is_room_for_are_refused(model, monkeypatch):
    monkeypatch.setattr("mgce.desk.tables.model.TABLE_CELLS", 300)
    model.require_room(100)
    with pytest.raises(
        ValueError, match="`table` to be a table of at most 100 rows for a model of 3 classes; split it"
    ):
        model.require_room(101)


def test_cells_that_a_spreadsheet_would_run_are_text_unless_asked_for(model, frame):
    few = frame[:4]
    predictions = model.predict(model.columns.select(few))
    names = pd.Series(["=1+1", "-2.5", "@SUM(A1)", "plain"], index=few.index, name="+id")
    safe, raw = (
        to_csv(predictions_frame(model, predictions, names, every_class=False), formulas=formulas).decode().splitlines()
        for formulas in (False, True)
    )
    assert [line.partition(",")[0] for line in safe] == ["'+id", "'=1+1", "-2.5", "'@SUM(A1)", "plain"]
    assert [line.partition(",")[0] for line in raw] == ["+id", *names]
