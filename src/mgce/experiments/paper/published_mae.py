"""The probabilities behind the paper's calibration errors of MAE, and their errors."""

from __future__ import annotations

import torch
from torch import Tensor

from mgce.link.normalizer import normalizer
from mgce.metrics.evaluation import measure


def published_mae_probs(logits: Tensor) -> Tensor:
    r"""Compute the probabilities that the paper's numbers agree with: MAE with the sign of the normalizer reversed.

    .. math:: \tilde h_y \propto (1 + f_y - \varphi_1(f))_+ \quad\text{instead of}\quad h_y = (1 + f_y + \varphi_1(f))_+

    Args:
        logits: f, shape (N, k).

    Returns:
        Shape (N, k); the largest logit has the largest probability, but hardly more than the others have. Where no
        value is positive they are uniform. That depends on a constant added to all logits of a row, as no probabilities
        should.

    Example:
        >>> published_mae_probs(torch.tensor([[2.0, 0.0, -1.0]]))
        tensor([[0.5000, 0.3000, 0.2000]])

    Reference: paper, eq. (14), with the sign of eq. (12) reversed.
    """
    values = (1 + logits - normalizer(logits, beta=1.0).unsqueeze(-1)).clamp(min=0)
    total = values.sum(-1, keepdim=True)
    return torch.where(total > 0, values / total, 1 / logits.shape[-1])


def evaluate_published_mae(logits: Tensor, target: Tensor) -> dict[str, float]:
    """Return the accuracy of the logits, and ECE and SCE of the published probabilities.

    For h they are those of :func:`published_mae_probs`; for p, the worst-case probabilities, they are uniform.
    """
    h = published_mae_probs(logits.double())
    return measure(logits, target, {"h": h, "p": torch.full_like(h, 1 / h.shape[-1])})
