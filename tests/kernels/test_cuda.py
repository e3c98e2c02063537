"""The Triton kernels against float64 truth, the eager path's own error as their yardstick.

Where there is no GPU they run in Triton's interpreter, on small batches. Compilation is tested either way.
"""

from __future__ import annotations

import itertools
import sys

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from grids import grid
from hard_rows import hard_rows
from mgce.functional import mgce_loss
from mgce.kernels import cuda, cuda_math, cuda_plan
from mgce.kernels.cuda import scale_
from plain import normalized_logits
from triton_truth import DEVICE, check_against_truth, check_same, loss_and_grad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where the interpreter divides by zero

EPS = torch.finfo(torch.float32).eps
BETAS = (1.0, 1.02, 1.4, 1.5, 2.0, 3.0, 5.0, 11.0, 100.0, 1e6)
HALF = (torch.bfloat16, torch.float16)
WAYS = ("tiles", "small_lists", "small_chunks")


def error(got: Tensor, want: Tensor) -> float:
    difference = torch.where(got == want, 0, got - want).abs()  # equal infinities
    return (difference / want.abs().clamp(min=1).where(want.isfinite(), 1)).max().item()


@pytest.mark.slow
@grid("beta, k", BETAS, [1, 2, 3, 17, 127, 1000], keep=lambda beta, k: k == 17 or (k < 17 and beta == 1.4))
def test_hard_rows_against_the_truth(beta: float, k: int) -> None:
    check_against_truth(hard_rows(k, beta, torch.float32)[:: 2 if k == 1000 else 1], beta)


@pytest.mark.parametrize("beta", [1.0, 1.02, 1.4])
def test_a_support_that_collapses(beta: float) -> None:
    steps = torch.tensor([1.0, 2, 3, 5, 8, 20, 100])[:, None]
    x = beta * (steps * 2.0**-23 * torch.rand(7, 1000, generator=torch.Generator().manual_seed(0)) - 1)
    x[:, 0] = 0  # all others are at the edge of the support, within rounding
    loss, _ = loss_and_grad(x.to(DEVICE), torch.zeros(7, dtype=torch.int64, device=DEVICE), reduction="none", beta=beta)
    want = -normalized_logits(x.double(), beta=beta)[:, 0]
    assert ((loss.cpu() - want).abs() <= 4 * EPS).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "beta"),
    [
        *((4097, 1.02), (16385, 11.0)),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in ((8193, 1.0), (8193, 1.4), (9001, 2.0), (16400, 1e6))
        ),
    ],
)
def test_long_rows(k: int, beta: float) -> None:
    check_against_truth(hard_rows(k, beta, torch.float32)[[0, 2, 4, 9, 11, -1] if k > 4097 else [2, 9, -1]], beta)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["small_chunks"], indirect=True)
@grid(
    "beta, k",
    [1.0, 1.02, 1.4, 3.0, 1e6],
    [1, 63, 64, 65, 300],
    keep=lambda beta, k: k == {1.0: 300, 1.02: 65, 1.4: 300, 3.0: 63, 1e6: 64}[beta] or (beta, k) == (1.4, 1),
)
def test_chunks_of_all_sizes(way: str, beta: float, k: int) -> None:
    check_against_truth(hard_rows(k, beta, torch.float32)[:: 3 if k == 65 else 6], beta)


@pytest.mark.slow
@grid(
    "beta, k",
    [1.02, 1.05, 1.18, 1.4, 2.0, 11.0, 1e4],
    [17, 1000, 4097],
    keep=lambda beta, k: k == 17 or (k == 1000 and beta == 1.4),
)
def test_probabilities_are_exact_for_margins_that_differ_by_rounding(beta: float, k: int) -> None:
    scales = torch.tensor([0.01, 0.1, 1, 1, 2, 3, 10, 30])
    x = torch.randn(8, k, generator=torch.Generator().manual_seed(k)) * scales[:, None]
    y = torch.zeros(8, dtype=torch.int64, device=DEVICE)
    loss, grad = loss_and_grad(x.to(DEVICE), y, reduction="none", beta=beta)
    p = grad.double() + F.one_hot(y, k)
    # By Fenchel and Young, phi + p.f + E(p) is zero at the exact p and second order beside it.
    entropy = beta * (1 - p.norm(beta / (beta - 1), dim=1))
    gap = (p * (x[:, :1] - x).to(p)).sum(1) + loss - entropy
    assert (gap.abs() <= 64 * EPS * x.abs().max().item() * beta).all()


