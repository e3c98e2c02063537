"""The fused CPU kernel: MGCE loss and its gradient in one call, compiled by numba at the first use.

numba is imported by that first call, not by this module. The threads are PyTorch's own where its OpenMP runtime can be
found, so that `torch.set_num_threads` holds, no second pool competes for the cores, and forked or concurrent callers
fare as they do with PyTorch's operators.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mgce._validation import target_out_of_range
from mgce.kernels.cpu_problem import FINISH, PER_ROW, PREPARE, SOLVE, VECTOR_BYTES, Problem

LARGEST_BETA_BY_PRODUCTS = 16.5
# Rows whose candidates fit in the second-level cache together are solved together.
GROUP_CLASSES = 32768
# Below this many classes, counting each row as 100 more, threads cost more than they save.
SERIAL_WORK = 65536

_lock = threading.Lock()
_kernels: dict[torch.dtype, Any] = {}
_owners: list[Any] = []  # of the compiled code that the kernels point to


def loss_and_grad(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: float,
    want_grad: bool = True,
    inplace: bool = False,
) -> tuple[Tensor, Tensor | None]:
    r"""Compute the MGCE loss of a batch, and its gradient with respect to the logits, in one pass.

    .. math:: \ell_i = -\sum_y q_{iy} (f_{iy} + \varphi_\beta(f_i)), \qquad
              \partial \ell_i / \partial f_i = \Big(\sum_y q_{iy}\Big) p_\beta(f_i) - q_i

    with q the one-hot or given targets after label smoothing and class weights, as in cross-entropy. Nothing is
    checked but the range of the labels.

    Args:
        logits: f, shape (N, k), contiguous, float32 or float64; -inf masks a class.
        target: labels, int64 of shape (N,), or probabilities, shape and dtype of `logits`; contiguous.
        weight: weight of each class, shape (k,), dtype of `logits`, contiguous.
        ignore_index: label of rows whose loss and gradient are zero.
        reduction: "none", "mean" or "sum". The gradient is that of the reduced loss, or of the sum for "none".
        label_smoothing: share of the target that is spread over all classes.
        beta: float in [1, 1e30].
        want_grad: whether to compute the gradient.
        inplace: write the gradient over the logits.

    Returns:
        The loss, shape (N,) for "none", else (); and the gradient, shape (N, k), or None. A row that holds NaN or
        +inf, or only -inf, has NaN in both.

    Raises:
        IndexError: if a label is neither `ignore_index` nor in [0, k).
    """
    n, k = logits.shape
    dtype, size = logits.dtype, logits.itemsize
    threads = torch.get_num_threads() if n * (k + 100) > SERIAL_WORK else 1
    lanes = VECTOR_BYTES // size
    group = max(1, min(lanes, GROUP_CLASSES // k, -(-n // threads)))
    stride = (k + 2 * lanes - 1) // lanes * lanes
    scratch_size = PER_ROW * VECTOR_BYTES + 2 * group * stride * size
    reduced = reduction != "none"
    scratch = torch.empty(threads * scratch_size + (n * size if reduced else 0), dtype=torch.uint8)
    loss = torch.empty(() if reduced else n, dtype=dtype)
    grad = (logits if inplace else torch.empty_like(logits)) if want_grad else None
    labels = not target.is_floating_point()
    problem = Problem(
        rows=n,
        classes=k,
        group=group,
        stride=stride,
        products=beta <= LARGEST_BETA_BY_PRODUCTS and (2 * beta).is_integer(),
        mean=reduction == "mean",
        ignore_index=ignore_index,
        logits=logits.data_ptr(),
        target=target.data_ptr() if labels else 0,
        target_probs=0 if labels else target.data_ptr(),
        class_weight=0 if weight is None else weight.data_ptr(),
        losses=scratch.data_ptr() + threads * scratch_size if reduced else loss.data_ptr(),
        total=loss.data_ptr() if reduced else 0,
        grad=0 if grad is None else grad.data_ptr(),
        scratch=scratch.data_ptr(),
        scratch_size=scratch_size,
        beta=beta,
        eps=torch.finfo(dtype).eps,
        target_share=1 - label_smoothing,
        uniform_share=label_smoothing / k,
    )
    _run(_kernels.get(dtype) or _compiled(dtype), problem, threads)
    if problem.bad_targets:
        raise IndexError(target_out_of_range(problem.bad_target, k, ignore_index))
    return loss, grad


def _run(kernel: Any, problem: Problem, threads: int) -> None:
    address = problem.self = ctypes.addressof(problem)
    if threads == 1:
        problem.stages = PREPARE | SOLVE | FINISH
        kernel(address)
        return
    problem.stages = PREPARE
    kernel(address)
    problem.stages = SOLVE
    _parallel()(kernel, address, threads)
    problem.stages = FINISH
    kernel(address)


@functools.cache
def _parallel() -> Callable[[Any, int, int], None]:
    """Give the function that calls a kernel in several threads at once."""
    try:
        run_team = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # another OpenMP runtime, or none
        return _in_python_threads
    run_team.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    run_team.restype = None
    return lambda kernel, address, threads: run_team(kernel, address, threads, 0)


def _in_python_threads(kernel: Any, address: int, threads: int) -> None:
    with ThreadPoolExecutor(threads - 1) as pool:
        for _ in range(threads - 1):
            pool.submit(kernel, address)
        kernel(address)


def _compiled(dtype: torch.dtype) -> Any:
    with _lock:
        if dtype not in _kernels:
            from mgce.kernels import cpu_rows

            digest = hashlib.sha256()
            for path in sorted(Path(__file__).parent.glob("cpu*.py")):
                digest.update(path.read_bytes())
            compiled = cpu_rows.compile_kernel(dtype, digest.hexdigest())
            _owners.append(compiled)
            _kernels[dtype] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiled.address)
        return _kernels[dtype]
