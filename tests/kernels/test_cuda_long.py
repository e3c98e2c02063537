"""Long rows, which are read once: their list of candidates, what overflows it, and what is read and written."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
import torch

from grids import grid
from hard_rows import hard_rows
from mgce.functional import mgce_loss
from mgce.kernels import cuda_long, cuda_plan
from triton_truth import DEVICE, check_against_truth, check_same, loss_and_grad

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, where the interpreter divides by zero
    pytest.mark.parametrize("way", ["small_lists"], indirect=True),
]
EPS = torch.finfo(torch.float32).eps
BLOCK, CAPACITY = 64, 128  # of the fixture, for float32
CHUNKED_ROW = cuda_long.chunked_row


@pytest.fixture
def in_chunks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Have an entry for each row that was read in chunks, not with a list; a device makes none."""
    found: list[None] = []

    def watched(*arguments):
        found.append(None)
        CHUNKED_ROW(*arguments)

    if DEVICE == "cpu":
        monkeypatch.setattr(cuda_long, "chunked_row", watched)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("k", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("beta", [1.0, 1.02, 1.4, 3.0])
def test_rows_of_every_length_against_the_truth(way: str, beta: float, k: int) -> None:
    check_against_truth(hard_rows(k, beta, torch.float32)[:: 7 if k == 300 else 9], beta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "beta"), [(1 / 8, 5.0), *(pytest.param(1 / 60, beta, marks=pytest.mark.nightly) for beta in (1.4, 1.02))]
)
def test_a_list_that_overflows_is_shortened(way: str, in_chunks: list[None], step: float, beta: float) -> None:
    """In rows that rise every logit is a candidate when it comes; few of the last ones have a probability."""
    rising = torch.arange(500.0) * step
    rows = torch.stack([rising, rising - 1e3, 100 * rising, rising.flip(0)])
    assert (rising[1:BLOCK] > rising[BLOCK] - beta).sum() > 30 and len(rising) > 2 * CAPACITY
    check_against_truth(rows, beta)
    assert not in_chunks


def test_what_stays_in_a_shortened_list_keeps_its_places(way: str, in_chunks: list[None]) -> None:
    """The ties stand in several parts of the list; what is between and behind them is near but has no probability."""
    x = torch.full((1, 300), -0.5)
    x[0, :128:4] = 0
    check_against_truth(x, 1.4)
    assert not in_chunks


def test_a_peak_far_above_a_full_list(way: str, in_chunks: list[None]) -> None:
    """Nothing in the list counts then, so that there is nothing to solve."""
    rows = torch.zeros(2, CAPACITY + BLOCK + 9)
    rows[:, CAPACITY + 3] = torch.tensor([100.0, 1e30])
    check_against_truth(rows, 1.4)
    assert not in_chunks


