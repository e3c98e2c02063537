import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from mgce._files import to_json
from mgce_lab.compare.compare import Comparison, in_order, run
from mgce_lab.data import load
from mgce_lab.engine import render, select
from mgce_lab.engine.methods import KNOWN
from mgce_lab.losses import LOSSES

PLAN = Comparison(seeds=2, epochs=4, hidden=16, betas=(1.4, 5.0))


@pytest.fixture(scope="module")
def records():
    return run(load("wine"), PLAN)


def test_a_record_for_every_run_and_it_is_plain_json(records):
    keys = {(r["method"], r["beta"], r["seed"]) for r in records}
    runs = [("mgce", 1.4), ("mgce", 5.0), ("gce", 1.4), ("gce", 5.0), ("ce", math.inf), ("mgce@1", 1.0)]
    assert keys == {(*r, seed) for r in runs for seed in range(2)} and len(records) == 12
    for record in records:
        assert len(record["test_accuracy_by_epoch"]) == 4
        assert abs(record["accuracy"] - record["test_accuracy_by_epoch"][record["best_epoch"]]) < 1e-6
        assert record["validation_accuracy"] == max(record["validation_accuracy_by_epoch"])
    document = json.loads(to_json({"runs": records}))
    assert [r["beta"] for r in document["runs"] if r["method"] == "ce"] == ["inf", "inf"]


def test_a_run_depends_on_its_plan_alone(records):
    torch.rand(3), np.random.default_rng().random(3)
    assert run(load("wine"), PLAN) == records


def test_a_seed_gives_the_same_whether_or_not_there_are_others(records):
    alone = run(load("wine"), replace(PLAN, seeds=1))
    beside = [record for record in records if record["seed"] == 0]
    assert [without_rounding(record) for record in alone] == [without_rounding(record) for record in beside]


def without_rounding(record):
    """Leave out what sums of other shapes may round otherwise: how many networks are multiplied at once."""
    kept = ("method", "beta", "seed", "best_epoch", "test_accuracy_by_epoch", "validation_accuracy_by_epoch")
    return {name: record[name] for name in kept}


def test_the_share_to_trim_is_a_candidate_and_no_method_is_told_it():
    plan = replace(PLAN, methods=("ce", "mgce+trim", "ce+trim"), trims=(0.0, 0.3))
    records = run(load("wine"), plan)
    runs = [("ce", math.inf, None), *(("mgce+trim", 1.05, trim) for trim in (0.0, 0.3))]
    runs += [("ce+trim", math.inf, trim) for trim in (0.0, 0.3)]
    assert [(r["method"], r["beta"], r["trim"]) for r in records] == runs * 2
    by_run = {(r["method"], r["trim"], r["seed"]): without_rounding(r) | {"method": ""} for r in records}
    assert by_run["ce+trim", 0.0, 0] == by_run["ce", None, 0] != by_run["ce+trim", 0.3, 0]
    chosen = select.best_candidate(records)
    assert [(r["method"], r["seed"]) for r in chosen] == [(m, s) for s in range(2) for m in plan.methods]
    ce, *trimmed = select.summarize(chosen)
    assert ce["trims"] == [] and all(sum(count for _, count in row["trims"]) == 2 for row in trimmed)
    shown = render.cells([ce, {**trimmed[0], "trims": [(0.0, 1), (0.3, 1)]}])
    assert [row["trim"] for row in shown] == ["", "0-30"]
    assert "trim" not in render.cells([ce])[0]


