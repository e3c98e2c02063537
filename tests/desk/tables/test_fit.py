import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import FunctionTransformer

from mgce import certify
from mgce.desk.tables import learning
from mgce.desk.tables.choice import CORRECTING, Choice
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.held_out import OF_ALL_ROWS, prediction_sets
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.report import headline, page, which_model, wrong_labels
from mgce.desk.tables.rows import split_rows
from mgce.desk.tables.summary import summary
from mgce.desk.tables.suspects_report import when_to_stop
from mgce.estimators import MGCEClassifier
from mgce.sets import calibrate

PLAN = FitPlan("y", model="linear")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=(300, 2)), rng.choice(["a", "b", "c"], 300)
    score = x[:, 0] + (kind == "a")
    label = np.where(score > 0.8, "high", np.where(score < -0.3, "low", "mid"))
    frame = pd.DataFrame({"one": x[:, 0], "two": x[:, 1], "kind": kind, "empty": np.nan, "y": label})
    frame.loc[::10, "two"] = np.nan
    return frame


@pytest.fixture(scope="module")
def flipped():
    """Rows whose labels are made wrong."""
    return np.random.default_rng(1).permutation(300)[:15]


@pytest.fixture(scope="module")
def noisy(frame, flipped):
    frame = frame.copy()
    frame.loc[flipped, "y"] = frame.loc[flipped, "y"].map({"high": "low", "low": "high", "mid": "high"})
    return frame


@pytest.fixture(scope="module")
def fit(noisy):
    return run(noisy, PLAN)


@pytest.fixture(scope="module")
def held_out(fit, noisy):
    """The rows that the measured model does not count among those it was trained on."""
    model = fit.measured
    selected, labels = model.columns.select(noisy), model.columns.labels(noisy)
    return np.array([row for row in range(300) if not model.count_trained(selected[row:][:1], labels[row:][:1])])


def test_a_quarter_of_the_rows_is_held_out_at_random(fit, held_out):
    assert (fit.n_train, fit.certificate.n, len(held_out)) == (225, 75, 75)
    assert held_out.max() - held_out.min() > 200
    assert fit.left_out == ["empty"] and fit.n_missing == {"one": 0, "two": 30, "kind": 0}


def test_a_column_that_names_the_rows_is_left_out_and_said_to_be(fit, noisy):
    """The model is that of the table without it, and asks for no such column of new rows."""
    named = run(noisy.assign(claim=[f"C-{row}" for row in range(300)]), PLAN)
    assert named.model.columns.kinds == fit.model.columns.kinds and "claim" in named.listing.cells
    np.testing.assert_array_equal(named.judgement.wrong, fit.judgement.wrong)
    assert summary(named)["reading"]["left_out"] == {"claim": "different in every row", "empty": "no value"}
    (note,) = (note for note in named.notes if "claim" in note)
    assert note.startswith(
        "Column `claim` was left out, since it is different in every row. If it names the rows, pass "
        "--id 'claim' before you review"
    )
    assert "claim (different in every row)" in page(named, "t.csv", "m").decode()
    kept = run(noisy.assign(claim=[f"C-{row}" for row in range(300)]), replace(PLAN, category=("claim",)))
    assert kept.model.columns.kinds["claim"] == "category"


@pytest.mark.parametrize(
    ("noise_type", "noise_rate", "coverage", "counts"),
    [
        ("any", 0.05, 0.9, True),
        ("any", 0.1, 0.875, True),
        ("any", 0.125, 0.875, False),  # as many as the sets may miss: every row would be in every set
        ("any", 0.2, 0.9, False),
        ("symmetric", 0.05, 0.9, False),  # a rate, where sets need a bound
        ("pair", 0.05, 0.9, False),
    ],
)
def test_sets_count_wrong_labels_where_they_are_bounded_by_less_than_the_sets_may_miss(
    noise_type, noise_rate, coverage, counts
):
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    target = np.array([np.random.default_rng(row).choice(3, p=of) for row, of in enumerate(probs)])
    held_out = SimpleNamespace(target=target, softmax=probs)
    plan = replace(PLAN, noise_type=noise_type, noise_rate=noise_rate, coverage=coverage)
    sets = prediction_sets(held_out, SimpleNamespace(n_copies=0), plan)
    options = {"noise_type": "any", "noise_rate": noise_rate} if counts else {}
    alike = calibrate(target, probs, alpha=1 - coverage, **options)
    assert sets == replace(alike, assumptions=(*alike.assumptions, OF_ALL_ROWS))
    assert (sets.thresholds > calibrate(target, probs, alpha=1 - coverage).thresholds) == counts