@triton.jit
def log2_kernel(v, lost, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, cuda_math.log2(tl.load(v + i), tl.load(lost + i)))


def test_the_logarithm_keeps_its_relative_accuracy() -> None:
    above = -torch.logspace(-30, 0, 3071, dtype=torch.float64).float()
    z = torch.cat([above, -1 + torch.logspace(-7.2, 0, 1023, dtype=torch.float64).float(), torch.zeros(2)])
    z = z.where(z > -1, -0.5).to(DEVICE)
    out = torch.empty_like(z)
    v = 1 + z
    log2_kernel[(4,)](v, z - (v - 1), out, BLOCK=1024, enable_fp_fusion=True)
    want = z.double().log1p() / torch.tensor(2.0, dtype=torch.float64).log().to(DEVICE)
    assert ((out - want).abs() <= 3 * EPS * want.abs()).all()


@triton.jit
def powers_kernel(x, t, out, beta, beta_less_1, inv_beta, HALVES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    w, _ = cuda_math.powers(tl.load(x + i), t, beta, beta_less_1, inv_beta, HALVES)
    tl.store(out + i, w)


@pytest.mark.parametrize("beta", [1.0, 1.02, 1.4, *(half / 2 for half in range(3, 34)), 17.0, 100.0])
def test_powers_are_those_of_float64(beta: float) -> None:
    """Near the edge of the support, at half of beta, where sums change their form, and an ulp beside both."""
    halves = cuda_plan.halves(beta)
    assert (halves >= 0) == (beta == round(2 * beta) / 2 and beta < 17)
    single = torch.tensor([beta]).item()  # beta, as the kernel has it
    at = torch.tensor([0.0, -1e-3, -0.1 * single, -single / 2, -0.9 * single, -single, -2 * single])
    x = torch.cat([at, *(torch.nextafter(at[3:4], torch.tensor(to)) for to in (-torch.inf, torch.inf))])
    x = F.pad(x, (0, 16 - len(x)), value=-torch.inf).to(DEVICE)
    for t, by in itertools.product((0.0, -single / 8), {halves, -1}):
        out = torch.empty_like(x)
        powers_kernel[(1,)](x, t, out, beta, beta - 1, 1 / beta, by, BLOCK=16)
        v = (1 + (x.double() + t) / single).clamp(min=0)
        want = torch.where(v > 0, v ** (beta - 1), 0)
        # v is off by a few eps of the larger one of itself and t / beta.
        allowed = 4 * EPS * (1 + (beta - 1) * (1 + abs(t) / single / v.where(v > 0, 1))) * want
        assert ((out - want).abs() <= allowed + torch.finfo(torch.float32).tiny).all()


@triton.jit
def step_kernel(t, low, h_sum, out, next_low, far, w_sum, beta, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    sums = tl.load(h_sum + i)
    moved, risen, moves = cuda_math.newton_step(tl.load(t + i), tl.load(low + i), sums, w_sum, beta, 1 / beta, 1)
    tl.store(out + i, moved)
    tl.store(next_low + i, risen)
    tl.store(far + i, moves.to(tl.int32))


def a_step(low: float, w_sum: float, start: float = -1.0) -> tuple[list[float], list[bool], list[int]]:
    t = torch.full((4,), start, device=DEVICE)
    h_sum = torch.tensor([1 + 1e-3, 1 + EPS, 1 - 4 * EPS, 1 - 1e-3], device=DEVICE)
    out, next_low = torch.empty(4, device=DEVICE), torch.empty(4, device=DEVICE)
    far = torch.empty(4, dtype=torch.int32, device=DEVICE)
    step_kernel[(1,)](t, torch.full_like(t, low), h_sum, out, next_low, far, w_sum, 2.0, BLOCK=4)
    return (out - start).tolist(), (next_low == t).tolist(), far.tolist()


def test_a_step_that_rounding_took_beyond_the_root_is_taken_back() -> None:
    """Where h sums to clearly less than 1 t is left of the root; by less than that it stays, lest it cycle."""
    (below, at, little, above), rose, far = a_step(cuda_math.LOWEST.value, 1.5)
    assert far == [1, 1, 0, 1] and rose == [False, False, False, True]
    assert below == pytest.approx(-1e-3 / 1.5, rel=1e-3) and -EPS <= at <= 0
    assert little == 0 and above == pytest.approx(1e-3 / 1.5, rel=1e-3)


def test_no_step_goes_back_to_a_point_that_t_rose_from() -> None:
    (below, at, little, _), _, _ = a_step(-1 - 2e-4, 1.5)
    assert below == pytest.approx(-2e-4, rel=1e-2) and -EPS <= at <= 0 and little == 0


def test_a_small_step_by_a_large_slope_is_not_the_last() -> None:
    """The slope may be 1 at the next point, and the root as far as the excess of h says."""
    (below, at, *_), _, far = a_step(cuda_math.LOWEST.value, 3.3e4, -0.25)
    assert below == -EPS / 4 and at == 0 and far[:3] == [1, 0, 0]


KINDS = [(torch.float32, "none", 0.0), (torch.float32, "mean", 0.1), (torch.float32, "sum", 1.0)]
KINDS += [(dtype, "mean", 0.1) for dtype in HALF]
# Every kind, on every way once with weights and once with probabilities.
TARGETS = [
    *(("tiles", KINDS[0], True, False), ("tiles", KINDS[1], False, True), ("tiles", KINDS[3], True, True)),
    *(("small_lists", KINDS[1], True, False), ("small_lists", KINDS[2], False, True)),
    *(("small_chunks", KINDS[4], True, False), ("small_chunks", KINDS[2], False, True)),
]


@pytest.mark.slow
@grid(
    "way, kind, weighted, probabilities",
    ["tiles", "small_lists", "small_chunks"],
    KINDS,
    [False, True],
    [False, True],
    keep=lambda *case: case in TARGETS,
    indirect=["way"],
)
def test_targets_of_every_kind(
    way: str, kind: tuple[torch.dtype, str, float], weighted: bool, probabilities: bool
) -> None:
    check_targets(way, kind, weighted, probabilities)


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["tiles", "small_lists", "small_chunks"], indirect=True)
@pytest.mark.parametrize(("reduction", "smoothing"), list(itertools.product(("none", "mean", "sum"), (0.0, 0.1, 1.0))))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("probabilities", [False, True])
def test_targets_of_every_reduction(
    way: str, probabilities: bool, weighted: bool, reduction: str, smoothing: float
) -> None:
    check_targets(way, (torch.float32, reduction, smoothing), weighted, probabilities)


def check_targets(way: str, kind: tuple[torch.dtype, str, float], weighted: bool, probabilities: bool) -> None:
    dtype, reduction, smoothing = kind
    generator = torch.Generator().manual_seed(0)
    n, k = (9, 37) if way == "tiles" else (2, 70)
    x = (torch.randn(n, k, generator=generator) * 2).to(DEVICE, dtype)
    weight = torch.rand(k, generator=generator).to(DEVICE, dtype) if weighted else None
    target = torch.randint(k, (n,), generator=generator).to(DEVICE)
    target[1::4] = -100  # ignored
    if probabilities:
        target = torch.rand(n, k, generator=generator).to(DEVICE, dtype)
    leaf = x.double().requires_grad_()
    exact = tuple(v.double() if v is not None and v.is_floating_point() else v for v in (target, weight))
    want = mgce_loss(leaf, *exact, -100, reduction, smoothing, beta=1.4, backend="reference")
    want.sum().backward()
    loss, grad = loss_and_grad(x, target, weight, -100, reduction, smoothing, beta=1.4)
    assert grad is not None and grad.dtype == dtype and loss.dtype == torch.float32
    tolerance = 100 * EPS
    torch.testing.assert_close(loss.double(), want.detach(), rtol=tolerance, atol=tolerance)
    coarse = max(tolerance, torch.finfo(dtype).eps)
    torch.testing.assert_close(grad.double(), leaf.grad, rtol=coarse, atol=tolerance)
    if smoothing == 0.1:
        alone, none = loss_and_grad(x, target, weight, -100, reduction, smoothing, beta=1.4, want_grad=False)
        assert none is None and torch.equal(alone, loss)


@pytest.mark.slow
@grid("way, beta", WAYS, [1.0, 1.4], keep=lambda way, beta: (way == "tiles") == (beta == 1.0), indirect=["way"])
def test_rows_without_an_answer_are_nan_and_spoil_no_other(way: str, beta: float) -> None:
    k = 130 if way == "tiles" else 70  # more than a block
    x = torch.randn(9, k, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    y = torch.tensor([0, 1, 2, 3, 4, -100, 5, 6, 7], device=DEVICE)
    clean, _ = loss_and_grad(x, y, reduction="none", beta=beta)
    x[1, -1], x[2, 3], x[3], x[5, 0] = torch.nan, torch.inf, -torch.inf, torch.nan
    y[6], y[7] = k, -1
    loss, grad = loss_and_grad(x, y, reduction="none", beta=beta)
    bad = [1, 2, 3, 6, 7]
    assert loss[bad].isnan().all() and grad[bad].isnan().all()
    assert torch.equal(loss[[0, 4, 8]], clean[[0, 4, 8]]) and grad[[0, 4, 8]].isfinite().all()
    assert loss[5] == 0 and (grad[5] == 0).all()  # ignored


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tiles", "small_lists", "small_chunks"], indirect=True)
def test_masked_classes_are_as_if_they_were_not_there(way: str) -> None:
    x = torch.randn(2, 40, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    y = torch.arange(2, device=DEVICE)
    wide = torch.full((2, 100), -torch.inf, device=DEVICE)
    wide[:, :40] = x
    loss, grad = loss_and_grad(x, y, beta=1.4)
    wide_loss, wide_grad = loss_and_grad(wide, y, beta=1.4)
    torch.testing.assert_close(wide_loss, loss)
    torch.testing.assert_close(wide_grad[:, :40], grad)
    assert (wide_grad[:, 40:] == 0).all()
    impossible, _ = loss_and_grad(wide, y + 50, reduction="none", beta=1.4)
    assert (impossible == torch.inf).all()
    soft, _ = loss_and_grad(wide, F.one_hot(y, 100).float(), beta=1.4)
    torch.testing.assert_close(soft, loss)


@pytest.mark.slow
@grid(
    "way, dtype",
    WAYS,
    [torch.float32, *HALF],
    keep=lambda way, dtype: dtype == {"tiles": torch.float32, "small_lists": HALF[0], "small_chunks": HALF[1]}[way],
    indirect=["way"],
)
def test_gradient_over_the_logits(way: str, dtype: torch.dtype) -> None:
    x = (torch.randn(3, 150, generator=torch.Generator().manual_seed(0)) * 2).to(DEVICE, dtype)
    y = torch.arange(3, device=DEVICE) * 40
    loss, grad = loss_and_grad(x, y, label_smoothing=0.1, beta=1.4)
    room = torch.zeros(3, 160, device=DEVICE, dtype=dtype)
    room[:, 5:155] = x
    view = room[:, 5:155]
    over_loss, over_grad = loss_and_grad(view, y, label_smoothing=0.1, beta=1.4, inplace=True)
    assert over_grad is view
    check_same((over_loss, over_grad), (loss, grad))
    assert (room[:, :5] == 0).all() and (room[:, 155:] == 0).all()
    if dtype in HALF:
        _, fine = loss_and_grad(x, y, label_smoothing=0.1, beta=1.4, grad_dtype=torch.float32)
        assert fine.dtype == torch.float32
        torch.testing.assert_close(grad.float(), fine, rtol=torch.finfo(dtype).eps, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tiles", "small_lists", "small_chunks"], indirect=True)
def test_rows_of_any_stride(way: str) -> None:
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(4, 90, generator=generator).to(DEVICE)
    probs = torch.rand(4, 100, generator=generator).to(DEVICE)
    columns = torch.rand(77, 2, generator=generator).to(DEVICE).T
    for x, q in (
        (wide[::2, 3:80], probs[::2, 5:82]),
        (wide[:1, 3:80].expand(2, -1), probs[2:, :77]),
        (wide[:2, 3:80], columns),
    ):
        check_same(loss_and_grad(x, q, beta=1.4), loss_and_grad(x.contiguous(), q.contiguous(), beta=1.4))


@pytest.mark.parametrize("way", ["tiles", "small_lists", "small_chunks"], indirect=True)
def test_what_has_no_share_of_an_infinite_difference(way: str) -> None:
    """A class without a target adds nothing; a masked label of weight 0 gives NaN, as in PyTorch's cross-entropy."""
    x = torch.full((1, 150), -3e38, device=DEVICE)
    x[0, 100] = 2e38  # the difference is infinite in float32
    loss, _ = loss_and_grad(x, F.one_hot(torch.tensor([100], device=DEVICE), 150).float(), beta=1.4)
    assert loss == 0
    x, y = torch.zeros(1, 150, device=DEVICE), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    x[0, 0] = -torch.inf
    weight = torch.ones(150, device=DEVICE)
    weight[0] = 0
    loss, _ = loss_and_grad(x, y, weight, reduction="sum", beta=1.4)
    assert loss.isnan() and F.cross_entropy(x, y, weight, reduction="sum").isnan()


def test_labels_and_weights_of_any_stride() -> None:
    x = torch.randn(5, 20, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    y, weight = torch.arange(10, device=DEVICE), torch.rand(40, device=DEVICE)
    want = loss_and_grad(x, y[::2].contiguous(), weight[::2].contiguous(), beta=1.4)
    for labels in (y[::2], y[::2].to(torch.uint8), y[:5].as_strided((5,), (2,))):
        check_same(loss_and_grad(x, labels, weight[::2], beta=1.4), want)


def test_offsets_beyond_32_bits() -> None:
    k, stride = 20, 2**30
    try:  # memory that is not touched costs nothing
        room = torch.empty(2 * stride + k, dtype=torch.bfloat16, device=DEVICE)
    except RuntimeError:
        pytest.skip("there is no room for 2^31 elements")
    x = room.as_strided((3, k), (stride, 1))
    x.copy_(torch.randn(3, k, generator=torch.Generator().manual_seed(0)))
    y = torch.arange(3, device=DEVICE)
    want = loss_and_grad(x.contiguous(), y, beta=1.4)
    check_same(loss_and_grad(x, y, beta=1.4, inplace=True), want)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    x = hard_rows(20, 1.4, torch.float32)[::3].to(DEVICE)  # one row a call of the interpreter
    y = torch.zeros(len(x), dtype=torch.int64, device=DEVICE)
    loss, grad = loss_and_grad(x, y, reduction="none", beta=1.4)
    for i in range(len(x)):
        alone = loss_and_grad(x[i : i + 1], y[:1], reduction="none", beta=1.4)
        assert torch.equal(alone[0], loss[i : i + 1]) and torch.equal(alone[1], grad[i : i + 1])


@pytest.mark.parametrize("way", ["tiles", "small_lists", "small_chunks"], indirect=True)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_row_counts(way: str, smoothing: float) -> None:
    x = torch.randn(3, 4, device=DEVICE)
    for weight in (None, torch.ones(4, device=DEVICE)):
        target = torch.full((3,), -100, device=DEVICE)
        loss, grad = loss_and_grad(x, target, weight, label_smoothing=smoothing, beta=1.4)
        assert loss.isnan() and (grad == 0).all()
    nothing, labels = torch.empty(0, 4, device=DEVICE), torch.empty(0, dtype=torch.int64, device=DEVICE)
    assert loss_and_grad(nothing, labels, beta=1.4)[0].isnan()
    assert loss_and_grad(nothing, labels, reduction="sum", beta=1.4)[0] == 0
    assert loss_and_grad(nothing, labels, reduction="none", beta=1.4)[1].shape == (0, 4)


def test_one_class_of_which_some_rows_count() -> None:
    """A row without a label, or of a weight, has no place among the weights of the mean."""
    y = torch.tensor([-100, 0, 0], device=DEVICE)
    for weight in (None, torch.full((1,), 2.0, device=DEVICE)):
        loss, grad = loss_and_grad(torch.randn(3, 1, device=DEVICE), y, weight, beta=1.4)
        assert loss == 0 and (grad == 0).all()


@pytest.mark.parametrize("way", ["small_lists", "small_chunks"], indirect=True)
@pytest.mark.parametrize("soft", [False, True])
def test_the_loss_of_smoothed_and_of_given_targets(way: str, soft: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(1, 70, generator=generator) * 2, torch.tensor([3])
    weight = torch.rand(70, generator=generator)
    q = torch.rand(1, 70, generator=generator) if soft else F.one_hot(y, 70)
    share = (0.9 * q.double() + 0.1 / 70) * weight
    want = -(share * normalized_logits(x.double(), beta=1.4)).sum()
    target = (q if soft else y).to(DEVICE)
    loss, _ = loss_and_grad(x.to(DEVICE), target, weight.to(DEVICE), -100, "sum", 0.1, beta=1.4)
    assert abs(loss.item() - want) <= 16 * EPS * abs(want)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize(("n", "k"), [(5, 5000), (5, 1), (600, 10), (5, 4096)])
def test_scaling_of_the_gradient(n: int, k: int, dtype: torch.dtype) -> None:
    grad = torch.randn(n, k + 3, generator=torch.Generator().manual_seed(0)).to(DEVICE, dtype)[:, 1 : k + 1]
    same = scale_(grad.clone(), torch.ones((), device=DEVICE))
    assert torch.equal(same, grad)
    torch.testing.assert_close(scale_(grad.clone(), torch.tensor(3.0, device=DEVICE)), grad * 3)
    factor = torch.arange(float(n), device=DEVICE)
    torch.testing.assert_close(scale_(grad.clone(), factor), (grad * factor[:, None]).to(dtype))
    torch.testing.assert_close(scale_(grad.clone(), factor[:1].expand(n)), grad * 0)


def test_what_it_cannot_take_is_said() -> None:
    y = torch.zeros(3, dtype=torch.int64, device=DEVICE)
    x = torch.zeros(3, 4, device=DEVICE)
    with pytest.raises(ValueError, match="Expected `logits` to be float16, bfloat16 or float32"):
        loss_and_grad(x.double(), y, beta=1.4)
    with pytest.raises(ValueError, match="classes are next to one another"):
        loss_and_grad(torch.zeros(4, 3, device=DEVICE).T, y, beta=1.4)
    with pytest.raises(ValueError, match="Expected `grad_dtype` to be torch.bfloat16, but got torch.float32"):
        loss_and_grad(x.bfloat16(), y, beta=1.4, inplace=True, grad_dtype=torch.float32)


def test_why_triton_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.obstacle.cache_clear()
    assert cuda.obstacle() is None
    cuda.obstacle.cache_clear()
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cuda.obstacle() == "PyTorch finds no CUDA device"
    cuda.obstacle.cache_clear()
    monkeypatch.setitem(sys.modules, "triton", None)
    assert cuda.obstacle().startswith("Triton cannot be imported")
    cuda.obstacle.cache_clear()
