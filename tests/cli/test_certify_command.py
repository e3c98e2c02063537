import json

import numpy as np
import pandas as pd
import pytest

from mgce import certify
from mgce.estimators import load
from mgce.risk import clopper_pearson_upper


@pytest.fixture
def fresh(people, tmp_path):
    """40 labelled rows that the model was not fitted to."""
    frame = people[200:].reset_index(drop=True)
    frame.to_csv(tmp_path / "fresh.csv", index=False)
    return frame


@pytest.fixture
def certificate(model_file, fresh):
    transformer, classifier = load(model_file)
    h = classifier.predict_proba(
        transformer.transform(fresh[["age", "weight", "job", "smoker"]].astype({"job": object, "smoker": float}))
    )
    target = np.searchsorted(classifier.classes_, fresh["sick"].to_numpy(dtype=str))
    return lambda **options: certify(target, h, **options)


@pytest.mark.parametrize("options", [{}, {"delta": 0.1, "noise_rate": 0.05}])
def test_the_certificate_is_that_of_the_stored_estimator(mgce, model_file, tmp_path, certificate, options):
    arguments = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", value)]
    code, output, errors = mgce("certify", model_file, "fresh.csv", "--target", "sick", "--json", "c.json", *arguments)
    assert code == 0, errors
    expected = certificate(**options)
    assert str(expected) in " ".join(output.split()) and "Note" not in output
    document = json.loads((tmp_path / "c.json").read_text())
    assert document == {"model": model_file.name, "table": "fresh.csv", **json.loads(expected.to_json())}