def test_the_measured_model_is_that_of_the_other_rows(fit, noisy, held_out):
    train = np.setdiff1d(np.arange(300), held_out)
    imputer = fit.measured.pipeline[0].named_transformers_["numbers"][0]
    np.testing.assert_allclose(imputer.statistics_, noisy.loc[train, ["one", "two"]].median())
    X = fit.measured.pipeline[0].transform(fit.measured.columns.select(noisy.iloc[train]))
    again = MGCEClassifier(1.4, lambda0=fit.measured.pipeline[-1].lambda0).fit(X, noisy.loc[train, "y"].to_numpy(str))
    np.testing.assert_array_equal(fit.measured.pipeline[-1].coef_, again.coef_)


@pytest.fixture(scope="module")
def in_time(noisy):
    """A table whose last quarter is held out, and the fit to it."""
    frame, plan = noisy.assign(day=range(300)), replace(PLAN, time="day")
    return frame, plan, run(frame, plan)


LATE = np.arange(225, 300)


def test_rows_held_out_change_the_certificate_and_nothing_of_the_measured_model(in_time):
    frame, plan, fit = in_time
    changed = frame.copy()
    changed.loc[LATE, "y"] = changed.loc[LATE, "y"].map({"high": "low", "low": "mid", "mid": "high"})
    changed.loc[LATE, "one"] += 1
    other = run(changed, plan)
    np.testing.assert_array_equal(other.measured.pipeline[-1].coef_, fit.measured.pipeline[-1].coef_)
    np.testing.assert_array_equal(other.measured.trained_rows, fit.measured.trained_rows)
    assert other.certificate.assumed.argmax_error > fit.certificate.assumed.argmax_error + 0.2


def test_rows_held_out_whose_label_is_no_class_are_errors(in_time):
    frame, plan, fit = in_time
    strange = frame.copy()
    strange.loc[LATE[:5], "y"] = [f"slip {i}" for i in range(5)]
    again = run(strange, plan)
    assert again.certificate.n == fit.certificate.n == len(LATE)
    right = fit.measured.predict(fit.measured.columns.select(frame)).label[LATE] == frame["y"][LATE]
    errors = int((~right[5:]).sum()) + 5
    assert again.certificate.assumed.argmax_error >= fit.certificate.assumed.argmax_error
    assert again.certificate.assumed.argmax_error == pytest.approx(
        certify(
            np.r_[np.ones(errors, int), np.zeros(len(LATE) - errors, int)],
            np.tile([0.9, 0.1], (len(LATE), 1)),
            delta=PLAN.delta,
        ).assumed.argmax_error
    )


def test_figures_are_those_of_the_measured_model_on_the_rows_held_out(fit, noisy, held_out):
    unsorted = split_rows(noisy, PLAN).held_out
    assert sorted(unsorted) == held_out.tolist()
    held_out = unsorted  # the bound of the randomized error depends on the order of the rows
    rows = fit.measured.columns.select(noisy.iloc[held_out])
    given = noisy.loc[held_out, "y"].to_numpy(str)
    target = np.searchsorted(["high", "low", "mid"], given)
    h, label = fit.measured.pipeline.predict_proba(rows), fit.measured.pipeline.predict(rows)
    p = fit.measured.predict(rows).p
    assert fit.certificate == certify(target, h)
    assert fit.quality["accuracy"] == pytest.approx(accuracy_score(given, label), abs=1e-12)
    assert fit.quality["randomized_error"] == pytest.approx(1 - h[np.arange(75), target].mean(), abs=1e-9)
    for output, probs in (("h", h), ("p", p)):
        right = label == given
        assert fit.quality[f"ece_{output}"] == pytest.approx(calibration_error(probs.max(1), right), abs=1e-9)
        of_classes = [calibration_error(probs[:, j], target == j) for j in range(3)]
        assert fit.quality[f"sce_{output}"] == pytest.approx(np.mean(of_classes), abs=1e-9)


