"""What `cross_entropy` can, MGCE can: every transform, tracer, shape and scalar, beside cross-entropy in one table."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from grids import grid
from mgce import MGCELoss
from mgce.functional import linear_mgce_loss, mgce_loss

Loss = Callable[..., Tensor]


def fused(input, target, *arguments, **keywords):
    return mgce_loss(input, target, *arguments, beta=1.4, **keywords)


def plain(input, target, *arguments, **keywords):
    return mgce_loss(input, target, *arguments, beta=1.4, backend="torch", **keywords)


def at_infinity(input, target, *arguments, **keywords):
    return mgce_loss(input, target, *arguments, beta=math.inf, **keywords)


def head(input, target, *arguments, weight=None, **keywords):
    eye = torch.eye(input.shape[-1], dtype=input.dtype, device=input.device)
    return linear_mgce_loss(input, eye, target, *arguments, weight=weight, beta=1.4, **keywords)


LOSSES = {"cross_entropy": F.cross_entropy, "fused": fused, "plain": plain, "at infinity": at_infinity, "head": head}
PLAIN = {
    "cross_entropy": F.cross_entropy,
    "fused": plain,
    "plain": plain,
    "at infinity": F.cross_entropy,
    "head": plain,
}


@pytest.fixture(params=LOSSES)
def name(request):
    return request.param


@pytest.fixture
def loss(name):
    return LOSSES[name]


@pytest.fixture
def truth(name):
    """Plain operations, which autograd differentiates by itself."""
    return PLAIN[name]


@pytest.fixture
def logits():
    return torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


TARGET = torch.tensor([0, 1, 2, 3, 4, 0])
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 1.5, 1.0], dtype=torch.float64)


# The shapes that are checked become constants of the trace, and it warns of each.
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_jit_trace_without_gradient_records_the_operations(loss, logits):
    traced = torch.jit.trace(lambda f: loss(f, TARGET), logits, check_trace=False)
    other = logits.flip(0) * 2
    torch.testing.assert_close(traced(other), loss(other, TARGET))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["real", "fake", pytest.param("symbolic", marks=pytest.mark.nightly)])
def test_make_fx_records_the_operations(loss, logits, mode):
    graph = make_fx(lambda f, y: loss(f, y), tracing_mode=mode)(logits, TARGET)
    other = logits.flip(0) * 2
    torch.testing.assert_close(graph(other, TARGET), loss(other, TARGET))


def test_make_fx_of_the_gradient(loss, logits):
    def gradient(f):
        f = f.detach().requires_grad_()
        return torch.autograd.grad(loss(f, TARGET), f)[0]

    other = logits.flip(0) * 2
    torch.testing.assert_close(make_fx(gradient)(logits)(other), gradient(other))


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_batched_gradients(loss, truth, logits, reduction):
    if reduction == "none":
        got = jacobian(lambda f: loss(f, TARGET, reduction="none"), logits, vectorize=True)
        torch.testing.assert_close(got, jacobian(lambda f: truth(f, TARGET, reduction="none"), logits))
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, TARGET, reduction=reduction)
    seeds = torch.randn(3, *value.shape, dtype=torch.float64)
    (got,) = torch.autograd.grad(value, leaf, seeds, is_grads_batched=True)
    for seed, gradient in zip(seeds, got, strict=True):
        torch.testing.assert_close(
            gradient, torch.autograd.grad(truth(leaf, TARGET, reduction=reduction), leaf, seed)[0]
        )


def test_gradcheck_with_batched_gradients(loss, logits):
    leaf = (0.3 * logits).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: loss(f, TARGET), leaf, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda f: loss(f, TARGET), leaf, check_batched_grad=True)


@pytest.mark.slow
@grid(
    "name, backend",
    list(LOSSES),
    ["eager", "aot_eager"],
    keep=lambda name, backend: (name, backend) != ("plain", "aot_eager"),
)
def test_a_second_derivative_through_a_compiled_call_is_right_or_refused(loss, truth, logits, backend):
    torch._dynamo.reset()
    leaf = (0.3 * logits).requires_grad_()
    compiled = torch.compile(lambda f: loss(f, TARGET), backend=backend, fullgraph=True)

    def product(function):
        (gradient,) = torch.autograd.grad(function(leaf), leaf, create_graph=True)
        return torch.autograd.grad((gradient**2).sum(), leaf)[0]

    want = product(lambda f: truth(f, TARGET))
    assert want.abs().max() > 1e-3
    if backend == "aot_eager":
        with pytest.raises(RuntimeError):  # in the words of PyTorch, which change
            product(compiled)
    else:
        torch.testing.assert_close(product(compiled), want)


@pytest.mark.slow
@pytest.mark.nightly
def test_compiled_with_dynamic_shapes(loss):
    torch._dynamo.reset()
    compiled = torch.compile(lambda f, y: loss(f, y), backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (4, 7, 9):
        f, y = torch.randn(n, 5, requires_grad=True), torch.randint(5, (n,))
        value = compiled(f, y)
        torch.testing.assert_close(value, loss(f, y))
        torch.testing.assert_close(torch.autograd.grad(value, f), torch.autograd.grad(loss(f, y), f))


@pytest.mark.parametrize(
    "function",
    [mgce_loss, lambda f, y, beta: head(f, y) if beta is None else linear_mgce_loss(f, torch.eye(5), y, beta=beta)],
    ids=["loss", "head"],
)
def test_compiled_while_beta_changes(function):
    torch._dynamo.reset()
    compiled = torch.compile(lambda f, y, beta: function(f, y, beta=beta), backend="aot_eager", fullgraph=True)
    f, y = torch.randn(4, 5, requires_grad=True), torch.tensor([0, 1, 2, 3])
    for beta in (3.0, 2.5, 2.0, 1.4, 1.0, math.inf):
        torch.testing.assert_close(compiled(f, y, beta), function(f, y, beta=beta))


def test_compiled_module_whose_beta_is_annealed():
    torch._dynamo.reset()
    criterion = MGCELoss(beta=11.0)
    compiled = torch.compile(criterion, backend="aot_eager", fullgraph=True)
    f, y = torch.randn(4, 5, requires_grad=True), torch.tensor([0, 1, 2, 3])
    for beta in (11.0, 5.0, 2.5, 1.4):
        criterion.beta = beta
        torch.testing.assert_close(compiled(f, y), mgce_loss(f, y, beta=beta))


@pytest.mark.parametrize("beta", [np.float32(2), np.float64(2), np.int64(2), 2, torch.tensor(2.0)])
def test_any_real_number_is_a_beta(beta, logits):
    torch.testing.assert_close(mgce_loss(logits, TARGET, beta=beta), mgce_loss(logits, TARGET, beta=2.0))
    assert MGCELoss(beta=beta)(logits, TARGET) == mgce_loss(logits, TARGET, beta=beta)


@pytest.mark.parametrize("beta", [1e30, 1e31, 1e39, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["auto", "torch", "reference"])
@pytest.mark.parametrize("tensor", [False, True])
def test_a_huge_beta_is_cross_entropy(beta, dtype, backend, tensor, logits):
    f = logits.to(dtype).requires_grad_()
    beta = torch.tensor(beta, dtype=torch.float64) if tensor else beta
    value, want = mgce_loss(f, TARGET, beta=beta, backend=backend), F.cross_entropy(f, TARGET)
    torch.testing.assert_close(value, want)
    torch.testing.assert_close(torch.autograd.grad(value, f)[0], torch.autograd.grad(want, f)[0])


def test_views_whose_memory_says_something_else(loss, logits):
    torch.testing.assert_close(loss(torch._neg_view(logits), TARGET), loss(-logits, TARGET))
    conjugate = torch.complex(torch.zeros_like(logits), logits).conj().imag
    assert conjugate.is_neg()
    torch.testing.assert_close(loss(conjugate, TARGET), loss(-logits, TARGET))
    torch.testing.assert_close(
        loss(logits, TARGET, weight=torch._neg_view(-WEIGHT)), loss(logits, TARGET, weight=WEIGHT)
    )
    q = logits.softmax(-1)
    torch.testing.assert_close(loss(logits, torch._neg_view(-q)), loss(logits, q))
    zeros = torch._efficientzerotensor((6, 5), dtype=torch.float64)
    torch.testing.assert_close(loss(zeros, TARGET), loss(torch.zeros(6, 5, dtype=torch.float64), TARGET))


def test_uint8_targets_with_weight_and_smoothing(loss, logits):
    if loss is F.cross_entropy:
        pytest.skip("cross_entropy indexes the weights with uint8, and raises")
    value = loss(logits, TARGET.byte(), weight=WEIGHT, label_smoothing=0.1)
    torch.testing.assert_close(value, loss(logits, TARGET, weight=WEIGHT, label_smoothing=0.1))


@pytest.mark.parametrize("argument", ["target", "weight"])
def test_a_tensor_on_another_device_is_refused(loss, logits, argument):
    arguments = {"target": TARGET, "weight": WEIGHT}
    arguments[argument] = arguments[argument].to("meta")
    with pytest.raises(RuntimeError):
        loss(logits, **arguments)


def test_meta_tensors_give_shapes(loss):
    f, y = torch.empty(6, 5, device="meta", requires_grad=True), torch.empty(6, dtype=torch.int64, device="meta")
    for reduction, shape in (("none", (6,)), ("mean", ())):
        value = loss(f, y, reduction=reduction)
        assert value.shape == shape and value.is_meta
        value.sum().backward()
    assert f.grad.shape == (6, 5)


def test_a_default_device_is_not_that_of_the_arguments(loss, logits):
    leaf = logits.clone().requires_grad_()
    eye = torch.eye(5, dtype=torch.float64)
    with torch.device("meta"):
        value = linear_mgce_loss(leaf, eye, TARGET) if loss is head else loss(leaf, TARGET)
        value.backward()
    assert not value.is_meta and value.item() == loss(logits, TARGET).item()


def test_no_features():
    x, w, y = torch.zeros(3, 0, requires_grad=True), torch.zeros(4, 0, requires_grad=True), torch.tensor([0, 1, 2])
    value = linear_mgce_loss(x, w, y, torch.zeros(4))
    torch.testing.assert_close(value, mgce_loss(torch.zeros(3, 4), y))
    value.backward()
    assert x.grad.shape == (3, 0) and w.grad.shape == (4, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("backend", ["auto", "torch", "reference"])
@pytest.mark.parametrize("beta", [1.0, 1.4, 2.0, 11.0, math.inf])
def test_a_row_without_an_answer_has_nan_everywhere(bad, backend, beta, logits):
    """In the gradient too, as that of cross_entropy, so that GradScaler and clip_grad_norm_ see it."""
    spoilt = logits.clone()
    spoilt[1] = bad if bad == -math.inf else spoilt[1]
    spoilt[1, 3] = bad
    spoilt.requires_grad_()
    value = mgce_loss(spoilt, TARGET, beta=beta, backend=backend, reduction="none")
    (gradient,) = torch.autograd.grad(value.sum(), spoilt)
    assert value[1].isnan() and gradient[1].isnan().all()
    others = [0, 2, 3, 4, 5]
    clean = logits.clone().requires_grad_()
    want = mgce_loss(clean, TARGET, beta=beta, backend=backend, reduction="none")
    assert torch.equal(value[others], want[others])
    assert torch.equal(gradient[others], torch.autograd.grad(want.sum(), clean)[0][others])
    assert F.cross_entropy(spoilt, TARGET, reduction="none")[1].isnan()


def test_forward_mode_goes_by_plain_operations_and_a_named_kernel_refuses(logits):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(logits, torch.ones_like(logits))
        assert torch.autograd.forward_ad.unpack_dual(mgce_loss(dual, TARGET)).tangent.abs() < 1e-12
        with pytest.raises(RuntimeError, match="a forward-mode derivative is wanted; use backend='auto'"):
            mgce_loss(dual, TARGET, backend="cpu")
