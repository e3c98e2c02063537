"""Define clipping of logits to a largest norm, and the losses of clipped and of scaled logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgce import _validation
from mgce._messages import check_number
from mgce.losses.base import python_number
from mgce.losses.modules import CE, GCE, MGCE
from mgce.losses.protocol import both_probs, dim_of, link_of
from mgce.losses.records import NamedLoss, Presets
from mgce.losses.temperature import LogitScale
from mgce.losses.wrapping import Wrapper, in_float32

# Rows of squared length s, in units of the one to clip to, are clipped by s^(-1/2) up to this: its second derivative,
# s^(-5/2), is a normal number of float32 still, and NaN, -inf and squares beyond the type are not up to this.
LARGEST_SQUARE = 1e15
DIRECT = 1e3  # between its reciprocal and this is an inverse whose square takes no digits of those numbers
LARGEST_INVERSE = 1e30  # well below the largest number of float32, so that the length it gives is above 0
DEFAULT_INVERSE_NORM = 1.0  # published for CIFAR-10 with up to 40 % symmetric noise


def clip_logits(logits: Tensor, *, inverse_norm: float = DEFAULT_INVERSE_NORM, dim: int | None = None) -> Tensor:
    r"""Scale each row of logits whose Euclidean norm exceeds 1 / inverse_norm down to that norm.

    .. math:: f \min\Big(1, \frac{1}{\delta \lVert f \rVert_2}\Big)

    Args:
        logits: f, any shape with k classes along `dim`; -inf masks a class and does not count in the norm. Half types
            are computed in float32.
        inverse_norm: :math:`\delta`, above 0 and at most 1e30: the reciprocal of the largest norm.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Returns:
        The clipped logits, of the shape and the dtype of `logits`.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`; `inverse_norm` is
            checked as its `beta`.

    Example:
        >>> clip_logits(torch.tensor([3.0, 4.0]), inverse_norm=1.0)
        tensor([0.6000, 0.8000])

    Reference: Wei et al., Mitigating memorization of noisy labels by clipping the model prediction, 2023.
    """
    check_number("inverse_norm", inverse_norm, 0, LARGEST_INVERSE, above=True)
    dim = _validation.check_logits(logits, dim)
    x = logits.float() if logits.dtype in _validation.HALF_TYPES else logits
    if _validation.is_concrete(x) and 1 / DIRECT <= inverse_norm <= DIRECT:
        squared = x.square().sum(dim, keepdim=True) * inverse_norm**2
        if (squared <= LARGEST_SQUARE).all():
            return (x * squared.clamp(min=1).rsqrt()).to(logits.dtype)
    return _clipped_whatever_the_size(x, inverse_norm, dim).to(logits.dtype)


def _clipped_whatever_the_size(x: Tensor, inverse_norm: float, dim: int) -> Tensor:
    """Clip rows that may contain -inf or numbers whose squares overflow, without reading values of the tensor."""
    on = x != -torch.inf
    kept = torch.where(on, x, 0)
    # Divided by the largest, which is a constant to the derivative: the squares of large logits would be infinite.
    largest = kept.detach().abs().amax(dim, keepdim=True)
    unit = kept / torch.where(largest == 0, 1, largest)
    squared = unit.square().sum(dim, keepdim=True)
    length = torch.where(squared == 0, 1, squared).sqrt() * inverse_norm
    short = largest * length <= 1  # not where there is a NaN, which has to come through
    # Where it is not taken nothing is divided: a derivative of 0 / delta^2 would be NaN.
    return torch.where(on, torch.where(short, kept, unit / torch.where(short, 1, length)), x)


class ClippedLogits(nn.Module):
    """Apply `clip_logits` as a module."""

    def __init__(self, inverse_norm: float = DEFAULT_INVERSE_NORM, dim: int | None = None) -> None:
        super().__init__()
        check_number("inverse_norm", inverse_norm, 0, LARGEST_INVERSE, above=True)
        self.inverse_norm = python_number(inverse_norm)
        self.dim = python_number(dim)

    def forward(self, logits: Tensor) -> Tensor:
        """Scale rows of logits with a norm above 1 / inverse_norm down to this norm."""
        return clip_logits(logits, inverse_norm=self.inverse_norm, dim=self.dim)

    def extra_repr(self) -> str:
        """Return the hyperparameter for `repr`."""
        return f"inverse_norm={self.inverse_norm:g}"


class LogitClip(Wrapper):
    r"""Apply any loss to logits whose norm is clipped to at most 1 / inverse_norm.

    .. math:: \ell\Big(f \min\Big(1, \frac{1}{\delta \lVert f \rVert_2}\Big), y\Big)

    The result is bounded, whatever the loss. Cross-entropy, for example, stays below :math:`\log(1 + (k - 1) e^{\sqrt 2
    / \delta})` with k classes. The result is symmetric (its sum over all classes is constant) if the loss is, and not
    convex. Also `link` clips the logits before it turns them into probabilities.

    Args:
        loss: a module that takes logits and targets. Half types are clipped in float32, with the exception described
            in :class:`mgce.losses.LogitScale`.
        inverse_norm: :math:`\delta`, above 0 and at most 1e30: the reciprocal of the largest norm. Published values
            for CIFAR-10: 1 for up to 40 % symmetric noise, 1.5 for more, 2.5 for asymmetric noise.

    Raises:
        TypeError, ValueError: if `inverse_norm` is not a number in the range above.

    Example:
        >>> LogitClip(torch.nn.CrossEntropyLoss())(torch.tensor([[3.0, 4.0]]), torch.tensor([0]))
        tensor(0.7981)

    Reference: Wei et al., Mitigating memorization of noisy labels by clipping the model prediction, 2023.
    """

    def __init__(self, loss: nn.Module, inverse_norm: float = DEFAULT_INVERSE_NORM) -> None:
        super().__init__(loss)
        self.clip = ClippedLogits(inverse_norm, dim_of(loss))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the clipped logits."""
        _validation.check_logits(input, self.clip.dim, "input")
        return in_float32(self, lambda logits, target: self.loss(self.clip(logits), target), input, target)

    @property
    def link(self) -> nn.Module:
        """The module that clips logits and turns the result into probabilities."""
        return nn.Sequential(self.clip, link_of(self.loss))

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities h (for predictions) and p (for calibrated confidence) of the clipped logits."""
        return both_probs(self.loss, self.clip(logits))


_CLIPPED = r"$f \min(1, 1 / (\delta \lVert f \rVert))$"
CE_LOGITCLIP = NamedLoss(
    "ce+logitclip",
    LogitClip,
    f"CE of {_CLIPPED}",
    of=(CE,),
    bounded=True,
    source="Wei et al. 2023",
    presets=Presets(
        {"cifar10": {"inverse_norm": 1.0}, "cifar100": {"inverse_norm": 0.5}, "webvision": {"inverse_norm": 1.2}},
        {
            ("cifar10", "symmetric"): {0.4: {}, 0.8: {"inverse_norm": 1.5}},
            ("cifar10", "asymmetric"): {0.0: {}, 0.4: {"inverse_norm": 2.5}},
            ("cifar100", "asymmetric"): {0.0: {}, 0.4: {"inverse_norm": 2.5}},
        },
        source="Wang et al. 2024",
    ),
)
_IF = {"symmetric": r"if beta = 1 and $\delta \ge k$"}
MGCE_LOGITCLIP = NamedLoss("mgce+logitclip", LogitClip, f"MGCE of {_CLIPPED}", of=(MGCE,), bounded=True, claims=_IF)


def _scaled(loss: NamedLoss) -> NamedLoss:
    """Describe the variant of a named loss with scaled logits; its properties are those of the named loss."""
    return NamedLoss(
        f"{loss.name}+scale",
        LogitScale,
        f"{loss.name.upper()} of $s f$, `scale` = s",
        of=(loss,),
        bounded=loss.bounded,
        symmetric=loss.symmetric,
        convex=loss.convex,
        claims=loss.claims,
    )


NAMED = (CE_LOGITCLIP, MGCE_LOGITCLIP, _scaled(CE), _scaled(GCE), _scaled(MGCE))
