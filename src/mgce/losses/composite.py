"""Compute the MGCE loss by plain tensor operations, on any device and under every transform of `torch.func`.

Every kernel must return the same results as this module.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce._validation import class_dim
from mgce.kernels.options import LossArguments, LossOptions, SoftmaxArguments
from mgce.losses.scored import expm1, nll, nll_of_labels, of_class, of_labels, row_weights
from mgce.numerics import root
from mgce.numerics.implicit import solve
from mgce.numerics.root import Beta


def composite_mgce_loss(
    input: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions, beta: Beta
) -> Tensor:
    """Compute the MGCE loss of logits f of shape (C), (N, C) or (N, C, d1, ..., dK), as `nll_loss` of f + phi(f).

    phi(f) is the normalizer: the number that, added to all logits of a row, makes the probabilities of MGCE sum to 1.
    """
    dim = class_dim(input)
    if target.shape != input.shape:  # an ignored row may hold NaN, by which a gradient of 0 would be multiplied
        kept = (target.long() != options.ignore_index).reshape(input.shape[:dim] + input.shape[dim + 1 :])
        input = torch.where(kept.unsqueeze(dim), input, 0)
    x, t, _ = solve(input, beta, dim)
    return nll((x + t.unsqueeze(-1)).movedim(-1, dim), target, weight, options)


def composite_loss_and_grad(
    logits: Tensor,  # (N, C), in float32 or float64
    arguments: LossArguments,  # probabilities have the type of the logits
    want_grad: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Compute the loss and its gradient by explicit formulas, since autograd does not work within an operator.

    For the reduction "none" the gradient is that of the sum of the losses.
    """
    target, weight, options, beta = arguments
    x = logits - logits.amax(-1, keepdim=True)
    t = root.newton(x, beta)
    loss = nll(x + t.unsqueeze(-1), target, weight, options)
    if not want_grad:
        return loss, None
    w, _ = root.powers(x, t, beta)
    q = _target_probs(target, weight, logits, options)
    mass = q.sum(-1, keepdim=True)
    grad = torch.where(mass == 0, -q, w * (mass / w.sum(-1, keepdim=True)) - q)  # ignored rows may hold NaN
    if options.reduction != "mean":
        return loss, grad
    if target.ndim == 2:
        return loss, grad / len(target)
    total = row_weights(target, weight, options.ignore_index).sum()
    return loss, torch.where(total == 0, 0, grad / total)


def _target_probs(target: Tensor, weight: Tensor | None, logits: Tensor, options: LossOptions) -> Tensor:
    """Return the targets as (N, C) class probabilities: smoothed, times the class weights, and 0 in ignored rows."""
    share = options.label_smoothing
    weight = logits.new_ones(logits.shape[1]) if weight is None else weight
    if target.ndim == 2:
        return weight * (target * (1 - share) + share / logits.shape[1])
    kept = (target != options.ignore_index).unsqueeze(1)
    labels = torch.where(kept, target.unsqueeze(1), 0)
    q = kept * (weight * (share / logits.shape[1]))
    return q.scatter_add_(1, labels, torch.where(kept, (1 - share) * of_class(weight, labels), 0))


def composite_softmax_loss(logits: Tensor, arguments: SoftmaxArguments) -> Tensor:
    """Compute `-a log p + b beta (1 - p^(1/beta))` with p the softmax probability of the label, for logits (N, C)."""
    log_p = of_labels(F.log_softmax(logits, 1), arguments.target, arguments.options.ignore_index)
    return loss_of_log_probs(log_p, arguments)


def loss_of_probs(p: Tensor, arguments: SoftmaxArguments) -> Tensor:
    """Compute the loss of :func:`composite_softmax_loss` from p, the labels' probabilities, none of which is near 0."""
    target, weight, options, (a, b, beta) = arguments
    if not b:
        return loss_of_log_probs(p.log(), arguments)
    scores = b * beta * (p ** (1 / beta)) - b * beta
    return nll_of_labels(scores + a * p.log() if a else scores, target, weight, options)


def loss_of_log_probs(log_p: Tensor, arguments: SoftmaxArguments) -> Tensor:
    """Compute the loss of :func:`composite_softmax_loss` from log p, in the shape of the target."""
    target, weight, options, (a, b, beta) = arguments
    scores = b * beta * expm1(log_p / beta) if b else torch.zeros_like(log_p)
    return nll_of_labels(scores + a * log_p if a else scores, target, weight, options)
