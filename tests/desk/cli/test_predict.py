import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from mgce import certify
from mgce._machine import build
from mgce.desk.cli.predict import _summary
from mgce.desk.tables.model import TableModel
from mgce.estimators import MGCEClassifier, load, save


@pytest.fixture
def fresh(people, tmp_path):
    """40 rows that the model was not fitted to, without their labels."""
    frame = people[200:].drop(columns="sick").reset_index(drop=True)
    frame.to_csv(tmp_path / "fresh.csv", index=False)
    return frame


def features(frame):
    return frame[["age", "weight", "job", "smoker"]].astype({"job": object, "smoker": float})


def test_predictions_are_those_of_the_stored_estimator(mgce, model_file, fresh, tmp_path):
    code, output, errors = mgce("predict", model_file, "fresh.csv", "--probabilities")
    assert code == 0, errors
    assert {path.name for path in tmp_path.iterdir()} == {"fresh.csv", "fresh-predictions.csv"}
    written = pd.read_csv(tmp_path / "fresh-predictions.csv", dtype={"person": str})
    assert written.columns.tolist() == ["person", "prediction", "h", "p", "h_no", "h_yes", "p_no", "p_yes"]
    assert written["person"].tolist() == fresh["person"].tolist()
    transformer, classifier = load(model_file)
    X = transformer.transform(features(fresh))
    assert written["prediction"].tolist() == classifier.predict(X).tolist()
    for name, probs in (("h", classifier.predict_proba(X)), ("p", classifier.worst_case_proba(X))):
        np.testing.assert_allclose(written[[f"{name}_no", f"{name}_yes"]], probs, rtol=1e-5)
        np.testing.assert_allclose(written[name], probs.max(1), rtol=1e-5)
    counts = written["prediction"].value_counts()
    assert f"40 rows: no {counts['no']}, yes {counts['yes']}." in output


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet"])
def test_columns_of_the_table_are_kept_where_that_is_asked_for(mgce, refuses, model_file, fresh, tmp_path, suffix):
    if suffix == "xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
    fresh.assign(zip="007", note="=1+1").to_csv(tmp_path / "fresh.csv", index=False)
    code, _, errors = mgce("predict", model_file, "fresh.csv", "--keep-columns", "--out", f"p.{suffix}")
    assert code == 0 and mgce("predict", model_file, "fresh.csv", "--out", "q.csv")[0] == 0, errors
    text = {"person": str, "zip": str}
    read = {"csv": pd.read_csv, "xlsx": pd.read_excel}.get(suffix)
    kept = read(tmp_path / f"p.{suffix}", dtype=text) if read else pd.read_parquet(tmp_path / "p.parquet")
    alone = pd.read_csv(tmp_path / "q.csv", dtype=text)
    assert kept.columns.tolist() == [*fresh.columns, "zip", "note", "prediction", "h", "p"]
    pd.testing.assert_frame_equal(kept[["prediction", "h", "p"]].astype({"prediction": object}),
                                  alone[["prediction", "h", "p"]].astype({"prediction": object}))  # fmt: skip
    np.testing.assert_array_equal(kept["weight"], fresh["weight"])
    if suffix == "csv":
        assert set(kept["zip"]) == {"007"} and set(kept["note"]) == {"'=1+1"}
        fresh.assign(p=1).to_csv(tmp_path / "fresh.csv", index=False)
        refuses("left out for a table with a column 'p'", "predict", model_file, "fresh.csv", "--keep-columns")


def test_the_last_line_says_what_the_columns_are_and_how_many_rows_are_unsure(mgce, model_file, fresh, tmp_path):
    model = TableModel.load(model_file)
    p = model.predict(model.columns.select(fresh)).p
    code, output, _ = mgce("predict", model_file, "fresh.csv", "--json", "p.json")
    words = " ".join(output.split())
    assert (
        code == 0 and "Read the column p: the estimated probability that the label is the predicted class. h" in words
    )
    n = int((p.max(1) < 0.5).sum())
    assert json.loads((tmp_path / "p.json").read_text())["unsure"] == n
    assert ("p is below 0.5" in words) == (n > 0)
    assert _summary({"a": 2}, Path("p.csv"), "q", 1).endswith(" In 1 row, q is below 0.5 for every class.")
    assert "below 0.5" not in _summary({"a": 2}, Path("p.csv"), "p", 0)