def calibration_error(confidence, right):
    """Guo et al. (2017), equation (3), with 15 bins."""
    bins = np.minimum((confidence * 15).astype(int), 14)
    return sum(abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in range(15)) / len(right)


def test_wrong_labels_are_found(fit, flipped, noisy):
    first = fit.judgement.suspects(15)
    assert len(set(first.tolist()) & set(flipped.tolist())) >= 12
    assert [fit.model.classes[label] for label in fit.judgement.target] == noisy["y"].tolist()
    assert fit.row_names.tolist() == [str(row) for row in range(1, 301)]


def test_the_model_to_use_is_fitted_to_all_rows(fit, noisy):
    assert fit.model.count_trained(fit.model.columns.select(noisy), fit.model.columns.labels(noisy)) == 300
    imputer = fit.model.pipeline[0].named_transformers_["numbers"][0]
    np.testing.assert_allclose(imputer.statistics_, noisy[["one", "two"]].median())
    X = fit.model.pipeline[0].transform(fit.model.columns.select(noisy))
    whole = MGCEClassifier(1.4, lambda0=fit.model.pipeline[-1].lambda0).fit(X, noisy["y"].to_numpy(str))
    np.testing.assert_array_equal(fit.model.pipeline[-1].coef_, whole.coef_)


def test_it_says_which_model_is_in_the_file_and_which_one_was_measured(fit):
    said = "fitted to all 300 rows. The figures and the bound are of the same model fitted to 225"
    assert said in which_model(fit) and page(fit, "t.csv", "m").decode().count(said) == 2
    assert summary(fit)["fitted_to"] == {"file": 300, "figures": 225, "certificate": 225}
    assert (fit.model.n_measured, fit.measured.n_measured) == (225, None)


@pytest.mark.slow
def test_what_corrects_labels_says_probabilities_of_right_labels(noisy, fit):
    """Its h is q: the mean over rows held out of the largest is the estimated accuracy against right labels."""
    assert fit.choice.name == "linear" and not fit.model.corrects and fit.model.about_q == ""
    fit = run(noisy, FitPlan("y"))
    assert fit.choice.name == "correction" and fit.model.corrects
    rows = noisy.iloc[split_rows(noisy, PLAN).held_out]
    known = fit.measured.predict(fit.measured.columns.select(rows))
    np.testing.assert_array_equal(known.q, known.h)
    np.testing.assert_allclose(known.p, known.h, atol=1e-9)
    assert fit.sure == pytest.approx(known.h.max(1).mean())
    assert summary(fit)["right_labels"] == {"accuracy": fit.sure, "says": fit.model.about_q}
    # For the balanced metric rows have weights, and probabilities do not say how frequent classes are.
    balanced = run(noisy, FitPlan("y", metric="balanced"))
    assert balanced.choice.name == "correction" and not balanced.model.corrects
    assert balanced.model.about_q == "" and balanced.model.predict(balanced.model.columns.select(rows)).q is None
    assert summary(balanced)["right_labels"] is None and math.isnan(balanced.sure)
    np.testing.assert_array_equal(balanced.judgement.wrong, fit.judgement.wrong)  # by a fit without these weights


@pytest.fixture(scope="module")
def rare():
    """Two classes of which the rare one has an eighth of the rows; 40 % of the labels are wrong, and the right ones."""
    rng = np.random.default_rng(3)
    right = rng.random(2_000) < 0.125
    x = rng.normal(size=(2_000, 2)) + 1.5 * right[:, None]
    given = right ^ (rng.random(2_000) < 0.4)
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.where(given, "rare", "common")})
    return table, np.where(right, "rare", "common")