def test_labels_may_stand_in_another_column(mgce, model_file, fresh, tmp_path, certificate):
    fresh.rename(columns={"sick": "found later"}).to_csv(tmp_path / "fresh.csv", index=False)
    code, output, errors = mgce("certify", model_file, "fresh.csv", "--target", "found later")
    assert code == 0, errors
    assert str(certificate()) in " ".join(output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["fresh.csv"]


def test_rows_that_were_trained_on_are_counted(mgce, model_file, people, tmp_path):
    people.to_csv(tmp_path / "all.csv", index=False)  # of 200 rows that were fitted to, 50 were held out
    code, output, errors = mgce("certify", model_file, "all.csv")
    assert code == 0, errors
    assert "Note: 150 of the 240 rows equal a row that the model was trained on." in " ".join(output.split())


@pytest.mark.parametrize(
    "change, options, sentence",
    [
        ({}, ["--target", "ill"], "Expected a column `ill` in the table, but found none of that name."),
        (
            {"sick": [None] * 40},
            [],
            "Expected `sick` to be a column with labels, but got 'none'.",
        ),
        (
            {"sick": ["never", "perhaps"] * 20},
            [],
            "Expected `sick` to be labels of the classes that the model knows ('no', 'yes'), but got 'none of these",
        ),
        ({"age": "old"}, [], "Expected `age` to be a column of finite numbers, but got 'old' in row 1."),
        ({}, ["--delta", "0"], "Expected `delta` to be "),
        ({}, ["--noise-rate", "0.5"], "Expected `noise_rate` to be in [0, 1/2)"),
        ({}, ["--json", "fresh.csv"], "Expected `json` to be the path of a file that serves for nothing else"),
        ({}, ["--json", "."], "Expected `json` to be the path of a file, but got '., which is a folder'."),
        (
            {},
            ["--json", "fresh.csv/c.json"],
            "Expected `json` to be the path of a file in a folder that can be",
        ),
    ],
)
def test_bad_input_is_refused(refuses, model_file, fresh, tmp_path, change, options, sentence):
    fresh.assign(**change).to_csv(tmp_path / "fresh.csv", index=False)
    refuses(sentence, "certify", model_file, "fresh.csv", *options)


@pytest.fixture
def predicted(mgce, model_file, fresh, tmp_path):
    """The predictions of the fresh rows, with their labels."""
    code, _, errors = mgce("predict", model_file, "fresh.csv", "--probabilities", "--out", "p.csv")
    assert code == 0, errors
    frame = pd.read_csv(tmp_path / "p.csv").assign(truth=fresh["sick"], job=fresh["job"].fillna("none"))
    frame.to_csv(tmp_path / "p.csv", index=False)
    return frame


def test_predictions_of_any_model_are_certified(mgce, predicted, certificate, tmp_path):
    code, output, errors = mgce("certify", "p.csv", "--target", "truth", "--json", "c.json", "--by", "job")
    assert code == 0, errors
    document = json.loads((tmp_path / "c.json").read_text())
    expected = certificate()
    assert document["randomized_error"] == pytest.approx(expected.randomized_error, abs=1e-5)  # six digits are written
    assert document["argmax_error"] == expected.argmax_error
    assert set(document["parts"]) == set(predicted["job"])
    for name, rows in predicted.groupby("job"):
        errors = int((rows["prediction"] != rows["truth"]).sum())
        share = 0.05 / predicted["job"].nunique() / 2
        assert document["parts"][name]["argmax_error"] == clopper_pearson_upper(errors, len(rows), share)
        assert f"{document['parts'][name]['argmax_error']:.4f}" in output


def test_classes_alone_are_one_bound(mgce, predicted, tmp_path):
    code, _, errors = mgce("certify", "p.csv", "--target", "truth", "--prediction", "prediction", "--json", "c.json")
    assert code == 0, errors
    wrong = int((predicted["prediction"] != predicted["truth"]).sum())
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["argmax_error"] == document["randomized_error"] == clopper_pearson_upper(wrong, 40, 0.05)


def test_noise_of_every_kind(mgce, predicted, certificate, tmp_path, model_file):
    order = ["yes", "no"]  # not that of the model
    pd.DataFrame([[0.9, 0.1], [0.05, 0.95]], index=order, columns=order).to_csv("t.csv")
    pd.DataFrame([[90, 10], [5, 95]], index=order, columns=order).to_csv("a.csv")
    cases = {
        ("--transition", "t.csv"): {"transition": [[0.95, 0.05], [0.1, 0.9]]},
        ("--audit", "a.csv"): {"audit": [[95, 5], [10, 90]]},
        ("--noise", "any", "--noise-rate", "0.05"): {"noise": "any", "noise_rate": 0.05},
        ("--noise-rate", "auto"): {"noise_rate": "auto"},
        ("--bounds", "argmax", "--groups", "job"): {
            "bounds": ["argmax"],
            "groups": predicted["job"].to_numpy(dtype=str),
        },
    }
    for arguments, options in cases.items():
        code, output, errors = mgce("certify", model_file, "fresh.csv", *_with_job(arguments, predicted, tmp_path))
        assert code == 0, errors
        assert str(certificate(**options)) in " ".join(output.split())


def _with_job(arguments, predicted, tmp_path):
    """A missing job is a group of its own in the table as written."""
    if "--groups" in arguments:
        frame = pd.read_csv(tmp_path / "fresh.csv")
        frame.assign(cluster=predicted["job"]).to_csv(tmp_path / "fresh.csv", index=False)
        return [*arguments[:-1], "cluster"]
    return arguments


def test_a_refuted_rate_is_said(mgce, model_file, people, tmp_path):
    people[people["sick"] == "no"].to_csv(tmp_path / "one.csv", index=False)
    _, output, _ = mgce("certify", model_file, "one.csv", "--noise-rate", "0.45")
    assert "the labels refute that a share 0.45 of them or more is wrong" in " ".join(output.split())


def test_a_label_that_is_no_class_is_an_error(mgce, model_file, fresh, tmp_path, certificate):
    fresh.assign(sick=["maybe", *fresh["sick"][1:]]).to_csv(tmp_path / "fresh.csv", index=False)
    code, output, errors = mgce("certify", model_file, "fresh.csv")
    assert code == 0, errors
    assert "Note: 1 of the 40 rows have a label that the model does not know ('maybe', for one)" in " ".join(
        output.split()
    )


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["p.csv"], "Expected `target` to be the column with the labels of the predictions"),
        (["p.csv", "p.csv", "--target", "truth"], "Expected `table` to be left out"),
        (["p.csv", "--target", "lie"], "Expected `target` to be a column of the table"),
        (["p.csv", "--target", "truth", "--prediction", "guess"], "Expected `prediction` to be a column of the table"),
        (["p.csv", "--target", "truth", "--by", "shoe"], "Expected `by` to be a column of the table"),
        (
            ["p.csv", "--target", "truth", "--transition", "p.csv"],
            "Expected `transition` to be a table with a row and a",
        ),
        (["p.csv", "--target", "truth", "--noise-rate", "some"], "Expected `noise_rate` to be a number or 'auto'"),
    ],
)
def test_bad_predictions_are_refused(refuses, predicted, arguments, sentence):
    refuses(sentence, "certify", *arguments)