def test_clean_labels_are_learnt_better_than_noisy_ones():
    plan = {"seeds": 2, "betas": (1.4,), "epochs": 30, "lr": 5e-3, "methods": ("mgce", "ce")}
    clean = run(load("wine"), Comparison(noise_rate=0.0, **plan))
    noisy = run(load("wine"), Comparison(noise_rate=0.6, **plan))
    assert min(r["accuracy"] for r in clean) > 0.9
    assert np.mean([r["accuracy"] for r in noisy]) < np.mean([r["accuracy"] for r in clean]) - 0.1


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"noise_rate": -0.1}, "Expected `noise_rate`"),
        ({"noise_type": "odd"}, "Expected `noise_type` to be one of 'symmetric', 'pair'"),
        ({"methods": ("svm",)}, "Expected `methods` to be one of 'mgce'"),
        ({"methods": ()}, "Expected `methods` to be one or more values"),
        ({"betas": (1.4, 1.4)}, "Expected `betas` to be one or more values, none of them twice"),
        ({"betas": (0.9,)}, "Expected `beta`"),
        ({"seeds": 0}, "Expected `seeds`"),
        ({"epochs": 0}, "Expected `epochs`"),
        ({"lr": 0.0}, "Expected `lr`"),
        ({"trims": (0.2, 1.0)}, "Expected `trims` to be below 1"),
        ({"trims": ()}, "Expected `trims` to be one or more values"),
        ({"test_size": 1.0}, "Expected `test_size`"),
    ],
)
def test_a_wrong_plan_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Comparison(**wrong)


def test_best_candidate_and_summary_of_hand_made_records():
    def record(method, beta, seed, validation, value):
        measures = {m: value for m in select.MEASURES}
        return {"method": method, "beta": beta, "seed": seed, "validation_accuracy": validation, **measures}

    records = [
        record("mgce", 1.4, 0, 0.7, 0.5),
        record("mgce", 2.0, 0, 0.8, 0.6),  # seed 0 takes 2.0
        record("mgce", 1.4, 1, 0.9, 0.8),  # seed 1 takes the smallest of equals
        record("mgce", 2.0, 1, 0.9, 0.1),
        record("ce", math.inf, 0, 0.1, 0.25),
    ]
    chosen = select.best_candidate(records)
    assert [(r["beta"], r["seed"]) for r in chosen] == [(2.0, 0), (1.4, 1), (math.inf, 0)]
    mgce, ce = select.summarize(chosen)
    assert abs(mgce["accuracy"] - 0.7) < 1e-15 and abs(mgce["accuracy_std"] - math.sqrt(0.02)) < 1e-15
    assert math.isnan(ce["accuracy_std"])
    assert [list(row.values()) for row in render.cells([mgce, ce])] == [
        ["mgce", "1.4-2", *(["70.0 ± 14.1"] * 5)],
        ["ce", "inf", *(["25.0"] * 5)],
    ]
    header, first, _ = render.to_csv([mgce, ce]).decode().splitlines()
    assert header.startswith("method,betas,trims,seeds,accuracy,accuracy_std,ece_h")
    assert first.startswith('mgce,"1.4 x1, 2 x1",,2,0.7')


def test_figures_are_png(records):
    for figure in (render.accuracy_figure, render.reliability_figure):
        assert figure(select.best_candidate(records), "wine").startswith(b"\x89PNG")


@pytest.mark.slow
def test_every_loss_can_be_compared():
    plan = Comparison(seeds=1, epochs=1, hidden=8, methods=KNOWN, betas=(1.4,), trims=(0.2,))
    records = run(load("wine"), plan)
    assert [record["method"] for record in records] == list(KNOWN)
    assert set(LOSSES) < set(KNOWN)
    errors = {record["method"]: record["ece_h"] for record in records}
    assert errors["mgce+scale"] != errors["mgce"] and errors["focal"] != errors["ce"]
    assert render.accuracy_figure(records, "wine").startswith(b"\x89PNG")
    assert render.reliability_figure(records, "wine").startswith(b"\x89PNG")


def test_a_table_in_order_has_no_copies_and_no_trace_of_the_order_of_its_file():
    wine = load("wine")
    rng = np.random.default_rng(0)
    copied = np.r_[np.arange(178), rng.choice(178, 60)]
    sorted_by_content, n_copies = in_order(wine)
    assert n_copies == 0 and len(sorted_by_content.target) == 178
    for rows in (rng.permutation(178), copied, rng.permutation(copied)):
        table = replace(wine, features=wine.features.iloc[rows].reset_index(drop=True), target=wine.target[rows])
        same, n_copies = in_order(table)
        pd.testing.assert_frame_equal(same.features, sorted_by_content.features)
        np.testing.assert_array_equal(same.target, sorted_by_content.target)
        assert n_copies == len(rows) - 178
