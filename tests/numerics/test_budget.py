"""The budgets of steps against the worst rows that a search found, and against what is proven."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

import worst_rows
from mgce.numerics import root
from mgce_lab.soak import truth

RECORD = json.loads(worst_rows.FILE.read_text())
LARGEST = 2**17  # classes of a row that is replayed; the 2^31 of the last column would take 8 GiB
REPLAYED = [entry for entry in RECORD if entry["k"] <= LARGEST]
pytestmark = pytest.mark.skipif(truth.EPS > 2e-19, reason="no extended precision on this machine")


def name(entry):
    return f"{entry['k']}-{entry['dtype']}-{entry['beta']:g}"


def error_in_eps(entry, steps, monkeypatch):
    """Return how far t is off after that many steps, where no value may be read."""
    dtype = getattr(torch, entry["dtype"])
    logits = torch.tensor(entry["logits"], dtype=torch.float64).to(dtype)
    x = logits.repeat_interleave(torch.tensor(entry["counts"]))[None]
    monkeypatch.setattr(root, "newton_steps", lambda *_: steps)
    t = torch.func.vmap(lambda row: root.newton(row, float(entry["beta"])))(x)
    true = truth.solve(x.double().numpy(), float(entry["beta"])).t
    error = np.abs(t.double().numpy() - true) / np.maximum(1, -true)
    return float(error[0]) / torch.finfo(dtype).eps


def test_the_record_has_the_worst_row_of_every_cell():
    cells = {(entry["k"], entry["dtype"], worst_rows.in_cell(entry["beta"])) for entry in RECORD}
    assert cells == set(itertools.product(root.CLASSES, worst_rows.EPS, range(len(root.BETAS))))


def test_the_budgets_are_what_the_worst_rows_need_and_one_more_but_for_one_cell():
    """A last step that is whole counts as begun; one cell has a step to spare. So no number changes unseen."""
    spare = [
        root.newton_steps(entry["k"], entry["beta"], getattr(torch, entry["dtype"])) - math.floor(entry["steps"]) - 2
        for entry in RECORD
    ]
    assert sorted(set(spare)) == [0, 1] and sum(spare) == 1


@pytest.mark.parametrize("entry", RECORD, ids=name)
def test_the_budget_is_what_the_worst_row_needs_and_one_more(entry):
    steps = root.newton_steps(entry["k"], entry["beta"], getattr(torch, entry["dtype"]))
    assert steps >= math.ceil(entry["steps"]) + 1
    assert steps <= root.proven_steps(entry["k"], entry["beta"], getattr(torch, entry["dtype"]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_number_of_classes_that_is_a_symbol_may_stand_for_any(dtype):
    for beta in (1.0, 1.4, 2.0, 5.0, torch.tensor(2.0)):
        assert root.newton_steps(object(), beta, dtype) == root.newton_steps(root.CLASSES[-1], beta, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [1.0, 1.4, 5.0, 1e6])
@pytest.mark.parametrize("k", [1, 10, 1000, 2**20])
def test_what_is_proven_is_a_quarter_at_each_step_and_two_more(k, beta, dtype):
    """One for a start to the left of the root, and one to see that t has come to rest."""
    off, steps = beta * (k ** (1 / beta) - 1) * k ** (1 / beta), 0
    while max(1.0, off) / 4**steps > torch.finfo(dtype).eps * (1 + 1e-9):
        steps += 1
    assert root.proven_steps(k, beta, dtype) == steps + 2
    assert root.proven_steps(k, torch.tensor(beta), dtype) == root.proven_steps(k, 1.0, dtype)


@pytest.mark.parametrize("entry", REPLAYED, ids=name)
def test_the_worst_row_is_solved_within_its_budget_and_not_by_one_step(entry, monkeypatch):
    """With counts that are rounded to whole numbers, and logits to the dtype."""
    enough = root.newton_steps(entry["k"], entry["beta"], getattr(torch, entry["dtype"]))
    assert error_in_eps(entry, enough, monkeypatch) <= 8
    assert error_in_eps(entry, 1, monkeypatch) > 8
