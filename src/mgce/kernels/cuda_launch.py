"""Choose the Triton kernels for a batch, and launch them; this module imports Triton, so the first call imports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgce.kernels import cuda_chunks, cuda_plan, cuda_rows, cuda_stream
from mgce.kernels.cuda_plan import Plan
from mgce.kernels.options import LossOptions
from mgce.numerics.budget import proven_steps


@dataclass(frozen=True)
class Batch:
    """The tensors and options of a kernel launch; the comments give shapes for n rows and k classes."""

    logits: Tensor  # (n, k), the classes next to one another
    target: Tensor  # (n,) or (n, k)
    weight: Tensor | None  # (k,)
    denominator: Tensor | None  # what a mean is divided by, ()
    losses: Tensor  # (n,), which the kernel writes
    grad: Tensor | None  # (n, k), likewise; may be the logits
    options: LossOptions
    beta: float

    @property
    def labels(self) -> bool:
        """Whether the target contains labels, not probabilities."""
        return not self.target.is_floating_point()

    @property
    def powers(self) -> tuple[float, float, float, int]:
        """beta, beta - 1, 1 / beta, and the limit of Newton steps; the kernel stops when all rows have converged."""
        steps = proven_steps(self.logits.shape[1], self.beta, torch.float32)
        return self.beta, self.beta - 1.0, 1.0 / self.beta, steps

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors in the order in which every kernel has them; `losses` replaces each tensor that is None."""
        weight, denominator, grad = (
            self.losses if t is None else t for t in (self.weight, self.denominator, self.grad)
        )
        return self.logits, self.target, weight, denominator, self.losses, grad

    @property
    def constants(self) -> dict[str, Any]:
        """The compile-time constants that all kernels have."""
        return {
            "HALVES": cuda_plan.halves(self.beta),
            "WEIGHTED": self.weight is not None,
            "MEAN": self.denominator is not None,
            "GRAD": self.grad is not None,
            "enable_fp_fusion": True,
        }


def launch(batch: Batch) -> None:
    """Compute the losses of a batch into `batch.losses`, and the gradient into `batch.grad` unless this is None."""
    n, k = batch.logits.shape
    plan = cuda_plan.plan_rows(k, batch.beta)
    if plan.rows:
        # The gradient's rows are not needed yet, so that candidates are packed there.
        scratch = _scratch(batch, plan, -(-n // plan.rows)) if batch.grad is None else batch.grad
        cuda_rows.row_kernel[(-(-n // plan.rows),)](*_arguments(batch, scratch), **_constants(batch, plan))
    elif not cuda_plan.ONE_PASS:
        _launch_chunks(batch, plan, cuda_plan.CHUNKED_PROGRAMS * _device(batch.logits).processors, None)
    else:
        streamed = cuda_plan.is_streamed(batch.beta, labels=batch.labels, label_smoothing=batch.options.label_smoothing)
        marks = _launch_stream(batch) if streamed else None
        row_bytes = k * (batch.logits.element_size() + (0 if batch.labels else batch.target.element_size()))
        _launch_chunks(batch, *cuda_plan.plan_cached_rows(k, batch.beta, row_bytes, _device(batch.logits)), marks)


def scale(grad: Tensor, factor: Tensor) -> None:
    """Multiply the n rows of `grad` by `factor`, shape () or (n,), in place."""
    n, k = grad.shape
    stride = factor.stride(0) if factor.ndim else 0
    block = min(cuda_plan.SCALED_BLOCK, cuda_plan.power_of_two(k))
    rows = cuda_plan.SCALED_BLOCK // block
    cuda_rows.scale_kernel[(-(-n // rows),)](
        grad, factor, n, k, grad.stride(0), stride, ROWS=rows, BLOCK=block, enable_fp_fusion=True
    )


def _launch_chunks(batch: Batch, plan: Plan, most: int, marks: Tensor | None) -> None:
    """Compute all rows, or only the marked ones, by the kernel for long rows, with at most `most` programs."""
    programs = min(len(batch.logits), most)
    cuda_chunks.chunked_kernel[(programs,)](
        *_arguments(batch, _scratch(batch, plan, programs)),
        batch.losses if marks is None else marks,
        MARKED=marks is not None,
        **_constants(batch, plan),
    )


def _launch_stream(batch: Batch) -> Tensor:
    """Compute the rows with few candidates (classes that may have a probability); return marks of all other rows."""
    plan = cuda_plan.plan_stream(batch.logits.element_size())
    n, k = batch.logits.shape
    programs = min(n, cuda_plan.STREAM_PROGRAMS * _device(batch.logits).processors)
    values = _scratch(batch, plan, programs)
    places = torch.empty(values.shape, dtype=torch.int32, device=values.device)
    marks = torch.empty(n, dtype=torch.int8, device=values.device)
    cuda_stream.stream_kernel[(programs,)](
        *batch.tensors,
        values,
        places,
        marks,
        n,
        k,
        batch.logits.stride(0),
        0 if batch.grad is None else batch.grad.stride(0),
        batch.options.ignore_index,
        *batch.powers,
        **batch.constants,
        INPLACE=batch.grad is batch.logits,
        num_warps=plan.warps,
        maxnreg=cuda_plan.STREAM_REGISTERS,
        **plan.constants,
    )
    return marks


def _arguments(batch: Batch, scratch: Tensor) -> tuple[Any, ...]:
    """Return the arguments of the kernels that support both labels and probabilities as targets."""
    n, k = batch.logits.shape
    return (
        *batch.tensors,
        scratch,
        n,
        k,
        batch.logits.stride(0),
        0 if batch.labels else batch.target.stride(0),
        0 if batch.grad is None else batch.grad.stride(0),
        scratch.stride(0),
        batch.options.ignore_index,
        1.0 - batch.options.label_smoothing,
        batch.options.label_smoothing / k,
        *batch.powers,
    )


def _constants(batch: Batch, plan: Plan) -> dict[str, Any]:
    """Return the compile-time constants of the kernels that support both labels and probabilities as targets."""
    return {
        **batch.constants,
        "PROBS": not batch.labels,
        "SMOOTH": batch.options.label_smoothing > 0,
        "num_warps": plan.warps,
        **plan.constants,
    }


def _scratch(batch: Batch, plan: Plan, programs: int) -> Tensor:
    """Allocate memory for each program to store the candidates of a row: the classes that may have a probability."""
    return torch.empty(programs, max(1, plan.candidates), dtype=batch.logits.dtype, device=batch.logits.device)


def _device(tensor: Tensor) -> cuda_plan.Device:
    if tensor.device.type != "cuda":  # Triton's interpreter, which runs one program at a time
        return cuda_plan.Device(1, 2**20)
    properties = torch.cuda.get_device_properties(tensor.device)
    return cuda_plan.Device(properties.multi_processor_count, properties.L2_cache_size)
