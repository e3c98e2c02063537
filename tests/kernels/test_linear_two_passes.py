"""The two passes of a linear head in bfloat16 on a GPU, against float64.

Inputs and weights are small multiples of 1/4, so that every logit is exact in bfloat16: what differs is the rounding of
the gradients alone.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grids import grid
from mgce.functional import mgce_loss
from mgce.kernels import cuda
from mgce.kernels.options import LossArguments, LossOptions
from mgce.losses.linear_chunks import ChunkOptions, HeadBatch, loss_and_gradients
from triton_truth import DEVICE, check_same

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where the interpreter divides by zero

N, D, K = 7, 8, 150
KINDS = ("labels", "ignored", "probs")
EPS = torch.finfo(torch.bfloat16).eps


def problem(target_kind: str, bias: bool, weighted: bool) -> HeadBatch:
    generator = torch.Generator().manual_seed(0)

    def quarters(*shape: int) -> Tensor:
        return torch.randint(-3, 4, shape, generator=generator).bfloat16().to(DEVICE) / 4

    target = torch.randint(K, (N,), generator=generator).to(DEVICE)
    if target_kind == "ignored":
        target[[2, 5]] = -100
    elif target_kind == "probs":
        target = torch.rand(N, K, generator=generator).to(DEVICE)
    weight = torch.rand(K, generator=generator).bfloat16().to(DEVICE) if weighted else None
    return HeadBatch(4 * quarters(N, D), quarters(K, D), 4 * quarters(K) if bias else None, target, weight)


def truth(batch: HeadBatch, options: LossOptions, beta: float, share: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """Return the loss and the gradients in float64, and the sums of sizes that their rounding errors are shares of."""
    leaves = [None if t is None else t.double().requires_grad_() for t in batch[:3]]
    target = batch.target.double() if batch.target.is_floating_point() else batch.target
    logits = F.linear(*leaves)
    logits.retain_grad()
    weight = None if batch.weight is None else batch.weight.double()
    loss = mgce_loss(logits, target, weight, *options, beta=beta, backend="reference")
    (loss if share is None else (loss * share).sum()).backward()
    sizes = [logits.grad.abs() @ leaves[1].abs(), logits.grad.abs().T @ leaves[0].abs(), logits.grad.abs().sum(0)]
    return loss.detach(), [(t.grad, s) for t, s in zip(leaves, sizes, strict=True) if t is not None]


def check(
    loss: Tensor, gradients: tuple[Tensor | None, ...], want: Tensor, wanted: list[tuple[Tensor, Tensor]]
) -> None:
    torch.testing.assert_close(loss.double(), want, rtol=1e-5, atol=1e-5)
    found = [gradient for gradient in gradients if gradient is not None]
    for one, (exact, size) in zip(found, wanted, strict=True):
        assert one.dtype == torch.bfloat16
        # An entry of a chunk's gradient is rounded, and again where it is scaled; so is the result.
        assert ((one.double() - exact).abs() <= 2 * EPS * size + EPS * exact.abs()).all()


WAYS = ("tiles", "small_lists", "small_chunks")
QUICKER = (("tiles", "mean", "ignored"), ("small_lists", "none", "labels"), ("small_chunks", "sum", "probs"))


# Each value with two others: in one chunk of rows, and in several.
MOST = ((True, False, 0.1, 3), (False, True, 0.0, N))


@pytest.mark.slow
@grid(
    "way, reduction, target_kind",
    WAYS,
    ("mean", "sum", "none"),
    KINDS,
    keep=lambda *one: one in QUICKER,
    indirect=["way"],
)
@grid(
    "bias, weighted, smoothing, rows", (False, True), (False, True), (0.0, 0.1), (3, N), keep=lambda *one: one in MOST
)
def test_every_option_against_float64(
    way: str, reduction: str, target_kind: str, bias: bool, weighted: bool, smoothing: float, rows: int
) -> None:
    batch, options = problem(target_kind, bias, weighted), LossOptions(-100, reduction, smoothing)
    share = torch.rand(N, dtype=torch.float64, device=DEVICE) if reduction == "none" else None
    want, wanted = truth(batch, options, 1.4, share)
    row_scale = None if share is None else share.float()
    loss, gradients = loss_and_gradients(batch, ChunkOptions(options, 1.4, rows, "cuda"), (True,) * 3, row_scale)
    check(loss, gradients, want, wanted)


@grid(
    "way, beta",
    WAYS,
    [1.0, 1.4, 11.0],
    keep=lambda *one: one in (("tiles", 1.4), ("small_lists", 1.0), ("small_chunks", 11.0)),
    indirect=["way"],
)
def test_a_block_of_classes_is_a_part_of_the_gradient(way: str, beta: float) -> None:
    """From the roots of the rows the gradient of any classes is that of the one pass, to the bit; bad rows too."""
    x = (2 * torch.randn(9, 90, generator=torch.Generator().manual_seed(0))).to(DEVICE)
    y = torch.tensor([0, 1, 2, 3, 4, -100, 90, -1, 89], device=DEVICE)
    x[1, 89], x[2, 3], x[3], x[5, 0] = torch.nan, torch.inf, -torch.inf, torch.nan
    roots = torch.full((9, 3), torch.nan, device=DEVICE)
    arguments = LossArguments(y, None, LossOptions(reduction="sum"), beta)
    _, grad = cuda.loss_and_grad(x, arguments, roots=roots)
    alone, nothing = cuda.loss_and_grad(x, arguments, roots=roots.fill_(torch.nan), want_grad=False)
    assert nothing is None and alone.isnan()
    ones = torch.ones(9, device=DEVICE)
    for first, end in ((3, 70), (70, 71), (64, 90)):
        part = cuda.write_block(x[:, first:end].clone(), first, roots, ones, arguments, 90)
        check_same((part,), (grad[:, first:end],))
    doubled = cuda.write_block(x.clone(), 0, roots, 2 * ones, arguments, 130)
    check_same((doubled,), (2 * grad,))
