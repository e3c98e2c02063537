import json

import numpy as np
import pytest

from mgce import certify
from mgce.estimators import load


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
            {"sick": ["yes", None] * 20},
            [],
            "Expected `sick` to be a column with a label in every row, but row 2 has none.",
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
