"""Rows that are read once: their list of candidates, what overflows it, and what is read and written."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
import torch

from hard_rows import hard_rows
from mgce.functional import mgce_loss
from mgce.kernels import cuda_launch, cuda_plan
from triton_truth import DEVICE, check_against_truth, check_same, loss_and_grad

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, where the interpreter divides by zero
    pytest.mark.parametrize("way", ["one_pass"], indirect=True),
]
EPS = torch.finfo(torch.float32).eps
BLOCK, CAPACITY = 64, 128  # of the fixture, for float32
NO_ROWS_LEFT: list[int] = []


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Give, for each call, the rows that the list could not hold."""
    calls: list[list[int]] = []
    stream = cuda_launch._launch_stream

    def watched(batch: cuda_launch.Batch) -> torch.Tensor:
        marks = stream(batch)
        calls.append(marks.nonzero()[:, 0].tolist())
        return marks

    monkeypatch.setattr(cuda_launch, "_launch_stream", watched)
    return calls


@pytest.mark.nightly
@pytest.mark.parametrize("k", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("beta", [1.0, 1.02, 1.4, 3.0])
def test_rows_of_every_length_against_the_truth(way: str, beta: float, k: int) -> None:
    check_against_truth(hard_rows(k, beta, torch.float32)[:: 7 if k == 300 else 9], beta)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "beta"), [(1 / 60, 1.02), (1 / 60, 1.4), (1 / 8, 5.0)])
def test_a_list_that_overflows_is_shortened(way: str, left: list[list[int]], step: float, beta: float) -> None:
    """In rows that rise every logit is a candidate when it comes; few of the last ones have a probability."""
    rising = torch.arange(500.0) * step
    rows = torch.stack([rising, rising - 1e3, 100 * rising, rising.flip(0)])
    assert (rising[1:BLOCK] > rising[BLOCK] - beta).sum() > 30 and len(rising) > 2 * CAPACITY
    check_against_truth(rows, beta)
    assert left == [NO_ROWS_LEFT]


def test_what_stays_in_a_shortened_list_keeps_its_places(way: str, left: list[list[int]]) -> None:
    """The ties stand in several parts of the list; what is between and behind them is near but has no probability."""
    x = torch.full((1, 300), -0.5)
    x[0, :128:4] = 0
    check_against_truth(x, 1.4)
    assert left == [NO_ROWS_LEFT]


def test_a_peak_far_above_a_full_list(way: str, left: list[list[int]]) -> None:
    """Nothing in the list counts then, so that there is nothing to solve."""
    rows = torch.zeros(2, CAPACITY + BLOCK + 9)
    rows[:, CAPACITY + 3] = torch.tensor([100.0, 1e30])
    check_against_truth(rows, 1.4)
    assert left == [NO_ROWS_LEFT]


def test_rows_of_too_many_candidates_are_left_to_the_other_kernel(way: str, left: list[list[int]]) -> None:
    dense = 0.01 * torch.randn(500, generator=torch.Generator().manual_seed(0))
    late = dense.clone()
    late[-1] = 50.0  # no more than one class in the end, but the list did not know
    rows = torch.stack([dense, 1000 * dense, torch.zeros(500), late])
    check_against_truth(rows, 1.4)
    assert left == [[0, 2, 3]]
    cuda_plan.ONE_PASS = False  # the fixture sets it back
    y = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    alone = loss_and_grad(rows[:1].to(DEVICE), y, beta=1.4)
    cuda_plan.ONE_PASS = True
    again = loss_and_grad(rows[:1].to(DEVICE), y, beta=1.4)
    assert torch.equal(alone[0], again[0]) and torch.equal(alone[1], again[1])


@pytest.mark.parametrize("beta", [1.0, 1.02, 2.0])
def test_ties_in_different_parts_of_a_row(way: str, left: list[list[int]], beta: float) -> None:
    x = torch.full((4, 300), -10.0)
    x[0, [3, 70, 299]] = 1e4
    x[1, [0, 64, 128, 192, 256]] = 0.1
    x[2, ::4] = -0.3  # 75 ties
    x[3, 200], x[3, 10:40] = 0.0, -beta  # on the edge of the support, before the peak comes
    check_against_truth(x, beta)
    assert left == [NO_ROWS_LEFT]


