import pytest
import torch

from contracts.loss_contract import LossContract
from mgce.functional import mgce_loss
from mgce.kernels import cpu, dispatch


class TestFusedLoss(LossContract):
    """Everything that cross_entropy does, by the kernel where it can run and by `auto` where it cannot."""

    @staticmethod
    def loss(input, target, **keywords):
        return mgce_loss(input, target, beta=1.18, **keywords)


@pytest.fixture
def no_kernel(monkeypatch):
    monkeypatch.setattr(cpu, "obstacle", lambda: "it is not built")
    monkeypatch.setattr(dispatch, "warn_once", lambda obstacle: None)  # tests/kernels/test_dispatch.py has the warning


@pytest.mark.usefixtures("no_kernel")
class TestWithoutTheKernel(LossContract):
    """The same on a machine without a compiler, also in compiled graphs, whose operator has no autograd to call."""

    compiler = "aot_eager"  # the operator is the same, and inductor takes ten seconds a graph

    @staticmethod
    def loss(input, target, **keywords):
        return mgce_loss(input, target, beta=1.18, **keywords)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_without_the_kernel_the_operator_gives_the_same(request, reduction, smoothing, soft, dtype):
    """Weights, rows to ignore, rows of NaN and masked classes among them."""
    logits = torch.cat([LOGITS, torch.full((1, 5), torch.nan), LOGITS[:1] * torch.tensor([1, 1, 1, 1, torch.inf])])
    logits[-1, -1] = -torch.inf
    logits = logits.to(dtype)
    target = torch.tensor([*TARGET.tolist(), -100, 1])
    if soft:
        target = torch.nn.functional.one_hot(target.clamp(min=0), 5).to(torch.promote_types(dtype, torch.float32))
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0, 1.0], dtype=target.dtype if soft else torch.float32)
    rows = logits.to(torch.promote_types(dtype, torch.float32))
    arguments = (rows, target, weight.to(rows.dtype), -100, reduction, smoothing, 1.4)
    there = torch.ops.mgce.loss_and_grad(*arguments)
    request.getfixturevalue("no_kernel")
    torch.testing.assert_close(torch.ops.mgce.loss_and_grad(*arguments), there, equal_nan=True)


LOGITS = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([0, 1, 2, 3, 4, 0])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_backward_scales_and_can_be_repeated(reduction):
    grads = []
    for backend in ("cpu", "torch"):
        logits = LOGITS.clone().requires_grad_()
        loss = mgce_loss(logits, TARGET, reduction=reduction, backend=backend)
        seed = torch.arange(1.0, 7.0, dtype=torch.float64) if reduction == "none" else torch.tensor(3.0).double()
        first = torch.autograd.grad(loss, logits, seed, retain_graph=True)[0]
        second = torch.autograd.grad(loss, logits, 2 * seed)[0]
        torch.testing.assert_close(second, 2 * first)
        grads.append(first)
    torch.testing.assert_close(grads[0], grads[1])


def test_gradients_add_up_over_calls_without_sharing_memory():
    logits = LOGITS.clone().requires_grad_()
    mgce_loss(logits, TARGET, backend="cpu").backward()
    once = logits.grad.clone()
    mgce_loss(logits, TARGET, backend="cpu").backward()
    torch.testing.assert_close(logits.grad, 2 * once)


def test_second_derivative_of_the_fused_loss_is_that_of_the_composite():
    products = []
    for backend in ("cpu", "torch"):
        logits = (LOGITS * 0.3).requires_grad_()
        (gradient,) = torch.autograd.grad(mgce_loss(logits, TARGET, backend=backend), logits, create_graph=True)
        (product,) = torch.autograd.grad((gradient**2).sum(), logits)
        products.append(product)
    torch.testing.assert_close(products[0], products[1])
    assert products[0].abs().max() > 1e-3


def test_logits_need_not_be_contiguous_nor_want_a_gradient():
    logits = torch.randn(5, 12, dtype=torch.float64).T[::2]
    torch.testing.assert_close(mgce_loss(logits, TARGET, backend="cpu"), mgce_loss(logits, TARGET, backend="torch"))


def test_no_gradient_is_computed_where_none_can_be_asked_for(monkeypatch):
    wanted = []
    run = cpu.loss_and_grad

    def watched(*arguments, want_grad=True, **keywords):
        wanted.append(want_grad)
        return run(*arguments, want_grad=want_grad, **keywords)

    monkeypatch.setattr(cpu, "loss_and_grad", watched)
    logits = LOGITS.clone().requires_grad_()
    with torch.no_grad():
        mgce_loss(logits, TARGET)
    mgce_loss(LOGITS, TARGET)
    assert wanted == [False, False]
    mgce_loss(logits, TARGET).backward()
    assert wanted == [False, False, True]


@pytest.mark.slow
def test_the_operator_is_registered_as_pytorch_wants_it():
    from mgce.losses.fused import loss_and_grad

    for reduction in ("none", "mean"):
        arguments = (LOGITS.clone().requires_grad_(), TARGET, None, -100, reduction, 0.1, 1.4)
        torch.library.opcheck(loss_and_grad, arguments)
