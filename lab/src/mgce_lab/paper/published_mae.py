"""Compute the probabilities that reproduce the paper's calibration errors of MAE, and these errors."""

from __future__ import annotations

import torch
from torch import Tensor

from mgce.link.probs import normalizer
from mgce.metrics.evaluation import measure


def published_mae_probs(logits: Tensor) -> Tensor:
    r"""Compute MAE's probabilities with the sign of the normalizer reversed, which reproduce the paper's numbers.

    .. math:: \tilde h_y \propto (1 + f_y - \varphi_1(f))_+ \quad\text{instead of}\quad h_y = (1 + f_y + \varphi_1(f))_+

    Args:
        logits: f, shape (N, k): N rows, k classes.

    Returns:
        Probabilities, shape (N, k). The class with the largest logit has the largest probability, but hardly more than
        the others. If no value is positive, they are uniform. Unlike proper probabilities, they change if a constant
        is added to all logits of a row.

    Example:
        >>> published_mae_probs(torch.tensor([[2.0, 0.0, -1.0]]))
        tensor([[0.5000, 0.3000, 0.2000]])

    Reference: paper, eq. (14), with the sign of eq. (12) reversed.
    """
    values = (1 + logits - normalizer(logits, beta=1.0).unsqueeze(-1)).clamp(min=0)
    total = values.sum(-1, keepdim=True)
    return torch.where(total > 0, values / total, 1 / logits.shape[-1])


def evaluate_published_mae(logits: Tensor, target: Tensor) -> dict[str, float]:
    """Return the accuracy of logits, and the calibration errors ECE and SCE of the probabilities h and p.

    Here h, the probabilities to predict with, are those of :func:`published_mae_probs`. The worst-case probabilities p
    are uniform.
    """
    h = published_mae_probs(logits.double())
    return measure(logits, target, {"h": h, "p": torch.full_like(h, 1 / h.shape[-1])})
