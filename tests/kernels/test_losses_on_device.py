"""The losses as networks use them, on a GPU where there is one: derivatives, compilation, loss scales, graphs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mgce import MGCELoss, TrimmedLoss
from mgce.functional import linear_mgce_loss, mgce_loss
from mgce_lab.losses import robust_loss

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.float16 if DEVICE == "cuda" else torch.bfloat16  # what autocast takes on the device
on_a_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
N, K = 64, 1000
# All names that need no argument of their own.
ROBUST = (
    *("ce", "mae", "gce", "mgce", "unhinged", "rce", "sce", "nce", "nce+rce", "agce", "anl-ce", "jal-ce", "ce_eps"),
    *(
        "ce_eps+mae",
        "ce+logitclip",
        "bi-tempered",
        "focal",
        "taylor-ce",
        "poly-1",
        "mgce+scale",
        "mgce+cap",
        "ce+trunc",
    ),
)


def batch(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits, target = 3 * torch.randn(N, K, generator=generator), torch.randint(K, (N,), generator=generator)
    target[1::7] = -100
    return logits.to(DEVICE, dtype), target.to(DEVICE)


def first_and_second(loss: Callable[[Tensor], Tensor], logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss, its gradient, and the gradient of the squared norm of that."""
    leaf = logits.clone().requires_grad_()
    value = loss(leaf)
    (grad,) = torch.autograd.grad(value, leaf, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), leaf)
    return value.detach(), grad.detach(), second


@pytest.mark.parametrize("beta", [1.4, 2.0, 5.0])
def test_two_derivatives(beta: float) -> None:
    x, y = batch()
    got = first_and_second(lambda logits: mgce_loss(logits, y, beta=beta), x)
    want = first_and_second(lambda logits: mgce_loss(logits, y, beta=beta, backend="reference"), x.double())
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-6 * other.abs().max().item())


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_it_is_the_same(dtype: torch.dtype) -> None:
    x, y = batch(dtype)
    results = []
    for loss in (mgce_loss, torch.compile(mgce_loss, fullgraph=True)):
        leaf = x.clone().requires_grad_()
        value = loss(leaf, y, beta=1.4, label_smoothing=0.1)
        value.backward()
        results.append((value.detach(), leaf.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=4 * torch.finfo(one.dtype).eps, atol=1e-7)


def test_a_scaled_step_in_half_precision() -> None:
    torch.manual_seed(0)
    layer, (_, y) = nn.Linear(16, K).to(DEVICE), batch()
    features = torch.randn(N, 16, device=DEVICE)
    criterion = MGCELoss(beta=1.4)
    criterion(layer(features), y).backward()
    want = layer.weight.grad.clone()
    layer.zero_grad()
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**14)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
    with torch.autocast(DEVICE, dtype=HALF):
        loss = criterion(layer(features), y)
    assert loss.dtype == torch.float32
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    error = (layer.weight.grad - want).norm() / want.norm()
    assert 0 < error <= 4 * torch.finfo(HALF).eps


def test_a_head_and_its_loss_at_once() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(K, 16, generator=generator)
    features, (_, y) = torch.randn(N, 16, generator=generator).to(DEVICE), batch()
    results = []
    for loss in (
        lambda x, w: linear_mgce_loss(x, w, y, beta=1.4),
        lambda x, w: mgce_loss(x @ w.T, y, beta=1.4, backend="reference"),
    ):
        leaves = [leaf.detach().to(DEVICE).requires_grad_() for leaf in (features, weight)]
        value = loss(*leaves)
        value.backward()
        results.append([value.detach(), *(leaf.grad for leaf in leaves)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@on_a_gpu
@pytest.mark.parametrize("name", ROBUST)
def test_every_loss_is_as_on_the_cpu(name: str) -> None:
    x, y = batch(torch.float64)
    results = []
    for device in ("cpu", "cuda"):
        leaf = x.to(device).requires_grad_()
        loss = robust_loss(name).to(device)(leaf, y.to(device))
        loss.backward()
        results.append((loss.detach().cpu(), leaf.grad.cpu()))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@on_a_gpu
def test_trimming_is_as_on_the_cpu() -> None:
    generator = torch.Generator().manual_seed(0)
    losses = []
    for device in ("cpu", "cuda"):
        criterion = TrimmedLoss(MGCELoss(beta=1.4, reduction="none"), [0.5, 0.25, 0.0], 3, window=16).to(device)
        generator.manual_seed(0)
        batches = [(torch.randn(40, 3, generator=generator), torch.randint(3, (40,), generator=generator))] * 3
        losses.append([criterion(x.to(device), y.to(device)).item() for x, y in batches])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@on_a_gpu
def test_a_step_is_captured_as_a_graph() -> None:
    x, y = batch()
    leaf = x.clone().requires_grad_()

    def step() -> Tensor:
        leaf.grad = None
        loss = mgce_loss(leaf, y, beta=1.4)
        loss.backward()
        return loss.detach()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            want = step()
    torch.cuda.current_stream().wait_stream(stream)
    gradient = leaf.grad.clone()
    leaf.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    leaf.data.zero_()
    graph.replay()
    assert not torch.equal(loss, want)
    leaf.data.copy_(x)
    graph.replay()
    assert torch.equal(loss, want) and torch.equal(leaf.grad, gradient)
