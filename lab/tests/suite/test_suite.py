"""The lists of tables, which may not change once results were read, and the wrong labels."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, average_precision_score, balanced_accuracy_score

from mgce.desk.files.tables import make_table
from mgce.estimators import LabelCorrectionClassifier
from mgce_lab.suite import choice, page, reviewer, variants
from mgce_lab.suite.cache import Cached
from mgce_lab.suite.cells import drawn
from mgce_lab.suite.noises import NOISES, wrong_labels
from mgce_lab.suite.opponents import ENTRANTS, OPPONENTS, probabilities
from mgce_lab.suite.rankings import precisions, render
from mgce_lab.suite.records import record_of
from mgce_lab.suite.tables import CHOOSING, LOCKED, READ, TABLES

N = 3000


def data(n_classes):
    X, y = make_classification(
        N, 8, n_informative=6, n_classes=n_classes, n_clusters_per_class=1, class_sep=0.7, random_state=0
    )
    return X, y


def test_the_locked_lists_are_as_they_were_committed():
    first = (
        "lme4/VerbAgg abalone9-18 MASS/nlschools car-good Ecdat/Yogurt survival/colon pscl/vote92 "
        "Zelig/mid Ecdat/Catsup yeast1 Zelig/turnout Ecdat/Participation quantreg/uis"
    )
    second = (
        "Ecdat/Bwages Ecdat/OFP gap/PD Ecdat/Train KMsurv/pneumon rpart/solder psych/bfi "
        "pscl/politicalInformation Ecdat/Mroz Ecdat/Cracker Ecdat/Tobacco Ecdat/Mathlevel psych/sat.act"
    )
    assert LOCKED == {"first": tuple(first.split()), "second": tuple(second.split())}
    assert [len(names) for names in LOCKED.values()] == [13, 13]
    assert len(CHOOSING) == len(TABLES) - 26 >= 40 and set(CHOOSING) >= READ
    assert not set(LOCKED["first"]) & set(LOCKED["second"])


@pytest.mark.parametrize(("kind", "rate"), NOISES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_share_of_wrong_labels_is_about_the_rate_and_the_draw_is_that_of_the_seed(kind, rate, n_classes):
    X, y = data(n_classes)
    given = wrong_labels(X, y, n_classes, kind, rate, 0)
    np.testing.assert_array_equal(given, wrong_labels(X, y, n_classes, kind, rate, 0))
    share = (given != y).mean()
    if kind == "pair" and n_classes == 2:  # one of two classes of equal size
        assert abs(share - rate / 2) < 0.04 and min((given != y)[y == k].mean() for k in (0, 1)) == 0
    else:
        assert abs(share - rate) < 0.04
    if kind == "by class":
        rates = sorted((given != y)[y == k].mean() for k in range(n_classes))
        assert rates[0] == 0 and 0.4 < rates[-1] < 0.5


def test_near_the_boundary_more_labels_are_wrong_and_become_the_next_class():
    X, y = data(4)
    given = wrong_labels(X, y, 4, "linear", 0.25, 0)
    probs = LogisticRegression(C=0.1, max_iter=300).fit(X, y).predict_proba(X)
    margin = np.sort(probs, 1) @ [0, 0, -1, 1]
    wrong, near = given != y, margin < np.median(margin)
    assert wrong[near].mean() > 2.5 * wrong[~near].mean()
    probs[np.arange(N), y] = -1
    np.testing.assert_array_equal(given[wrong], probs.argmax(1)[wrong])


def test_a_cell_has_the_rows_asked_for_or_there_is_none():
    X, y = data(3)
    table = make_table("made", pd.DataFrame(X[:900]).add_prefix("x"), pd.Series(y[:900]).map(lambda k: "abc"[k]))
    cell = drawn(table, 500, "symmetric", 0.2, 0)
    assert len(cell.X) == len(cell.given) == 500 and len(cell.test) == len(cell.X_test) == 400
    assert cell.frame["label"].astype(int).tolist() == cell.given.tolist()
    assert drawn(table, 601, "symmetric", 0.2, 0) is None
    found = probabilities("logistic", cell, 0)
    assert (found.new.argmax(1) == cell.test).mean() > 0.6 and np.allclose(found.own.sum(1), 1)
    assert set(OPPONENTS) == {"forest", "svm", "logistic"}


def test_a_ranking_is_judged_by_scikit_learns_average_precision():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 3, 200)
    given = np.where(rng.random(200) < 0.3, (right + 1) % 3, right)
    probs = 0.2 + 0.4 * np.eye(3)[right] + 0.1 * rng.random((200, 3))
    own = dict.fromkeys(ENTRANTS, probs)
    cells = [Cached("a", "pair", 0.3, given, right, right, own, own, {})]
    found = precisions(cells)
    sure = probs / probs.sum(1, keepdims=True)
    expected = 100 * average_precision_score(given != right, 1 - sure[np.arange(200), given])
    assert found["forest", "1 - p of the label"]["pair 30%"] == [pytest.approx(expected)]
    assert all(values["pair 30%"][0] > 95 for values in found.values())  # as the right class is always most probable
    assert "| forest | margin |" in render(found)
    shuffled = {name: probs[rng.permutation(200)] for name in ENTRANTS}
    assert precisions([cells[0]._replace(own=shuffled)])["forest", "mgce"]["pair 30%"][0] < 60


def test_a_locked_list_is_read_only_for_the_committed_choice(tmp_path, monkeypatch):
    path = tmp_path / "choice.json"
    monkeypatch.setattr(choice, "CHOICE", path)
    choice.check_readable("choosing")
    with pytest.raises(SystemExit, match="locked"):
        choice.check_readable("first")
    path.write_text(json.dumps({"first": choice.hash_of_choice()}))
    choice.check_readable("first")
    with pytest.raises(SystemExit, match="locked"):
        choice.check_readable("second")
    monkeypatch.setattr(choice, "MODULES", choice.MODULES[:-1])  # other code
    with pytest.raises(SystemExit, match="Commit the choice"):
        choice.check_readable("first")


def test_a_record_has_the_figures_of_scikit_learn():
    rng = np.random.default_rng(1)
    right, test = rng.integers(0, 3, 300), rng.integers(0, 3, 200)
    given = np.where(rng.random(300) < 0.3, (right + 1) % 3, right)
    own = dict.fromkeys(ENTRANTS, rng.dirichlet(np.ones(3), 300) / 2 + np.eye(3)[right] / 2)
    new = {name: rng.dirichlet(np.ones(3), 200) for name in ENTRANTS}
    found = record_of(Cached("a", "pair", 0.3, given, right, test, own, new, dict.fromkeys(ENTRANTS, 1.0)))
    for name in ENTRANTS:
        mine, probs = found["models"][name], new[name]
        assert mine["accuracy"] == pytest.approx(100 * accuracy_score(test, probs.argmax(1)), abs=0.01)
        assert mine["balanced"] == pytest.approx(100 * balanced_accuracy_score(test, probs.argmax(1)), abs=0.01)
        clipped = np.maximum(probs, 1e-3)
        assert mine["log_loss"] == pytest.approx(-np.log(clipped[np.arange(200), test]).mean(), abs=1e-4)
    score = 1 - own["forest"][np.arange(300), given]
    assert found["precision"]["forest, 1 - p"] == pytest.approx(
        100 * average_precision_score(given != right, score), abs=0.01
    )
    assert sum(n for n, _ in found["stated"]) == 300 and sum(w for _, w in found["stated"]) == (given != right).sum()


def test_the_page_of_the_suite_counts_wins_and_losses_alike():
    records = page.read("first", 1000)
    assert page.differences(records).count("\n") == 5
    models = [record["models"] for record in records]
    swapped = [{**r, "models": {**m, "mgce": m["svm"], "svm": m["mgce"]}} for r, m in zip(records, models, strict=True)]
    ours, theirs = (page.interval(list(page.by_table(page.noisy(part), _lead).values())) for part in (records, swapped))
    assert float(ours.split(" ")[0]) == -float(theirs.split(" ")[0]) != 0


def test_pages_and_picture_are_the_rendering_of_the_records():
    assert page.PAGE.read_text().partition(page.BEGIN)[2].partition(page.END)[0] == page.whole()
    assert page.SHORT.read_text().partition(page.BEGIN)[2].partition(page.END)[0] == page.short()
    assert page.PICTURE.read_text() == page.picture()
    assert page.for_readme() in Path("README.md").read_text()


def test_ranks_are_means_of_those_of_each_cell():
    names = list(page.MODELS)
    cells = [
        {"models": {name: {"accuracy": value} for name, value in zip(names, values, strict=True)}}
        for values in ([0.9, 0.8, 0.8, 0.2, 0.1], [0.5, 0.7, 0.6, 0.2, 0.1])
    ]
    assert page._ranks(cells, "accuracy") == dict(zip(names, [2.0, 1.75, 2.25, 4.0, 5.0], strict=True))


def _lead(record):
    return record["models"]["mgce"]["accuracy"] - record["models"]["svm"]["accuracy"]


def test_a_reviewer_finds_what_is_asked_for_and_leaves_the_rest(monkeypatch):
    for name, few in {"n_estimators": 20, "n_components": 50}.items():
        monkeypatch.setitem(LabelCorrectionClassifier.__init__.__kwdefaults__, name, few)
    X, right = data(3)
    X, right = X[:200], right[:200]
    given = np.where(np.random.default_rng(0).random(200) < 0.2, (right + 1) % 3, right)
    rounds = reviewer.reviewed(X, given, right)
    wrong = int((given != right).sum())
    assert rounds[0]["asked"] > 0 and rounds[-1]["asked"] == 0 and len(rounds) <= reviewer.ROUNDS
    for one in rounds:
        assert one["left"] + one["found"] == wrong and one["found"] <= one["asked"] and one["told"] > 0
        wrong -= one["found"]
    record = {"table": "a", "kind": "pair", "rate": 0.4, "rows": 200, "classes": 3, "wrong": 40, "rounds": rounds}
    assert f"| pair 40% | 1 | 20.0 | {rounds[0]['asked'] / 2:.1f} | {rounds[0]['left'] / 2:.1f} |" in reviewer.render(
        [record]
    )
    right_labels = {**record, "kind": "right", "rate": 0.0}
    assert f"| a | 3 | {rounds[0]['asked']} of 200 |" in reviewer.hardest([record, right_labels])


def test_a_value_that_is_best_on_every_table_is_chosen_by_all_halves():
    tables = [f"t{n}" for n in range(10)]
    values = {"1": dict.fromkeys(tables, 50.0), "2": dict.fromkeys(tables, 53.0)}
    found = variants.stability(values, "1")
    assert found["1"] == (0.0, 0.0) and found["2"] == pytest.approx((3.0, 1.0)) and found[""] == pytest.approx((0, 3.0))


@pytest.mark.parametrize(
    "constant", [one for kind in variants.KINDS.values() for one in kind], ids=lambda one: one.name
)
def test_the_values_that_are_tried_have_the_one_in_use(constant):
    usual = variants.used(constant)
    assert usual in constant.values
    with variants.having(constant, None):
        assert variants.used(constant) is None
    assert variants.used(constant) == usual
