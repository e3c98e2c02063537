r"""A loss that leaves out, of the rows of each label, those that cost most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mgce import _validation
from mgce._validation import expected
from mgce.losses.base import OF_LOSSES_INSIDE, python_number
from mgce.losses.modules import CE, MGCE, NEAR_MAE
from mgce.losses.named import NamedLoss
from mgce.losses.nll import of_class
from mgce.losses.protocol import IGNORED, UNSAID, said, weight_of
from mgce.losses.wrapping import Wrapper, check_input

# The share of rows below a quantile of 256 losses is right to 3 points, one standard error at 40 %. In one run on
# MNIST with 200 rows of a class, 64 ended three points below.
WINDOW = 256
LARGEST_BUFFER = 10**10  # numbers, 40 GB
# Shares are stored as multiples of 2^-SHARE_BITS. Then int64 holds their product with 2^27 rows (128 images of 1024 x
# 1024), and no device needs float64. Of a million rows, the share is right to 2e-5 rows.
SHARE_BITS = 36


class RecentLosses(nn.Module):
    r"""The last losses of the rows of each label, and which rows are below their quantile.

    Args:
        trim: by label, the share of its rows to leave out, in [0, 1); rows of no such label are not taken up.
        window: how many losses are kept of each label.

    Attributes:
        losses: a buffer (labels + 1, window + 1), inf where there was none yet; its last row and column take what is
            not to be kept.
        count: how many losses there were of each label, a buffer (labels + 1,).
    """

    losses: Tensor
    count: Tensor
    share: Tensor  # of each label, the share of rows to leave out, in units of 2^-SHARE_BITS

    def __init__(self, trim: Sequence[float], window: int) -> None:
        super().__init__()
        self._trim, self.labels, self.window = tuple(trim), len(trim), window
        self.register_buffer("losses", torch.full((self.labels + 1, window + 1), torch.inf))
        self.register_buffer("count", torch.zeros(self.labels + 1, dtype=torch.int64))
        self.register_buffer("share", self._share(), persistent=False)

    @property
    def trim(self) -> tuple[float, ...]:
        """By label, the share of its rows to leave out."""
        return self._trim

    @trim.setter
    def trim(self, trim: Sequence[float]) -> None:
        self._trim = tuple(trim)
        self.share = self._share()

    def reset_parameters(self) -> None:
        """Forget all losses; for who makes modules without data, on the device `meta`, and fills them in later."""
        self.losses.fill_(torch.inf)
        self.count.zero_()
        self.share = self._share()

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.share = self._share()  # not in the state dict, and without values in a module made on `meta`

    def _share(self) -> Tensor:
        """Compute the buffer `share`, on the device of the other buffers."""
        # Rounded up, so that .29 leaves out 29 of 100 rows: .29 * 100 is slightly below 29 in floating point.
        return torch.tensor([math.ceil(share * 2**SHARE_BITS) for share in self._trim], device="cpu").to(
            self.count.device
        )

    def _place(self, count: Tensor) -> Tensor:
        """Return the index of the largest loss to keep among `count` sorted losses of each label, shape (labels,)."""
        return (count - (count * self.share >> SHARE_BITS) - 1).clamp(min=0)

    def forward(self, losses: Tensor, target: Tensor) -> Tensor:
        """Take up the losses (n,) of rows labelled `target` (n,); give which rows to keep (n,)."""
        known = losses.detach().to(self.losses.dtype)
        # A row without a label, or of loss NaN, is not taken up, and kept: NaN is to be seen.
        label = torch.where((target >= 0) & (target < self.labels) & ~known.isnan(), target, self.labels)
        order = label.argsort(stable=True)
        sorted_label = label[order]
        new = torch.zeros_like(self.count).scatter_add_(0, label, torch.ones_like(label))
        place = torch.arange(len(label), device=label.device) - (new.cumsum(0) - new)[sorted_label]
        before, rows = self.count[sorted_label], new[sorted_label]
        slot = (before + place) % self.window
        # Of a label with more rows than the window so many stay, evenly spaced: the last are neighbours in an image.
        spaced = (before + rows + place * self.window // rows) % self.window
        spaced = torch.where(place * self.window % rows < self.window, spaced, self.window)
        slot = torch.where(rows > self.window, spaced, slot)
        self.losses[sorted_label, slot] = known[order]
        self.count += new
        place = self._place(self.count[:-1].clamp(max=self.window))
        quantile = self.losses[:-1, :-1].sort(1).values.gather(1, place[:, None])[:, 0]
        if len(label) > self.window:  # only then can a label have more rows than the window holds
            quantile = torch.where(new[:-1] > self.window, self._quantile_of(known, label, new), quantile)
        quantile = torch.cat([quantile, quantile.new_full((1,), torch.inf)])
        return ~(known > quantile[label])

    def _quantile_of(self, known: Tensor, label: Tensor, rows: Tensor) -> Tensor:
        """Return the quantile of each label (labels,), computed only from the losses of this call (n,)."""
        order = known.argsort()
        order = order[label[order].argsort(stable=True)]
        first = rows.cumsum(0) - rows
        place = first[:-1] + self._place(rows[:-1])
        return known[order][place.clamp(max=len(known) - 1)]  # the index of a label without rows is not used


def check_trim(name: str, share: Any) -> None:
    """Require `share` to be a share of the rows of a label that can be left out, in [0, 1)."""
    _validation.check_fraction(name, share)
    if share == 1:
        raise ValueError(expected(name, "below 1, so that some rows of a label are learnt", share))


def _shares(trim: float | Sequence[float] | Tensor, num_classes: int) -> list[float]:
    """Return the share of each label, from one for all or one for each."""
    given: Any = trim.tolist() if hasattr(trim, "tolist") else trim  # a tensor or an array
    shares: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given] * num_classes
    if len(shares) != num_classes:
        raise ValueError(expected("trim", f"one number, or one for each of {num_classes} classes", trim))
    for label, share in enumerate(shares):
        name = "trim" if shares is not given else f"trim[{label}]"
        check_trim(name, share)
    return [float(share) for share in shares]


class TrimmedLoss(Wrapper):
    r"""Any loss, without the rows of each label that have the largest losses.

    .. math:: \frac{1}{\lvert K \rvert} \sum_{i \in K} \ell(f_i, y_i), \qquad K = \{i : \ell(f_i, y_i) \le q_{y_i}\}

    with :math:`q_c` the quantile of level 1 - trim of the last `window` losses of rows labelled c, including this
    call's. If this call has more than `window` such rows, only its losses are used. Of n losses, the trim n largest
    (rounded down) are above the quantile. Rows whose loss equals the quantile are kept.
    Wrong labels cost most as long as the network has not learnt them by heart, and rows left out it does not learn.
    There need be no epochs without trimming; that each label has a quantile of its own keeps a class from being left
    out as a whole. Of a label of which there were fewer than 1 / trim rows, none is left out.

    Choose `trim` as the share of wrong labels, or by the accuracy on validation rows with labels as noisy, 0 among the
    candidates: too large a share leaves out the hardest right labels, and of too small a one a network that can
    memorises the wrong labels that are left. Where classes are unequal give each label its own share: of two classes
    with truly 24 and 76 % of the rows, 40 % of each labelled as the other, 68 % of the rows labelled as the first are
    wrong, and 17 % of the others: :func:`mgce.noise.inverse_noise_matrix`.

    In `train` mode every call takes up its rows, also without gradients; in `eval` mode all rows count, and nothing is
    taken up. The losses are kept in a buffer, which is part of the `state_dict`, so that training goes on as it was;
    the transforms of `torch.func` cannot write to it, and under `torch.utils.checkpoint`, which computes twice, rows
    would be taken up twice: leave the loss outside of it. Processes that train together have buffers of their own.

    Args:
        loss: a module that takes logits and class indices, with `reduction="none"`.
        trim: share of the rows of each label to leave out, in [0, 1); one for all labels, or one for each, (k,).
        num_classes: number of classes k.
        window: how many losses are kept of each label, at least 1: the buffer has (k + 1) (window + 1) numbers, which
            a call sorts. If a batch has more rows of a label, `window` evenly spaced ones are stored.
        reduction: `"mean"` over the rows kept, by their class weights as in cross-entropy, and 0 if none is kept;
            `"sum"`; or `"none"`, which is 0 for those left out.
        ignore_index: an index target that adds nothing and is not counted, beside that of `loss`; None is that alone.

    Shape:
        As `loss` has it, with class indices as targets.

    Raises:
        TypeError, ValueError: if an argument is not one of those above, `loss` gives not one number for each target, or
            `input` has not `num_classes` classes.

    Example:
        >>> criterion = TrimmedLoss(torch.nn.CrossEntropyLoss(reduction="none"), trim=0.5, num_classes=2)
        >>> logits = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
        >>> criterion(logits, torch.tensor([0, 0]))
        tensor(0.0486)
        >>> criterion.eval()(logits, torch.tensor([0, 0]))
        tensor(1.5486)

    Reference: Shen and Sanghavi, Learning with bad training data via iterative trimmed loss minimization, 2019, where
    the rows are chosen once an epoch.
    """

    inside = OF_LOSSES_INSIDE - {"ignore_index", "reduction"}

    def __init__(
        self,
        loss: nn.Module,
        trim: float | Sequence[float] | Tensor,
        num_classes: int,
        *,
        window: int = WINDOW,
        reduction: str = "mean",
        ignore_index: int | None = None,
    ) -> None:
        super().__init__(loss)
        for name, value in (("num_classes", num_classes), ("window", window)):
            _validation.check_count(name, value)
        if (num_classes + 1) * (window + 1) > LARGEST_BUFFER:
            what = f"such that (num_classes + 1) (window + 1) is at most {LARGEST_BUFFER:.0e}"
            raise ValueError(expected("window", what, f"window={window} and num_classes={num_classes}"))
        shares = _shares(trim, num_classes)
        _validation.check_choice("reduction", reduction, _validation.REDUCTIONS)
        parts = [part for part in loss.modules() if said(part, "reduction") is not UNSAID]
        for part in parts:
            if part.reduction != "none":
                raise ValueError(expected("loss", "a loss with reduction='none'", part.reduction))
        ignored: set[Any] = {said(part, "ignore_index") for part in parts} - {UNSAID} or {IGNORED}
        if len(ignored) > 1:
            raise ValueError(expected("loss", "made of losses with one ignore_index", sorted(ignored)))
        (self._ignored_inside,) = ignored
        if ignore_index is None:
            self.ignore_index = self._ignored_inside
        else:
            _validation.check_ignore_index(ignore_index)
            self.ignore_index = python_number(ignore_index)
        self.reduction = reduction
        self.recent = RecentLosses(shares, int(window))

    @property
    def trim(self) -> tuple[float, ...]:
        """By label, the share of its rows to leave out; set it to one for all labels or one for each, (k,)."""
        return self.recent.trim

    @trim.setter
    def trim(self, trim: float | Sequence[float] | Tensor) -> None:
        self.recent.trim = tuple(_shares(trim, self.recent.labels))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against class indices."""
        dim = check_input(self.loss, input)
        target = self._marked(target)
        losses: Tensor = self.loss(input, target)
        if target.is_floating_point():
            raise TypeError(expected("target", "class indices, by which rows are trimmed", target.dtype))
        shape = target.shape if input.ndim > 1 else target.shape[1:]  # of one row, the target may be () or (1,)
        if losses.shape != shape:
            what = f"one number for each target, {tuple(shape)}"
            raise ValueError(expected("loss", what, tuple(losses.shape)))
        self.check_classes(input.shape[dim])
        label = target.flatten().long()
        rows = torch.ne(label, self._ignored_inside)
        kept = rows & self.recent(losses.flatten(), torch.where(rows, label, -1)) if self.training else rows
        losses = torch.where(kept.view_as(losses), losses, 0)
        if self.reduction == "none":
            return losses
        total = losses.sum(dtype=torch.promote_types(losses.dtype, torch.float32))  # half types would overflow
        if self.reduction == "mean":
            # Of a few rows it may be that none is kept: 0, and no step. Without rows it is 0 / 0, as of cross-entropy.
            total = total / self._weight_of(label, kept, rows)
        return total.to(losses.dtype)

    def _marked(self, target: Tensor) -> Tensor:
        """Return the target with the loss's own `ignore_index` in the rows that this one's marks."""
        if self.ignore_index == self._ignored_inside or not isinstance(target, Tensor) or target.is_floating_point():
            return target
        return torch.where(target == self.ignore_index, self._ignored_inside, target.long())

    def check_classes(self, num_classes: int) -> None:
        """Require that there are so many classes."""
        if num_classes != self.recent.labels:
            raise ValueError(
                expected("num_classes", f"{num_classes}, the number of classes of `input`", self.recent.labels)
            )

    def _weight_of(self, label: Tensor, kept: Tensor, rows: Tensor) -> Tensor:
        """Return what the mean divides by: the sum of the class weights of the rows kept, or their number."""
        weight = weight_of(self.loss)
        if weight is None:
            return torch.maximum(kept.sum(), rows.any())
        weight = weight.to(torch.promote_types(weight.dtype, torch.float32))  # half types count to 65504 or 256
        total = torch.where(kept, of_class(weight, torch.where(kept, label, 0)), 0).sum()
        return torch.where(kept.any() | ~rows.any(), total, 1)

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction; the loss inside keeps `"none"`."""
        self.reduction = reduction

    def extra_repr(self) -> str:
        """Show the hyperparameters."""
        shares = sorted(set(self.recent.trim))
        trim = f"{shares[0]:g}" if len(shares) == 1 else f"{shares[0]:g} to {shares[-1]:g}"
        return f"trim={trim}, num_classes={self.recent.labels}, window={self.recent.window}"


def _trimmed(loss: NamedLoss, order: int, betas: tuple[float, ...] = ()) -> NamedLoss:
    """Describe a loss of the rows that cost least."""
    formula = (
        f"{loss.name.upper()}; 0 where it is above the quantile $1 - \\text{{trim}}$ of the last `window` losses of "
        "rows of the same label (of the losses in the batch, if these are more than `window`)"
    )
    source = "a variant of ours, as Shen, Sanghavi 2019 do once an epoch"
    return NamedLoss(f"{loss.name}+trim", TrimmedLoss, formula, order=order, of=(loss,), betas=betas, source=source)


NAMED = (_trimmed(MGCE, 33, betas=(NEAR_MAE,)), _trimmed(CE, 34))
