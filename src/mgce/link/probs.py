r"""Compute the two kinds of probabilities of MGCE, and the maps between them (Theorem 1 of the paper).

`minimax_probs` computes h, with which the paper's classifier predicts. `worst_case_probs` computes p, the distribution
of labels that is worst for h. p is minus the gradient of the normalizer, and gives calibrated probabilities.

Rows of logits go through a kernel, with first derivatives. Let x be the logits minus the largest logit of the row, t
the root of the normalizer's equation, :math:`v = (1 + (x + t) / \beta)_+`, :math:`w = v^{\beta - 1}` and
:math:`p = w / \sum w`. The derivative of t in x is -p. The derivatives at fixed t are w for the minimax
probabilities h, and :math:`\frac{\beta - 1}{\beta} p / v` for p; then the part that would change the sum of h or p is
subtracted. Second derivatives are computed by the plain operations of `mgce.numerics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mgce._messages import check_choice, expected
from mgce._validation import HALF_TYPES, broadcast_beta, check_beta, check_logits, is_concrete
from mgce.kernels import cpu, dispatch
from mgce.numerics import implicit, root
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
    rows = rows.float() if rows.dtype in HALF_TYPES else rows
    if output != "root" and not isinstance(beta, Tensor) and beta >= LARGEST_BETA:
        return rows.softmax(-1)
    if not dispatch.can_solve(rows, beta):
        x, t, beta = solve(rows, beta, -1)
        return PLAIN[output](x, t, beta)
    flat: Tensor = Fused.apply(rows.reshape(-1, rows.shape[-1]).contiguous(), beta, output)  # type: ignore[no-untyped-call]
    return flat.view(rows.shape[:-1] if output == "root" else rows.shape)


class Fused(torch.autograd.Function):
    """An autograd function of N rows of k logits: the roots of their normalizers' equations, or probabilities."""

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
    beta = check_beta(beta)
    dim = check_logits(logits, dim)
    check_choice("method", method, METHODS)
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
    beta = check_beta(beta)
    dim = check_logits(logits, dim)
    rows = logits.movedim(dim, -1)
    t = of_rows("root", rows, beta, -1)
    x = rows.to(t.dtype) - rows.detach().amax(-1, keepdim=True)
    return (x + t.unsqueeze(-1)).movedim(-1, dim).to(result_dtype(logits))


def result_dtype(logits: Tensor) -> torch.dtype:
    """Return the dtype of a result: float32 for half types under autocast, otherwise the dtype of the logits."""
    half = logits.dtype in HALF_TYPES
    return torch.float32 if half and torch.is_autocast_enabled(logits.device.type) else logits.dtype


def minimax_probs(logits: Tensor, *, beta: Beta, dim: int | None = None) -> Tensor:
    r"""Compute h, the minimax probabilities: alpha-entmax of the logits with alpha = 1 + 1/beta.

    .. math:: h_\beta(f)_y = \Big(\frac{f_y + \varphi_\beta(f)}{\beta} + 1\Big)_+^{\beta}

    with f the logits and phi the normalizer, the number that makes h sum to one. Many probabilities are exactly zero: a
    class has h > 0 only if its logit is less than beta below the largest.

    Args:
        logits: f, any shape with k classes along `dim`; -inf masks a class.
        beta: loss parameter in [1, inf]: 1 gives sparsemax, 2 gives entmax-1.5, inf gives softmax.
            A tensor gives one beta for each row, and broadcasts against the shape without `dim`.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Returns:
        h, of the shape of `logits`, summing to one along `dim`.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`.

    Example:
        >>> minimax_probs(torch.tensor([0.5, 0.0, 0.25, -1.0]), beta=1.4)
        tensor([0.5181, 0.1583, 0.3235, 0.0000])

    Reference: paper, equation (14).
    """
    return _probs("minimax", logits, beta, dim)


def worst_case_probs(logits: Tensor, *, beta: Beta, dim: int | None = None) -> Tensor:
    r"""Compute p, the worst-case probabilities, which are calibrated: minus the gradient of the normalizer phi.

    .. math:: p_\beta(f)_y = \frac{v_y^{\beta - 1}}{\sum_j v_j^{\beta - 1}},
              \qquad v_y = \Big(\frac{f_y + \varphi_\beta(f)}{\beta} + 1\Big)_+

    with f the logits and phi the normalizer of MGCE (:func:`~mgce.functional.normalizer`). At beta = 1, p is uniform on
    its support, the classes with p > 0. There phi can have other subgradients too, and Theorem 1's map from p back to h
    does not exist.

    Args:
        logits: f, any shape with k classes along `dim`; -inf masks a class.
        beta: loss parameter in [1, inf]; inf gives softmax. A tensor gives one beta for each row.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Returns:
        p, of the shape of `logits`, summing to one along `dim`.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`.

    Example:
        >>> worst_case_probs(torch.tensor([0.5, 0.0, 0.25, -1.0]), beta=1.4)
        tensor([0.3866, 0.2755, 0.3379, 0.0000])

    Reference: paper, equations (15) and (17).
    """
    return _probs("worst_case", logits, beta, dim)


