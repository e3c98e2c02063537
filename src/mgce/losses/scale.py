r"""Define losses of logits that are multiplied by a constant, the reciprocal of a temperature."""

from __future__ import annotations

from torch import Tensor, nn

from mgce import _validation
from mgce.losses.arguments import HALF_TYPES
from mgce.losses.modules import CE, GCE, MGCE, NEAR_MAE
from mgce.losses.protocol import both_probs, link_of
from mgce.losses.records import NamedLoss
from mgce.losses.wrapping import Wrapper, check_input, in_float32
from mgce.numerics.root import DEFAULT_BETA


class ScaledLink(nn.Module):
    """Multiply logits by a constant, and turn the product into probabilities by the link of a loss."""

    def __init__(self, scale: float, link: nn.Module) -> None:
        super().__init__()
        self.scale, self.link = scale, link

    def forward(self, logits: Tensor) -> Tensor:
        """Map logits to probabilities; half types are computed in float32, and a masked class stays masked."""
        _validation.check_floating(logits, "logits")
        rows = logits.float() if logits.dtype in HALF_TYPES else logits
        probs: Tensor = self.link(self.scale * rows)
        return probs.to(logits.dtype)

    def extra_repr(self) -> str:
        """Return the hyperparameter for `repr`."""
        return f"scale={self.scale:g}"


class LogitScale(Wrapper):
    r"""Apply any loss to logits times a constant, the reciprocal of a temperature.

    .. math:: \ell(s f, y)

    The MGCE of a row is then zero once the logit of its label exceeds all others by beta / s. The result is bounded,
    symmetric (its sum over all classes is constant) or convex if the loss is. Also `link` scales the logits before it
    turns them into probabilities.

    Args:
        loss: a module that takes logits and targets. Logits of half types are converted to float32 first, for
            accuracy. They are not converted if the loss has class weights or other tensors of a half type, which
            logits have to match.
        scale: the factor s, in [1e-30, 1e30], so that products are finite in float32.

    Raises:
        TypeError, ValueError: if an argument has a type or a value not allowed above.

    Example:
        >>> LogitScale(torch.nn.CrossEntropyLoss(), 2.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(2.1269)

    Reference: Guo et al., On calibration of modern neural networks, 2017, for the temperature.
    """

    def __init__(self, loss: nn.Module, scale: float = 1.0) -> None:
        super().__init__(loss)
        _validation.check_number("scale", scale, 1e-30, 1e30)
        self.scale = scale

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the scaled logits."""
        check_input(self.loss, input)
        return in_float32(self, lambda logits, target: self.loss(self.scale * logits, target), input, target)

    @property
    def link(self) -> nn.Module:
        """The module that scales logits and turns the result into probabilities."""
        return ScaledLink(self.scale, link_of(self.loss))

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities h (for predictions) and p (calibrated) of the scaled logits.

        Half types are computed in float32.
        """
        rows = logits.float() if logits.dtype in HALF_TYPES else logits
        h, p = both_probs(self.loss, self.scale * rows)
        return h.to(logits.dtype), p.to(logits.dtype)

    def extra_repr(self) -> str:
        """Return the hyperparameter for `repr`."""
        return f"scale={self.scale:g}"


def _scaled(loss: NamedLoss, order: int, betas: tuple[float, ...] = ()) -> NamedLoss:
    """Describe the variant of a named loss with scaled logits; its properties are those of the named loss."""
    return NamedLoss(
        f"{loss.name}+scale",
        LogitScale,
        f"{loss.name.upper()} of $s f$, `scale` = s",
        order=order,
        of=(loss,),
        betas=betas,
        # At a scale of 4 the MGCE of a row, at beta = 1.4, ends when its class leads by 0.35, as is soon learnt.
        compared={"scale": 4.0},
        bounded=loss.bounded,
        symmetric=loss.symmetric,
        convex=loss.convex,
        claims=loss.claims,
    )


NAMED = (_scaled(CE, 23), _scaled(GCE, 24), _scaled(MGCE, 28, betas=(NEAR_MAE, DEFAULT_BETA)))
