r"""Losses made of losses: a weighted sum, a loss of clipped logits, a loss of probabilities that went through noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mgce import _validation
from mgce._validation import expected
from mgce.losses.arguments import HALF_TYPES, check_weight, class_dim, result_dtype
from mgce.losses.modules import LinearMGCELoss, MinimaxLink
from mgce.numerics import exponential
from mgce.numerics.link import worst_case_probs

# A product of probabilities that float64 rounds to 0 is at most 1e-308, 1e-18 of this.
LEAST_MIXED = 1e-290
LARGEST_DELTA = 1e30  # well below the largest number of float32, so that the length it gives is above 0
# Losses with a linear head of their own: they take features. PyTorch has one since 2.13.
HEADS = (LinearMGCELoss, getattr(nn, "LinearCrossEntropyLoss", LinearMGCELoss))


class SumLoss(nn.Module):
    r"""A weighted sum of losses, as NCE + RCE and all active-passive losses are.

    .. math:: \ell(f, y) = \sum_i w_i \ell_i(f, y)

    Bounded, symmetric or convex if each loss of positive weight is (and with luck otherwise: cross-entropy plus
    :math:`\epsilon` MAE is convex for :math:`|\epsilon| \le 1`). Each loss has its own class weights: give all the
    same.

    Args:
        losses: modules that take logits and targets; those that say their `reduction`, `ignore_index` or `dim` have to
            have the same.
        weights: a finite number for each, one of them not 0. A loss of weight 0 is not computed. Half types are summed
            in float32, as :class:`mgce.LogitScale` has it.

    Raises:
        TypeError, ValueError: if there is no loss, not a weight for each, all are 0, or the losses differ as above.

    Example:
        >>> from mgce import NCELoss, RCELoss
        >>> criterion = SumLoss([NCELoss(), RCELoss()], [1.0, 10.0])
        >>> criterion(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(68.1404)

    Reference: Ma et al., Normalized loss functions for deep learning with noisy labels, 2020.
    """

    def __init__(self, losses: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        given: dict[str, Any] = {"losses": losses, "weights": weights}
        for name, values in given.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise TypeError(expected(name, "a sequence", values))
        losses, weights = list(losses), list(weights)
        if not losses or len(losses) != len(weights):
            raise ValueError(expected("weights", f"one number for each of {len(losses)} losses", weights))
        for i, (loss, weight) in enumerate(zip(losses, weights, strict=True)):
            check_loss(f"losses[{i}]", loss)
            _validation.check_number(f"weights[{i}]", weight, -math.inf)
        if not any(weights):
            raise ValueError(expected("weights", "not all 0", weights))
        _check_alike([loss for loss, weight in zip(losses, weights, strict=True) if weight])
        self.losses = nn.ModuleList(losses)
        self.weights = tuple(map(float, weights))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the sum for logits and targets."""
        return in_float32(self, self._sum, input, target)

    def _sum(self, input: Tensor, target: Tensor) -> Tensor:
        terms = [w * loss(input, target) for w, loss in zip(self.weights, self.losses, strict=True) if w != 0]
        return torch.stack(terms).sum(0)

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: that of the first loss whose weight is not 0."""
        return link_of(next(self.counted()))

    def counted(self) -> Iterator[nn.Module]:
        """Give the losses whose weight is not 0."""
        return (loss for weight, loss in zip(self.weights, self.losses, strict=True) if weight != 0)

    def extra_repr(self) -> str:
        """Show the weights."""
        return f"weights={self.weights}"


def clip_logits(logits: Tensor, *, delta: float = 1.0, dim: int = -1) -> Tensor:
    r"""Shorten rows of logits to the length 1 / delta where they are longer.

    .. math:: f \min\Big(1, \frac{1}{\delta \lVert f \rVert_2}\Big)

    Args:
        logits: f, any shape with k classes along `dim`; -inf masks a class, and does not count for the length. Half
            types are computed in float32.
        delta: above 0, and at most 1e30.
        dim: dimension of the classes.

    Returns:
        The clipped logits, of the shape and the dtype of `logits`.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`, `delta` in place of
            `beta`.

    Example:
        >>> clip_logits(torch.tensor([3.0, 4.0]), delta=1.0)
        tensor([0.6000, 0.8000])

    Reference: Wei et al., Mitigating memorization of noisy labels by clipping the model prediction, 2023.
    """
    _validation.check_number("delta", delta, 0, LARGEST_DELTA, above=True)
    _validation.check_logits(logits, dim)
    x = logits.float() if logits.dtype in HALF_TYPES else logits
    on = x != -torch.inf
    kept = torch.where(on, x, 0)
    # Divided by the largest, which is a constant to the derivative: the squares of large logits would be infinite.
    largest = kept.detach().abs().amax(dim, keepdim=True)
    unit = kept / torch.where(largest == 0, 1, largest)
    squared = unit.square().sum(dim, keepdim=True)
    length = torch.where(squared == 0, 1, squared).sqrt() * delta
    short = largest * length <= 1  # not where there is a NaN, which has to come through
    # Where it is not taken nothing is divided: a derivative of 0 / delta^2 would be NaN.
    return torch.where(on, torch.where(short, kept, unit / torch.where(short, 1, length)), x).to(logits.dtype)


class ClippedLogits(nn.Module):
    """`clip_logits` as a module, over the dimension where the losses have the classes."""

    def __init__(self, delta: float = 1.0, dim: int | None = None) -> None:
        super().__init__()
        _validation.check_number("delta", delta, 0, LARGEST_DELTA, above=True)
        self.delta = delta
        self.dim = dim

    def forward(self, logits: Tensor) -> Tensor:
        """Clip the rows of logits."""
        return clip_logits(logits, delta=self.delta, dim=_dim(self.dim, logits))

    def extra_repr(self) -> str:
        """Show the hyperparameter."""
        return f"delta={self.delta:g}"


class LogitClip(nn.Module):
    r"""Any loss, of logits clipped to the length 1 / delta.

    .. math:: \ell\Big(f \min\Big(1, \frac{1}{\delta \lVert f \rVert_2}\Big), y\Big)

    Bounded, whatever the loss: cross-entropy stays below :math:`\log(1 + (k - 1) e^{\sqrt 2 / \delta})`. Symmetric if
    the loss is; not convex. Probabilities, too, are those of the clipped logits: `link` clips first.

    Args:
        loss: a module that takes logits and targets. Half types are clipped in float32, as :class:`mgce.LogitScale`
            has it.
        delta: above 0, and at most 1e30. 1 is published for CIFAR-10 with up to 40 % symmetric noise, 1.5 for more, 2.5
            for asymmetric.

    Raises:
        TypeError, ValueError: if `delta` is not one of those above.

    Example:
        >>> LogitClip(torch.nn.CrossEntropyLoss())(torch.tensor([[3.0, 4.0]]), torch.tensor([0]))
        tensor(0.7981)

    Reference: Wei et al., Mitigating memorization of noisy labels by clipping the model prediction, 2023.
    """

    def __init__(self, loss: nn.Module, delta: float = 1.0) -> None:
        super().__init__()
        check_loss("loss", loss)
        self.clip = ClippedLogits(delta, dim_of(loss))
        self.loss = loss

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the clipped logits."""
        _dim(self.clip.dim, input)
        return in_float32(self, lambda logits, target: self.loss(self.clip(logits), target), input, target)

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: those of the clipped logits."""
        return nn.Sequential(self.clip, link_of(self.loss))


def forward_corrected_logits(logits: Tensor, transition: Tensor, *, beta: float = math.inf, dim: int = -1) -> Tensor:
    r"""Compute logits whose probabilities are those of the labels after noise.

    .. math:: \mathrm{link}(f') = p(f) T

    with p the softmax at beta = inf, where f' is log(p T), and below it the worst-case probabilities of MGCE, which
    estimate the distribution of the labels as softmax does for cross-entropy. So the loss of f' sees the labels as
    they are observed, and p estimates those before the noise. It takes a matrix product on the CPU; on a GPU, compiled,
    under the transforms of `torch.func`, and where a label is all but impossible, below 1e-290, k^2 numbers a row.

    f' has the small probabilities to the power 1 / (beta - 1). Near beta = 1 these are lost to rounding: the loss of f'
    keeps its digits, but in float32 its link is p T within .3 only at beta = 1.05, and within 1e-6 at 1.4.

    Args:
        logits: f, any shape with k classes along `dim`; -inf masks a class, whose label may still come by noise. Half
            types are computed in float32.
        transition: T, shape (k, k), rows that sum to one: T[i, j] is the probability that class i is labelled j, as
            :mod:`mgce.noise` has it.
        beta: in (1, inf], that of the loss; at 1 the probabilities do not determine logits.
        dim: dimension of the classes.

    Returns:
        f', of the shape and the dtype of `logits`; -inf where no class leads to a label (-beta, where beta is finite).

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`; ValueError if `beta` is
            1, or `transition` not one of those above.

    Example:
        >>> T = torch.tensor([[0.8, 0.2], [0.2, 0.8]])
        >>> forward_corrected_logits(torch.tensor([50.0, 0.0]), T).exp()
        tensor([0.8000, 0.2000])

    Reference: Patrini et al., Making deep neural networks robust to label noise: a loss correction approach, 2017.
    """
    beta = _correctable(beta)
    _validation.check_logits(logits, dim)
    k = logits.shape[dim]
    _check_transition(transition)
    if len(transition) != k:
        raise ValueError(
            expected("transition", f"of shape ({k}, {k}), one row for each class", tuple(transition.shape))
        )
    x = (logits.float() if logits.dtype in HALF_TYPES else logits).movedim(dim, -1)
    log_p = F.log_softmax(x, -1) if beta == math.inf else _log(worst_case_probs(x, beta=beta))
    mixed = _log_mixture(log_p, transition)
    if beta != math.inf:
        # The inverse of MGCE's link: h = p^alpha, normalized, and f' = beta (h^(1 / beta) - 1), whose phi is 0.
        mixed = beta * exponential.expm1(F.log_softmax(beta / (beta - 1) * mixed, -1) / beta)
    return mixed.movedim(-1, dim).to(logits.dtype)


class ForwardCorrection(nn.Module):
    r"""Any loss of probabilities, of the labels that known noise makes of them.

    .. math:: \ell(f', y) \quad\text{with}\quad \mathrm{link}(f') = p(f) T,
        \qquad \text{for cross-entropy} \quad -\log (p T)_y

    p is softmax, or the worst-case probabilities where the loss is MGCE: those that its minimiser makes equal to the
    distribution of the labels. At T = I the loss is then min(beta, MGCE): nothing pulls at a class that has left the
    support of p, and the nearer beta is to 1 the sooner one has. Bounded if the loss is, and for cross-entropy by the
    largest -log T[i, y]; neither symmetric nor convex in general, even where the loss is. `link` gives the
    probabilities before the noise.

    Args:
        loss: a module that takes logits and targets, for softmax or with MGCE's `link`. Half types are corrected in
            float32, as :class:`mgce.LogitScale` has it.
        transition: T, shape (k, k), rows that sum to one, as :mod:`mgce.noise` makes them; kept as a buffer.

    Raises:
        TypeError, ValueError: if `loss` has another link or beta = 1, or `transition` is not a transition matrix.

    Example:
        >>> criterion = ForwardCorrection(torch.nn.CrossEntropyLoss(), torch.tensor([[0.8, 0.2], [0.2, 0.8]]))
        >>> criterion(torch.tensor([[50.0, 0.0]]), torch.tensor([1]))
        tensor(1.6094)

    Reference: Patrini et al., Making deep neural networks robust to label noise: a loss correction approach, 2017.
    """

    transition: Tensor

    def __init__(self, loss: nn.Module, transition: Tensor) -> None:
        super().__init__()
        check_loss("loss", loss)
        link = link_of(loss)
        if not isinstance(link, MinimaxLink):
            raise ValueError(expected("loss", "a loss of softmax, or of MGCE's link", type(loss).__name__))
        _correctable(link.beta)
        for part in loss.modules():
            links = [link_of(one) for one in part.counted()] if isinstance(part, SumLoss) else []
            if any(not isinstance(one, MinimaxLink) or one.beta != link.beta for one in links):
                raise ValueError(expected("loss", "a sum of losses with one link", links))
        _check_transition(transition)
        self.loss = loss
        self.register_buffer("transition", transition)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the corrected logits."""
        dim = check_input(self.loss, input)
        beta = _correctable(self.link.beta)

        def corrected(logits: Tensor, target: Tensor) -> Tensor:
            mixed = forward_corrected_logits(logits, self.transition, beta=beta, dim=dim)
            loss: Tensor = self.loss(mixed, target)
            return loss

        return in_float32(self.loss, corrected, input, target)

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits into the probabilities of the classes before the noise."""
        link = link_of(self.loss)
        assert isinstance(link, MinimaxLink)  # as `__init__` checks
        return MinimaxLink(beta=link.beta, dim=link.dim, output="worst_case")


def check_loss(name: str, loss: object) -> None:
    """Require a module that takes logits, and not the input of a linear head that it has."""
    if not isinstance(loss, nn.Module):
        raise TypeError(expected(name, "a module", loss))
    for part in loss.modules():
        if isinstance(part, HEADS):
            raise TypeError(expected(name, "a loss of logits, without a linear head", type(part).__name__))


def weight_of(loss: nn.Module) -> Tensor | None:
    """Give the class weights of a loss, or of one inside it."""
    weights = (getattr(part, "weight", None) for part in loss.modules() if hasattr(part, "reduction"))
    return next((weight for weight in weights if isinstance(weight, Tensor)), None)


def dim_of(loss: nn.Module) -> int | None:
    """Give the dimension of the classes that a loss, or one inside it, was given; None is where losses have it."""
    return next((dim for part in loss.modules() if isinstance(dim := getattr(part, "dim", None), int)), None)


def in_float32(loss: nn.Module, function: Callable[[Tensor, Tensor], Tensor], input: Tensor, target: Tensor) -> Tensor:
    """Compute a function of logits and targets in float32 where these are of a half type, and give the loss as that.

    Not where the loss has class weights, or other tensors, of a half type: logits have to match those.
    """
    if not isinstance(input, Tensor) or input.dtype not in HALF_TYPES:
        return function(input, target)
    own = (tensor.dtype for tensors in (loss.parameters(), loss.buffers()) for tensor in tensors)
    if any(dtype in HALF_TYPES for dtype in own):
        return function(input, target)
    weight = weight_of(loss)
    if weight is not None and isinstance(target, Tensor) and target.shape != input.shape:
        check_weight(weight, len(weight), input)  # which logits of float32 would match
    return function(input.float(), target).to(result_dtype(input, target, weight))


def check_input(loss: nn.Module, input: Tensor) -> int:
    """Check the input of a loss, and give the dimension of its classes."""
    return _dim(dim_of(loss), input)


def _dim(dim: int | None, input: Tensor) -> int:
    """Give the dimension of the classes of a loss's input, which is checked here."""
    if dim is None:
        dim = class_dim(input) if isinstance(input, Tensor) else -1
    _validation.check_logits(input, dim, "input")
    return dim


def link_of(loss: nn.Module) -> nn.Module:
    """Give the link of a loss; PyTorch's own have none, and are for softmax."""
    link = getattr(loss, "link", None)
    return link if isinstance(link, nn.Module) else MinimaxLink(beta=math.inf, dim=None)


def _check_alike(losses: Sequence[nn.Module]) -> None:
    """Require losses that say their reduction, ignored index or dimension of classes to say the same.

    What is inside a loss is its own business: it may well take the mean of another's `reduction="none"`. So is an
    attribute of that name that is neither a word nor a number; but None is the dimension 1, save for a single row.
    """
    for name in ("reduction", "ignore_index", "dim"):
        given = [getattr(loss, name) for loss in losses if hasattr(loss, name)]
        meant = (1 if name == "dim" and value is None else value for value in given)
        if len({value for value in meant if isinstance(value, (str, int))}) > 1:
            raise ValueError(expected("losses", f"losses of one {name}", given))


def _correctable(beta: object) -> float:
    number = _validation.check_beta(beta)
    if isinstance(number, Tensor) or number == 1:
        raise ValueError(expected("beta", "one number above 1, where p determines logits", beta))
    return number if number <= torch.finfo(torch.float32).max else math.inf


def _check_transition(transition: Tensor) -> None:
    if not isinstance(transition, Tensor) or transition.ndim != 2 or transition.shape[0] != transition.shape[1]:
        got = tuple(transition.shape) if isinstance(transition, Tensor) else type(transition).__name__
        raise ValueError(expected("transition", "a tensor of shape (k, k)", got))
    if _validation.is_concrete(transition):
        _validation.check_probs(transition, "transition")


def _log(probs: Tensor) -> Tensor:
    """Give the logarithm, whose derivative at 0 is 0 and not infinite: what is -inf stays so."""
    return torch.where(probs == 0, -torch.inf, torch.where(probs == 0, 1, probs).log())


def _log_mixture(log_p: Tensor, transition: Tensor) -> Tensor:
    """Give log(p T), by a matrix product where that keeps all digits, as it does unless a label is all but impossible.

    Else, and where values cannot be read, by k^2 numbers a row.
    """
    if _validation.is_concrete(log_p) and _validation.is_concrete(transition):
        mixed = log_p.double().exp() @ transition.double()
        if (mixed > LEAST_MIXED).all():
            return mixed.log().to(log_p.dtype)
    return _log_sum_exp(log_p.unsqueeze(-1) + _log(transition.to(log_p.dtype)))


def _log_sum_exp(x: Tensor) -> Tensor:
    """Give `x.logsumexp(-2)`, whose derivative in PyTorch is NaN where all are -inf."""
    top = x.detach().amax(-2, keepdim=True)
    top = torch.where(top == -torch.inf, 0, top)
    return _log(torch.exp(x - top).sum(-2)) + top.squeeze(-2)