@pytest.mark.parametrize("edge", [-1, 0, 1])
def test_classes_within_rounding_of_the_edge_of_the_support(way: str, edge: int) -> None:
    """Far from zero, where a bound for each chunk could be rounded to the wrong side of a class."""
    generator = torch.Generator().manual_seed(0)
    for peak in (0.0, 1e4, -3e6):
        x = torch.full((1, 200), peak - 1.02) * (1 + edge * EPS)
        x[0, 130] = peak
        x += torch.randint(-1, 2, x.shape, generator=generator) * EPS * max(abs(peak), 1)
        check_against_truth(x, 1.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "reduction"),
    [(torch.float32, "none"), (torch.float32, "sum"), (torch.bfloat16, "mean"), (torch.float16, "mean")],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_of_every_kind(way: str, weighted: bool, dtype: torch.dtype, reduction: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(6, 150, generator=generator) * 4).to(DEVICE, dtype)
    weight = torch.rand(150, generator=generator).to(DEVICE) if weighted else None
    y = torch.tensor([149, -100, 3, 70, 64, 0], device=DEVICE)
    y[2] = x[2].argmax()  # a label that is in the list; the others are not
    leaf = x.double().requires_grad_()
    exact = None if weight is None else weight.double()
    want = mgce_loss(leaf, y, exact, -100, reduction, beta=1.4, backend="reference")
    want.sum().backward()
    loss, grad = loss_and_grad(x, y, weight, -100, reduction, beta=1.4)
    torch.testing.assert_close(loss.double(), want.detach(), rtol=100 * EPS, atol=100 * EPS)
    coarse = max(100 * EPS, torch.finfo(dtype).eps)
    torch.testing.assert_close(grad.double(), leaf.grad, rtol=coarse, atol=100 * EPS)
    alone, none = loss_and_grad(x, y, weight, -100, reduction, beta=1.4, want_grad=False)
    assert none is None and torch.equal(alone, loss)
    again = loss_and_grad(x, y, weight, -100, reduction, beta=1.4)
    assert torch.equal(again[0], loss) and torch.equal(again[1], grad)
    over_loss, over = loss_and_grad(x, y, weight, -100, reduction, beta=1.4, inplace=True)
    assert over is x and torch.equal(over, grad) and torch.equal(over_loss, loss)


def test_a_mean_over_no_weight(way: str) -> None:
    """As on the other ways: the loss and each gradient are 0 / 0."""
    x, y = torch.randn(2, 70, device=DEVICE), torch.tensor([0, 1], device=DEVICE)
    weight = torch.zeros(70, device=DEVICE)
    loss, grad = loss_and_grad(x, y, weight, beta=1.4)
    assert loss.isnan() and grad.isnan().all()
    loss, grad = loss_and_grad(x, torch.full_like(y, -100), weight, beta=1.4)
    assert loss.isnan() and (grad == 0).all()


