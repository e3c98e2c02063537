r"""Compute the normalizer of MGCE, the number that makes probabilities sum to one, and logits plus normalizer."""

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
    r"""Compute the normalizer phi of MGCE, the number that makes the minimax probabilities sum to one.

    .. math::
        \varphi_\beta(f) = \max \nu \quad \text{s.t.} \quad
        \sum_{y=1}^{k} \Big(\frac{f_y + \nu}{\beta} + 1\Big)_+^{\beta} \le 1,
        \qquad \frac{\partial \varphi_\beta}{\partial f} = -p_\beta(f).

    phi is concave in f, equivariant (`phi(f + c) = phi(f) - c`) and decreasing in beta. It lies between
    `-logsumexp(f)` and its value at beta = 1. Derivatives up to third order, in f and in `beta`, are exact: they are
    computed from the equation of the root, not from the iterations.

    Args:
        logits: f, any shape with k classes along `dim`; float16 and bfloat16 are solved in float32. -inf masks
            a class: the result is that of the row without the class.
        beta: loss parameter in [1, inf]. At 1, the case of MAE (mean absolute error), `phi` is the sparsemax
            threshold, and its derivative is one of several subgradients. At inf, the case of cross-entropy, `phi` is
            `-logsumexp`; from 2^64 on it is the same up to rounding. A tensor gives one beta for each row; it
            broadcasts against the shape of the result. If its values cannot be read, as in compiled code, a beta
            outside [1, inf] gives NaN.
        dim: dimension of the classes; None means 1, or 0 for a single row.
        method: how the equation is solved. `"newton"` is accurate up to rounding. `"bisection"` is the paper's
            Algorithm 1. `"exact"` sorts the logits and works only for beta = 1 and 2.
        tol: width of the last bracket of `"bisection"`; the paper uses 1e-4.

    Returns:
        phi, of the shape of `logits` without `dim` and of the same dtype (float32 under autocast). For a row that
        contains NaN or +inf, or only -inf, phi and its derivatives are NaN.

    Raises:
        TypeError: if `beta` is not a number, or `logits` is not a tensor.
        ValueError: if `beta` is not in [1, inf], or `method` is unknown or does not support this `beta`.
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
    r"""Compute f + phi_beta(f), logits plus normalizer, which MGCE uses in place of `log_softmax` of cross-entropy.

    .. math:: \text{loss}(f, y) = -(f_y + \varphi_\beta(f)) \ge 0

    The sum is computed as `(f - max f) + t` with t = phi + max f. Neither term is ever positive, so no digits cancel.

    Args:
        logits: f, any shape with k classes along `dim`; -inf masks a class.
        beta: in [1, inf], a float, or a tensor with one beta for each row. At inf the result is `log_softmax`.
        dim: dimension of the classes; None means 1, or 0 for a single row.

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
    """Return the dtype of a result: float32 for half types under autocast, otherwise the dtype of the logits."""
    half = logits.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if half and torch.is_autocast_enabled(logits.device.type) else logits.dtype
