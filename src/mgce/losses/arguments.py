"""Check and document the arguments that losses share with cross-entropy; wrong ones raise its classes of errors."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from mgce import _validation
from mgce._messages import expected
from mgce._validation import class_dim
from mgce.kernels.options import LossOptions
from mgce.numerics.root import Beta


def with_class_dim(input: Tensor, target: Tensor, dim: int | None) -> tuple[Tensor, Tensor]:
    """Return views of logits and class probabilities with the classes in dimension 1 (0 for a single row).

    A target of class indices has no dimension of classes and is returned unchanged.
    """
    if dim is None or not isinstance(input, Tensor) or not isinstance(target, Tensor):
        return input, target
    _validation.check_logits(input, dim, "input")
    target = target.movedim(dim, class_dim(target)) if target.shape == input.shape else target
    return input.movedim(dim, class_dim(input)), target


def result_dtype(input: Tensor, target: Tensor, weight: Tensor | None) -> torch.dtype:
    """Return the dtype that the loss of `cross_entropy` would have for these arguments."""
    if input.dtype in _validation.HALF_TYPES and torch.is_autocast_enabled(input.device.type):
        return torch.float32
    if not target.is_floating_point():
        return input.dtype
    dtype = torch.promote_types(input.dtype, target.dtype)
    return dtype if weight is None else torch.promote_types(dtype, weight.dtype)


def check_options(options: LossOptions, beta: Beta) -> Beta:
    """Check beta and the arguments of a loss that are not tensors; return beta as a float or a tensor."""
    beta = _validation.check_beta(beta)
    _validation.check_cross_entropy(options.reduction, options.ignore_index, options.label_smoothing)
    return beta


def check_arguments(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    options: LossOptions,
    beta: Beta = math.inf,
    dim: int | None = None,
) -> Beta:
    """Check all arguments of a loss; return beta as a float or a tensor.

    A loss without beta omits the argument. `dim` is the dimension of the classes; None means that of `cross_entropy`.
    """
    beta = check_options(options, beta)
    dim = _validation.check_logits(input, dim, "input")
    check_targets(input, target, weight, input.shape, dim, options.ignore_index)
    return beta


def check_targets(
    input: Tensor, target: Tensor, weight: Tensor | None, probs: tuple[int, ...], dim: int, ignore_index: int
) -> None:
    """Check the target and the class weights, given the shape of class probabilities and their dimension of classes."""
    rows = probs[:-1] if dim in (-1, len(probs) - 1) else probs[:dim] + probs[dim + 1 :]
    _check_target(target, rows, probs, ignore_index)
    check_device("target", target, input)
    soft = target.shape == probs
    if soft and _validation.is_concrete(target) and target.numel():  # elsewhere no value of a tensor is read
        warn_of_many_concrete_labels(target.detach(), dim)
    if weight is not None:
        check_weight(weight, probs[dim], None if soft else input)
        check_device("weight", weight, input)


def _check_target(target: Tensor, rows: tuple[int, ...], probs: tuple[int, ...], ignore_index: int) -> None:
    """Require `target` to be class indices of the shape `rows` or class probabilities of the shape `probs`."""
    if not isinstance(target, Tensor):
        raise TypeError(expected("target", "a torch.Tensor", type(target).__name__))
    if target.shape == probs:
        if not target.is_floating_point():
            what = "floating point, since it has the shape of class probabilities"
            raise RuntimeError(expected("target", what, target.dtype))
        if ignore_index >= 0:
            what = "negative where `target` holds class probabilities"
            raise RuntimeError(expected("ignore_index", what, ignore_index))
        return
    if target.dtype not in (torch.int64, torch.uint8):
        what = f"class indices of dtype int64 or uint8, or class probabilities of shape {tuple(probs)}"
        raise RuntimeError(expected("target", what, f"{target.dtype} of shape {tuple(target.shape)}"))
    if target.shape == rows or (not rows and target.shape == (1,)):
        return
    sentence = expected("target", f"class indices of shape {tuple(rows)}, to match `input`", tuple(target.shape))
    batches_differ = target.ndim > 0 and target.shape[0] != rows[0] if rows else target.ndim == 1
    raise ValueError(sentence) if batches_differ else RuntimeError(sentence)


def warn_of_many_concrete_labels(target: Tensor, dim: int) -> None:
    """Warn if nonempty class probabilities are all 0 or 1 and some row does not sum to one, as in multi-label data."""
    if target[(0,) * target.ndim].item() not in (0, 1):  # a fraction, as nearly always where labels are soft
        return
    if bool((target.sum(dim) == 1).all()) or not torch.equal(target.square(), target):  # of zeros and ones alone
        return
    warnings.warn(
        "`target` is all zeros and ones, and is taken for class probabilities, but some rows do not sum to one. For "
        "several labels a row, or one logit for yes or no, wrap the loss: `mgce.MultiLabelLoss(loss)`.",
        stacklevel=2,
    )


def check_weight(weight: Tensor, k: int, logits: Tensor | None) -> None:
    """Require `weight` to have one number for each of k classes, and the dtype of `logits` unless `logits` is None."""
    _validation.check_class_weight(weight)
    if weight.shape != (k,):
        raise RuntimeError(expected("weight", f"one number for each of the {k} classes", tuple(weight.shape)))
    if logits is None or logits.dtype == weight.dtype or torch.is_autocast_enabled(logits.device.type):
        return
    raise RuntimeError(expected("weight", f"of the dtype of `input`, {logits.dtype}", weight.dtype))


def check_device(name: str, tensor: Tensor, input: Tensor) -> None:
    """Require the tensor called `name` to be on the same device as `input`."""
    if tensor.device != input.device:
        raise RuntimeError(expected(name, f"on the device of `input`, {input.device}", str(tensor.device)))


Documented = TypeVar("Documented", bound=Callable[..., object])

PLACE = "<the arguments of cross-entropy>"
_WEIGHT = "weight: a rescaling weight for each class, shape (C)"
_IGNORED = "ignore_index: a class index; rows with this target add nothing to the loss."
_LAST = 'reduction: `"none"`, `"mean"` or `"sum"`.\nlabel_smoothing: in [0, 1].'
OF_FUNCTIONS = f"""\
input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
target: class indices or class probabilities, as for :func:`mgce_loss`.
{_WEIGHT}.
{_IGNORED}
{_LAST}"""
OF_MODULES = f"""\
{_WEIGHT}; a buffer, as in `nn.CrossEntropyLoss`.
size_average: deprecated, see `reduction`.
{_IGNORED}
reduce: deprecated, see `reduction`.
{_LAST}"""


def with_shared_arguments(documented: Documented) -> Documented:
    """Describe the arguments of cross-entropy in the docstring of a loss function or module, in the line `PLACE`."""
    if documented.__doc__:  # there is none under `python -OO`
        shared = OF_MODULES if isinstance(documented, type) else OF_FUNCTIONS
        documented.__doc__ = documented.__doc__.replace(PLACE, textwrap.indent(shared, 8 * " ").lstrip())
    return documented
