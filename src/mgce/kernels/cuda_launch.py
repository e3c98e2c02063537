"""Choose the Triton kernels for a batch, and launch them; this module imports Triton, so the first call imports it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from mgce.kernels import cuda_long, cuda_plan, cuda_rows
from mgce.kernels.options import LossArguments, LossOptions
from mgce.numerics.root import proven_steps

# Whether a compiled kernel takes the arguments of its function; older versions of Triton were not tried.
RUNS_COMPILED = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 6)
_compiled: dict[tuple[Any, ...], Any] = {}  # kernels, by what they were compiled for


class Batch(NamedTuple):
    """The tensors and options of a kernel launch; the comments give shapes for n rows and k classes."""

    logits: Tensor  # (n, k), the classes next to one another
    target: Tensor  # (n,) or (n, k)
    weight: Tensor | None  # (k,)
    denominator: Tensor | None  # what a mean is divided by, ()
    losses: Tensor  # (n,), which the kernel writes
    grad: Tensor | None  # (n, k), likewise; may be the logits
    options: LossOptions
    beta: float
    roots: Tensor | None = None  # (n, 3) in float32, which the kernel writes: see `cuda_rows.keep_root`

    @property
    def labels(self) -> bool:
        """Whether the target contains labels, not probabilities."""
        return not self.target.is_floating_point()

    @property
    def arguments(self) -> dict[str, Any]:
        """The tensors and numbers that every kernel has, by name; `losses` replaces each tensor that is None.

        The kernel makes at most `steps` Newton steps, and stops when all rows have converged.
        """
        n, k = self.logits.shape
        smoothing = self.options.label_smoothing
        optional = {name: getattr(self, name) for name in ("weight", "denominator", "grad", "roots")}
        return {
            "logits": self.logits,
            "target": self.target,
            "losses": self.losses,
            **{name: self.losses if tensor is None else tensor for name, tensor in optional.items()},
            "n": n,
            "k": k,
            "logits_stride": self.logits.stride(0),
            "target_stride": 0 if self.labels else self.target.stride(0),
            "grad_stride": 0 if self.grad is None else self.grad.stride(0),
            "ignore_index": self.options.ignore_index,
            "target_share": 1.0 - smoothing,
            "uniform_share": smoothing / k,
            **_powers_of(self.beta),
            "steps": proven_steps(k, self.beta, torch.float32),
        }

    @property
    def constants(self) -> dict[str, Any]:
        """The compile-time constants that all kernels have."""
        return {
            "HALVES": cuda_plan.halves(self.beta),
            "PROBS": not self.labels,
            "SMOOTH": self.options.label_smoothing > 0,
            "WEIGHTED": self.weight is not None,
            "MEAN": self.denominator is not None,
            "GRAD": self.grad is not None,
            "KEEP": self.roots is not None,
        }


def launch(batch: Batch) -> None:
    """Compute the losses of a batch into `batch.losses`, and the gradient into `batch.grad` unless this is None."""
    n, k = batch.logits.shape
    if k <= cuda_plan.LONGEST_TILE:
        tile = cuda_plan.plan_tile(k)
        constants = {**batch.constants, **tile.constants}
        _run(cuda_rows.row_kernel, (-(-n // tile.rows), 1, 1), batch.arguments, constants, num_warps=tile.warps)
        return
    plan = cuda_plan.plan_long(k, batch.beta)
    programs = min(n, plan.programs * _processors(batch.logits))
    values = torch.empty(programs, plan.candidates, dtype=batch.logits.dtype, device=batch.logits.device)
    places = torch.empty(values.shape, dtype=torch.int32, device=values.device)
    _run(
        cuda_long.long_kernel,
        (programs, 1, 1),
        {**batch.arguments, "values": values, "places": places},
        {**batch.constants, **plan.constants, "INPLACE": batch.grad is batch.logits},
        num_warps=plan.warps,
        maxnreg=plan.registers,
    )


def write_block(block: Tensor, first: int, roots: Tensor, factor: Tensor, arguments: LossArguments, k: int) -> None:
    """Overwrite `block`, the logits of the classes from `first` on, with the gradient; see `cuda.write_block`."""
    target, weight, options, beta = arguments
    n, width = block.shape
    labels = not target.is_floating_point()
    _run(
        cuda_rows.block_kernel,
        (n, -(-width // cuda_plan.LONG_BLOCK), 1),
        {
            "logits": block,
            "target": target,
            "weight": roots if weight is None else weight,
            "roots": roots,
            "factor": factor,
            "n": n,
            "k": k,
            "first": first,
            "width": width,
            "logits_stride": block.stride(0),
            "target_stride": 0 if labels else target.stride(0),
            "factor_stride": factor.stride(0) if factor.ndim else 0,
            "ignore_index": options.ignore_index,
            "target_share": 1.0 - options.label_smoothing,
            "uniform_share": options.label_smoothing / k,
            **_powers_of(beta),
        },
        {
            "HALVES": cuda_plan.halves(beta),
            "PROBS": not labels,
            "SMOOTH": options.label_smoothing > 0,
            "WEIGHTED": weight is not None,
            "BLOCK": cuda_plan.LONG_BLOCK,
        },
        num_warps=cuda_plan.LONG_WARPS,
    )


def scale(grad: Tensor, factor: Tensor) -> None:
    """Multiply the n rows of `grad` by `factor`, shape () or (n,), in place."""
    n, k = grad.shape
    stride = factor.stride(0) if factor.ndim else 0
    block = min(cuda_plan.SCALED_BLOCK, cuda_plan.power_of_two(k))
    rows = cuda_plan.SCALED_BLOCK // block
    arguments = {"grad": grad, "factor": factor, "n": n, "k": k, "grad_stride": grad.stride(0), "factor_stride": stride}
    _run(cuda_rows.scale_kernel, (-(-n // rows), 1, 1), arguments, {"ROWS": rows, "BLOCK": block})


def _run(
    kernel: Any, grid: tuple[int, int, int], arguments: dict[str, Any], constants: dict[str, Any], **options: int
) -> None:
    """Launch a kernel; let Triton inspect the arguments only if arguments of their kinds are new.

    This inspection takes the host longer than all else in a call of a loss. Triton compiles a kernel anew for another
    device or other types, for addresses and integers that 16 divides, and for the integer 1.
    """
    device = arguments[kernel.arg_names[0]].device
    key = (kernel.fn, device, *map(_kind, arguments.values()), *constants.values(), *options.values())
    compiled = _compiled.get(key)
    if compiled is not None:
        named = {**arguments, **constants}
        compiled[grid](*[named[name] for name in kernel.arg_names])
        return
    compiled = kernel[grid](**arguments, **constants, **options, enable_fp_fusion=True)
    if RUNS_COMPILED and compiled is not None:  # Triton's interpreter compiles nothing
        _compiled[key] = compiled


def _kind(value: Any) -> Any:
    """Return the kind of an argument: arguments of different kinds need different compiled kernels."""
    if isinstance(value, Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    if isinstance(value, int):
        return value == 1, value % 16 == 0, value.bit_length() > 31
    return None


def _powers_of(beta: float) -> dict[str, float]:
    """Return beta, beta - 1 and 1 / beta in double precision; the launch rounds them to float32."""
    return {"beta": beta, "beta_less_1": beta - 1.0, "inv_beta": 1.0 / beta}


def _processors(tensor: Tensor) -> int:
    if tensor.device.type != "cuda":  # Triton's interpreter, which runs one program at a time
        return 1
    return int(torch.cuda.get_device_properties(tensor.device).multi_processor_count)
