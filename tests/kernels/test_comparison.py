"""What a proof compares, with the Triton kernels themselves, and with a fault that a compiler once made in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import mgce
from mgce.functional import mgce_loss
from mgce.kernels import cuda, cuda_chunks, cuda_plan
from mgce.kernels.comparison import compare
from mgce.kernels.proof import report
from triton_truth import DEVICE

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where the interpreter divides by zero
SOLVE = cuda_chunks.solve_chunks


@triton.jit
def solve_but_for_the_last_point(
    f_row, count, peak, t, beta, beta_less_1, inv_beta, steps, HALVES: tl.constexpr, BLOCK: tl.constexpr
):
    """Return the first guess for the point at which p is evaluated."""
    solved, _, w_sum = SOLVE(f_row, count, peak, t, beta, beta_less_1, inv_beta, steps, HALVES, BLOCK)
    return solved, t, w_sum


def in_float64(logits, arguments, *, want_grad, inplace, grad_dtype):
    """Compute what a kernel computes by plain operations in float64, and round it."""
    *tensors, options, beta = arguments
    target, weight = (v if v is None or not v.is_floating_point() else v.double() for v in tensors)
    leaf = logits.double().requires_grad_()
    with torch.enable_grad():
        loss = mgce_loss(leaf, target, weight, *options, beta=beta, backend="reference")
        loss.sum().backward()
    return loss.detach().float(), leaf.grad.to(grad_dtype or logits.dtype) if want_grad else None


def off_by(much, n=0):
    """Return a function that moves the n-th number of a tensor."""

    def moved(tensor):
        tensor.reshape(-1)[n] += much
        return tensor

    return moved


def same(tensor):
    return tensor


def broken(tensor):
    raise RuntimeError("by accident\nand further lines")


@pytest.mark.parametrize("dtype", cuda.DTYPES)
@pytest.mark.parametrize(
    ("loss", "gradient", "scaled", "said"),
    [
        (same, same, same, None),
        (off_by(1e-2), same, same, "gave a loss that is off by 0.0"),
        (off_by(-1e-2), same, same, "gave a loss that is off by 0.0"),
        (off_by(torch.nan), same, same, "gave a loss that is off by inf"),
        (same, off_by(1e-2, 55), same, "gave a gradient that is off by 0.0"),
        (same, off_by(-1e-2, 55), same, "gave a gradient that is off by 0.0"),
        (same, off_by(torch.nan, 55), same, "gave a gradient that is off by inf"),
        (same, same, off_by(1e-2, 55), "multiplied a gradient, and is off by 0.0"),
        (same, same, broken, "raised RuntimeError: by accident"),
    ],
)
def test_what_a_kernel_does_wrong_is_told(monkeypatch, loss, gradient, scaled, said, dtype) -> None:
    def kernel(*arguments, **options):
        one, grad = in_float64(*arguments, **options)
        return loss(one), None if grad is None else gradient(grad)

    def scale(grad, factor):
        return scaled(grad.mul_(factor))

    monkeypatch.setattr(cuda, "loss_and_grad", kernel)
    monkeypatch.setattr(cuda, "scale_", scale)
    found = compare(torch.device("cpu"), dtype, "tiles")
    assert found == said if said is None else found.startswith(f"it {said}") and found.endswith("classes, beta 1.4)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("tiles", "tiles"),
        *(
            pytest.param(*ways, marks=pytest.mark.nightly)
            for ways in (("small_chunks", "chunks"), ("small_lists", "lists"))
        ),
    ],
    indirect=["way"],
)
def test_the_kernels_agree(way: str, name: str) -> None:
    assert compare(torch.device(DEVICE), torch.float32, name) is None


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("tiles", "tiles"),
        ("lists", "lists"),
        ("lists", "chunks"),
        ("small_lists", "lists"),
        ("small_chunks", "chunks"),
    ],
    indirect=["way"],
)
@pytest.mark.parametrize("dtype", cuda.DTYPES)
def test_every_way_agrees_in_every_type(way: str, name: str, dtype: torch.dtype) -> None:
    assert compare(torch.device(DEVICE), dtype, name) is None


@pytest.mark.slow
@pytest.mark.skipif(DEVICE == "cuda", reason="a kernel that is compiled keeps its functions")
@pytest.mark.parametrize("way", ["small_chunks"], indirect=True)
@pytest.mark.parametrize(
    "dtype", [torch.float32, *(pytest.param(dtype, marks=pytest.mark.nightly) for dtype in cuda.DTYPES[1:])]
)
def test_a_gradient_at_the_first_guess_is_noticed(
    monkeypatch: pytest.MonkeyPatch, way: str, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(cuda_chunks, "solve_chunks", solve_but_for_the_last_point)
    assert str(compare(torch.device(DEVICE), dtype, "chunks")).startswith("it gave a gradient that is off by 0.")


@pytest.mark.slow
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
def test_a_device_proves_its_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = [f"{dtype} {way}" for dtype in ("float32", "bfloat16", "float16") for way in cuda_plan.WAYS]
    assert mgce.prove_kernel(DEVICE) == dict.fromkeys(names)
    assert all("proved (compiled in" in known for known in report().values())
