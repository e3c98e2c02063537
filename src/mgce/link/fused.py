r"""Solve the normalizer's equation and compute probabilities for rows of logits by a kernel, with first derivatives.

Let x be the logits minus the largest logit of the row, t the root of the normalizer's equation,
:math:`v = (1 + (x + t) / \beta)_+`, :math:`w = v^{\beta - 1}` and :math:`p = w / \sum w`, the worst-case probabilities.
The derivative of t in x is -p. The derivatives at fixed t are w for the minimax probabilities h, and
:math:`\frac{\beta - 1}{\beta} p / v` for p; then the part that would change the sum of h or p is subtracted. Second
derivatives are computed by the plain operations of `mgce.numerics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mgce.kernels import cpu, dispatch
from mgce.numerics import implicit
from mgce.numerics.implicit import solve
from mgce.numerics.root import LARGEST_BETA, Beta

# What is computed of rows, from x, t and beta, by plain operations.
PLAIN: dict[str, Callable[[Tensor, Tensor, Beta], Tensor]] = {
    "root": lambda x, t, beta: t,
    "minimax": implicit.minimax,
    "worst_case": implicit.worst_case,
}


def of_rows(output: str, logits: Tensor, beta: Beta, dim: int) -> Tensor:
    """Return the root t of the normalizer's equation, or the minimax or worst-case probabilities (classes last).

    `output` is "root", "minimax" or "worst_case". The kernel is used if it can run, otherwise plain operations. Half
    types are computed in float32.
    """
    rows = logits.movedim(dim, -1)
    rows = rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
    if output != "root" and not isinstance(beta, Tensor) and beta >= LARGEST_BETA:
        return rows.softmax(-1)
    if not dispatch.can_solve(rows, beta):
        x, t, beta = solve(rows, beta, -1)
        return PLAIN[output](x, t, beta)
    flat: Tensor = Fused.apply(rows.reshape(-1, rows.shape[-1]).contiguous(), beta, output)  # type: ignore[no-untyped-call]
    return flat.view(rows.shape[:-1] if output == "root" else rows.shape)


class Fused(torch.autograd.Function):
    """The root of the normalizer's equation, or probabilities, of N rows of k logits, as an autograd function."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, beta: float, output: str) -> Tensor:
        """Compute by `output` the root of the normalizer's equation, or minimax or worst-case probabilities."""
        ctx.options = beta, output
        t, probs = cpu.root_and_probs(rows, beta=beta, minimax=output == "minimax")
        # A change in place of the rows is seen.
        if output == "minimax":
            ctx.save_for_backward(rows)
            return probs
        ctx.save_for_backward(rows, t, probs)
        return t if output == "root" else probs

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Multiply the gradient by the Jacobian, which is symmetric for both kinds of probabilities."""
        beta, output = ctx.options
        rows, *solved = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            x, t, _ = solve(rows, beta, -1)
            value = PLAIN[output](x, t, beta)
            return torch.autograd.grad(value, rows, grad_output, create_graph=True)[0], None, None
        t, p = solved or _root_and_worst_case(rows, beta)
        if output == "root":
            return -p * grad_output.unsqueeze(-1), None, None
        if output == "minimax":
            # w of the largest class is v^(beta - 1), where x is 0; and so the sum of w is known, and w of every class.
            w = p * (torch.exp((beta - 1) * torch.log1p(t / beta)) / p.amax(-1)).unsqueeze(-1)
            moved = w * grad_output
        else:
            v = _base(rows, t, beta)
            rate = torch.where((p > 0) & (v > 0), (1 - 1 / beta) * p / v, 0)
            moved = rate * (grad_output - (p * grad_output).sum(-1, keepdim=True))
        return moved - p * moved.sum(-1, keepdim=True), None, None


def _root_and_worst_case(rows: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    if dispatch.is_traced():  # compiled autograd traces backward passes
        x, t, _ = solve(rows, beta, -1)
        return t, implicit.worst_case(x, t, beta)
    return cpu.root_and_probs(rows, beta=beta, minimax=False)


def _base(rows: Tensor, t: Tensor, beta: float) -> Tensor:
    """Return v = (1 + (x + t) / beta)_+ for rows of logits and their roots t, accurate near 0 and near 1.

    x are the logits minus the largest logit of the row. v is computed as in `root.powers`.
    """
    x = rows - rows.amax(-1, keepdim=True)
    t = t.unsqueeze(-1)
    return torch.where(x < -beta / 2, ((beta + x) + t) / beta, 1 + (x + t) / beta).clamp(min=0)
