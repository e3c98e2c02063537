"""Define forward correction: a loss of predicted probabilities multiplied by a known noise matrix."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mgce._messages import expected
from mgce._validation import HALF_TYPES, check_beta, check_logits, check_probs, has_float64, is_concrete
from mgce.kernels.options import LossOptions, SoftmaxArguments, SoftmaxTerms
from mgce.link.probs import worst_case_probs
from mgce.losses.arguments import check_arguments, result_dtype
from mgce.losses.composite import loss_of_log_probs, loss_of_probs
from mgce.losses.modules import CE, MGCE, MinimaxLink
from mgce.losses.protocol import link_of, terms_of
from mgce.losses.records import NamedLoss
from mgce.losses.sums import SumLoss
from mgce.losses.wrapping import Precise, Wrapper, check_input, in_float32
from mgce.numerics.root import expm1

# What float64 rounds to 0 in a product of probabilities, about the square of this, is nothing beside it; and the second
# derivative of its logarithm, 1 / LEAST_MIXED^2, is below the largest number of float64.
LEAST_MIXED = math.sqrt(torch.finfo(torch.float64).tiny)
# Where a known T has no smaller entry, the loss of labels is computed from p T, not from logarithms, in half the time.
# No label is then surer than 1 - 1e-4, so that rounding in float32 is below a thousandth of the least loss.
LEAST_KNOWN = 1e-4


def forward_corrected_logits(
    logits: Tensor, transition: Tensor, *, beta: float = math.inf, dim: int | None = None
) -> Tensor:
    r"""Compute logits f' whose probabilities are those of the noisy labels, given a noise matrix T.

    .. math:: \mathrm{link}(f') = p(f) T

    The link is the map from logits to probabilities that belongs to the loss. At beta = inf, p is the softmax of the
    logits f, and f' is log(p T). For smaller beta, p are the worst-case probabilities of MGCE, which estimate the
    distribution of the labels as softmax does for cross-entropy. Train with the loss of f' against the noisy labels.
    Then p estimates the probabilities of the labels before the noise.

    On the CPU the correction costs a matrix product. The correction needs memory for k^2 numbers a row on a GPU, if
    compiled, under the transforms of `torch.func`, or if a label has a probability below 1e-150.

    f' contains small probabilities to the power 1 / (beta - 1), which are rounded to 0 near beta = 1. The loss of f' is
    still accurate, but link(f') is not. In float32, with up to 10 classes and 10 to 60 % symmetric noise, link(f')
    differed from p T by up to 0.6 at beta = 1.05, 0.1 at 1.2, and 4e-4 at 1.4.

    Args:
        logits: f, any shape with k classes along `dim`; -inf masks a class. Noise can still give rows the label of a
            masked class. Half types are computed in float32.
        transition: T, shape (k, k), rows that sum to one: T[i, j] is the probability that class i is labelled j.
            :mod:`mgce.noise` makes such matrices.
        beta: the beta of the loss, in (1, inf]; at 1 the probabilities do not determine logits.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Returns:
        f', with the shape and the dtype of `logits`. The entry of a label that has probability 0 is -beta.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`~mgce.functional.normalizer`; ValueError also if
            `beta` is 1, or if `transition` is not a matrix as above.

    Example:
        >>> T = torch.tensor([[0.8, 0.2], [0.2, 0.8]])
        >>> forward_corrected_logits(torch.tensor([50.0, 0.0]), T).exp()
        tensor([0.8000, 0.2000])

    Reference: Patrini et al., Making deep neural networks robust to label noise: a loss correction approach, 2017.
    """
    beta = _correctable(beta)
    dim = check_logits(logits, dim)
    _check_transition(transition)
    _check_classes(transition, logits.shape[dim])
    return _corrected_logits(logits, transition, beta, dim, 0.0)


def _corrected_logits(logits: Tensor, transition: Tensor, beta: float, dim: int, least: float) -> Tensor:
    """Return the logits of :func:`forward_corrected_logits`, for a matrix whose entries are all at least `least`."""
    x = (logits.float() if logits.dtype in HALF_TYPES else logits).movedim(dim, -1)
    mixed = _log_mixture(x, beta, transition, least)
    if beta != math.inf:
        # The inverse of MGCE's link: h = p^alpha, normalized, and f' = beta (h^(1 / beta) - 1), whose phi is 0.
        mixed = beta * expm1(F.log_softmax(beta / (beta - 1) * mixed, -1) / beta)
    return mixed.movedim(-1, dim).to(logits.dtype)


class ForwardCorrection(Wrapper, Precise):
    r"""Forward correction: apply a loss to the predicted distribution of the noisy labels, given the noise matrix.

    .. math:: \ell(f', y) \quad\text{with}\quad \mathrm{link}(f') = p(f) T,
        \qquad \text{for cross-entropy} \quad -\log (p T)_y

    p is softmax, or, if the loss is MGCE, its worst-case probabilities. The expected loss is least if p is the
    distribution of the labels. `link` turns logits into p, the probabilities of the labels before the noise.

    Against class indices, cross-entropy and GCE need one column of T for each row. A row then costs k operations, not
    k^2. Other losses, label smoothing and class probabilities need the whole matrix.

    With MGCE and T the identity the loss is min(beta, MGCE). A class with p = 0 then has no gradient that could raise
    its p, and p is 0 more often the closer beta is to 1. So a class can disappear from the predictions of all rows:
    check that each class is still predicted.

    The result is bounded if the loss is; with cross-entropy it is at most the largest -log T[i, y]. In general it is
    neither symmetric (its sum over all classes is constant) nor convex, even if the loss is.

    Args:
        loss: a module that takes logits and targets, whose `link` is softmax or that of MGCE. Half types are corrected
            in float32, with the exception described in :class:`mgce.losses.LogitScale`.
        transition: T, shape (k, k), rows that sum to one; a buffer, which keeps its dtype where a network is moved to
            another. :mod:`mgce.noise` makes such matrices.

    Raises:
        TypeError, ValueError: if `loss` has another link or beta = 1, or `transition` is not a transition matrix.

    Example:
        >>> criterion = ForwardCorrection(torch.nn.CrossEntropyLoss(), torch.tensor([[0.8, 0.2], [0.2, 0.8]]))
        >>> criterion(torch.tensor([[50.0, 0.0]]), torch.tensor([1]))
        tensor(1.6094)

    Reference: Patrini et al., Making deep neural networks robust to label noise: a loss correction approach, 2017.
    """

    transition: Tensor
    least = 0.0  # that all entries of T are known to have

    def __init__(self, loss: nn.Module, transition: Tensor) -> None:
        super().__init__(loss)
        link = link_of(loss)
        if not isinstance(link, MinimaxLink):
            raise ValueError(expected("loss", "a loss of softmax, or of MGCE's link", type(loss).__name__))
        _correctable(link.beta)
        for part in loss.modules():
            links = [link_of(one) for one in part.parts()] if isinstance(part, SumLoss) else []
            if any(not isinstance(one, MinimaxLink) or one.beta != link.beta for one in links):
                raise ValueError(expected("loss", "a sum of losses with one link", links))
        _check_transition(transition)
        self.register_buffer("transition", transition)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the forward-corrected logits against noisy labels."""
        dim = check_input(self.loss, input)
        _check_classes(self.transition, input.shape[dim])
        terms = terms_of(self.loss) if is_indices(target) else None
        if terms is not None:
            of_labels = partial(self._of_labels, dim, *terms)
            return in_float32(self.loss, of_labels, input, target)
        beta = _correctable(self.link.beta)

        def corrected(logits: Tensor, target: Tensor) -> Tensor:
            loss: Tensor = self.loss(_corrected_logits(logits, self.transition, beta, dim, self.least), target)
            return loss

        return in_float32(self.loss, corrected, input, target)

    def _of_labels(self, dim: int, loss: Any, terms: SoftmaxTerms, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss without the full product p T: of each row, only the probability of its label is computed."""
        logits = input.movedim(dim, -1)
        options = LossOptions(loss.ignore_index, loss.reduction)
        check_arguments(logits, target, loss.weight, options, dim=-1)
        x = logits.float() if logits.dtype in HALF_TYPES else logits
        target = target.reshape(x.shape[:-1]).long()  # of one row, it may be (1,) too
        rows = target != options.ignore_index
        label = torch.where(rows, target, 0).flatten()
        column = columns(self.transition, label).to(x.dtype).view(x.shape)
        arguments = SoftmaxArguments(target, loss.weight, options, terms)
        if self._least() > LEAST_MIXED:
            p = x.softmax(-1)
            mixed = p * column
            value = loss_of_probs(mixed.sum(-1), arguments)
            self._see(p.detach(), mixed.detach(), label, rows)
        else:
            value = loss_of_log_probs(_log_sum_exp(F.log_softmax(x, -1) + _log(column), -1), arguments)
        return value.to(result_dtype(logits, target, loss.weight))

    def _least(self) -> float:
        """Return a lower bound of the entries of T; 0 if T has small entries, or its values cannot be read here."""
        if self.least > 0 or not is_concrete(self.transition):
            return self.least
        least = float(self.transition.min())
        return least if least >= LEAST_KNOWN else 0.0

    def _see(self, p: Tensor, mixed: Tensor, label: Tensor, rows: Tensor) -> None:
        """Do nothing, since the matrix is known; a subclass learns T from the rows here.

        `mixed` is p times the columns of T of the labels; `rows` says which rows have a label.
        """

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits into the probabilities of the labels before the noise."""
        link = link_of(self.loss)
        assert isinstance(link, MinimaxLink)  # as `__init__` checks
        return MinimaxLink(beta=link.beta, dim=link.dim, output="worst_case")

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities h (for predictions) and p (calibrated) of the labels before the noise."""
        return self.link.both(logits)


def _correctable(beta: object) -> float:
    number = check_beta(beta)
    if isinstance(number, Tensor) or number == 1:
        raise ValueError(expected("beta", "one number above 1, where p determines logits", beta))
    return number if number <= torch.finfo(torch.float32).max else math.inf


def is_indices(target: object) -> bool:
    """Return whether a target is a tensor of class indices."""
    return isinstance(target, Tensor) and not target.is_floating_point()


def columns(transition: Tensor, label: Tensor) -> Tensor:
    """Return T[:, y], the column of T of each label y (n,), shape (n, k)."""
    try:
        return transition.T.index_select(0, label)
    except IndexError:
        k = len(transition)
        wrong = label[(label < 0) | (label >= k)][0].item()
        raise IndexError(expected("target", f"class indices in [0, {k}), or ignored", wrong)) from None


def _check_classes(transition: Tensor, k: int) -> None:
    if len(transition) != k:
        raise ValueError(
            expected("transition", f"of shape ({k}, {k}), one row for each class", tuple(transition.shape))
        )


def _check_transition(transition: Tensor) -> None:
    if not isinstance(transition, Tensor) or transition.ndim != 2 or transition.shape[0] != transition.shape[1]:
        got = tuple(transition.shape) if isinstance(transition, Tensor) else type(transition).__name__
        raise ValueError(expected("transition", "a tensor of shape (k, k)", got))
    if is_concrete(transition):
        check_probs(transition, "transition")


def _log(probs: Tensor) -> Tensor:
    """Return the logarithm of probabilities: -inf at 0, where its derivative is set to 0 instead of infinity."""
    return torch.where(probs == 0, -torch.inf, torch.where(probs == 0, 1, probs).log())


def _log_mixture(x: Tensor, beta: float, transition: Tensor, least: float) -> Tensor:
    """Return log(p T), with p the probabilities of the logits x and T the transition matrix.

    A matrix product computes the result if all entries of p T exceed `LEAST_MIXED`, as they do if those of T do.
    Otherwise a log-sum-exp over k^2 numbers a row computes it. So it does if the least entry of T is not known and
    tensor values cannot be read.
    """
    wide = torch.float64 if has_float64(x.device) else x.dtype
    if beta == math.inf:
        log_p = F.log_softmax(x, -1)
        p = log_p.to(wide).exp()
    else:
        p = worst_case_probs(x, beta=beta, dim=-1)
    if least > LEAST_MIXED:
        return (p.to(wide) @ transition.to(wide)).log().to(x.dtype)
    if is_concrete(p) and is_concrete(transition):
        mixed = p.double() @ transition.double()
        if (mixed > LEAST_MIXED).all():
            return mixed.log().to(x.dtype)
    if beta != math.inf:
        log_p = _log(p)
    return _log_sum_exp(log_p.unsqueeze(-1) + _log(transition.to(x.dtype)), -2)


def _log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """Return `x.logsumexp(dim)`, with derivative 0 where all terms are -inf; PyTorch's own derivative is NaN there."""
    top = x.detach().amax(dim, keepdim=True)
    top = torch.where(top == -torch.inf, 0, top)
    return _log(torch.exp(x - top).sum(dim)) + top.squeeze(dim)


def _corrected(loss: nn.Module, transition: Any) -> ForwardCorrection:
    """Return the forward correction of a loss; the transition matrix may be a tensor, an array or nested lists."""
    try:
        matrix = torch.as_tensor(transition)
    except (TypeError, ValueError, RuntimeError):  # rows of several lengths, or words
        raise ValueError(expected("transition", "a matrix of numbers, (k, k)", transition)) from None
    return ForwardCorrection(loss, matrix)


CE_FORWARD = NamedLoss(
    "ce+forward",
    _corrected,
    r"$-\log (p T)_y$, `transition` = T",
    of=(CE,),
    bounded=True,
    claims={"bounded": "if $T > 0$"},
    source="Patrini et al. 2017",
    recommended=True,
)
MGCE_FORWARD = NamedLoss(
    "mgce+forward",
    _corrected,
    "MGCE of the logits of $p T$, `transition` = T",
    of=(MGCE,),
    bounded=True,
    recommended=True,
)
NAMED = (CE_FORWARD, MGCE_FORWARD)