def minimax_to_worst_case(h: Tensor, *, beta: Beta, dim: int | None = None) -> Tensor:
    r"""Map minimax probabilities h, to predict with, to worst-case probabilities p, which are calibrated.

    .. math:: p_y = h_y^{1 - 1/\beta} \Big/ \sum_j h_j^{1 - 1/\beta}

    Args:
        h: probabilities along `dim`, any shape.
        beta: in [1, inf]. At 1 the result is uniform on the classes with h > 0, since 0^0 is taken as 0 here. At inf
            it is h. A tensor gives one beta for each row.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Returns:
        p, of the shape of h. A row that contains NaN becomes NaN.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`.

    Example:
        >>> minimax_to_worst_case(torch.tensor([0.64, 0.36, 0.0]), beta=2.0)
        tensor([0.5714, 0.4286, 0.0000])

    Reference: paper, Theorem 1, equation (15), for 1 < beta < inf.
    """
    beta = check_beta(beta)
    dim = check_logits(h, dim, "h")
    return _power_and_normalize(h, _less_inverse(beta), dim)


def worst_case_to_minimax(p: Tensor, *, beta: Beta, dim: int | None = None) -> Tensor:
    r"""Map worst-case probabilities p to minimax probabilities h, by the power alpha = beta / (beta - 1).

    .. math:: h_y = p_y^{\alpha} \Big/ \sum_j p_j^{\alpha}

    Args:
        p: probabilities along `dim`, any shape.
        beta: in (1, inf]; at inf the result is p. Near 1 the exponent alpha is so large that the result is one-hot,
            unless the largest probabilities differ by a relative beta - 1 or less. A tensor gives one beta for each
            row.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Returns:
        h, of the shape of p. A row that contains NaN becomes NaN. If `beta` is a tensor whose values cannot be read,
        as in compiled code, rows with beta = 1 become NaN too.

    Raises:
        ValueError: if beta is 1, where p does not determine h: all h with the same support have the same p.
        TypeError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`.

    Example:
        >>> worst_case_to_minimax(torch.tensor([4 / 7, 3 / 7]), beta=2.0)
        tensor([0.6400, 0.3600])

    Reference: paper, Theorem 1, equation (16).
    """
    beta = check_beta(beta)
    dim = check_logits(p, dim, "p")
    if isinstance(beta, Tensor):
        one = is_concrete(beta) and bool((beta == 1).any())
        alpha: Beta = 1 / torch.where(beta > 1, _less_inverse(beta), torch.nan)
    else:
        one = beta == 1
        alpha = beta if one else 1 / _less_inverse(beta)
    if one:
        raise ValueError(expected("beta", "greater than 1, since at 1 p does not determine h", 1))
    return _power_and_normalize(p, alpha, dim)


def _probs(output: str, logits: Tensor, beta: Beta, dim: int | None) -> Tensor:
    """Return the probabilities named by `output`, "minimax" or "worst_case"; they are contiguous if the logits are."""
    beta = check_beta(beta)
    dim = check_logits(logits, dim)
    probs = of_rows(output, logits, beta, dim).movedim(-1, dim).to(result_dtype(logits))
    return probs.contiguous() if logits.is_contiguous() else probs


def _less_inverse(beta: Beta) -> Beta:
    """Return 1 - 1/beta, computed such that it is accurate for beta near 1."""
    if not isinstance(beta, Tensor):
        return 1.0 if beta >= root.LARGEST_BETA else (beta - 1) / beta
    finite = ~(beta >= root.LARGEST_BETA)
    b = torch.where(finite, beta, 1)
    return torch.where(finite, (b - 1) / b, 1)


def _power_and_normalize(probs: Tensor, exponent: Beta, dim: int) -> Tensor:
    rows = probs.movedim(dim, -1)
    if rows.dtype in HALF_TYPES:
        rows = rows.float()
    if not isinstance(exponent, Tensor):  # a number would be a constant to a compiler, which then compiles for each
        exponent = torch.full((), exponent, dtype=rows.dtype, device=rows.device)
    exponent = broadcast_beta(exponent, rows.shape[:-1]).to(rows.dtype).unsqueeze(-1)
    # Relative to the largest, a constant to autograd, so that a large exponent cannot take every class to zero.
    ratio = rows / rows.detach().amax(-1, keepdim=True)
    on = ~(ratio <= 0)  # NaN stays
    power = torch.where(on, torch.where(on, ratio, 1) ** exponent, 0)
    return (power / power.sum(-1, keepdim=True)).movedim(-1, dim).to(result_dtype(probs))