@pytest.mark.parametrize(("kind", "crowded"), [("dense", 1), ("sparse", 0), ("alike", 1), ("late", 1)])
def test_rows_of_too_many_candidates_are_read_in_chunks(
    way: str, in_chunks: list[None], kind: str, crowded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = 0.01 * torch.randn(1, 500, generator=torch.Generator().manual_seed(0))
    if kind == "sparse":
        row *= 1000
    elif kind == "alike":
        row *= 0
    elif kind == "late":  # no more than one class in the end, but the list did not know
        row[0, -1] = 50.0
    check_against_truth(row, 1.4)
    assert len(in_chunks) == crowded or DEVICE == "cuda"
    if crowded:
        y = torch.zeros(1, dtype=torch.int64, device=DEVICE)
        with_list = loss_and_grad(row.to(DEVICE), y, beta=1.4)
        monkeypatch.setattr(cuda_plan, "LARGEST_LISTED_BETA", 1.0)
        cuda_plan.plan_long.cache_clear()
        check_same(loss_and_grad(row.to(DEVICE), y, beta=1.4), with_list)


@pytest.mark.parametrize("beta", [1.0, 1.02, 2.0])
def test_ties_in_different_parts_of_a_row(way: str, in_chunks: list[None], beta: float) -> None:
    x = torch.full((4, 300), -10.0)
    x[0, [3, 70, 299]] = 1e4
    x[1, [0, 64, 128, 192, 256]] = 0.1
    x[2, ::4] = -0.3  # 75 ties
    x[3, 200], x[3, 10:40] = 0.0, -beta  # on the edge of the support, before the peak comes
    check_against_truth(x, beta)
    assert not in_chunks


@pytest.mark.parametrize("edge", [-1, 0, 1])
def test_classes_within_rounding_of_the_edge_of_the_support(way: str, edge: int) -> None:
    """Far from zero, where a bound for each chunk could be rounded to the wrong side of a class."""
    generator = torch.Generator().manual_seed(0)
    for peak in (0.0, -3e6) if edge else (1e4,):
        x = torch.full((1, 200), peak - 1.02) * (1 + edge * EPS)
        x[0, 130] = peak
        x += torch.randint(-1, 2, x.shape, generator=generator) * EPS * max(abs(peak), 1)
        check_against_truth(x, 1.02)


@pytest.mark.slow
@grid(
    "kind, weighted",
    [(torch.float32, "none"), (torch.float32, "sum"), (torch.bfloat16, "mean"), (torch.float16, "mean")],
    [False, True],
    keep=lambda kind, weighted: (kind, weighted) in (((torch.float32, "sum"), True), ((torch.bfloat16, "mean"), False)),
)
def test_labels_of_every_kind(way: str, kind: tuple[torch.dtype, str], weighted: bool) -> None:
    dtype, reduction = kind
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(4, 150, generator=generator) * 4).to(DEVICE, dtype)
    weight = torch.rand(150, generator=generator).to(DEVICE) if weighted else None
    y = torch.tensor([149, -100, 3, 64], device=DEVICE)
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
    wide = 3 * torch.randn(3, 311, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    y = torch.arange(3, device=DEVICE) * 100
    loss, grad = loss_and_grad(wide[:, 3:300].contiguous(), y, reduction="none", beta=1.4)
    strided = loss_and_grad(wide[:, 3:300], y, reduction="none", beta=1.4)
    check_same(strided, (loss, grad))
    for i in range(3):
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
    way: str, in_chunks: list[None], traffic: list[tuple[str, int, int]], inplace: bool
) -> None:
    n, k = 2, 1000
    x = 10 * torch.randn(n, k, generator=torch.Generator().manual_seed(0)).bfloat16()
    candidates = (x.float() > x.float().amax(1, keepdim=True) - 1.4).sum().item()
    _, grad = loss_and_grad(x, torch.tensor([5, 6]), reduction="none", beta=1.4, inplace=inplace)
    logits, gradient = moved(traffic, x), moved(traffic, grad)
    assert not in_chunks
    assert logits["read"] == n * (k + 1)  # the label's logit is asked for before
    extra = gradient["written"] - n * k  # the gradients of listed candidates, over their zeros
    assert candidates <= extra <= 0.02 * n * k
    assert (gradient["read"], logits["written"]) == ((logits["read"], gradient["written"]) if inplace else (0, 0))
    # What else moves is the list, and a few numbers for each row.
    others = sum(numbers for _, _, numbers in traffic) - logits["read"] - gradient["written"]
    assert others <= 0.2 * n * k


@pytest.mark.skipif(DEVICE != "cpu", reason="a device does not count")
def test_ignored_rows_are_not_read(way: str, traffic: list[tuple[str, int, int]]) -> None:
    x = torch.full((3, 200), torch.nan)
    loss, grad = loss_and_grad(x, torch.full((3,), -100), reduction="sum", beta=1.4)
    assert loss == 0 and (grad == 0).all()
    assert moved(traffic, x)["read"] == 0 and moved(traffic, grad)["written"] == 600


@pytest.mark.parametrize("beta", [1.0, 7.9, 8.0, 100.0])
@pytest.mark.parametrize("k", [1, 16, 17, 100, 128, 129, 256, 257, 1024, 1025, 8192, 8193, 10**6])
def test_short_rows_are_tiles_and_others_have_lists_below_a_beta(
    k: int, beta: float, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for plan in (cuda_plan.plan_tile, cuda_plan.plan_long):
        plan.cache_clear()
    if k <= cuda_plan.LONGEST_TILE:
        tile = cuda_plan.plan_tile(k)
        block = next(2**i for i in range(4, 15) if 2**i >= k)
        assert tile.constants == {"ROWS": tile.rows, "BLOCK": block} and tile.rows * block >= 32 * tile.warps
        assert cuda_plan.way_of(k, beta) == "tiles"
        return
    long = cuda_plan.plan_long(k, beta)
    assert cuda_plan.way_of(k, beta) == ("lists" if beta < 8 else "chunks")
    assert long.constants["CAPACITY"] == (0 if beta >= 8 else min(cuda_plan.CAPACITY, 2 ** (k - 1).bit_length()))
    assert long.candidates == max(1, long.constants["CAPACITY"])
