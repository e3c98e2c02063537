r"""A loss of logits times a constant, as a temperature divides them."""

from __future__ import annotations

from torch import Tensor, nn

from mgce import _validation
from mgce.losses.wrappers import check_input, link_of


class ScaledLogits(nn.Module):
    """Multiply logits by a constant."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        _validation.check_number("scale", scale, 0, above=True)
        self.scale = scale

    def forward(self, logits: Tensor) -> Tensor:
        """Map logits to logits; a masked class stays masked."""
        return self.scale * logits

    def extra_repr(self) -> str:
        """Show the hyperparameter."""
        return f"scale={self.scale:g}"


class LogitScale(nn.Module):
    r"""Any loss, of logits times a constant: the reciprocal of a temperature.

    .. math:: \ell(s f, y)

    For MGCE the constant is one of two scales: the loss of a row is zero once its class leads by beta / s. Bounded,
    symmetric and convex where the loss is. Probabilities, too, are those of the scaled logits: `link` scales first.

    Args:
        loss: a module that takes logits and targets.
        scale: above 0.

    Raises:
        TypeError, ValueError: if `scale` is not one of those above.

    Example:
        >>> LogitScale(torch.nn.CrossEntropyLoss(), 2.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(2.1269)

    Reference: Guo et al., On calibration of modern neural networks, 2017, for the temperature.
    """

    def __init__(self, loss: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.scaled = ScaledLogits(scale)
        self.loss = loss

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the scaled logits."""
        check_input(self.loss, input)
        loss: Tensor = self.loss(self.scaled(input), target)
        return loss

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: those of the scaled logits."""
        return nn.Sequential(self.scaled, link_of(self.loss))
