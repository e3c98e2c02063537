import csv
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from mgce import certify
from mgce.desk.review.decision_file import COLUMNS
from mgce.desk.review.sheet import chosen
from mgce.desk.review.suspect_file import read_suspects
from mgce.estimators import load
from mgce.risk import clopper_pearson_upper, rows_to_check, stratified_upper
from mgce.risk.checking import upper_after


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
    return lambda **options: certify(target, h, **({"bounds": ["argmax"]} | options))


@pytest.mark.parametrize("options", [{}, {"delta": 0.1, "noise_rate": 0.05}])
def test_the_certificate_is_that_of_the_stored_estimator(mgce, model_file, tmp_path, certificate, options):
    arguments = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", value)]
    code, output, errors = mgce("certify", model_file, "fresh.csv", "--target", "sick", "--json", "c.json", *arguments)
    assert code == 0, errors
    expected = certificate(**options)
    assert str(expected) in " ".join(output.split()) and "Note" not in output and "drawn at random by" not in output
    document = json.loads((tmp_path / "c.json").read_text())
    assert document == {"model": model_file.name, "table": "fresh.csv", **json.loads(expected.to_json()), "notes": []}


def test_labels_may_stand_in_another_column(mgce, model_file, fresh, tmp_path, certificate):
    fresh.rename(columns={"sick": "found later"}).to_csv(tmp_path / "fresh.csv", index=False)
    code, output, errors = mgce("certify", model_file, "fresh.csv", "--target", "found later")
    assert code == 0, errors
    assert str(certificate()) in " ".join(output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["fresh.csv"]


@pytest.mark.parametrize("rows", [slice(0, 200), slice(0, 240), slice(160, 240)])
def test_rows_that_the_model_learnt_from_give_no_certificate(refuses, model_file, people, tmp_path, rows):
    people[rows].to_csv(tmp_path / "seen.csv", index=False)
    seen, n = len(people[rows][:200].index.intersection(people.index[:200])), len(people[rows])
    sentence = f"but it learnt from {seen} of the {n}, labels included: leave those out, or label new rows."
    refuses(sentence, "certify", model_file, "seen.csv", "--json", "c.json")


def test_few_rows_that_the_model_learnt_from_are_counted(mgce, model_file, people, tmp_path):
    people[198:].to_csv(tmp_path / "few.csv", index=False)
    code, output, errors = mgce("certify", model_file, "few.csv", "--json", "c.json")
    assert code == 0, errors
    assert "Note: 2 of the 42 rows equal a row that the model learnt from." in " ".join(output.split())
    (note,) = json.loads((tmp_path / "c.json").read_text())["notes"]
    assert note.startswith("2 of the 42 rows equal a row that the model learnt from.")


@pytest.mark.parametrize(
    "change, options, sentence",
    [
        ({}, ["--target", "ill"], "Expected a column `ill` in the table, but found none of that name."),
        (
            {"sick": [None] * 40},
            [],
            "Expected `sick` to be a column with labels, but got none.",
        ),
        (
            {"sick": ["never", "perhaps"] * 20},
            [],
            "Expected `sick` to be labels of the classes that the model knows ('no', 'yes'), but got 'none of these",
        ),
        ({"age": "old"}, [], "Expected `age` to be a column of finite numbers, but got 'old' in data row 1."),
        ({}, ["--delta", "0"], "Expected `delta` to be "),
        ({}, ["--noise-rate", "0.5"], "Expected `noise_rate` to be in [0, 1/2)"),
        ({}, ["--json", "fresh.csv"], "Expected `json` to be the path of a file that nothing else uses"),
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
    both = ("--bounds", "argmax,randomized")
    code, output, errors = mgce("certify", "p.csv", "--target", "truth", "--json", "c.json", "--by", "job", *both)
    assert code == 0, errors
    document = json.loads((tmp_path / "c.json").read_text())
    expected = certificate(bounds=["argmax", "randomized"])
    assert document["randomized_error"] == pytest.approx(expected.randomized_error, abs=1e-5)  # six digits are written
    assert document["argmax_error"] == expected.argmax_error
    assert set(document["parts"]) == set(predicted["job"])
    for name, rows in predicted.groupby("job"):
        errors = int((rows["prediction"] != rows["truth"]).sum())
        share = 0.05 / predicted["job"].nunique() / 2
        assert document["parts"][name]["argmax_error"] == clopper_pearson_upper(errors, len(rows), share)
        assert f"{math.ceil(1e3 * document['parts'][name]['argmax_error']) / 10:.1f}%" in output


def test_classes_alone_are_one_bound(mgce, predicted, tmp_path):
    arguments = ("certify", "p.csv", "--target", "truth", "--prediction", "prediction", "--json", "c.json")
    code, _, errors = mgce(*arguments, "--bounds", "argmax,randomized")
    assert code == 0, errors
    wrong = int((predicted["prediction"] != predicted["truth"]).sum())
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["argmax_error"] == document["randomized_error"] == clopper_pearson_upper(wrong, 40, 0.05)


def test_noise_of_every_kind(mgce, predicted, certificate, tmp_path, model_file):
    order = ["yes", "no"]  # not that of the model
    pd.DataFrame([[0.9, 0.1], [0.05, 0.95]], index=order, columns=order).to_csv("t.csv")
    cases = {
        ("--transition", "t.csv"): {"transition": [[0.95, 0.05], [0.1, 0.9]]},
        ("--noise-type", "any", "--noise-rate", "0.05"): {"noise_type": "any", "noise_rate": 0.05},
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


@pytest.fixture
def parts(mgce, tmp_path):
    """Certify predictions, given as columns, with options; give the document."""

    def document(columns, *options):
        pd.DataFrame({"y": "a", "prediction": "a"} | columns).to_csv(tmp_path / "p.csv", index=False)
        code, _, errors = mgce("certify", "p.csv", "--target", "y", *options, "--json", "c.json")
        assert code == 0, errors
        return json.loads((tmp_path / "c.json").read_text())

    return document


@pytest.mark.parametrize(
    "names", [["north", "northwest"], ["01", "1"], ["10", "11"], ["2.0", "2"], ["True", "true"], ["NA", "NB"]]
)
@pytest.mark.parametrize("empty", [0, 3])
def test_parts_have_their_names_in_full(parts, names, empty):
    """Also beside rows without one, which pandas turns into numbers or cuts names for."""
    column = names * 20 + [None] * empty
    predicted = ["a", "b"] * 20 + ["b"] * empty
    found = parts({"y": ["a"] * len(column), "prediction": predicted, "part": column}, "--by", "part")["parts"]
    assert {name: part["n"] for name, part in found.items()} == {
        **({"(no value)": empty} if empty else {}),
        **dict.fromkeys(names, 20),
    }
    for name, wrong, n in ((names[0], 0, 20), (names[1], 20, 20)):
        assert found[name]["argmax_error"] == clopper_pearson_upper(wrong, n, 0.05 / len(found))


def test_a_row_without_a_group_is_one_by_itself(parts):
    clusters = [f"p{patient}" for patient in range(30) for _ in range(2)]
    missing = [*clusters[:40], *[None] * 20]
    whole = [*clusters[:40], *(f"!{row}" for row in range(40, 60))]
    y, predicted = ["a"] * 60, ["a", "b", "a"] * 20
    found = parts({"y": y, "prediction": predicted, "who": missing}, "--groups", "who")
    assert found == parts({"y": y, "prediction": predicted, "who": whole}, "--groups", "who")
    assert found["argmax_error"] < 1


def test_rows_without_a_group_have_no_order(parts):
    frame = pd.DataFrame({"y": ["a"] * 60, "prediction": ["a", "b", "a"] * 20, "who": ["p", "p", "q", *[None] * 57]})
    turned = frame.sort_values("prediction").to_dict("list")
    assert parts(frame.to_dict("list"), "--groups", "who") == parts(turned, "--groups", "who")


def test_copies_join_their_groups_whatever_the_order_of_the_file(mgce, model_file, fresh, tmp_path):
    group, part = [f"g{row // 2}" for row in range(40)], ["u", "v"] * 20
    drawn = fresh.assign(group=group, part=part)
    copied = drawn.assign(group=[f"g{row // 4 * 2}" for row in range(40)], part=part[::-1])
    both = pd.concat([drawn, copied])
    found = []
    for frame in (both, both.iloc[::-1], drawn.assign(group=copied["group"])):
        frame.to_csv(tmp_path / "both.csv", index=False)
        by = ("--by", "part") if len(frame) == 80 else ()
        code, output, errors = mgce("certify", model_file, "both.csv", "--groups", "group", *by, "--json", "-")
        assert code == 0, errors
        found.append(json.loads(output))
    assert found[0] == found[1]
    # Ten groups of four rows are left of twenty of two.
    assert {found[0][name] for name in ("n", "argmax_error")} == {found[2][name] for name in ("n", "argmax_error")}


def test_parts_by_a_feature_leave_the_predictions_as_they_are(mgce, model_file, people, tmp_path):
    """Where a text that stands for a missing value, as NA, is none to the model."""
    fresh = people[200:].assign(job=["NA", "nurse", "pilot", "baker"] * 10)
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    errors = []
    for options in ([], ["--by", "job"], ["--by", "smoker"], ["--groups", "job"]):
        assert mgce("certify", model_file, "fresh.csv", *options, "--bounds", "argmax", "--json", "c.json")[0] == 0
        document = json.loads((tmp_path / "c.json").read_text())
        errors.append((document["notes"], document["argmax_error"] if "--groups" not in options else errors[0][1]))
        if "job" in options and "--by" in options:
            assert set(document["parts"]) == {"(no value)", "nurse", "pilot", "baker"}
    assert errors == [errors[0]] * 4


@pytest.mark.parametrize("target", ["y", "label"])
@pytest.mark.parametrize(
    "option", [["--noise-rate", "0.2"], ["--noise-type", "any", "--noise-rate", "0.1"], ["--transition", "t.csv"]]
)
def test_wrong_labels_do_not_tell_a_part_by_whatever_name(refuses, tmp_path, target, option):
    pd.DataFrame({target: ["a", "b"] * 20, "prediction": ["a", "b"] * 20}).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame([[0.8, 0.2], [0.2, 0.8]], index=["a", "b"], columns=["a", "b"]).to_csv(tmp_path / "t.csv")
    refuses("Expected `by` to be another than 'label'", "certify", "p.csv", "--target", target, "--by", target, *option)


def test_parts_by_the_target_are_those_by_label(parts):
    columns = {"y": ["a", "b", "b"] * 20, "prediction": ["a", "b", "a"] * 20}
    assert parts(columns, "--by", "y")["parts"] == parts(columns, "--by", "label")["parts"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes",
    [
        ["NA", "None"],
        ["01", "1"],
        *(pytest.param(one, marks=pytest.mark.nightly) for one in (["+", "-"], ["=x", "@y"], ["true", "false"])),
    ],
)
def test_what_predict_writes_certify_reads(parts, mgce, tmp_path, classes):
    """Classes of every spelling: their predictions are right or wrong as they are."""
    rng = np.random.default_rng(0)
    y = rng.choice(classes, 200)
    frame = pd.DataFrame({"x": np.where(y == classes[0], 1.0, -1.0) + rng.normal(0, 0.1, 200), "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert mgce("fit", "t.csv", "--target", "y", "--model", "linear", "--out", "m.mgce")[0] == 0
    for options in ([], ["--probabilities"]):
        assert mgce("predict", "m.mgce", "t.csv", *options, "--out", "p.csv")[0] == 0
        written = pd.read_csv(tmp_path / "p.csv", dtype=str, keep_default_na=False)
        found = parts(dict(written.assign(y=y)))
        assert found["argmax_error"] == clopper_pearson_upper(0, 200, 0.05)


@pytest.mark.parametrize("classes", [["01", "02"], ["true", "false"], ["NA", "none"]])
def test_matrices_of_classes_are_read_as_the_table_is(mgce, tmp_path, classes):
    y = classes * 50
    pd.DataFrame({"y": y, "prediction": y}).to_csv(tmp_path / "p.csv", index=False, sep=";", encoding="utf-16")
    matrix = pd.DataFrame([["0,9", "0,1"], ["0,2", "0,8"]], index=classes, columns=classes)
    matrix.to_csv(tmp_path / "t.csv", sep="\t", encoding="utf-16")
    options = ["--decimal", ",", "--encoding", "utf-16", "--json", "c.json"]
    code, _, errors = mgce("certify", "p.csv", "--target", "y", "--transition", "t.csv", *options)
    assert code == 0, errors
    place = np.array([sorted(classes).index(label) for label in y])
    values = np.array([[0.9, 0.1], [0.2, 0.8]])[np.ix_(np.argsort(classes), np.argsort(classes))]
    there = certify(place, np.eye(2)[place], transition=values)
    assert json.loads((tmp_path / "c.json").read_text())["argmax_error"] == there.argmax_error


def test_predictions_that_no_label_is_are_refused(refuses, tmp_path):
    pd.DataFrame({"y": ["yes", "no"] * 9, "prediction": ["1", "0"] * 9}).to_csv(tmp_path / "p.csv", index=False)
    refuses("Expected `prediction` to be a column of classes that labels", "certify", "p.csv", "--target", "y")


def test_a_refuted_rate_is_said(mgce, model_file, people, tmp_path):
    others = people.assign(weight=people["weight"] + 0.001)  # as different from those of the model as fresh ones
    others[others["sick"] == "no"].to_csv(tmp_path / "one.csv", index=False)
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
        (["p.csv", "--target", "truth", "--noise-rate", "some"], "Expected `noise_rate` to be a number"),
        (["p.csv", "--target", "truth", "--width", "1", "--json", "c.json"], "Expected `width` to be in (0, 1)"),
        (
            ["p.csv", "--target", "truth", "--width", "nan", "--to-check", "p.suspects.csv"],
            "Expected `width` to be in (0, 1)",
        ),
        (
            ["p.csv", "--target", "truth", "--json", "c.json", "--to-check", "c.json"],
            "Expected `to_check` to be the path of a file that nothing else uses",
        ),
        (
            ["p.csv", "--target", "truth", "--checked", "d.csv", "--json", "d.csv"],
            "Expected `json` to be the path of a file that nothing else uses",
        ),
        (
            ["p.csv", "--target", "truth", "--groups", "job", "--to-check", "p.suspects.csv"],
            "Expected `to_check` to be left out with `checked` or `groups`",
        ),
    ],
)
def test_bad_predictions_are_refused(refuses, predicted, arguments, sentence):
    refuses(sentence, "certify", *arguments)


def test_rows_are_written_for_a_review_and_its_decisions_bound_errors(mgce, tmp_path):
    rng = np.random.default_rng(0)
    right = rng.choice(["a", "b"], 600)
    given, guess = (np.where(rng.random(600) < share, np.where(right == "a", "b", "a"), right) for share in (0.2, 0.1))
    frame = pd.DataFrame({"x": np.arange(600), "label": given, "prediction": guess})
    frame.to_csv(tmp_path / "p.csv", index=False)
    call = ("certify", "p.csv", "--target", "label", "--json", "c.json")
    code, output, errors = mgce(*call, "--to-check", "p.suspects.csv", "--width", "0.1")
    said = " ".join(output.split())
    assert code == 0, errors
    agrees = int((given == guess).sum())
    counts = pd.crosstab(given, guess)
    label, other = ("a", "b") if counts.loc["a", "b"] > counts.loc["b", "a"] else ("b", "a")
    often = (
        f"Most often, {label} is predicted to be {other}: {counts.loc[label, other]} of {(given == label).sum()} rows."
    )
    assert said.startswith(
        f"The model agrees with {agrees} of 600 given labels ({agrees / 600:.1%}). {often} With conf"
    )
    n = len(rows_to_check(np.zeros(600), np.where((given != guess)[:, None], [0.4, 0.6], [0.6, 0.4]), 0.1))
    assert f"look up {n} rows drawn at random" in said and "is then about 10 points above" in said
    assert "\n  mgce review p.suspects.csv --suspects 0 --random" in output
    shown = chosen(read_suspects(tmp_path / "p.suspects.csv"), 0, 600)
    assert [one.suspect.draw for one in shown] == list(range(1, n + 1))
    places = [int(one.suspect.name) - 1 for one in shown]
    assert [one.suspect.given for one in shown] == given[places].tolist()
    # The third was skipped, and the last was not looked at.
    with (tmp_path / "d.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for one, place in zip(shown[:-1], places, strict=False):
            each, label = one.suspect, str(right[place])
            what = ("skip", "") if each.draw == 3 else ("keep" if label == each.given else "suggestion", label)
            lines.writerow([each.key, each.name, "", each.given, *what, "random", each.draw, each.draw_probability])
    labels = np.array([-1 if place == places[2] else int(right[place] == "b") for place in places[:-1]])
    probs = np.eye(2)[(guess == "b").astype(int)]
    for anytime in (True, False):
        code, output, errors = mgce(*call, "--checked", "d.csv", *["--anytime"] * anytime)
        assert code == 0, errors
        document = json.loads((tmp_path / "c.json").read_text())
        expected = certify((given == "b").astype(int), probs, checked=(places[:-1], labels))
        assert document["looked_up"] == n - 1
        assert (document["argmax_error"] > expected.argmax_error + 0.01) == anytime
        assert anytime or document["argmax_error"] == expected.argmax_error
        after = upper_after((given == "b").astype(int), probs, (places[:-1], labels), 200, 0.05)
        said = " ".join(output.split())
        assert (f"{after:.1%} after 200 more looks." in said) != anytime
        # Counts, and what they are of: no share is left to the reader to work out.
        m, right_on = n - 1, int((labels == (guess[places[:-1]] == "b")).sum())
        wrong = int(((labels != (given[places[:-1]] == "b")) & (labels >= 0)).sum())
        assert said.startswith(
            f"The model is right on {right_on} of {m} rows that were looked up (roughly {right_on / m:.0%})."
        )
        were_wrong = f"Of their given labels, {wrong} of {m} (roughly {wrong / m:.0%}) were wrong."
        assert f"{were_wrong} Rows without a right label count" in said
    assert mgce(*call, "--checked", "d.csv", "--delta", "0.999")[0] == 0  # so that one look would be enough
    frame.sample(frac=1, random_state=1).to_csv(tmp_path / "p.csv", index=False)
    assert mgce(*call, "--checked", "d.csv")[0] == 0
    assert json.loads((tmp_path / "c.json").read_text())["argmax_error"] == expected.argmax_error
    (tmp_path / "d.csv").write_text((tmp_path / "d.csv").read_text().replace(",random,1,", ",random,2,"))
    code, _, errors = mgce(*call, "--checked", "d.csv")
    assert code == 2 and "1 on other rows: " in errors


def test_decisions_of_a_second_person_widen_the_bound_by_the_errors_that_the_first_hid(mgce, refuses, tmp_path):
    rng = np.random.default_rng(0)
    right = rng.integers(2, size=600)
    guess = np.where(rng.random(600) < 0.2, 1 - right, right)
    found = np.where(rng.random(600) < 0.5, guess, right)  # what the first person says
    pd.DataFrame({"x": np.arange(600), "label": right, "prediction": guess}).to_csv(tmp_path / "p.csv", index=False)
    call = ("certify", "p.csv", "--target", "label", "--json", "c.json")
    assert mgce(*call, "--to-check", "p.suspects.csv", "--width", "0.1")[0] == 0
    shown = [one.suspect for one in chosen(read_suspects(tmp_path / "p.suspects.csv"), 0, 600)]
    rows = np.array([int(one.name) - 1 for one in shown])
    for name, labels, n in (("d.csv", found, len(rows)), ("e.csv", right, 40)):
        with (tmp_path / name).open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(COLUMNS)
            for one, row in zip(shown[:n], rows, strict=False):
                label = str(labels[row])
                what = "keep" if label == one.given else "other"
                lines.writerow(
                    [one.key, one.name, "", one.given, what, label, "random", one.draw, one.draw_probability]
                )
    code, output, errors = mgce(*call, "--checked", "d.csv", "--checked-again", "e.csv")
    assert code == 0 and "40 of them a second time" in " ".join(output.split()), errors
    looks = {"checked": (rows, found[rows]), "checked_again": (rows[:40], right[rows[:40]])}
    expected = certify(right, np.eye(2)[guess], **looks)
    document = json.loads((tmp_path / "c.json").read_text())
    assert (document["argmax_error"], document["looked_up_again"]) == (expected.argmax_error, 40)
    for options in (
        ["--checked-again", "e.csv"],
        ["--checked", "d.csv", "--checked-again", "d.csv"],
        ["--checked", "d.csv", "--checked-again", "e.csv", "--anytime"],
        ["--checked", "d.csv", "--checked-again", "e.csv", "--by", "label"],
    ):
        refuses("Expected `checked_again` to be other files than those of `checked`, and left out", *call, *options)
    refuses("rows of `checked`, looked up a second time", *call, "--checked", "e.csv", "--checked-again", "d.csv")
    (tmp_path / "e.csv").write_text((tmp_path / "e.csv").read_text().replace(",random,1,", ",random,2,"))
    refuses("Expected `checked_again` to be decisions on", *call, "--checked", "d.csv", "--checked-again", "e.csv")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_labels_that_were_found_and_typed_into_the_table_change_no_bound(mgce, refuses, tmp_path, seed):
    """Labels that a model has filled in: it errs on a fifth, and agrees with most of its own errors."""
    rng = np.random.default_rng(seed)
    n = 6000
    right = rng.integers(2, size=n)
    guess = np.where(rng.random(n) < 0.2, 1 - right, right)
    given = np.where(rng.random(n) < 0.3, right, guess)
    frame = pd.DataFrame({"x": rng.normal(size=n), "prediction": guess, "label": given})
    frame.to_csv(tmp_path / "t.csv", index=False)
    call = ("certify", "t.csv", "--target", "label", "--bounds", "argmax", "--json", "c.json")
    assert mgce(*call, "--to-check", "t.suspects.csv", "--width", "0.05")[0] == 0
    found = read_suspects(tmp_path / "t.suspects.csv")
    rows = [int(one.name) - 1 for one in found]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for one, row in zip(found, rows, strict=True):
            label = str(right[row])
            what = "keep" if label == one.given else "other"
            lines.writerow([one.key, one.name, "", one.given, what, label, "random", one.draw, one.draw_probability])
    mended = frame.copy()
    mended.loc[rows, "label"] = right[rows]
    uppers = []
    for table in (frame, mended):
        table.to_csv(tmp_path / "t.csv", index=False)
        code, output, errors = mgce(*call, "--checked", "d.csv")
        assert code == 0, errors
        uppers.append(json.loads((tmp_path / "c.json").read_text())["argmax_error"])
    assert uppers[0] == uppers[1] >= (guess != right).mean()
    n_changed = int((mended["label"] != frame["label"]).sum())
    said = " ".join(output.split())
    assert f"Note: The table has corrected labels in {n_changed} of the rows that were looked up (" in said
    # A label that is neither the given one nor the decided one; and a label that is no class.
    mended["label"] = mended["label"].astype(str)
    mended.loc[rows[0], "label"] = "2"
    mended.to_csv(tmp_path / "t.csv", index=False)
    refuses("1 on rows whose label was changed since (", *call, "--checked", "d.csv")
    frame.to_csv(tmp_path / "t.csv", index=False)
    text = (tmp_path / "d.csv").read_text()
    (tmp_path / "d.csv").write_text(re.sub(r"(keep|other),\d,random,1,", "other,no,random,1,", text))
    refuses("decisions for the 2 classes of the table (0, 1), but got 'no for row", *call, "--checked", "d.csv")


def test_looks_that_are_shared_out_are_certified_by_their_chances_and_without_the_option_refused(
    mgce, refuses, tmp_path
):
    rng = np.random.default_rng(0)
    right = rng.integers(2, size=600)
    guess, given = (np.where(rng.random(600) < share, 1 - right, right) for share in (0.1, 0.2))
    frame = pd.DataFrame({"x": np.arange(600), "label": given, "prediction": guess})
    frame.to_csv(tmp_path / "p.csv", index=False)
    call = ("certify", "p.csv", "--target", "label", "--bounds", "argmax", "--json", "c.json")
    code, output, errors = mgce(*call, "--share", "--to-check", "p.suspects.csv", "--width", "0.1")
    assert code == 0 and "rows, doubtful ones twice as often: the bound" in " ".join(output.split()), errors
    shown = [one.suspect for one in chosen(read_suspects(tmp_path / "p.suspects.csv"), 0, 600)]
    rows = np.array([int(one.name) - 1 for one in shown])
    # With these predictions a doubtful row is one whose label disagrees.
    often = np.array([float(one.draw_probability) for one in shown])
    assert np.allclose(often[(given != guess)[rows]], 2 * often[(given == guess)[rows]].max())
    with (tmp_path / "d.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for one, row in zip(shown, rows, strict=True):
            label = str(right[row])
            what = "keep" if label == one.given else "other"
            lines.writerow([one.key, one.name, "", one.given, what, label, "random", one.draw, one.draw_probability])
    bounds = []
    for table in (frame, frame.assign(label=np.where(np.isin(np.arange(600), rows), right, given))):
        table.to_csv(tmp_path / "p.csv", index=False)
        code, output, errors = mgce(*call, "--share", "--checked", "d.csv")
        assert code == 0 and "after 200 more looks." in " ".join(output.split()), errors
        bounds.append(json.loads((tmp_path / "c.json").read_text())["argmax_error"])
    counts = [[int(cell[part].sum()) for cell in (given == guess, given != guess)] for part in (rows, slice(None))]
    wrong = rows[guess[rows] != right[rows]]
    errors = [int(cell[wrong].sum()) for cell in (given == guess, given != guess)]
    alike = stratified_upper(tuple(errors), tuple(counts[0]), tuple(counts[1]), ratio=2.0)
    assert bounds[0] == bounds[1] and abs(bounds[0] - alike) < 0.02  # a tenth of the rows is not counted
    # By groups, each bound is that of the looks within the group, where doubtful rows come twice as often too.
    code, output, errors = mgce(*call, "--share", "--checked", "d.csv", "--by", "prediction")
    assert code == 0, errors
    of_each, half = json.loads((tmp_path / "c.json").read_text())["parts"], []
    for part in (0, 1):
        cells = [(given == guess) & (guess == part), (given != guess) & (guess == part)]
        counts = [tuple(int(cell[of].sum()) for cell in cells) for of in (wrong, rows, slice(None))]
        half.append(stratified_upper(*counts, 0.025, ratio=2.0))
    assert all(abs(of_each[str(part)]["argmax_error"] - half[part]) < 0.03 for part in (0, 1))
    refuses("on other rows: ", *call, "--checked", "d.csv")
    refuses("Expected `share` to be left out with `anytime`", *call, "--share", "--checked", "d.csv", "--anytime")
