"""Triton kernels beside the truth: on the GPU, or where there is none in Triton's interpreter, on the CPU.

Import this before Triton: its interpreter is chosen where Triton is imported and where a kernel is defined.
"""

# ruff: noqa: E402
import importlib.util
import os
import sys

import numpy as np
import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    late = "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1"
    assert not late, "Triton was imported without its interpreter; set TRITON_INTERPRET=1 before pytest starts."
    os.environ["TRITON_INTERPRET"] = "1"

import triton

from mgce.kernels import cuda
from mgce.kernels.options import LossArguments, LossOptions
from mgce_lab.soak import measure
from mgce_lab.soak import truth as extended

if DEVICE == "cpu" and tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
    pytest.skip("the interpreter of this Triton does not know NumPy 2.4", allow_module_level=True)


def loss_and_grad(logits, target, weight=None, *options, beta, reduction="mean", label_smoothing=0.0, **keywords):
    """Run the kernel with the arguments of `cross_entropy`."""
    chosen = LossOptions(*options) if options else LossOptions(reduction=reduction, label_smoothing=label_smoothing)
    return cuda.loss_and_grad(logits, LossArguments(target, weight, chosen, beta), **keywords)


def check_against_truth(x: torch.Tensor, beta: float) -> None:
    """Compare float32 rows with the truth in extended precision, within the limits of the soak."""
    y = torch.arange(len(x)) % x.shape[1]
    loss, grad = loss_and_grad(x.to(DEVICE), y.to(DEVICE), reduction="none", beta=beta)
    with np.errstate(all="ignore"):
        true = extended.solve(x.double().numpy().astype(np.longdouble), beta)
        outputs = {"loss": loss.cpu(), "gradient": grad.cpu()}
        found = measure.errors(outputs, true, measure.valid_rows(x), y)
    for quantity, errors in found.items():
        limit = measure.QUANTITIES[quantity].limit
        assert errors.max() <= limit, f"{quantity} is off by {errors.max():.3g} eps in row {errors.argmax()}"


def check_same(got: tuple[torch.Tensor, ...], want: tuple[torch.Tensor, ...]) -> None:
    """Compare results for the same numbers laid out in two ways: exactly where nothing is compiled.

    For a device a kernel is compiled anew where addresses and strides are multiples of 16, and adds in another order.
    """
    for one, other in zip(got, want, strict=True):
        eps = torch.finfo(one.dtype).eps if DEVICE == "cuda" else 0
        torch.testing.assert_close(one, other, rtol=4 * eps, atol=4 * eps, equal_nan=True)
