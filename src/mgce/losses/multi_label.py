"""Apply a loss for two classes to multi-label data: one logit for each yes-or-no question."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgce._messages import expected
from mgce._validation import check_floating
from mgce.losses.protocol import both_probs, dim_of, link_of
from mgce.losses.wrapping import Wrapper


class MultiLabelLink(nn.Module):
    """Turn each logit into the probability of yes, by the link of a loss for two classes."""

    def __init__(self, link: nn.Module) -> None:
        super().__init__()
        self.link = link

    def forward(self, logits: Tensor) -> Tensor:
        """Map logits to probabilities of the same shape."""
        check_floating(logits, "logits")
        return _of_yes(self.link(_two_classes(logits)), logits)


class MultiLabelLoss(Wrapper):
    r"""Apply any loss to multi-label data: each logit z is one yes-or-no answer, with the class logits 0 and z.

    .. math:: \frac{1}{N K} \sum_{i, j} \ell\big((0, z_{ij}),\, y_{ij}\big)

    for N rows and K questions. Use it instead of `nn.BCEWithLogitsLoss`; around `nn.CrossEntropyLoss` both are equal.
    With one logit for each row, there is no dimension K. Without this class, a loss would treat such targets as class
    probabilities, and the labels of a row would compete.

    This loss is bounded, symmetric (its sum over all classes is constant) or convex in z if the inner loss is, for two
    classes. `link` gives the probability of yes for each logit, with the shape of the logits.

    Args:
        loss: a module that takes logits of two classes, without `dim`. Its class weights, of shape (2,), are those of
            no and yes. The weights 1 and w act as the `pos_weight` w of `nn.BCEWithLogitsLoss`, but for integer targets
            the mean divides by the sum of the weights. A :class:`mgce.TrimmedLoss` trims answers, not rows.

    Shape:
        Logits of any shape. Targets of the same shape: integers or truth values, 0 or 1 or the `ignore_index` of the
        loss for an answer that is not known; or floating point, probabilities of yes.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.

    Example:
        >>> criterion = MultiLabelLoss(torch.nn.CrossEntropyLoss())
        >>> logits, target = torch.tensor([[2.0, -1.0, 0.0]]), torch.tensor([[1, 0, 1]])
        >>> criterion(logits, target), torch.nn.BCEWithLogitsLoss()(logits, target.float())
        (tensor(0.3778), tensor(0.3778))
        >>> from mgce import MGCELoss
        >>> MultiLabelLoss(MGCELoss(beta=1.0)).link(logits)
        tensor([[1.0000, 0.0000, 0.5000]])

    Reference: paper, equation (19), for two classes.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__(loss)
        dim = dim_of(loss)
        if dim is not None:
            raise ValueError(expected("loss", "without `dim`, since each logit is a problem of its own", f"dim={dim}"))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against answers of the same shape."""
        check_floating(input, "input")
        if not isinstance(target, Tensor):
            raise TypeError(expected("target", "a torch.Tensor", type(target).__name__))
        if target.shape != input.shape:
            what = f"of shape {tuple(input.shape)}, one answer for each logit of `input`"
            raise ValueError(expected("target", what, tuple(target.shape)))
        if target.is_floating_point():
            answers = torch.stack([1 - target, target], _dim_of_two(input))
        elif target.is_complex():
            raise TypeError(expected("target", "0 or 1, or probabilities of 1", target.dtype))
        else:
            answers = target.long()
        loss: Tensor = self.loss(_two_classes(input), answers)
        return loss

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into the probabilities of yes."""
        return MultiLabelLink(link_of(self.loss))

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the minimax probability h and the worst-case probability p of yes for each logit."""
        h, p = both_probs(self.loss, _two_classes(logits))
        return _of_yes(h, logits), _of_yes(p, logits)


def _dim_of_two(logits: Tensor) -> int:
    """Return the class dimension of the logits, once each logit was replaced by two."""
    return 1 if logits.ndim else 0


def _two_classes(logits: Tensor) -> Tensor:
    """Return the logits 0 and z along a new dimension, at the place where losses expect the classes."""
    return torch.stack([torch.zeros_like(logits), logits], _dim_of_two(logits))


def _of_yes(probs: Tensor, logits: Tensor) -> Tensor:
    """Return the probabilities of the second of two classes, of the shape of the logits."""
    return probs.select(_dim_of_two(logits), 1)
