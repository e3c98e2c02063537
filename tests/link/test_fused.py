"""What the kernel gives beside plain operations: the same values, the same derivatives."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch._dynamo import compiled_autograd

import oracle
from hard_rows import hard_rows
from mgce.functional import minimax_probs, normalizer, worst_case_probs
from mgce.kernels import cpu, dispatch
from mgce.link import probs
from mgce.numerics import implicit

OUTPUTS = {"root": normalizer, "minimax": minimax_probs, "worst_case": worst_case_probs}
DTYPES = (torch.float32, torch.float64)
needs_kernel = pytest.mark.skipif(cpu.obstacle() is not None, reason="the CPU kernel is not built")


@pytest.fixture
def backend():
    """Both are compared in each test."""


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@needs_kernel
def test_the_kernel_is_what_runs(monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("plain operations ran")

    monkeypatch.setattr(probs, "solve", refuse)
    logits = torch.randn(2, 3, 4, requires_grad=True)
    for function in OUTPUTS.values():
        function(logits, beta=1.4, dim=1).sum().backward()
        function(logits.half(), beta=1.4)


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 10, 33, 1000])
@pytest.mark.parametrize("beta", [1.0, 1.02, 1.18, 1.4, 2.0, 3.3, 11.0, 1e6])
def test_outputs_of_hard_rows_are_as_near_as_their_condition_allows(beta, k, dtype, generator):
    """No farther from the truth than where x and t off by a few roundings may take them."""
    random = torch.randn(40, k, generator=generator) * torch.logspace(-2, 2, 40)[:, None]
    rows = torch.cat([random.to(dtype), hard_rows(k, beta, dtype)])
    rows[0, 1:] = -math.inf
    x, t, _ = implicit.solve(rows.double(), beta, -1)
    eps = torch.finfo(dtype).eps
    few = 16 * eps * (1 - t)
    for name, plain in probs.PLAIN.items():
        ours, truth = probs.of_rows(name, rows, beta, -1), plain(x, t, beta)
        error = (ours - truth).abs()
        if name == "root":
            assert (error <= few).all()
            continue
        moved = [(plain(x, t + step * few, beta) - truth).abs().amax(-1) for step in (-1, -0.25, 0.25, 1)]
        assert (error.amax(-1) <= torch.stack(moved).amax(0) + 32 * eps).all(), name
        assert (ours >= 0).all()
        torch.testing.assert_close(ours.double().sum(-1), torch.ones(len(rows)).double(), rtol=0, atol=32 * eps)


@needs_kernel
@pytest.mark.parametrize("beta", [2.0, 3.3, 7.5, 11.0, 100.0, 1e6])
def test_small_probabilities_are_kept_with_their_digits(beta):
    """Those of losses end at 2^-100."""
    logits = -torch.arange(60, dtype=torch.float64) * 10
    for function, truth in zip(
        (minimax_probs, worst_case_probs), oracle.probabilities(logits.tolist(), beta), strict=True
    ):
        probs = function(logits, beta=beta)
        for ours, true in zip(probs.tolist(), truth, strict=True):
            assert ours == pytest.approx(float(true), rel=1e-9, abs=1e-300), function
    assert (worst_case_probs(logits, beta=1e6) > 0).sum() == 60
    single = worst_case_probs(logits.float(), beta=beta)
    normal = single > torch.finfo(torch.float32).tiny
    exact = worst_case_probs(logits, beta=beta)
    torch.testing.assert_close(single[normal].double(), exact[normal], rtol=2e-3, atol=0)
    assert ((exact < 2e-38) | normal).all()


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 2.0, 5.0, 11.0, 100.0])
def test_first_derivatives_are_those_of_plain_operations(beta, output, dtype, generator, monkeypatch):
    logits = torch.randn(30, 40, generator=generator, dtype=torch.float64) * torch.logspace(-1, 1, 30)[:, None]
    logits[::3, ::2] = -math.inf
    logits[0, :2] = torch.tensor([3 * beta, 0.0])  # one class alone
    logits = logits.to(dtype)
    direction = torch.randn(30, 40, generator=generator, dtype=torch.float64).to(dtype)

    def gradient(rows):
        rows = rows.clone().requires_grad_()
        value = probs.of_rows(output, rows, beta, -1)
        return torch.autograd.grad(value, rows, direction[:, 0] if output == "root" else direction.to(rows.dtype))[0]

    ours = gradient(logits)
    monkeypatch.setattr(dispatch, "can_solve", lambda rows, beta: False)
    direction = direction.double()
    truth = gradient(logits.double())
    # The slope of p is infinite at the edge of the support for beta below 2, and no row here is at an edge.
    tolerance = {torch.float32: 1e-3 if beta < 2 else 2e-5, torch.float64: 1e-9}[dtype]
    torch.testing.assert_close(ours.double(), truth, rtol=tolerance, atol=tolerance)
    assert ours.isfinite().all()


@needs_kernel
@pytest.mark.parametrize(("dtype", "beta"), [(torch.float32, 1.03), (torch.float64, 1.27)])
def test_a_class_that_the_kernel_alone_has_in_the_support_keeps_a_finite_derivative(dtype, beta):
    """At these betas `beta (1 / beta)` is below one: the kernel has p > 0 where v, divided by beta, is zero."""
    rows = torch.zeros(41, 4, dtype=dtype)
    rows[:, 3] = -10
    t, _ = cpu.root_and_probs(rows[:1], beta=beta, minimax=False)
    steps = torch.arange(-20, 21) * torch.finfo(dtype).eps / 4
    rows[:, 3] = -beta - t + steps.to(dtype)  # the edge of the support, in the half where x is not kept as beta + x
    t, p = cpu.root_and_probs(rows, beta=beta, minimax=False)
    assert ((p > 0) & (probs._base(rows, t, beta) == 0)).any()
    rows.requires_grad_()
    probs.of_rows("worst_case", rows, beta, -1)[:, 0].sum().backward()
    assert rows.grad.isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", [1.25, 1.5, 2.0, 5.0])  # that float32 holds
def test_the_base_of_a_class_near_the_edge_keeps_its_digits(beta, dtype):
    """By which p is divided in its derivative: `1 + (x + t) / beta` would leave few digits of it."""
    x = beta * torch.linspace(-0.95, -0.55, 40, dtype=dtype)
    t = (-beta - x) * (1 - torch.logspace(-1, -6, 40, dtype=dtype))
    v = probs._base(torch.stack([x, torch.zeros_like(x)], 1), t, beta)[:, 0]
    pairs = zip(x.tolist(), t.tolist(), strict=True)
    exact = [float(1 + (Fraction(a) + Fraction(b)) / Fraction(beta)) for a, b in pairs]
    torch.testing.assert_close(
        v.double(), torch.tensor(exact, dtype=torch.float64), rtol=2 * torch.finfo(dtype).eps, atol=0
    )


@needs_kernel
@pytest.mark.parametrize("output", OUTPUTS)
def test_second_derivatives_batches_of_gradients_and_rows_that_are_nan(output):
    def value(rows):
        return OUTPUTS[output](rows, beta=2.5)

    logits = (torch.randn(3, 5, dtype=torch.float64) / 2).requires_grad_()
    assert torch.autograd.gradcheck(value, logits, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(value, logits, check_batched_grad=True)
    jacobian = torch.autograd.functional.jacobian(value, logits, vectorize=True)
    torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(value, logits))
    spoilt = torch.tensor([[math.nan, 0.0], [math.inf, 0.0], [0.0, -1.0], [-math.inf, -math.inf]], requires_grad=True)
    value(spoilt).sum().backward()
    assert spoilt.grad.isnan().all(-1).tolist() == [True, True, False, True]
    assert spoilt.grad[2].isfinite().all()


@needs_kernel
@pytest.mark.parametrize("output", OUTPUTS)
def test_values_do_not_depend_on_the_shape_or_on_a_gradient(output):
    logits = torch.randn(6, 7, 8)
    flat = probs.of_rows(output, logits.movedim(1, -1).reshape(-1, 7), 1.4, -1)
    shaped = probs.of_rows(output, logits.clone().requires_grad_(), 1.4, 1)
    assert torch.equal(shaped.detach().reshape(flat.shape), flat)
    for row in (logits[0, :, 0], logits[:, :, 3], logits[..., :1]):
        assert torch.equal(probs.of_rows(output, row, 1.4, 0), probs.of_rows(output, row.contiguous(), 1.4, 0))
    assert probs.of_rows(output, logits[:0], 1.4, 1).shape[0] == 0


@needs_kernel
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # compiled autograd's own
@pytest.mark.parametrize(
    "output", ["minimax", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("root", "worst_case"))]
)
def test_compiled_autograd_traces_the_backward_whole(output):
    logits, direction = torch.randn(4, 5, requires_grad=True), torch.randn(4, 5)

    def weighted():
        value = OUTPUTS[output](logits, beta=2.5)
        return (value * (direction if value.ndim == 2 else direction[:, 0])).sum()

    (eager,) = torch.autograd.grad(weighted(), logits)
    loss = weighted()
    with compiled_autograd._enable(torch.compile(backend="eager", fullgraph=True)):
        loss.backward()
    torch.testing.assert_close(logits.grad, eager)
