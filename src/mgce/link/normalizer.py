r"""The normalizer phi_beta, and the logits that it normalizes."""

from __future__ import annotations

import torch
from torch import Tensor

from mgce import _validation
from mgce.link.fused import of_rows
from mgce.numerics.implicit import solve
from mgce.numerics.root import Beta

METHODS = ("newton", "bisection", "exact")


def normalizer(
    logits: Tensor,
    *,
    beta: Beta,
    dim: int | None = None,
    method: str = "newton",
    tol: float = 1e-4,
) -> Tensor:
    r"""Compute the normalizer phi of MGCE: what makes the minimax probabilities sum to one.

    .. math::
        \varphi_\beta(f) = \max \nu \quad \text{s.t.} \quad
        \sum_{y=1}^{k} \Big(\frac{f_y + \nu}{\beta} + 1\Big)_+^{\beta} \le 1,
        \qquad \frac{\partial \varphi_\beta}{\partial f} = -p_\beta(f).

    It is concave in f, equivariant (`phi(f + c) = phi(f) - c`), decreasing in beta, and between
    `-logsumexp(f)` and its value at beta = 1. Its derivatives, to the third order, come from the equation at
    the root, not from the iterations, and are right with respect to `beta` too.

    Args:
        logits: margins f, any shape with k classes along `dim`; float16 and bfloat16 are solved in
            float32. -inf masks a class: the result is that of the row without it.
        beta: loss parameter in [1, inf]. 1 is MAE (`phi` is then the sparsemax threshold, and its
            derivative one subgradient), inf is cross-entropy (`phi = -logsumexp`), and so is, to
            rounding, any beta from 2^64 on. A tensor gives one beta for each row: it broadcasts
            against the shape of the result. Where its values cannot be read, one that is not in
            [1, inf] gives NaN.
        dim: dimension of the classes; None is where the losses have it: 1, or 0 for one row.
        method: `"newton"` reaches the rounding floor; `"bisection"` is the paper's Algorithm 1;
            `"exact"` sorts, for beta = 1 and 2 only.
        tol: width of the last bracket of `"bisection"`; 1e-4 is the paper's.

    Returns:
        phi, the shape of `logits` without `dim` and its dtype (float32 under autocast). A row that
        holds NaN or +inf, or only -inf, has NaN here and in its derivatives.

    Raises:
        TypeError: if `beta` is not a number, or `logits` not a tensor.
        ValueError: if `beta` is not in [1, inf], or `method` is unknown or not for this `beta`.
        RuntimeError: if `logits` is not floating point or has no class.
        IndexError: if `dim` is out of range.

    Example:
        >>> normalizer(torch.tensor([[0.5, 0.0, 0.25, -1.0], [3.0, 1.5, -2.0, -3.0]]), beta=1.4)
        tensor([-1.0247, -3.0000])

    Reference: paper, equations (12), (13) and Theorem 3.
    """
    beta = _validation.check_beta(beta)
    dim = _validation.check_logits(logits, dim)
    _validation.check_choice("method", method, METHODS)
    rows = logits.movedim(dim, -1)
    t = of_rows("root", rows, beta, -1) if method == "newton" else solve(rows, beta, -1, method, tol)[1]
    return (t - rows.detach().amax(-1)).to(result_dtype(logits))


def normalized_logits(logits: Tensor, *, beta: Beta, dim: int | None = None) -> Tensor:
    r"""Compute f + phi_beta(f), which stands in MGCE where `log_softmax` stands in cross-entropy.

    .. math:: \text{loss}(f, y) = -(f_y + \varphi_\beta(f)) \ge 0

    The sum is formed as `(f - max f) + t`, two numbers that are never positive, so that nothing
    cancels.

    Args:
        logits: margins f, any shape with k classes along `dim`; -inf masks a class.
        beta: in [1, inf], a float or one for each row; at inf the result is `log_softmax`.
        dim: dimension of the classes; None is where the losses have it: 1, or 0 for one row.

    Returns:
        f + phi, of the shape of `logits`.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`normalizer`.

    Example:
        >>> normalized_logits(torch.tensor([3.0, 1.5, -2.0]), beta=1.4)
        tensor([ 0.0000, -1.5000, -5.0000])

    Reference: paper, equation (19).
    """
    beta = _validation.check_beta(beta)
    dim = _validation.check_logits(logits, dim)
    rows = logits.movedim(dim, -1)
    t = of_rows("root", rows, beta, -1)
    x = rows.to(t.dtype) - rows.detach().amax(-1, keepdim=True)
    return (x + t.unsqueeze(-1)).movedim(-1, dim).to(result_dtype(logits))


def result_dtype(logits: Tensor) -> torch.dtype:
    """Return the dtype of a result: that of the input, or float32 for half types under autocast, as log_softmax."""
    half = logits.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if half and torch.is_autocast_enabled(logits.device.type) else logits.dtype
