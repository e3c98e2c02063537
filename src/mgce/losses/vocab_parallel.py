r"""Compute the MGCE loss in distributed training where each process holds the logits of some of the classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mgce import _validation
from mgce._validation import expected
from mgce.kernels.options import LossOptions
from mgce.losses.arguments import check_options
from mgce.numerics import root
from mgce.numerics.root import DEFAULT_BETA


class _Shard(NamedTuple):
    """The range of classes whose logits a process holds."""

    num_classes: int  # over all processes
    start: int  # index of its first class
    group: Any  # of the processes


def vocab_parallel_mgce_loss(
    local_logits: Tensor,
    target: Tensor,
    *,
    num_classes: int,
    vocab_start: int,
    group: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    beta: float = DEFAULT_BETA,
) -> Tensor:
    r"""Compute the MGCE loss where each process of a group holds the logits of some of the classes.

    .. math:: \ell_\beta(f, y) = -f_y - \varphi_\beta(f), \qquad f = (f^{(1)}, \dots, f^{(R)})

    for R processes. Every process calls this function with the same targets and options. Each process gets the same
    loss, and the gradient :math:`p - e_y` for its own classes, with p the worst-case probabilities and e_y the one-hot
    vector of the label.

    No logits are sent. For each row, the group sums two numbers in each Newton step, and a handful before and after
    the steps. On a CPU the number of steps depends on the rows. On a GPU it is fixed: for up to 2^17 classes 6 steps
    if beta >= 5, 15 at 1.4, 23 at 1. The backward pass sends nothing.

    If the logits are computed from shared features, sum the gradient of the features over the group, as for any
    column-parallel layer.

    Args:
        local_logits: the logits of this process's classes, shape (N, k_local), k_local >= 1, floating point. -inf
            masks a class. Half types are solved in float32.
        target: class indices among all classes, shape (N), int64; the same on every process.
        num_classes: k, the number of classes over all processes.
        vocab_start: index of this process's first class; the shards may differ in size.
        group: the process group; None is the default one.
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        beta: float in [1, inf]; inf is cross-entropy.

    Returns:
        A scalar, or shape (N) for `reduction="none"`, in the dtype of `local_logits`. It can be differentiated once.

    Raises:
        TypeError: if `beta`, `num_classes` or `vocab_start` is not a number.
        ValueError: if one of these is out of its range, `reduction` is not one of the words above, or the batch sizes
            differ.
        RuntimeError: if shapes, dtypes or `label_smoothing` do not fit.
        IndexError: if a class index is out of range (on the CPU).

    Example:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> logits = torch.tensor([[0.5, 0.0, 0.25, -1.0]])
        >>> vocab_parallel_mgce_loss(logits, torch.tensor([2]), num_classes=4, vocab_start=0)
        tensor(0.7747)
        >>> dist.destroy_process_group()

    Reference: paper, equation (19) and Theorem 3.
    """
    options, shard = LossOptions(ignore_index, reduction, label_smoothing), _Shard(num_classes, vocab_start, group)
    check_options(options, beta)
    if not isinstance(beta, (int, float)):
        raise TypeError(expected("beta", "a float in [1, inf]", beta))
    _check(local_logits, target, shard, ignore_index)
    rows: Tensor = _VocabParallelLoss.apply(local_logits, target, shard, options, float(beta))  # type: ignore[no-untyped-call]
    if reduction == "mean":
        return (rows.sum() / (target != ignore_index).sum()).to(local_logits.dtype)
    return (rows if reduction == "none" else rows.sum()).to(local_logits.dtype)


class _VocabParallelLoss(torch.autograd.Function):
    """The loss of each row as an autograd function; the forward pass computes the gradient for the local logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, shard: _Shard, options: LossOptions, beta: float) -> Tensor:
        def reduce(sums: Tensor) -> Tensor:
            return _sum(sums, shard.group)

        k, label_smoothing = shard.num_classes, options.label_smoothing
        x = _shifted(logits.to(torch.promote_types(logits.dtype, torch.float32)), shard.group)
        t = root.newton(x, beta, reduce=reduce, k=k)
        kept = target != options.ignore_index
        own = target - shard.start
        here = kept & (own >= 0) & (own < x.shape[1])
        own = torch.where(here, own, 0).unsqueeze(-1)
        w, _ = root.powers(x, t, beta)
        support, score = reduce(torch.stack([w.sum(-1), torch.where(here, x.gather(1, own).squeeze(-1), 0)]))
        loss = -(score + t)
        grad = w / support.unsqueeze(-1)
        grad.scatter_add_(1, own, (label_smoothing - 1) * here.to(x.dtype).unsqueeze(-1))
        if label_smoothing > 0:
            total = reduce(x.sum(-1))  # -inf where a class is masked, whose loss is inf
            loss = (1 - label_smoothing) * loss - label_smoothing * (total / k + t)
            grad -= label_smoothing / k
        ctx.save_for_backward(grad, kept)
        ctx.dtype = logits.dtype
        return torch.where(kept, loss, 0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("The vocabulary-parallel loss is differentiable once: no graph of its backward pass.")
        grad, kept = ctx.saved_tensors
        # `where`, not a product: the mean over no rows has an infinite gradient, and ignored rows may hold NaN.
        scaled = torch.where(kept.unsqueeze(-1), grad * grad_output.unsqueeze(-1), 0)
        return scaled.to(ctx.dtype), *(None,) * 4


def _sum(parts: Tensor, group: Any) -> Tensor:
    dist.all_reduce(parts, group=group)
    return parts


def _shifted(logits: Tensor, group: Any) -> Tensor:
    """Return the logits of each row minus the largest logit of the row over all processes."""
    top = logits.amax(-1)
    dist.all_reduce(top, dist.ReduceOp.MAX, group)
    return logits - top.unsqueeze(-1)


def _check(local_logits: Tensor, target: Tensor, shard: _Shard, ignore_index: int) -> None:
    num_classes, vocab_start, _ = shard
    _validation.check_logits(local_logits, -1, "local_logits")
    if local_logits.ndim != 2:
        raise RuntimeError(expected("local_logits", "of shape (N, k_local)", tuple(local_logits.shape)))
    _validation.check_count("num_classes", num_classes)
    _validation.check_count("vocab_start", vocab_start, 0)
    if vocab_start + local_logits.shape[1] > num_classes:
        what = f"at most {num_classes - local_logits.shape[1]}, to leave room for this process's classes"
        raise ValueError(expected("vocab_start", what, vocab_start))
    if not isinstance(target, Tensor):
        raise TypeError(expected("target", "a torch.Tensor", type(target).__name__))
    if target.dtype != torch.int64:
        raise RuntimeError(expected("target", "class indices of dtype int64", target.dtype))
    if target.shape != local_logits.shape[:1]:
        what = f"of shape {tuple(local_logits.shape[:1])}, to match `local_logits`"
        raise ValueError(expected("target", what, tuple(target.shape)))
    if _validation.is_concrete(target):
        wrong = (target != ignore_index) & ((target < 0) | (target >= num_classes))
        if bool(wrong.any()):
            raise IndexError(_validation.target_out_of_range(target[wrong][0].item(), num_classes, ignore_index))
