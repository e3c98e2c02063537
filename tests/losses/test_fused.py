import pytest
import torch

from contracts.loss_contract import LossContract
from mgce.functional import mgce_loss


class TestFusedLoss(LossContract):
    """Everything that cross_entropy does, by the kernel where it can run and by `auto` where it cannot."""

    @staticmethod
    def loss(input, target, **keywords):
        return mgce_loss(input, target, beta=1.18, **keywords)


LOGITS = torch.randn(6, 5, dtype=torch.float64)
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
    from mgce.kernels import cpu

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
