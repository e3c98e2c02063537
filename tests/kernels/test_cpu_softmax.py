"""The kernel of losses of the label's softmax probability, against mpmath, PyTorch and the plain operations."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgce import GCELoss, robust_loss
from mgce.functional import gce_loss, mgce_loss, rce_loss
from mgce.kernels import cpu, dispatch
from mgce.kernels.options import LossOptions, SoftmaxArguments, SoftmaxTerms
from mgce.losses import RCELoss, SumLoss
from mgce.losses.composite import composite_softmax_loss

pytestmark = pytest.mark.skipif(cpu.obstacle() is not None, reason="the CPU kernel is not built")

CROSS_ENTROPY, GCE, MAE, SCE = (
    SoftmaxTerms(*numbers) for numbers in ((1, 0, 1), (0, 1, 1.4), (0, 1, 1), (0.1, 9.2, 1))
)
TERMS = (CROSS_ENTROPY, GCE, MAE, SCE, SoftmaxTerms(0, 1, 1e6))
DTYPES = (torch.float32, torch.float64)


def loss_and_grad(
    logits: Tensor, target: Tensor, terms: SoftmaxTerms, weight: Tensor | None = None, reduction: str = "none"
) -> tuple[Tensor, Tensor]:
    loss, grad = cpu.softmax_loss_and_grad(
        logits, SoftmaxArguments(target, weight, LossOptions(reduction=reduction), terms)
    )
    assert grad is not None
    return loss, grad


def exact(row: list[float], label: int, terms: SoftmaxTerms) -> tuple[mpmath.mpf, list[mpmath.mpf]]:
    with mpmath.workdps(60):
        a, b, beta = map(mpmath.mpf, terms)
        powers = [mpmath.exp(mpmath.mpf(f) - max(row)) for f in row]
        p = [power / mpmath.fsum(powers) for power in powers]
        log_p = mpmath.log(p[label])
        slope = a + b * mpmath.exp(log_p / beta)
        rest = mpmath.fsum(p[:label] + p[label + 1 :])  # 1 - p_y, also where that is tiny
        return -a * log_p - b * beta * mpmath.expm1(log_p / beta), [
            slope * (-rest if j == label else p_j) for j, p_j in enumerate(p)
        ]


def hard_rows(k: int) -> Tensor:
    generator = torch.Generator().manual_seed(k)
    ramp = -torch.arange(k, dtype=torch.float32)
    rows = [torch.randn(k, generator=generator) * s for s in (0.01, 1.0, 5.0, 20.0)]
    return torch.stack([*rows, torch.full((k,), 1e4), 30 * ramp, ramp / 8, (ramp / 2).floor() + 500])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 10, 32, 33, 130])
def test_every_digit_that_the_logarithm_has(k: int, dtype: torch.dtype) -> None:
    """Loss and gradient keep their digits also where p_y is near 1; where it is small, those of log p_y bound them."""
    x = hard_rows(k)
    y = torch.arange(len(x)) % k
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    for terms in TERMS:
        loss, grad = loss_and_grad(x.to(dtype), y, terms)
        for r, row in enumerate(x.double().tolist()):
            want, slopes = exact(row, int(y[r]), terms)
            off = 4 + float(max(row) - row[int(y[r])]) + math.log(k)  # digits that a number of this size lacks
            assert abs(loss[r].item() - want) <= 4 * eps * abs(want) + tiny, (terms, r)
            for j, slope in enumerate(slopes):
                unit = abs(slope) * (off + float(max(row) - row[j]))
                assert abs(grad[r, j].item() - slope) <= eps * unit + 4 * tiny * max(terms), (terms, r, j)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [7, 200])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_reductions_are_those_of_cross_entropy(
    k: int, dtype: torch.dtype, reduction: str, weighted: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(37, k, generator=generator, dtype=dtype, requires_grad=True)
    y = torch.randint(k, (37,), generator=generator)
    y[::5] = -100
    weight = torch.rand(k, generator=generator, dtype=dtype) if weighted else None
    loss, grad = loss_and_grad(x.detach(), y, CROSS_ENTROPY, weight, reduction)
    want = F.cross_entropy(x, y, weight, reduction=reduction)
    torch.testing.assert_close(loss, want.detach())
    torch.testing.assert_close(grad, torch.autograd.grad(want.sum(), x)[0])
    for terms in TERMS:
        arguments = SoftmaxArguments(y, weight, LossOptions(reduction=reduction), terms)
        want = composite_softmax_loss(x, arguments)
        loss, grad = loss_and_grad(x.detach(), y, terms, weight, reduction)
        torch.testing.assert_close(loss, want.detach())
        torch.testing.assert_close(grad, torch.autograd.grad(want.sum(), x)[0])


@pytest.mark.parametrize("k", [4, 40])
def test_rows_without_a_loss(k: int) -> None:
    x = torch.zeros(6, k)
    x[0, 1], x[1, 2], x[2, :], x[3, 0], x[4, 1:] = math.nan, math.inf, -math.inf, -math.inf, -math.inf
    y = torch.tensor([0, 0, 0, 0, 0, -100])
    x.requires_grad_()
    want = F.cross_entropy(x, y, reduction="none")
    (slope,) = torch.autograd.grad(want.sum(), x)
    loss, grad = loss_and_grad(x.detach(), y, CROSS_ENTROPY)
    torch.testing.assert_close(loss, want.detach(), equal_nan=True)
    assert grad[:3].isnan().all() and slope[:3].isnan().any(1).all()  # PyTorch leaves zeros at masked classes
    torch.testing.assert_close(grad[3:], slope[3:])
    loss, grad = loss_and_grad(x.detach(), y, GCE)
    assert loss[3] == torch.tensor(1.4) and (grad[3] == 0).all()  # the bound, where the loss is flat
    assert loss[4] == loss[5] == 0 and (grad[4:] == 0).all()


def test_the_mean_over_no_row_is_nan() -> None:
    loss, grad = loss_and_grad(torch.zeros(2, 3), torch.tensor([-100, -100]), GCE, reduction="mean")
    assert loss.isnan() and (grad == 0).all()


def test_a_label_that_is_no_class() -> None:
    with pytest.raises(IndexError, match=r"Expected `target` to be class indices in \[0, 3\).*but got 3"):
        gce_loss(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(IndexError, match="but got -1"):
        rce_loss(torch.zeros(2, 3), torch.tensor([-1, 0]))


def test_the_same_bits_for_any_number_of_threads() -> None:
    before = torch.get_num_threads()
    x = torch.randn(1001, 130, generator=torch.Generator().manual_seed(0)) * 3
    y = torch.arange(1001) % 130
    try:
        results = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(loss_and_grad(x, y, GCE, reduction="mean"))
    finally:
        torch.set_num_threads(before)
    for loss, grad in results[1:]:
        assert torch.equal(loss, results[0][0]) and torch.equal(grad, results[0][1])


def test_forward_alone_gives_the_same_loss() -> None:
    x, y = torch.randn(50, 33, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 33
    loss, none = cpu.softmax_loss_and_grad(x, SoftmaxArguments(y, None, LossOptions(), GCE), want_grad=False)
    assert none is None and torch.equal(loss, loss_and_grad(x, y, GCE, reduction="mean")[0])


LOSSES = {
    "GCE": GCELoss(),
    "cross-entropy": GCELoss(beta=math.inf),
    "MAE": GCELoss(beta=1.0),
    "RCE": RCELoss(),
    "SCE": robust_loss("sce", "cifar10"),
    "GCE + cross-entropy": SumLoss([GCELoss(beta=3.0), GCELoss(beta=math.inf)], [2.0, 0.5]),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[SoftmaxTerms]:
    seen = []
    run = cpu.softmax_loss_and_grad

    def watched(logits: Tensor, arguments: SoftmaxArguments, **keywords: bool) -> tuple[Tensor, Tensor | None]:
        seen.append(arguments.terms)
        return run(logits, arguments, **keywords)

    monkeypatch.setattr(cpu, "softmax_loss_and_grad", watched)
    return seen


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_losses_are_those_of_plain_operations(loss: nn.Module, calls: list[SoftmaxTerms], monkeypatch) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.randint(6, (20,), generator=generator)
    fused = loss(x, y)
    (grad,) = torch.autograd.grad(fused, x, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), x)
    assert len(calls) == 1
    monkeypatch.setattr(dispatch, "is_commonest", lambda *_: False)
    plain = loss(x, y)
    assert len(calls) == 1
    (plain_grad,) = torch.autograd.grad(plain, x, create_graph=True)
    torch.testing.assert_close(fused, plain)
    torch.testing.assert_close(grad, plain_grad)
    torch.testing.assert_close(second, torch.autograd.grad(plain_grad.square().sum(), x)[0])


@pytest.mark.parametrize(
    "loss",
    [
        GCELoss(label_smoothing=0.1),
        SumLoss([GCELoss(beta=1.2), RCELoss()], [1.0, 1.0]),
        SumLoss([GCELoss(weight=torch.ones(6)), RCELoss()], [1.0, 1.0]),
        SumLoss([nn.CrossEntropyLoss(), RCELoss()], [1.0, 1.0]),
        type("Own", (GCELoss,), {"forward": lambda self, input, target: input.sum()})(),
        SumLoss([type("Own", (RCELoss,), {"forward": lambda self, input, target: input.sum()})()], [1.0]),
    ],
    ids=["smoothing", "two betas", "two weights", "another loss", "a subclass", "a sum of a subclass"],
)
def test_other_losses_are_not_mistaken_for_one_of_these(
    loss: nn.Module, calls: list[SoftmaxTerms], monkeypatch
) -> None:
    x, y = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 6
    found = loss(x, y)
    monkeypatch.setattr(dispatch, "is_commonest", lambda *_: False)
    torch.testing.assert_close(found, loss(x, y))


def test_options_that_were_set_on_one_loss_of_a_sum_hold_for_it_alone():
    x, y = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 6
    criterion = SumLoss([GCELoss(beta=math.inf, reduction="sum"), RCELoss(reduction="sum")], [1.0, 1.0])
    criterion.losses[1].ignore_index = 3
    want = F.cross_entropy(x, y, reduction="sum") + rce_loss(x, y, ignore_index=3, reduction="sum")
    torch.testing.assert_close(criterion(x, y), want)


def test_two_betas_in_a_sum_are_two_calls(calls: list[SoftmaxTerms]) -> None:
    x, y = torch.zeros(2, 3), torch.tensor([0, 1])
    SumLoss([GCELoss(beta=1.2), RCELoss(log_zero=-4.0)], [1.0, 1.0])(x, y)
    assert calls == [(0, 1, 1.2), (0, 4, 1)]


STRIDED = {
    "transposed": lambda x: x.T.contiguous().T,
    "part of each row": lambda x: torch.cat([x, -x], 1)[:, : x.shape[1]],
    "every other row": lambda x: x.repeat_interleave(2, 0)[::2],
    "one row for all": lambda x: x[:1].expand_as(x),
}


@pytest.mark.parametrize("view", STRIDED)
@pytest.mark.parametrize("loss", [gce_loss, rce_loss, mgce_loss])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_logits_of_any_strides_take_the_kernel(view, loss, reduction):
    strided = STRIDED[view](torch.randn(12, 5))
    assert not strided.is_contiguous()
    leaves = strided.detach(), strided.contiguous()
    found = []
    for leaf in leaves:
        value = loss(leaf.requires_grad_(), torch.arange(12) % 5, reduction=reduction)
        assert type(value.grad_fn).__name__ == "FusedLossBackward"
        first = torch.autograd.grad(value.square().sum(), leaf, create_graph=True)[0]
        value = loss(leaf, torch.arange(12) % 5, reduction=reduction)
        (plain,) = torch.autograd.grad(value.square().sum(), leaf)
        found.append((value, first, plain, torch.autograd.grad(first.square().sum(), leaf)[0]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