def test_of_a_model_that_corrects_labels_q_is_the_one_probability(mgce, people, fresh, tmp_path):
    people[:200].to_csv(tmp_path / "given.csv", index=False)
    code, _, errors = mgce("fit", "given.csv", "--target", "sick", "--id", "person", "--out", "corrected.mgce")
    assert code == 0, errors
    code, output, errors = mgce("predict", "corrected.mgce", "fresh.csv", "--probabilities", "--json", "p.json")
    assert code == 0, errors
    written = pd.read_csv(tmp_path / "fresh-predictions.csv", dtype={"person": str})
    assert written.columns.tolist()[1:] == ["prediction", "q", "q_no", "q_yes"]
    model = TableModel.load(tmp_path / "corrected.mgce")
    q = model.pipeline.predict_proba(model.columns.select(fresh))
    np.testing.assert_allclose(written[["q_no", "q_yes"]], q, rtol=1e-5)
    np.testing.assert_allclose(written["q"], q.max(1), rtol=1e-5)
    assert "Read the column q: the estimated probability that the prediction is right." in " ".join(output.split())
    assert json.loads((tmp_path / "p.json").read_text())["unsure"] == (q.max(1) < 0.5).sum()
    labels = np.arange(len(q)) % 2
    written.assign(right=np.array(["no", "yes"])[labels]).to_csv(tmp_path / "with.csv", index=False)
    code, output, errors = mgce("certify", "with.csv", "--target", "right", "--bounds", "randomized", "--json", "-")
    drawn = certify(labels, q, bounds=["randomized"]).randomized_error
    assert code == 0 and json.loads(output)["randomized_error"] == pytest.approx(drawn, abs=1e-5), errors


def test_parquet_and_other_orders_of_columns_change_nothing(mgce, model_file, fresh, tmp_path):
    fresh[fresh.columns[::-1]].assign(more=1).to_parquet(tmp_path / "same.parquet")
    for name in ("fresh.csv", "same.parquet"):
        assert mgce("predict", model_file, name, "--out", f"of-{name}.csv")[0] == 0
    assert (tmp_path / "of-fresh.csv.csv").read_bytes() == (tmp_path / "of-same.parquet.csv").read_bytes()


def test_rows_have_numbers_where_there_is_no_id(mgce, model_file, fresh, tmp_path):
    fresh.drop(columns="person").to_csv(tmp_path / "fresh.csv", index=False)
    assert mgce("predict", model_file, "fresh.csv")[0] == 0
    written = pd.read_csv(tmp_path / "fresh-predictions.csv")
    assert written.columns.tolist() == ["row", "prediction", "h", "p"] and written["row"].tolist() == [*range(1, 41)]


def test_unseen_categories_are_taken_with_a_note(mgce, model_file, fresh, tmp_path):
    fresh.loc[[3, 5], "job"] = "astronaut"
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    code, output, errors = mgce("predict", model_file, "fresh.csv", "--probabilities")
    assert code == 0, errors
    assert "Note: In 2 rows, column `job` holds a category that no training row had ('astronaut', for one)" in output
    written = pd.read_csv(tmp_path / "fresh-predictions.csv")
    transformer, classifier = load(model_file)
    columns = transformer.get_feature_names_out()
    X = transformer.transform(features(fresh))[[3]]
    assert X[0, [name.startswith("categories") for name in columns]].tolist() == [0] * 4  # three jobs and none
    np.testing.assert_allclose(
        written.loc[3, ["h_no", "h_yes"]].astype(float), classifier.predict_proba(X)[0], rtol=1e-5
    )


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda f: f.drop(columns="age"), "Expected a column `age` in the table, but found none of that name."),
        (lambda f: f.drop(columns=["age", "job"]), "Expected columns `age`, `job` in the table, but found none"),
        (
            lambda f: f.assign(age=[None, "old", *["young"] * (len(f) - 2)]),
            "Expected `age` to be a column of finite numbers, but got 'old' in data row 2.",
        ),
        (
            lambda f: f.assign(age=[np.inf, *f["age"][1:]]),
            "Expected `age` to be a column of finite numbers, but got inf in data row 1.",
        ),
        (
            lambda f: f.assign(smoker="perhaps"),
            "Expected `smoker` to be a column of finite numbers, but got 'perhaps' in",
        ),
        (lambda f: f[:0], "Expected `table` to be a table with rows, but got none."),
    ],
)
def test_tables_that_do_not_fit_are_refused(refuses, model_file, fresh, tmp_path, change, sentence):
    change(fresh).to_csv(tmp_path / "fresh.csv", index=False)
    refuses(sentence, "predict", model_file, "fresh.csv")


def text(path, model_file):
    path.write_text("age,job\n")


def other_zip(path, model_file):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "{}")


def truncated(path, model_file):
    path.write_bytes(model_file.read_bytes()[:-200])


