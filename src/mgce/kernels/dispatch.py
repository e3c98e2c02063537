"""Choose the backend of a call, and explain why a backend cannot be used; no other module does this."""

from __future__ import annotations

import functools
import warnings

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active, _get_tracing_state, _len_torch_dispatch_stack
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd import forward_ad

from mgce._messages import check_choice
from mgce._validation import REDUCTIONS
from mgce.kernels import cpu, cuda, proof
from mgce.kernels.options import LossArguments, LossOptions, SoftmaxArguments, switched_off
from mgce.numerics.root import LARGEST_BETA, Beta

KERNELS = ("cpu", "cuda")
BACKENDS = ("auto", *KERNELS, "torch", "reference")
# A subclass may mean something else by its values than they say.
PLAIN_TYPES = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


def choose(
    backend: str, input: Tensor, target: Tensor, weight: Tensor | None, beta: Beta, *, classes: int | None = None
) -> str:
    """Return the name of the backend of a call: `backend` itself, or for `"auto"` the fastest that can run the call.

    `classes` is the number of classes. It is needed only if `input` holds the features of a linear head, not logits.

    Raises:
        ValueError: if `backend` is unknown.
        RuntimeError: if `backend` cannot run this call; the message gives the reason.
    """
    check_choice("backend", backend, BACKENDS)
    if backend in ("torch", "reference"):
        return backend
    kernel = backend if backend != "auto" else kernel_of(input)
    tensors = (input, target) if weight is None else (input, target, weight)
    obstacle = _obstacle(kernel, tensors, beta, classes, warn=backend == "auto")
    if obstacle is None:
        return kernel
    if backend == "auto":
        return "torch"
    raise RuntimeError(f"Expected a call that backend {backend!r} can run, but {obstacle}; use backend='auto'.")


def is_commonest(input: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions) -> bool:
    """Return whether a call is of the most common kind, which a kernel for the CPU can run without further checks.

    The result is true only if every check of the arguments but beta would pass and `choose` would return "cpu". The
    checks would take as long as a kernel takes for a small batch. The logits may have any strides.
    """
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack() > 0 or _are_functorch_transforms_active():
        return False
    ignore_index, reduction, label_smoothing = options
    return (
        type(input) in PLAIN_TYPES
        and type(target) is Tensor
        and type(ignore_index) is int
        and -(2**63) <= ignore_index < 2**63
        and _obstacle_of_context(input) is None
        and len(shape := input.shape) == 2
        and shape.numel() > 0
        and _has_memory(input)
        and (input.dtype is torch.float32 or input.dtype is torch.float64)
        and _is_plain(target)
        and (
            (target.dtype is torch.int64 and target.shape == (shape[0],))
            or (target.shape == shape and target.dtype is input.dtype and not target.requires_grad and ignore_index < 0)
        )
        and (weight is None or _is_common_weight(weight, input))
        and reduction in REDUCTIONS
        and isinstance(label_smoothing, (float, int))
        and 0 <= label_smoothing <= 1
        and cpu.obstacle() is None
    )


def is_plain_on_cpu(*tensors: Tensor) -> bool:
    """Return whether a kernel for the CPU can read these tensors; the kernel computes no derivative of them."""
    return (
        not is_traced()
        and not _are_functorch_transforms_active()
        and _get_tracing_state() is None
        and all(type(tensor) in PLAIN_TYPES and _is_plain(tensor) for tensor in tensors)
        and cpu.obstacle() is None
    )


def _is_plain(tensor: Tensor) -> bool:
    """Return whether the memory of a tensor, one row after the other, contains its values."""
    return _has_memory(tensor) and tensor.is_contiguous()


def _has_memory(tensor: Tensor) -> bool:
    """Return whether the values of a tensor are those of its memory on the CPU, in the order of its strides."""
    return tensor.is_cpu and tensor.layout is torch.strided and not (tensor.is_neg() or tensor._is_zerotensor())


def _is_common_weight(weight: Tensor, input: Tensor) -> bool:
    return (
        type(weight) in PLAIN_TYPES
        and weight.dtype is input.dtype
        and weight.shape == input.shape[1:]
        and not weight.requires_grad
        and _is_plain(weight)
    )


