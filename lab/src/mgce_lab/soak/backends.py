"""The ways to compute the loss that are tested, each as one function from logits to everything it can give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mgce import functional
from mgce.kernels import cuda
from mgce.kernels.options import LossArguments, LossOptions
from mgce.numerics import implicit

Outputs = dict[str, Tensor]
Loss = Callable[[Tensor, Tensor, float], Tensor]  # logits, labels and beta to the loss of each row

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16


@dataclass(frozen=True)
class Backend:
    """An implementation of the loss, the inputs that it accepts, and the share of a run that it has time for."""

    outputs: Callable[[Tensor, Tensor, float], Outputs]  # of logits (n, k), labels (n) and beta
    dtypes: tuple[torch.dtype, ...] = (F64, F32, F16, BF16)
    largest_beta: float = 1e30
    most_classes: int = 1 << 20
    masks: bool = True  # whether a class may be -inf
    share: float = 1.0  # of the cases
    rows: int = 1 << 20  # of a case

    def takes(self, f: Tensor, beta: float) -> bool:
        """Tell whether it can compute rows like these."""
        fits = f.dtype in self.dtypes and beta <= self.largest_beta and f.shape[1] <= self.most_classes
        if not fits or self.masks:
            return fits
        kept = f[f.amax(-1).isfinite()]  # rows that are to be NaN may hold anything, if they meet no other row
        return bool(kept.isfinite().all()) and (len(kept) == len(f) or f.shape[1] <= len(f))


def by_loss(loss: Loss) -> Callable[[Tensor, Tensor, float], Outputs]:
    """Return what a loss gives: value, gradient, and t, which is minus the loss of the class of the largest logit."""

    def outputs(f: Tensor, labels: Tensor, beta: float) -> Outputs:
        with torch.no_grad():
            t = -loss(f, f.argmax(-1), beta)
        return {"t": t, **_loss_and_gradient(loss, f, labels, beta)}

    return outputs


def _loss_and_gradient(loss: Loss, f: Tensor, labels: Tensor, beta: float) -> Outputs:
    leaf = f.clone().requires_grad_()
    value = loss(leaf, labels, beta)
    value.sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return {"loss": value.detach(), "gradient": leaf.grad}


def _named(backend: str) -> Loss:
    return lambda f, y, beta: functional.mgce_loss(f, y, beta=beta, backend=backend, reduction="none")


def _torch(f: Tensor, labels: Tensor, beta: float) -> Outputs:
    """Return the loss and its gradient, t and both probabilities by plain operations."""
    x, t, _ = implicit.solve(f, beta, -1)
    probs = {"h": implicit.minimax(x, t, beta), "p": implicit.worst_case(x, t, beta)}
    return {**_loss_and_gradient(_named("torch"), f, labels, beta), "t": t, **probs}


def _cpu(f: Tensor, labels: Tensor, beta: float) -> Outputs:
    """Return the loss and its gradient, t and both probabilities by the CPU kernel."""
    probs = {"h": functional.minimax_probs(f, beta=beta), "p": functional.worst_case_probs(f, beta=beta)}
    return {**by_loss(_named("cpu"))(f, labels, beta), **probs}


def _cuda(f: Tensor, labels: Tensor, beta: float) -> Outputs:
    """Run the Triton kernel: on the GPU, or where there is none in Triton's interpreter, on the CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    f, labels = f.to(device), labels.to(device)
    with np.errstate(all="ignore"):  # the interpreter computes with NumPy
        rows = LossOptions(reduction="none")
        minus_t, _ = cuda.loss_and_grad(f, LossArguments(f.argmax(-1), None, rows, beta), want_grad=False)
        loss, gradient = cuda.loss_and_grad(f, LossArguments(labels, None, rows, beta), grad_dtype=F32)
    assert gradient is not None
    return {"t": -minus_t.cpu(), "loss": loss.cpu(), "gradient": gradient.cpu()}


def _linear_head(f: Tensor, labels: Tensor, beta: float) -> Tensor:
    """Compute through the linear head: the rows are inputs and the weights an identity, or the other way round.

    Either way each logit is a sum of one number and zeros, and so exact; so is each number of the gradient.
    """
    n, k = f.shape
    head = (f, torch.eye(k, dtype=f.dtype)) if k <= n else (torch.eye(n, dtype=f.dtype), f.T)
    return functional.linear_mgce_loss(*head, labels, beta=beta, reduction="none")


def _compiled(f: Tensor, labels: Tensor, beta: float) -> Outputs:
    """Compile the plain operations for this call alone, as inductor does."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda f, y: _named("torch")(f, y, beta), dynamic=False)
    return by_loss(lambda f, y, _: compiled(f, y))(f, labels, beta)


# The interpreter and the compiler take seconds for what the others do in milliseconds.
_INTERPRETED = not torch.cuda.is_available()
BACKENDS = {
    "reference": Backend(by_loss(_named("reference"))),
    "torch": Backend(_torch, largest_beta=math.inf),
    "cpu": Backend(_cpu),
    "linear": Backend(by_loss(_linear_head), (F64, F32), most_classes=4097, masks=False, share=0.25),
    "cuda": Backend(_cuda, (F32, F16, BF16), share=0.05 if _INTERPRETED else 1, rows=16 if _INTERPRETED else 1 << 20),
    "compile": Backend(_compiled, (F64, F32), most_classes=1025, share=0.0005),
}


def usable() -> list[str]:
    """Return the backends that can run here."""
    return [name for name in BACKENDS if name != "cuda" or cuda.obstacle() is None]
