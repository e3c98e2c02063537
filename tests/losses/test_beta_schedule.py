"""A schedule of beta in a compiled model: graphs for the two ends and one for all between, and the values of eager."""

import math

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from contracts.robust_loss_contract import told
from mgce import LinearMGCELoss, MGCELoss
from mgce.losses import MinimaxLink, fused
from mgce_lab.losses import LOSSES, robust_loss

BETAS = (1.1, 1.2, 1.3, 1.0, 1.4, math.inf, 1.5, 1.05, 1.9, 2.0, 8.0, 30.0)
# The first beta is taken for a constant, the second for a symbol, and from 2^64 on the loss is cross-entropy.
GRAPHS = 3
ROWS, TARGET = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4
QUICK = ("mgce", "mgce+trim", "linear")


def make(name):
    if name == "linear":
        return LinearMGCELoss(4, 4)
    if name == "rows":
        return MGCELoss(reduction="none", label_smoothing=0.1, weight=torch.tensor([0.5, 1.0, 2.0, 1.5]))
    threshold = {"threshold": 0.2} if "threshold" in LOSSES[name].hyperparameters else {}
    return robust_loss(name, **told(name, 4, trim=0.3), **threshold).eval()


def gradients(criterion, call):
    rows = ROWS.clone().requires_grad_()
    value = call(rows, TARGET)
    return value.detach(), *torch.autograd.grad(value.sum(), [rows, *criterion.parameters()])


def set_beta(criterion, beta):
    for part in criterion.modules():
        if hasattr(part, "beta") and not isinstance(part, MinimaxLink):
            part.beta = beta


WITH_BETA = [name for name, loss in LOSSES.items() if "beta" in loss.hyperparameters]
NAMES = [name for name in WITH_BETA if "transition" not in LOSSES[name].told] + ["rows", "linear"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.nightly) for n in NAMES])
def test_a_schedule_of_beta_compiles_no_graph_for_each(name):
    torch._dynamo.reset()
    criterion = make(name)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(criterion, backend=counter, fullgraph=True)
    for beta in BETAS:
        set_beta(criterion, beta)
        for got, want in zip(gradients(criterion, compiled), gradients(criterion, criterion), strict=True):
            torch.testing.assert_close(got, want)
    assert counter.frame_count == GRAPHS


@pytest.mark.nightly
def test_a_schedule_under_a_forward_correction_compiles_a_graph_for_each_number_of_steps():
    torch._dynamo.reset()
    criterion = robust_loss("mgce+forward", transition=torch.full((4, 4), 0.1) + 0.6 * torch.eye(4))
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(criterion, backend=counter, fullgraph=True)
    for beta in (beta for beta in BETAS if beta > 1):
        set_beta(criterion, beta)
        for got, want in zip(gradients(criterion, compiled), gradients(criterion, criterion), strict=True):
            torch.testing.assert_close(got, want)
    assert counter.frame_count <= 6  # `root.BETAS` has four ranges, the first beta is a constant, and inf is another


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.nightly)])
def test_the_kernel_runs_in_the_graph_of_a_schedule(backend, monkeypatch):
    betas = []
    kernel = fused.loss_and_gradient
    monkeypatch.setattr(fused, "loss_and_gradient", lambda rows, given: betas.append(given.beta) or kernel(rows, given))
    torch._dynamo.reset()
    criterion = MGCELoss()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(criterion, backend=counter, fullgraph=True)
    for beta in (1.1, 1.2, 1.7, 1.0):
        criterion.beta = beta
        compiled(ROWS, TARGET)
    assert betas == [1.1, 1.2, 1.7, 1.0] and counter.frame_count == 2
