"""Errors that are known are measured as such, and none is hidden by what p is allowed near beta = 1."""

import numpy as np
import pytest
import torch

from mgce_lab.soak import truth
from mgce_lab.soak.backends import BACKENDS
from mgce_lab.soak.measure import QUANTITIES, errors, valid_rows
from mgce_lab.soak.plan import BETAS

pytestmark = pytest.mark.skipif(truth.EPS > 2e-19, reason="no extended precision on this machine")
EPS = torch.finfo(torch.float64).eps


def exact_outputs(logits, labels, beta):
    """Return the truth, rounded to float64."""
    true = truth.solve(logits.numpy(), beta)
    gradient = true.p.copy()
    gradient[np.arange(len(logits)), labels] -= 1
    named = {"t": true.t, "loss": true.loss(labels.numpy()), "h": true.h, "p": true.p, "gradient": gradient}
    return {name: torch.from_numpy(value.astype(float)) for name, value in named.items()}


def measured(outputs, logits, labels, beta):
    valid = valid_rows(logits)
    return errors(outputs, truth.solve(logits[torch.from_numpy(valid)].numpy(), beta), valid, labels)


@pytest.fixture
def batch():
    return torch.randn(5, 9, dtype=torch.float64), torch.arange(5)


@pytest.mark.parametrize("beta", BETAS)
def test_the_rounded_truth_has_no_error(batch, beta):
    found = measured(exact_outputs(*batch, beta), *batch, beta)
    assert set(found) == set(QUANTITIES) - {"convexity", "monotone loss", "monotone t"}
    for quantity, error in found.items():
        assert error.max() <= (2 if quantity.endswith("sum") else 1), quantity


@pytest.mark.parametrize("beta", (1.4, 2.0, 11.0, 1e6, float("inf")))
@pytest.mark.parametrize("name", ("t", "loss", "h", "p", "gradient"))
def test_an_error_in_one_row_is_seen_there(batch, beta, name):
    outputs = exact_outputs(*batch, beta)
    row = outputs[name][3]
    largest = row.abs().argmax() if row.ndim else ...
    row[largest] += 40 * EPS * max(1, abs(row[largest]))
    found = measured(outputs, *batch, beta)
    assert found[name][3] > QUANTITIES[name].limit
    assert np.delete(found[name], 3).max() <= 1
    if row.ndim:
        assert found[f"{name} sum"][3] > QUANTITIES[f"{name} sum"].limit


def test_at_the_edge_of_the_support_p_may_be_off_by_what_a_moved_margin_makes_of_it():
    # The second class is just within the support: 8 eps of its margin are 1e-9 of its p.
    logits, labels = torch.tensor([[0.0, -1.4 + 1e-6, -1.0]], dtype=torch.float64), torch.tensor([0])
    logits[0, 1] -= float(truth.solve(logits[:, ::2].numpy(), 1.4).t[0])
    p = exact_outputs(logits, labels, 1.4)["p"]
    for units, least, most in ((8, 4, 8), (1000, 500, 1024)):
        moved = logits.clone()
        moved[0, 1] += units * EPS
        of_moved = exact_outputs(moved, labels, 1.4)["p"]
        assert (of_moved - p).abs().max() > 100 * units * EPS
        assert least <= measured({"p": of_moved}, logits, labels, 1.4)["p"][0] <= most


def test_every_subgradient_of_a_tie_is_accepted_and_no_other_distribution():
    logits, labels = torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([0])
    for share, accepted in ((0.5, True), (0.75, True), (1.0, True), (0.25, False)):
        p = torch.tensor([[share, 1 - share]], dtype=torch.float64)
        found = measured({"p": p}, logits, labels, 1.0)
        assert found["p sum"][0] == 0
        assert (found["p gap"][0] <= 32) == accepted


@pytest.mark.parametrize("beta", BETAS)
def test_the_gap_is_that_of_the_definition(beta):
    logits, labels = torch.randn(1, 4, dtype=torch.float64), torch.tensor([0])
    p = torch.tensor([[0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)
    found = measured({"p": p}, logits, labels, beta)
    order = beta / (beta - 1) if 1 < beta < 1e12 else float("inf")
    norm = p.max() if order > 1e6 else (p**order).sum() ** (1 / order)
    entropy = -(p * p.log()).sum() if beta > 1e4 else beta * (1 - norm)
    t = truth.solve(logits.numpy(), beta).t[0]
    gap = -float(t) - (p * (logits - logits.max())).sum() - entropy
    assert found["p gap"][0] * EPS * max(1, -float(t)) == pytest.approx(gap.item(), rel=1e-3)


def test_negative_and_missing_results_are_errors(batch):
    outputs = exact_outputs(*batch, 1.4)
    outputs["h"][0, 0] = -1e-20
    outputs["loss"][1] = torch.nan
    outputs["p"][2] = torch.inf
    found = measured(outputs, *batch, 1.4)
    assert found["negative"][0] > 0
    assert found["loss"][1] == np.inf and found["p"][2] == np.inf


def test_rows_without_a_truth_have_to_be_nan(batch):
    logits, labels = batch
    outputs = exact_outputs(logits, labels, 1.4)
    logits[1, 2], logits[2, 0], logits[3] = torch.nan, torch.inf, -torch.inf
    for value in outputs.values():
        value[1:4] = torch.nan
    assert measured(outputs, logits, labels, 1.4)["nan"].max() == 0
    outputs["gradient"][2, 5] = 0  # one finite number is enough to be missed by a check of the whole
    assert measured(outputs, logits, labels, 1.4)["nan"].tolist() == [0, 0, np.inf, 0, 0]


def test_a_loss_beyond_the_range_has_to_be_infinite():
    logits = torch.tensor([[6e4, -6e4], [6e4, 6e4]], dtype=torch.float16)
    labels = torch.tensor([1, 1])
    true = truth.solve(logits.double().numpy(), 1.4)
    for value, error in ((torch.inf, 0), (65504, np.inf)):
        loss = torch.tensor([value, 0.54669], dtype=torch.float16)
        assert errors({"loss": loss}, true, valid_rows(logits), labels)["loss"][0] == error


def test_backends_say_what_they_take():
    f = torch.randn(3, 4)
    assert BACKENDS["torch"].takes(f, float("inf")) and not BACKENDS["cpu"].takes(f, float("inf"))
    assert BACKENDS["linear"].takes(f, 1.4) and not BACKENDS["linear"].takes(f.half(), 1.4)
    masked = f.masked_fill(f < 0, -torch.inf).index_fill(1, torch.tensor(0), 1.0)
    assert BACKENDS["cpu"].takes(masked, 1.4) and not BACKENDS["linear"].takes(masked, 1.4)