def loss_and_grad(
    logits: Tensor, arguments: LossArguments | SoftmaxArguments, *, want_grad: bool = True, inplace: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Run `loss_and_grad` of the kernel for the type of `arguments` and the device of the logits.

    Logits on the CPU may have any strides. The gradient is contiguous.
    """
    if logits.is_cpu:
        logits = logits.contiguous()
    if isinstance(arguments, SoftmaxArguments):
        return cpu.softmax_loss_and_grad(logits, arguments, want_grad=want_grad)
    if logits.is_cpu:
        return cpu.loss_and_grad(logits, arguments, want_grad=want_grad, inplace=inplace)
    dtype = None if inplace else gradient_dtype(logits)
    return cuda.loss_and_grad(logits, arguments, want_grad=want_grad, inplace=inplace, grad_dtype=dtype)


def can_solve(rows: Tensor, beta: Beta) -> bool:
    """Return whether `cpu.root_and_probs` can run on logits of shape (..., k) for k classes, float32 or float64."""
    return not is_traced() and _obstacle("cpu", (rows,), beta, None, warn=True) is None


def kernel_of(tensor: Tensor) -> str:
    """Return the name of the kernel for the device of a tensor: "cpu", or "cuda" for every other device."""
    return "cpu" if tensor.is_cpu else "cuda"


def obstacle_of_machine(logits: Tensor, beta: float, classes: int | None = None, *, warn: bool = False) -> str | None:
    """Return why the kernel of the logits' device cannot be used on this machine; None if it can.

    With `warn`, the first call of a process that would have used the missing kernel warns. The first call on a GPU
    tests the kernel against plain operations; see `mgce.kernels.proof`.
    """
    if kernel_of(logits) == "cpu":
        obstacle = cpu.obstacle()
    else:
        classes = logits.shape[min(1, logits.ndim - 1)] if classes is None else classes
        obstacle = cuda.obstacle() or proof.obstacle(logits, beta, classes)
    missed = logits.is_cpu or torch.version.hip is None  # ROCm has no kernel to miss
    if obstacle is not None and warn and missed and not switched_off():
        warn_once(obstacle)
    return obstacle


@functools.cache
def warn_once(obstacle: str) -> None:
    """Warn that losses are slower than with the kernel, because of `obstacle`; warn once in a process."""
    sentence = f"mgce runs without its compiled kernel, and its losses take many times as long: {obstacle}."
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)


def gradient_dtype(logits: Tensor) -> torch.dtype:
    """Return the dtype of a kernel's gradient: float32 for float16 logits, otherwise that of the logits.

    A loss scale later multiplies small entries that float16 would have rounded to zero.
    """
    return torch.float32 if logits.dtype == torch.float16 else logits.dtype


def is_traced() -> bool:
    """Return whether this call is compiled or its operators are intercepted; then a kernel must be an operator too."""
    return torch.compiler.is_compiling() or _len_torch_dispatch_stack() > 0


def is_batched(tensor: Tensor) -> bool:
    """Return whether a tensor represents a batch of tensors, as in `torch.func.vmap` and batched gradients."""
    return is_functorch_wrapped_tensor(tensor) or is_legacy_batchedtensor(tensor)


def _obstacle(kernel: str, tensors: tuple[Tensor, ...], beta: Beta, classes: int | None, *, warn: bool) -> str | None:
    """Return why a kernel cannot run a call with these tensors, of which the logits are the first; None if it can."""
    input = tensors[0]
    if isinstance(beta, Tensor):
        return "`beta` is a tensor"
    if beta >= LARGEST_BETA:
        return "`beta` is inf, or as good as inf, which is cross-entropy"
    compiling = torch.compiler.is_compiling()
    for tensor in tensors:
        obstacle = _obstacle_of_tensor(kernel, tensor, compiling)
        if obstacle is not None:
            return obstacle
        if tensor.requires_grad and tensor is not input:
            return "a derivative in `target` or `weight` is wanted"
    if input.numel() == 0:
        return "`input` is empty"
    if _are_functorch_transforms_active():
        return "it is inside a transform of torch.func"
    if compiling:  # the operator in a graph asks for the rest when it runs
        return None
    obstacle = _obstacle_of_context(input)
    if obstacle is not None or (kernel == "cuda" and is_traced()):  # a proof would be part of what is recorded
        return obstacle
    return obstacle_of_machine(input, beta, classes, warn=warn)


def _obstacle_of_tensor(kernel: str, tensor: Tensor, compiling: bool) -> str | None:
    if not (tensor.is_cpu if kernel == "cpu" else tensor.is_cuda):
        return f"a tensor is on {tensor.device}"
    if type(tensor) not in PLAIN_TYPES:
        return f"an argument is a {type(tensor).__name__}"
    if kernel == "cuda" and tensor.dtype == torch.float64:
        return "a tensor is float64, which the kernel is not for"
    if compiling:  # the operator in the graph is given tensors of its own
        return None
    # A kernel reads memory. That of these says something else than their values, or there is none.
    if tensor.layout != torch.strided:
        return f"the layout of a tensor is {tensor.layout}"
    if tensor.is_neg() or tensor._is_zerotensor():
        return "a tensor is a negated view, or zeros without memory"
    return None


def _obstacle_of_context(input: Tensor) -> str | None:
    """Return why this context rules out a fused kernel, which autograd cannot trace; None if a kernel can run.

    A kernel has a backward pass, but no forward-mode derivative.
    """
    if _get_tracing_state() is not None:
        return "it is traced by torch.jit.trace"
    # Outside a dual level there is no tangent, and to ask for one costs more than all of the above.
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(input).tangent is not None:  # type: ignore[no-untyped-call]
        return "a forward-mode derivative is wanted"
    return None
