import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mgce_lab.data import load
from mgce_lab.engine import tables
from mgce_lab.engine.place import Place
from mgce_lab.engine.specification import document
from mgce_lab.paper.tabular import TabularRun, brier_score
from mgce_lab.protocols.tables import RateRun
from mgce_lab.training.member_losses import MemberLoss

SMALL = TabularRun("wine", 0.2, (0, 1), (("mgce", 1.4), ("mgce", 1.0)), hidden=8, epochs=3)


def test_a_run_depends_on_its_specification_alone():
    records = SMALL.run(Place())
    torch.rand(3)
    assert SMALL.run(Place()) == records
    keys = [(r["seed"], r["method"]) for r in records]
    assert keys == [(seed, method) for seed in (0, 1) for method in ("mgce", "mgce", "mae_published")]
    trained = [r for r in records if r["method"] != "mae_published"]
    for name in ("validation_accuracy", "test_accuracy", "objective"):
        assert all(len(r[f"{name}_by_epoch"]) == 3 for r in trained)
    for r in trained:
        assert r["validation_accuracy"] == pytest.approx(max(r["validation_accuracy_by_epoch"]), abs=1e-5)
        assert r["test_accuracy_by_epoch"][r["best_epoch"]] == pytest.approx(r["accuracy"], abs=1e-5)


def test_brier_score_is_the_squared_distance_from_the_labels():
    generator = np.random.default_rng(0)
    for k in (2, 5):
        probs, target = generator.dirichlet(np.ones(k), 40), generator.integers(0, k, 40)
        expected = np.mean([np.sum((row - np.eye(k)[label]) ** 2) for row, label in zip(probs, target, strict=True)])
        assert brier_score(torch.from_numpy(probs), torch.from_numpy(target)) == pytest.approx(expected, rel=1e-12)


def test_methods_share_split_noise_and_initial_weights():
    alone = TabularRun("wine", 0.2, (0,), (("mgce", 1.0),), hidden=8, epochs=3).run(Place())
    beside = TabularRun("wine", 0.2, (0,), (("mgce", 1.4), ("mgce", 1.0)), hidden=8, epochs=3).run(Place())
    np.testing.assert_allclose(alone[0]["objective_by_epoch"], beside[1]["objective_by_epoch"], rtol=1e-4)


def test_a_seed_gives_the_same_whether_or_not_there_are_others():
    beside = [record for record in SMALL.run(Place()) if record["seed"] == 1]
    alone = replace(SMALL, seeds=(1,)).run(Place())
    for one, other in zip(alone, beside, strict=True):
        assert one["method"] == other["method"] and one["best_epoch"] == other["best_epoch"]
        assert one.get("test_accuracy_by_epoch") == other.get("test_accuracy_by_epoch")
        if "objective_by_epoch" in one:
            np.testing.assert_allclose(one["objective_by_epoch"], other["objective_by_epoch"], rtol=1e-4)


def test_other_losses_are_those_of_the_benchmark_beside_the_same_networks():
    settings = {"lr": 0.05, "hidden": 8, "epochs": 6}
    members = (("mgce", 1.4), ("sce", math.inf), ("ce+trim", math.inf), ("mgce+forward", 1.4), ("ce+trunc", math.inf))
    ours = TabularRun("wine", 0.4, (0, 1), members, **settings)
    theirs = RateRun("wine", 0.4, (0, 1), members[1:], **settings)
    measures = ("accuracy", "ece_h", "ece_p", "best_epoch", "validation_accuracy")
    expected = {(r["seed"], r["method"]): [r[name] for name in measures] for r in theirs.run(Place())}
    found = {(r["seed"], r["method"]): [r[name] for name in measures] for r in ours.run(Place())}
    assert found.keys() - expected.keys() == {(0, "mgce"), (1, "mgce")}
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=0, atol=1e-5)  # theirs are of six digits
    assert len({tuple(values) for values in found.values()}) > 6  # the losses do differ
    # Their hyperparameters are in the specification.
    assert document(ours)["hyperparameters"]["sce"] == {"weights": [0.1, 1.0]} and "mgce" not in ours.hyperparameters
    assert replace(ours, dataset="mnist").hyperparameters["sce"] == {"weights": (0.01, 1.0)}


def test_test_rows_are_the_published_ones_or_drawn_by_the_seed(monkeypatch):
    wine = replace(load("wine"), n_train=100)
    monkeypatch.setattr(tables, "load", lambda *_, **__: wine)
    published, drawn = (
        run.train(run.table(Place()), Place(), [MemberLoss("mgce", 1.4)])[2].target
        for run in (SMALL, replace(SMALL, random_test=True))
    )
    assert published.tolist() == 2 * [wine.target[100:].tolist()]
    assert drawn.shape == (2, 36) and drawn[0].tolist() != drawn[1].tolist()  # a fifth of 178 rows
    assert drawn[0].bincount().tolist() == drawn[1].bincount().tolist()  # the classes in proportion


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"scaling": "pixle"}, ValueError, "Expected `scaling` to be one of 'standard', 'pixels', but got 'pixle'"),
        ({"noise_rate": 1.5}, ValueError, "Expected `noise_rate`"),
        ({"seeds": ()}, ValueError, "Expected `seeds` to be one or more values"),
        ({"seeds": (-1,)}, ValueError, "Expected `seeds`"),
        ({"seeds": (0, 0)}, ValueError, "Expected `seeds` to be one or more values, none of them twice"),
        ({"members": ()}, ValueError, "Expected `members`"),
        ({"members": (("svm", 1.4),)}, ValueError, "Expected `members` to be one of 'ce'"),
        ({"members": (("mgce", 0.5),)}, ValueError, "Expected `beta`"),
        ({"rows": 0}, ValueError, "Expected `rows`"),
        ({"test_size": 0.0}, ValueError, "Expected `test_size`"),
        ({"validation_size": 1.0}, ValueError, "Expected `validation_size`"),
        ({"hidden": 2.5}, TypeError, "Expected `hidden`"),
        ({"epochs": 0}, ValueError, "Expected `epochs`"),
        ({"lr": 0.0}, ValueError, "Expected `lr`"),
        ({"momentum": 1.0}, ValueError, "Expected `momentum`"),
        ({"l1_on": "first"}, ValueError, "Expected `l1_on`"),
        ({"max_norm": -1.0}, ValueError, "Expected `max_norm`"),
    ],
)
def test_wrong_fields_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        replace(SMALL, **wrong)
