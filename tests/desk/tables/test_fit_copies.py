"""A table with copies of rows: what is certified, judged and said."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from mgce import certify
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.held_out import DISTINCT
from mgce.desk.tables.report import headline, page, wrong_labels
from mgce.desk.tables.rows import split_rows
from mgce.desk.tables.summary import summary
from mgce.estimators import MGCEClassifier

PLAN = FitPlan("y", model="linear")


def oversampled(seed, n=300, rare=30):
    """Draw rows whose features say nothing of the label, and of a rare class so many copies that both have n - rare."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)).round(3), columns=list("abcde"))
    frame["y"] = np.where(np.arange(n) < rare, "rare", "common")
    return pd.concat([frame, frame.iloc[rng.choice(rare, n - 2 * rare)]], ignore_index=True)


@pytest.fixture(scope="module")
def table():
    return oversampled(0)


@pytest.fixture(scope="module")
def fit(table):
    return run(table, replace(PLAN, model="forest"))


def test_the_certificate_counts_each_distinct_row_held_out_once(fit, table):
    assert (fit.n_train, fit.certificate.n, fit.n_copies) == (225, 75, 240)
    rows = split_rows(table, PLAN)
    held_out = rows.selected.iloc[rows.held_out]
    target = rows.target[rows.held_out]
    h = fit.measured.pipeline.predict_proba(held_out)
    expected = certify(target, h)
    assert fit.certificate == replace(expected, assumptions=(*expected.assumptions, DISTINCT))
    assert fit.quality["accuracy"] == pytest.approx((h.argmax(1) == target).mean())
    assert fit.measures.confusion.sum() == 75
    # No copy of a row held out was trained on: each of the 300 rows is in one of both parts.
    trained = fit.measured.count_trained(rows.selected.iloc[rows.held_out], rows.labels.iloc[rows.held_out])
    assert trained == 0 and len(fit.measured.trained_rows) == 225


def test_it_says_that_its_bounds_are_for_distinct_rows(fit):
    words = headline(fit)
    assert (
        words.startswith("Accuracy: on 75 distinct rows that it had not seen")
        and "of distinct rows drawn and labelled like these" in words
    )
    assert "240 of the 540 rows are copies" in fit.notes[0]
    assert DISTINCT in str(fit.certificate) and DISTINCT in str(fit.model.sets)
    assert "300 labels of distinct rows" in wrong_labels(fit)
    text = page(fit, "t.csv", "m").decode()
    assert "Disagreements on distinct rows like the 75 distinct rows held out" in text and "240 of the 540 rows" in text
    found = json.loads(json.dumps(summary(fit)))
    assert found["rows"] == {"trained": 225, "held_out": 75, "copies": 240}
    assert DISTINCT in found["certificate"]["assumptions"] and "240 of the 540" in found["notes"][0]


def test_a_table_without_copies_is_not_spoken_of_as_one(table):
    plain = table.iloc[:300]
    fit = run(plain, PLAN)
    assert (
        fit.n_copies == 0
        and not any("copies" in note for note in fit.notes)
        and DISTINCT not in fit.certificate.assumptions
    )
    assert "distinct" not in headline(fit) + wrong_labels(fit) + page(fit, "t.csv", "m").decode()


def test_copies_are_judged_by_models_that_have_learnt_none_of_them(fit, table):
    """Without information in the features, such models find the labels of the rare class wrong, copied or not."""
    rows = split_rows(table, PLAN)
    judged = fit.judgement
    np.testing.assert_array_equal(judged.probs, judged.probs[rows.first])
    rare = judged.target == 1
    agrees = judged.suggestion == judged.target
    assert rare.sum() == 270 and agrees[rare].mean() < 0.5
    leaking = RandomForestClassifier(oob_score=True, random_state=0).fit(table[list("abcde")], table["y"])
    assert (leaking.oob_decision_function_.argmax(1) == rare)[rare].mean() > 0.95
    predicted = judged.probs.argmax(1)
    assert judged.share.n == 300
    assert judged.share.disagreement == (predicted != judged.target)[judged.is_distinct].mean()
    assert judged.is_distinct.sum() == 300
    listed = judged.suspects(540)
    assert len(np.unique(rows.first[listed])) == len(listed) <= 300


def test_a_copied_row_weighs_as_much_as_its_copies(table):
    rows = split_rows(table, PLAN)
    fit = run(table, PLAN)
    X = fit.model.pipeline[0].transform(rows.selected)
    penalty = fit.model.pipeline[-1].lambda0
    everything = MGCEClassifier(1.4, lambda0=penalty, tol=1e-8).fit(X, table["y"].to_numpy(str))
    np.testing.assert_allclose(fit.model.pipeline[-1].decision_function(X), everything.decision_function(X), atol=1e-2)


@pytest.mark.slow
def test_the_bound_holds_for_fresh_distinct_rows():
    """It did not: with copies on both sides of the split the bound was .03 where .5 of the rows were wrong.

    Of three bounds that fail with a probability of 0.05 each, two fail once in 138 times.
    """
    held = 0
    for seed in range(1, 4):
        fit = run(oversampled(seed), replace(PLAN, model="forest"))
        rng = np.random.default_rng(100 + seed)
        fresh = pd.DataFrame(rng.normal(size=(4000, 5)), columns=list("abcde"))
        labels = np.where(rng.random(4000) < 0.1, "rare", "common")  # the distinct rows have a tenth of them
        wrong = fit.measured.predict(fit.measured.columns.select(fresh)).label != labels
        held += wrong.mean() <= fit.certificate.argmax_error
    assert held >= 2
