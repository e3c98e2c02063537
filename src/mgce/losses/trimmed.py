r"""Define the trimmed loss, which leaves out the rows with the largest losses of each label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mgce._messages import check_choice, check_count, check_fraction, expected
from mgce._validation import REDUCTIONS, check_ignore_index
from mgce.kernels import cpu, dispatch
from mgce.losses.base import OF_LOSSES_INSIDE, python_number
from mgce.losses.modules import CE, MGCE
from mgce.losses.protocol import weight_of
from mgce.losses.records import NamedLoss
from mgce.losses.wrapping import LARGEST_BUFFER, Remembering, Wrapper, check_input, divisor, ignored_of_unreduced

# The share of rows below a quantile of 256 losses is right to 3 points, one standard error at 40 %. In one run on
# MNIST with 200 rows of a class, 64 ended three points below.
WINDOW = 256
KERNEL_TYPES = (torch.float32, torch.float64)
NO_LABEL = torch.iinfo(torch.int64).min  # the `ignore_index` where no row is ignored
# Shares are stored as multiples of 2^-SHARE_BITS. Then int64 holds their product with 2^27 rows (128 images of 1024 x
# 1024), and no device needs float64. Of a million rows, the share is right to 2e-5 rows.
SHARE_BITS = 36


class RecentLosses(Remembering):
    r"""Store the most recent losses of each label, and find the rows whose loss is not above a quantile of these.

    Args:
        trim: for each label, the fraction of its rows to leave out, in [0, 1). Rows without such a label are kept.
        window: number of losses that are stored for each label.

    Attributes:
        losses: the stored losses, a buffer (labels + 1, window + 1), filled with inf at first. The last row and column
            receive losses that are not to be stored.
        count: number of losses seen so far for each label, a buffer (labels + 1,).
    """

    losses: Tensor
    count: Tensor
    share: Tensor  # of each label, the share of rows to leave out, in units of 2^-SHARE_BITS

    def __init__(self, trim: Sequence[float], window: int) -> None:
        super().__init__()
        self._trim, self.labels, self.window = tuple(trim), len(trim), window
        self.register_buffer("losses", torch.full((self.labels + 1, window + 1), torch.inf, dtype=torch.float32))
        self.register_buffer("count", torch.zeros(self.labels + 1, dtype=torch.int64))
        self.register_buffer("share", self._share(), persistent=False)

    @property
    def trim(self) -> tuple[float, ...]:
        """For each label, the fraction of its rows to leave out."""
        return self._trim

    @trim.setter
    def trim(self, trim: Sequence[float]) -> None:
        self._trim = tuple(trim)
        self.share = self._share()

    def reset_parameters(self) -> None:
        """Discard all stored losses; call this method after giving memory to a module made on the device `meta`."""
        self.losses.fill_(torch.inf)
        self.count.zero_()
        self.left_out.zero_()
        self.share = self._share()

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.share = self._share()  # not in the state dict, and without values in a module made on `meta`

    def _share(self) -> Tensor:
        """Return the buffer `share` on the device of the others: each fraction times 2^SHARE_BITS, rounded up."""
        # Rounded up, so that .29 leaves out 29 of 100 rows: .29 * 100 is slightly below 29 in floating point.
        return torch.tensor([math.ceil(share * 2**SHARE_BITS) for share in self._trim], device="cpu").to(
            self.count.device
        )

    def _place(self, count: Tensor) -> Tensor:
        """Return for each label the index of the largest loss to keep among its `count` losses in ascending order."""
        return (count - (count * self.share >> SHARE_BITS) - 1).clamp(min=0)

    def forward(self, losses: Tensor, target: Tensor) -> Tensor:
        """Store the losses (n,) of rows with labels `target` (n,); return a mask (n,) of the rows to keep."""
        if self.has_kernel(losses, target):
            return self.by_kernel(losses, target)[0]
        known = losses.detach().to(self.losses.dtype)
        # A row without a label, or of loss NaN, is not taken up, and kept: NaN is to be seen.
        label = torch.where((target >= 0) & (target < self.labels), target, self.labels)
        self.left_out += (known.isnan() & (label < self.labels)).sum()
        label = torch.where(known.isnan(), self.labels, label)
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

    def has_kernel(self, losses: Tensor, target: Tensor) -> bool:
        """Return whether the kernel for the CPU can store these losses."""
        return (
            self.losses.dtype in KERNEL_TYPES
            and losses.dtype in KERNEL_TYPES
            and self.losses.is_cpu
            and dispatch.is_plain_on_cpu(losses, target)
        )

    def by_kernel(self, losses: Tensor, target: Tensor, ignored: int = NO_LABEL) -> tuple[Tensor, int | None]:
        """Store losses by the kernel; return a mask of the rows to keep, and their number.

        Rows with the label `ignored` are neither stored, kept nor counted. If there are other rows, the number is at
        least 1. The number is None if a row to leave out has an infinite loss, whose product with 0 is not 0.
        """
        known = losses.detach().to(self.losses.dtype)
        if known.sum().isnan():
            self.left_out += (known.isnan() & (target != ignored) & (target >= 0) & (target < self.labels)).sum()
        return cpu.rows_to_keep(known, target, ignored, self.losses, self.count, self.share)

    def _quantile_of(self, known: Tensor, label: Tensor, rows: Tensor) -> Tensor:
        """Return the quantile for each label (labels,), computed only from the losses of this call (n,)."""
        order = known.argsort()
        order = order[label[order].argsort(stable=True)]
        first = rows.cumsum(0) - rows
        place = first[:-1] + self._place(rows[:-1])
        return known[order][place.clamp(max=len(known) - 1)]  # the index of a label without rows is not used


def check_trim(name: str, share: Any) -> None:
    """Require `share` to be a number in [0, 1): the fraction of the rows of a label that is left out."""
    check_fraction(name, share)
    if share == 1:
        raise ValueError(expected(name, "below 1, so that some rows of a label are learnt", share))


def _shares(trim: float | Sequence[float] | Tensor, num_classes: int) -> list[float]:
    """Return for each label the fraction of rows to leave out, given one number for all labels or one for each."""
    given: Any = trim.tolist() if hasattr(trim, "tolist") else trim  # a tensor or an array
    shares: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given] * num_classes
    if len(shares) != num_classes:
        raise ValueError(expected("trim", f"one number, or one for each of {num_classes} classes", trim))
    for label, share in enumerate(shares):
        name = "trim" if shares is not given else f"trim[{label}]"
        check_trim(name, share)
    return [float(share) for share in shares]


class TrimmedLoss(Wrapper):
    r"""Apply any loss, leaving out the rows with the largest losses of each label.

    .. math:: \frac{1}{\lvert K \rvert} \sum_{i \in K} \ell(f_i, y_i), \qquad K = \{i : \ell(f_i, y_i) \le q_{y_i}\}

    K are the rows that are kept. :math:`q_c` is the quantile of level 1 - trim of the last `window` losses of rows
    labelled c, including the rows of this call. If this call has more than `window` rows labelled c, only their losses
    are used. Of n losses, the floor(trim * n) largest are above the quantile. Rows whose loss equals the quantile are
    kept.

    Rows with wrong labels have the largest losses until the network memorises them. Leaving these rows out prevents
    that. You can trim from the first epoch on. Each label has its own quantile, so no class is left out entirely. As
    long as a label has had fewer than 1 / trim rows, none of its rows is left out.

    Set `trim` to the fraction of wrong labels. If you do not know it, choose the `trim` with the best accuracy on
    validation rows whose labels are equally noisy, and try 0 too. If `trim` is too large, the hardest rows with right
    labels are left out. If it is too small, a large network memorises the wrong labels that remain.

    If the classes have different sizes, give each label its own fraction, computed by
    :func:`mgce.noise.inverse_noise_matrix`. For example, two classes have truly 24 and 76 % of the rows, and 40 % of
    each class are labelled as the other. Then 68 % of the rows labelled as the first class are wrong, and 17 % of the
    rows labelled as the second.

    In `train` mode every call stores the losses of its rows, even without gradients. In `eval` mode all rows are kept
    and nothing is stored. The stored losses are a buffer in the `state_dict`, so training can be resumed. The
    transforms of `torch.func` cannot write to this buffer. `torch.utils.checkpoint` runs the forward pass twice and
    would store rows twice, so do not checkpoint the loss. In distributed training each process has its own buffer.

    Args:
        loss: a module that takes logits and class indices, with `reduction="none"`.
        trim: fraction of the rows of each label to leave out, in [0, 1): one number for all labels, or one for each,
            (k,).
        num_classes: number of classes k.
        window: number of losses stored for each label, at least 1. The buffer has (k + 1) (window + 1) numbers, which
            each call sorts. If a batch has more than `window` rows of a label, `window` evenly spaced ones are stored.
        reduction: `"mean"` over the rows kept, weighted by class as in cross-entropy, and 0 if no row is kept;
            `"sum"`; or `"none"`, which is 0 for the rows left out.
        ignore_index: a target whose rows add nothing and are not counted, beside the `ignore_index` of `loss`. None
            leaves only that of `loss`.

    Shape:
        As for `loss`, with class indices as targets. Rows with an ignored target are neither stored nor counted.

    Raises:
        TypeError, ValueError: if an argument has a type or a value not allowed above, if `loss` does not return one
            number for each target, or if `input` does not have `num_classes` classes.

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
            check_count(name, value)
        if (num_classes + 1) * (window + 1) > LARGEST_BUFFER:
            what = f"such that (num_classes + 1) (window + 1) is at most {LARGEST_BUFFER:.0e}"
            raise ValueError(expected("window", what, f"window={window} and num_classes={num_classes}"))
        shares = _shares(trim, num_classes)
        check_choice("reduction", reduction, REDUCTIONS)
        self._ignored_inside = ignored_of_unreduced(loss)
        if ignore_index is None:
            self.ignore_index = self._ignored_inside
        else:
            check_ignore_index(ignore_index)
            self.ignore_index = python_number(ignore_index)
        self.reduction = reduction
        self.recent = RecentLosses(shares, int(window))

    @property
    def left_out(self) -> Tensor:
        """Number of rows with a label whose loss was NaN: such losses are not stored."""
        return self.recent.left_out

    @property
    def trim(self) -> tuple[float, ...]:
        """For each label, the fraction of its rows to leave out; may be set to one number, or one for each label."""
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
        if self.training and self.recent.has_kernel(losses, label):
            kept, number = self.recent.by_kernel(losses.flatten(), label, self._ignored_inside)
            if number and self.reduction == "mean" and weight_of(self.loss) is None:
                # One step of autograd, where the lines below are three.
                return torch.dot(losses.flatten(), kept.to(losses.dtype) / number)
        else:
            rows = torch.ne(label, self._ignored_inside)
            kept = rows & self.recent(losses.flatten(), torch.where(rows, label, -1)) if self.training else rows
        losses = torch.where(kept.view_as(losses), losses, 0)
        if self.reduction == "none":
            return losses
        total = losses.sum(dtype=torch.promote_types(losses.dtype, torch.float32))  # half types would overflow
        if self.reduction == "mean":
            # Of a few rows it may be that none is kept: 0, and no step. Without rows it is 0 / 0, as of cross-entropy.
            total = total / divisor(self.loss, label, kept, torch.ne(label, self._ignored_inside))
        return total.to(losses.dtype)

    def _marked(self, target: Tensor) -> Tensor:
        """Return the target with this module's `ignore_index` replaced by that of the inner loss."""
        if self.ignore_index == self._ignored_inside or not isinstance(target, Tensor) or target.is_floating_point():
            return target
        return torch.where(target == self.ignore_index, self._ignored_inside, target.long())

    def check_classes(self, num_classes: int) -> None:
        """Require `num_classes` to be the number of classes that the loss was constructed for."""
        if num_classes != self.recent.labels:
            raise ValueError(
                expected("num_classes", f"{num_classes}, the number of classes of `input`", self.recent.labels)
            )

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        shares = sorted(set(self.recent.trim))
        trim = f"{shares[0]:g}" if len(shares) == 1 else f"{shares[0]:g} to {shares[-1]:g}"
        sizes = f"num_classes={self.recent.labels}, window={self.recent.window}"
        return f"trim={trim}, {sizes}{self.recent.said_left_out()}"


def _trimmed(loss: NamedLoss) -> NamedLoss:
    """Describe the trimmed variant of a named loss."""
    formula = (
        f"{loss.name.upper()}; 0 where it is above the quantile $1 - \\text{{trim}}$ of the last `window` losses of "
        "rows of the same label (of the losses in the batch, if these are more than `window`)"
    )
    source = "a variant of ours, as Shen, Sanghavi 2019 do once an epoch"
    return NamedLoss(f"{loss.name}+trim", TrimmedLoss, formula, of=(loss,), source=source, recommended=True)


NAMED = (_trimmed(MGCE), _trimmed(CE))
