r"""MGCE that counts no row for more than beta."""

from __future__ import annotations

from torch import Tensor

from mgce import _validation
from mgce.losses.modules import MinimaxLink
from mgce.losses.scored import loss_of_logits
from mgce.losses.scored_module import ScoredLoss
from mgce.numerics.normalizer import normalized_logits


@loss_of_logits
def capped_mgce_loss(logits: Tensor, dim: int, *, beta: float = 1.4) -> Tensor:
    r"""Compute the alpha-loss of the minimax probabilities h: MGCE, or beta where that is less.

    .. math:: \ell(f, y) = \beta \big(1 - h_y^{1/\beta}\big) = \min(\beta, -f_y - \varphi_\beta(f))

    In [0, beta]; not symmetric; convex in the logits at beta = inf only, where it is cross-entropy. A row whose class
    has no probability has no gradient: begin with :func:`mgce_loss`, so that few rows are such.

    Hyperparameters:
        beta: in [1, inf], one number for all rows.

    Example:
        >>> capped_mgce_loss(torch.tensor([[3.0, 0.0], [0.4, 0.0]]), torch.tensor([1, 1]), beta=2.0, reduction="none")
        tensor([2.0000, 0.8000])

    Reference: paper, equations (3) and (14).
    """
    _validation.check_beta(beta)
    return normalized_logits(logits, beta=beta, dim=dim).clamp(min=-beta)


class CappedMGCELoss(ScoredLoss):
    """MGCE up to beta as a module; :func:`mgce.functional.capped_mgce_loss` has the equation and `beta`."""

    function = staticmethod(capped_mgce_loss)
    beta: float

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits into the minimax probabilities, over the loss's dimension of classes."""
        return MinimaxLink(beta=self.beta, dim=None)