def test_neither_stride_nor_neighbours_change_a_row(way: str) -> None:
    wide = 3 * torch.randn(7, 311, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    y = torch.arange(7, device=DEVICE) * 40
    loss, grad = loss_and_grad(wide[:, 3:300].contiguous(), y, reduction="none", beta=1.4)
    strided = loss_and_grad(wide[:, 3:300], y, reduction="none", beta=1.4)
    check_same(strided, (loss, grad))
    for i in range(7):
        alone = loss_and_grad(wide[i : i + 1, 3:300].clone(), y[i : i + 1], reduction="none", beta=1.4)
        assert torch.equal(alone[0], loss[i : i + 1]) and torch.equal(alone[1], grad[i : i + 1])


@pytest.mark.skipif(DEVICE == "cpu", reason="only a device can be waited for")
def test_the_host_does_not_wait(way: str) -> None:
    x, y = torch.randn(7, 300, device=DEVICE), torch.zeros(7, dtype=torch.int64, device=DEVICE)
    loss_and_grad(x, y, beta=1.4)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
        try:
            loss_and_grad(x, y, beta=1.4)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Return for each load and store of the interpreter its kind, its first address and how many numbers it moves."""
    from triton.runtime.interpreter import InterpreterBuilder

    moves: list[tuple[str, int, int]] = []

    def count(kind: str, pointers, mask) -> None:
        inside = mask.data.astype(bool)
        if inside.any():
            moves.append((kind, int(pointers.data[inside].min()), int(inside.sum())))

    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def counted_load(self, pointers, mask, *rest):
        count("read", pointers, mask)
        return load(self, pointers, mask, *rest)

    def counted_store(self, pointers, value, mask, *rest):
        count("written", pointers, mask)
        return store(self, pointers, value, mask, *rest)

    monkeypatch.setattr(InterpreterBuilder, "create_masked_load", counted_load)
    monkeypatch.setattr(InterpreterBuilder, "create_masked_store", counted_store)
    return moves


def moved(moves: list[tuple[str, int, int]], tensor: torch.Tensor) -> Counter[str]:
    """Count the numbers of a tensor that were read and written."""
    first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    counts: Counter[str] = Counter()
    for kind, address, numbers in moves:
        counts[kind] += numbers if first <= address < last else 0
    return counts


@pytest.mark.skipif(DEVICE != "cpu", reason="a device does not count")
@pytest.mark.parametrize("inplace", [False, True])
def test_a_sparse_row_is_read_once_and_written_once(
    way: str, left: list[list[int]], traffic: list[tuple[str, int, int]], inplace: bool
) -> None:
    n, k = 2, 1000
    x = 10 * torch.randn(n, k, generator=torch.Generator().manual_seed(0)).bfloat16()
    candidates = (x.float() > x.float().amax(1, keepdim=True) - 1.4).sum().item()
    copy = x.clone()
    _, grad = loss_and_grad(x, torch.tensor([5, 6]), reduction="none", beta=1.4, inplace=inplace)
    logits, gradient = moved(traffic, x), moved(traffic, grad)
    assert left == [NO_ROWS_LEFT]
    assert logits["read"] == n * (k + 1)  # the label's logit is asked for before
    extra = gradient["written"] - n * k  # the gradients of listed candidates, over their zeros
    assert candidates <= extra <= 0.02 * n * k
    assert (gradient["read"], logits["written"]) == ((logits["read"], gradient["written"]) if inplace else (0, 0))
    # What else moves is the list, and a few numbers for each row.
    others = sum(numbers for _, _, numbers in traffic) - logits["read"] - gradient["written"]
    assert others <= 0.2 * n * k
    cuda_plan.ONE_PASS = False
    traffic.clear()
    _, grad = loss_and_grad(copy, torch.tensor([5, 6]), reduction="none", beta=1.4)
    assert moved(traffic, copy)["read"] == 3 * n * k and moved(traffic, grad)["written"] == n * k


@pytest.mark.skipif(DEVICE != "cpu", reason="a device does not count")
def test_ignored_rows_are_not_read(way: str, traffic: list[tuple[str, int, int]]) -> None:
    x = torch.full((3, 200), torch.nan)
    loss, grad = loss_and_grad(x, torch.full((3,), -100), reduction="sum", beta=1.4)
    assert loss == 0 and (grad == 0).all()
    assert moved(traffic, x)["read"] == 0 and moved(traffic, grad)["written"] == 600


H100 = cuda_plan.Device(processors=132, cache_bytes=50 * 2**20)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("k", [8200, 32000, 128256, 256000, 10**6])
def test_rows_in_flight_fit_half_the_cache(k: int, size: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    cuda_plan.plan_cached_rows.cache_clear()
    plan, programs = cuda_plan.plan_cached_rows(k, 1.4, k * size, H100)
    assert 1 <= programs <= 4 * 132 and programs * k * size <= H100.cache_bytes / 2
    # As many as there is room for, and no fewer threads than keep half of the device's busy, up to what a row can use.
    assert (programs + 1) * k * size > H100.cache_bytes / 2 or programs == 4 * 132
    assert plan.warps == 16 or programs * plan.warps >= 16 * 132
    assert plan.constants["BLOCK"] == 256 * plan.warps


@pytest.mark.parametrize("beta", [1.0, 7.9, 8.0, 100.0])
@pytest.mark.parametrize("k", [1, 16, 17, 100, 256, 257, 2048, 2049, 4096, 8192, 8193, 16384, 16385])
def test_rows_that_fit_are_held_in_registers_and_others_read_in_chunks(
    k: int, beta: float, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    cuda_plan.plan_rows.cache_clear()
    plan, packs = cuda_plan.plan_rows(k, beta), beta < 8
    if k > (8192 if packs else 16384):
        assert (plan.rows, plan.candidates, plan.warps) == (0, k if packs else 1, 8)
        assert plan.constants == {"BLOCK": 2048, "PACK": packs}
        return
    block = next(2**i for i in range(4, 15) if 2**i >= k)
    rows, candidates = max(1, 256 // block), block // 8 if packs and block >= 4096 else 0
    assert plan.constants == {"ROWS": rows, "BLOCK": block, "PACKED": candidates}
    assert (plan.rows, plan.candidates, 32 * plan.warps) == (rows, candidates, min(1024, max(32, block // 8)))


def test_which_calls_are_streamed(way: str) -> None:
    assert cuda_plan.is_streamed(1.4, labels=True, label_smoothing=0.0)
    assert not cuda_plan.is_streamed(1.4, labels=False, label_smoothing=0.0)
    assert not cuda_plan.is_streamed(1.4, labels=True, label_smoothing=0.1)
    assert not cuda_plan.is_streamed(8.0, labels=True, label_smoothing=0.0)