def flipped(path, model_file):
    content = bytearray(model_file.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("make", [text, other_zip, truncated, flipped])
@pytest.mark.parametrize("command", ["predict", "certify"])
def test_files_that_are_no_models_are_refused(refuses, model_file, fresh, tmp_path, make, command):
    make(tmp_path / "model.mgce", model_file)
    sentence = "Expected `model` to be an undamaged file written by `mgce fit`, but got 'model.mgce'."
    refuses(sentence, command, "model.mgce", "fresh.csv")


def test_a_table_with_more_probabilities_than_there_is_room_for_is_refused(refuses, model_file, fresh, monkeypatch):
    monkeypatch.setattr("mgce.desk.tables.model.TABLE_CELLS", 2 * len(fresh) - 1)
    refuses("a table of at most 39 rows for a model of 2 classes; split it", "predict", model_file, "fresh.csv")


@pytest.mark.parametrize("option", ["embeddings", "encoder"])
def test_embeddings_need_a_model_of_embeddings(refuses, model_file, fresh, option):
    sentence = f"Expected `{option}` to be given with a model of embeddings"
    refuses(sentence, "predict", model_file, "fresh.csv", f"--{option}", "fresh.csv")


def test_models_of_others_are_refused(refuses, model_file, fresh, tmp_path):
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    save(MGCEClassifier().fit(X, y), tmp_path / "model.mgce")
    refuses("Expected `model` to be a file written by `mgce fit`", "predict", "model.mgce", "fresh.csv")


def test_models_of_no_table_or_of_another_format_are_refused(refuses, model_file, fresh, tmp_path, monkeypatch):
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    save(LogisticRegression().fit(X, y), tmp_path / "model.mgce")
    refuses("Expected `model` to be a file written by `mgce fit`, but got", "predict", "model.mgce", "fresh.csv")
    model = TableModel.load(model_file)
    with monkeypatch.context() as later:
        later.setattr("mgce.estimators.archive.FORMAT", 99)
        (tmp_path / "model.mgce").write_bytes(model.to_bytes())
    refuses(f"but got 'that of mgce {build()}'.", "predict", "model.mgce", "fresh.csv")


def test_files_that_cannot_be_read_or_written_are_refused(refuses, model_file, fresh, tmp_path):
    shutil.copy(model_file, tmp_path / "model.mgce")
    refuses("Expected `model` to be the path of a file that exists", "predict", "nowhere.mgce", "fresh.csv")
    refuses("Expected `table` to be the path of a file that exists", "predict", "model.mgce", "nowhere.csv")
    for out in ("fresh.csv", "model.mgce", ".", "fresh.csv/x.csv"):
        refuses("Expected `out` to be the path of a file", "predict", "model.mgce", "fresh.csv", "--out", out)
    for out in ("p.csv.gz", "p.xls", "p.tsv", "p"):  # which would be CSV by another name
        refuses(
            "Expected `out` to be the path of a .csv, .xlsx or .parquet",
            "predict",
            "model.mgce",
            "fresh.csv",
            "--out",
            out,
        )


def test_sets_are_those_of_the_held_out_rows(mgce, model_file, people, tmp_path):
    people[200:].to_csv(tmp_path / "new.csv", index=False)
    code, output, errors = mgce("predict", model_file, "new.csv", "--sets", "--probabilities", "--out", "p.csv")
    assert code == 0, errors
    assert "A set holds the right class with probability at least 0.9 on average" in " ".join(output.split())
    frame = pd.read_csv(tmp_path / "p.csv")
    fitted = TableModel.load(model_file)
    yes = expit(fitted.pipeline.decision_function(fitted.columns.select(pd.read_csv(tmp_path / "new.csv"))))
    members = fitted.sets.predict(np.column_stack([1 - yes, yes]))
    assert frame["set"].tolist() == ["|".join(np.array(["no", "yes"])[row]) for row in members]
    assert all(own in some.split("|") for own, some in zip(frame["prediction"], frame["set"], strict=True))


def test_parquet_is_written_where_its_name_asks_for_it(mgce, model_file, fresh, tmp_path):
    for out in ("p.csv", "p.parquet"):
        code, output, errors = mgce("predict", model_file, "fresh.csv", "--out", out, "--probabilities", "--json", "-")
        assert code == 0, errors
        assert json.loads(output)["rows"] == 40
    from_csv = pd.read_csv(tmp_path / "p.csv", dtype={"person": "str"})
    written = pd.read_parquet(tmp_path / "p.parquet")
    assert written.columns.tolist() == from_csv.columns.tolist()
    pd.testing.assert_frame_equal(written, from_csv, check_dtype=False, rtol=1e-5)  # six digits in CSV


def test_words_among_numbers_are_noted(mgce, model_file, fresh, tmp_path):
    fresh.assign(age=["old", *fresh["age"][1:]]).to_csv(tmp_path / "fresh.csv", sep="\t", index=False)
    code, output, errors = mgce("predict", model_file, "fresh.csv")
    assert code == 0, errors
    assert "Note: Column `age` holds numbers, but something else in 1 row ('old')" in " ".join(output.split())
