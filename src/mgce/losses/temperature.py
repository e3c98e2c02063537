"""Define losses of scaled logits, and calibrate probabilities by temperature scaling.

The probabilities are those of MGCE instead of softmax. The scale is the reciprocal of a temperature.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mgce._messages import check_number, expected
from mgce._validation import HALF_TYPES, check_floating, check_labels, check_logits
from mgce.link.probs import worst_case_probs
from mgce.losses.modules import MinimaxLink
from mgce.losses.protocol import both_probs, check_loss, link_of
from mgce.losses.wrapping import Wrapper, check_input, in_float32
from mgce.numerics.root import DEFAULT_BETA


class ScaledLink(nn.Module):
    """Multiply logits by a constant, and turn the product into probabilities by the link of a loss."""

    def __init__(self, scale: float, link: nn.Module) -> None:
        super().__init__()
        self.scale, self.link = scale, link

    def forward(self, logits: Tensor) -> Tensor:
        """Map logits to probabilities; half types are computed in float32, and a masked class stays masked."""
        check_floating(logits, "logits")
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
        check_number("scale", scale, 1e-30, 1e30)
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


# Doublings of the inverse temperature when looking for a bracket, and halvings of it: 2^60 and 2^-60 times the inverse
# of the largest margin are where nothing or everything of the logits is left, and 60 halvings give 18 digits.
STEPS = 60


class TemperatureScaling(nn.Module):
    r"""Divide logits by a temperature fitted on held-out rows, and turn them into the probabilities of MGCE.

    .. math:: T = \arg\min_{T > 0} \frac{1}{N} \sum_i \ell_\beta(f_i / T, y_i), \qquad x \mapsto p_\beta(f(x) / T)

    with f the logits and p the worst-case probabilities of MGCE. The temperature T minimises the MGCE loss, which is
    smallest if p is the distribution of the labels. This loss is convex in 1 / T, and, unlike log-loss, finite where a
    probability is 0. At beta = inf this is the usual temperature scaling of softmax. Temperature scaling changes no
    prediction, only the confidence of p.

    Args:
        beta: the beta of the loss that the model was trained with, in [1, inf]; inf for any loss with softmax. None
            stands for 1.4, or for the beta of the criterion.
        dim: dimension of the classes; None means 1, or 0 for a single row.
        output: `"worst_case"` returns the worst-case probabilities p, which the fit calibrates; `"minimax"` returns
            the minimax probabilities h.
        criterion: the loss of the training, given instead of `beta` and `dim`. Its link is used: softmax if the loss
            has no link, as `nn.CrossEntropyLoss`. Logits are clipped first if the loss clips them.

    Attributes:
        temperature: T, a buffer. It is 1 before :meth:`fit`, and inf if the logits carry no information about the
            labels.

    Raises:
        TypeError, ValueError: if an argument has a type or a value not allowed above, or `criterion` has a link of
            another form, as :class:`mgce.losses.BiTemperedLoss`.

    Example:
        >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
        >>> scaling = TemperatureScaling(beta=2.0).fit(logits, torch.tensor([0, 0, 1, 0]))
        >>> scaling(logits[:1])
        tensor([[0.7500, 0.2500]])
        >>> TemperatureScaling(criterion=torch.nn.CrossEntropyLoss()).link.beta
        inf

    Reference: Guo et al., "On calibration of modern neural networks", ICML 2017, for softmax; the paper's Theorem 3
    for the gradient.
    """

    temperature: Tensor

    def __init__(
        self,
        beta: float | None = None,
        dim: int | None = None,
        output: str = "worst_case",
        *,
        criterion: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.before: nn.Module = nn.Identity()
        if criterion is None:
            self.link = MinimaxLink(DEFAULT_BETA if beta is None else beta, dim, output)
        elif beta is None and dim is None:
            self.before, link = _matched(criterion)
            number = link.beta.detach() if isinstance(link.beta, Tensor) else link.beta
            self.link = MinimaxLink(number, link.dim, output)
        else:
            name = "dim" if beta is None else "beta"
            raise ValueError(expected(name, "None where `criterion` has it", dim if beta is None else beta))
        self.register_buffer("temperature", torch.ones(()))

    def forward(self, logits: Tensor) -> Tensor:
        """Map logits to probabilities of the same shape."""
        logits = self.before(logits)
        scaled = logits / self.temperature.to(logits.dtype)
        probs: Tensor = self.link(torch.where(logits == -math.inf, logits, scaled))  # masked at T = inf too
        return probs

    @torch.no_grad()
    def fit(self, logits: Tensor, target: Tensor) -> TemperatureScaling:
        """Fit the temperature to held-out rows.

        Args:
            logits: logits of rows that the model was not trained on, shape (N, k), N >= 1. -inf masks a class; a row
                may not be all -inf. The difference of two logits of a row has to be finite in float32.
            target: class indices of the rows, shape (N,).

        Returns:
            self.

        Raises:
            TypeError, ValueError: if an argument has a type or a value not allowed above.
        """
        check_logits(logits, None)
        if logits.ndim != 2 or len(logits) == 0:
            raise ValueError(expected("logits", "of shape (N, k), N >= 1", tuple(logits.shape)))
        logits = self.before(logits)
        top = logits.double().amax(1, keepdim=True)
        if not bool(top.isfinite().all()):
            raise ValueError(
                expected("logits", "without NaN or inf, and in each row a number", top[~top.isfinite()][0].item())
            )
        check_labels(target, logits.shape[1])
        if len(target) != len(logits):
            raise ValueError(expected("target", f"of shape ({len(logits)},), to match `logits`", tuple(target.shape)))
        target = target.long()
        f = logits.double() - top  # no sum below loses digits to a common shift
        largest = -float(torch.where(f > -math.inf, f, 0).min())
        if largest > torch.finfo(torch.float32).max:
            raise ValueError(expected("logits", "no farther apart than float32 reaches", largest))
        if largest == 0 or self._slope(f, target, 2.0**-STEPS / largest) >= 0:
            self.temperature.fill_(math.inf)
            return self
        high = 2.0**-STEPS / largest
        for _ in range(2 * STEPS):
            if self._slope(f, target, high) >= 0:
                break
            high *= 2
        low = high / 2
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._slope(f, target, middle) >= 0 else (middle, high)
        self.temperature.fill_(1 / high)
        return self

    def _slope(self, f: Tensor, target: Tensor, inverse: float) -> float:
        """Return the derivative of the mean loss in the inverse temperature; it never decreases as `inverse` grows."""
        p = worst_case_probs(inverse * f, beta=self.link.beta)
        p[torch.arange(len(p), device=p.device), target] -= 1
        return float((p * torch.where(f > -math.inf, f, 0)).sum(1).mean())


def _matched(criterion: nn.Module) -> tuple[nn.Module, MinimaxLink]:
    """Return the module that a loss applies to logits before its link, and the link.

    A constant factor of the logits is dropped, since the fitted temperature replaces it.
    """
    check_loss("criterion", criterion)
    link: nn.Module = link_of(criterion)
    before: nn.Module = nn.Identity()
    if isinstance(link, nn.Sequential):  # of a loss that clips its logits
        before, link = link[:-1], link[-1]
    elif isinstance(link, ScaledLink):
        link = link.link
    if not isinstance(link, MinimaxLink):
        what = "a loss whose probabilities are those of mgce.losses.MinimaxLink or softmax"
        raise ValueError(expected("criterion", what, type(criterion).__name__))
    return before, link