def test_the_balanced_metric_does_not_forget_the_rare_class(rare):
    table, right = rare
    recalls = {}
    for metric in ("accuracy", "balanced"):
        fit = run(table, replace(PLAN, metric=metric))
        label = fit.model.predict(fit.model.columns.select(table)).label
        recalls[metric] = [(label == name)[right == name].mean() for name in ("common", "rare")]
        counts = fit.measures.confusion
        expected = np.mean(counts.diagonal() / counts.sum(1))
        assert fit.measures.balanced_accuracy == summary(fit)["balanced_accuracy"] == pytest.approx(expected)
    assert np.mean(recalls["balanced"]) > np.mean(recalls["accuracy"]) + 0.02
    assert recalls["balanced"][1] > 0.9 and recalls["accuracy"][1] < 0.6
    assert summary(fit)["right_labels"] is None and "By q, the model" not in page(fit, "t.csv", "m").decode()


def test_rows_of_all_labels_weigh_the_same_for_the_balanced_metric(rare):
    table, _ = rare
    fit = run(table, replace(PLAN, metric="balanced"))
    X = fit.model.pipeline[0].transform(fit.model.columns.select(table))
    balanced = MGCEClassifier(1.4, lambda0=fit.model.pipeline[-1].lambda0, class_weight="balanced", tol=1e-8)
    margins = balanced.fit(X, table["y"].to_numpy(str)).decision_function(X)
    np.testing.assert_allclose(fit.model.pipeline[-1].decision_function(X), margins, atol=1e-2)


def test_prediction_sets_say_that_another_model_was_calibrated(fit):
    assert OF_ALL_ROWS in str(fit.model.sets) and fit.measured.sets is None


@pytest.mark.slow
def test_the_fit_depends_on_the_plan_alone(fit, noisy):
    np.random.default_rng().random(3)
    again = run(noisy, PLAN)
    assert (again.quality, again.certificate) == (fit.quality, fit.certificate)
    np.testing.assert_array_equal(again.judgement.wrong, fit.judgement.wrong)
    other = run(noisy, replace(PLAN, seed=1))
    assert set(other.measured.trained_rows.tolist()) != set(fit.measured.trained_rows.tolist())


def test_steps_are_counted_to_their_end(noisy):
    steps = []
    run(noisy, PLAN, lambda *step: steps.append(step))
    assert [done for _, done, _ in steps] == list(range(1, len(steps) + 1))
    assert len({total for *_, total in steps}) == 1 and len(steps) <= steps[0][2]
    assert list(dict.fromkeys(what for what, *_ in steps)) == [
        "Fitting linear",
        "Shuffling columns",
        "Fitting to all rows, and judging their labels",
    ]


@pytest.mark.slow
def test_a_noise_rate_that_is_too_high_is_refuted_in_the_headline_too(frame):
    plain = run(frame, FitPlan("y", model="linear"))
    plan = FitPlan("y", model="linear", noise_rate=plain.certificate.assumed.argmax_error + 0.05)
    refuted = run(frame, plan)
    # As without the rate, but that a fiftieth of delta went to the test of the rate.
    without = run(frame, FitPlan("y", model="linear", delta=0.98 * plan.delta))
    assert refuted.certificate.assumed.argmax_error == pytest.approx(without.certificate.assumed.argmax_error)
    said = headline(refuted)
    assert "refute that a share" in said and "The model disagrees with the given label in at most" in said
    text = page(refuted, "t.csv", "m").decode()
    assert text.count("refute that a share") == 2 and "corrected for a noise rate" not in text


def test_the_callers_number_of_threads_is_kept(noisy):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        run(noisy, PLAN)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_wide_table_of_numbers_has_the_head_among_its_candidates(tmp_path):
    rng = np.random.default_rng(0)
    right = rng.integers(0, 3, 240)
    given = np.where(rng.random(240) < 0.2, (right + 1) % 3, right)
    features = rng.normal(size=(240, 256)) + 1.2 * np.eye(3)[right] @ rng.normal(size=(3, 256))
    frame = pd.DataFrame(features).add_prefix("x").assign(label=[f"c{label}" for label in given])
    fit = run(frame, FitPlan("label"))
    assert {trial.name for trial in fit.choice.trials} == {"correction", "head"}
    text = page(fit, "t.csv", "m").decode()
    assert all(f"{trial.accuracy:.1%}" in text for trial in fit.choice.trials) and "The best was chosen." in text
    assert [trial.name for trial in run(frame.drop(columns="x0")[:90], FitPlan("label")).choice.trials] == [
        "correction"
    ]
    path = tmp_path / "wide.mgce"
    path.write_bytes(fit.model.to_bytes())
    selected = fit.model.columns.select(frame)
    np.testing.assert_array_equal(TableModel.load(path).predict(selected).label, fit.model.predict(selected).label)
    wrong = fit.judgement.wrong
    assert wrong[given != right].min() > np.median(wrong[given == right])


@pytest.mark.parametrize("k", [2, 4])
def test_of_right_labels_whose_classes_overlap_nothing_false_is_said(k):
    """The labels are drawn by chance from the features, so that a third or more differ from the most probable class."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(300, 4))
    right = (X[:, :k] + rng.gumbel(size=(300, k))).argmax(1)
    fit = run(pd.DataFrame(X).add_prefix("x").assign(label=[f"c{label}" for label in right]), FitPlan("label"))
    judged = fit.judgement
    assert judged.wrong.max() < 0.9
    assert judged.is_issue.mean() < judged.share.disagreement / 2
    said = when_to_stop(fit)
    assert "Where classes overlap it may be none." in said if judged.is_issue.any() else said.startswith("No label")
    assert "expects" in said and f" of the {judged.share.n:,} (" in wrong_labels(fit)


@pytest.mark.parametrize(("n", "is_said"), [(49_999, False), (50_000, True)])
def test_what_more_rows_give_is_said_from_fifty_thousand_training_rows_on(monkeypatch, n, is_said):
    """As the changelog says. Nothing is fitted here."""
    fits = []

    def choose(X, y, models, **_):
        fits.append(len(X))
        return Choice(next(iter(CORRECTING)), None, [SimpleNamespace(accuracy=len(X) / n)])

    monkeypatch.setattr(learning, "choose", choose)
    monkeypatch.setattr(learning, "features_of", lambda *_: FunctionTransformer(lambda X: X.to_numpy()))
    monkeypatch.setattr(learning, "_model", lambda *_: None)
    rows = SimpleNamespace(
        selected=pd.DataFrame({"x": np.zeros(n)}),
        columns=SimpleNamespace(kinds={"x": "number"}),
        train=np.arange(n),
        classes=np.array(["a", "b"]),
        target=np.zeros(n, int),
        weight=lambda some: None,
    )
    said = learning.learn(rows, FitPlan("y"), [], lambda _: None).warned
    of_both = "predicts 25.0% if it learns 12,500 rows, and 100.0% if it learns 50,000."
    assert [one.endswith(of_both) for one in said] == [True] * is_said and fits == [n, 12_500][: 1 + is_said]


def test_large_tables_say_what_more_rows_give(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 400))
    frame = pd.DataFrame({"x": x, "y": y, "label": np.where(x * y > 0, "same", "other")})
    assert not any("What more rows give" in note for note in run(frame, FitPlan("label")).notes)
    monkeypatch.setattr(learning, "CURVE_ROWS", 300)
    (said,) = [note for note in run(frame, FitPlan("label")).notes if "What more rows give" in note]
    few, many = map(float, re.findall(r"([\d.]+)%", said))
    assert "if it learns 75 rows" in said
    assert "if it learns 300." in said
    assert few < many  # four times as many rows of a diagonal problem
