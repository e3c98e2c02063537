"""Define forward correction by a noise matrix that is learnt during training."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

from mgce._messages import check_count, expected
from mgce._validation import HALF_TYPES
from mgce.losses.forward import ForwardCorrection, columns, is_indices
from mgce.losses.modules import GCE, GCELoss
from mgce.losses.protocol import ignore_index_of, terms_of
from mgce.losses.records import NamedLoss
from mgce.losses.wrapping import Remembering, check_input


class Learning(NamedTuple):
    """The settings with which the noise matrix T is learnt.

    Attributes:
        beta: beta of the inner loss by default. GCE at 3 is between cross-entropy and GCE at 1.4, its default: p T
            already explains most wrong labels, so less robustness is needed than without T.
            :class:`mgce.MGCEEmbeddingClassifier` corrects with this beta too.
        trust: a row counts with the weight (max p)^4: rows on which the network is unsure say little about the noise.
        start: diagonal of T before the first batch. With 0.8, T more often took classes that lie close together for
            wrong labels: with right labels, networks stopped predicting a half of one class. On images with pair noise
            0.95 costs half a point.
        prior: number of rows with right labels that are added to the counts of each class.
        least: least entry of T. No row could raise an entry of 0 again. With positive entries, p T is at least `least`
            on any device, so that its logarithm needs no other care.
        rows_per_class: rows of the default window for each class. A row of T then has errors of a few points. With four
            times as many rows T lagged behind the network: 81 % of right test rows, not 91 %, on 2,000 images of MNIST
            with 40 % of the labels moved to the next class.
        rows: least number of rows of the default window, chosen by the same trainings.
    """

    beta: float = 3.0
    trust: int = 4
    start: float = 0.95
    prior: float = 1.0
    least: float = 1e-6
    rows_per_class: int = 100
    rows: int = 1000


LEARNING = Learning()


class LearnedForwardCorrection(ForwardCorrection, Remembering):
    r"""Forward correction with a noise matrix T that is learnt from the network's own predictions during training.

    .. math:: \ell(f', y) \quad\text{with}\quad \mathrm{link}(f') = p(f)\, T, \qquad
        T_{cy} \propto \sum_{i:\, y_i = y} w_i\, r_{ic}, \qquad r_{ic} \propto p_{ic}^2\, T_{c y_i}, \qquad
        w_i = \max_c p_{ic}^4

    Each call in `train` mode computes the loss with the present T, as :class:`mgce.ForwardCorrection` does. Then it
    adds the rows of the batch to the counts that T is computed from. r estimates the probability of each class to be
    the right one, given the prediction and the label. This is a step of expectation maximisation, with predictions
    sharpened by squaring. Older rows fade out: the counts have a memory of `window` rows. Rows on which the network is
    sure count more.

    Use this loss if wrong labels of some classes are mostly one other label: such noise misleads a loss without T.
    `link` turns logits into p, the probabilities of the labels before the noise. No index of rows is needed.

    T is kept in float32, also in mixed precision and in a network of another dtype. Rows with a logit of NaN or +inf
    are left out, and `left_out` is their number; -inf masks a class.

    Where classes overlap, T can take a part of one class for another, with right labels too. Then a loss without T is
    more accurate, such as :class:`mgce.GCELoss`. :func:`mgce.choose_recipe` compares losses.

    T is learnt if most labels of each class are right. With nearly as many wrong labels a class can disappear: no row
    is predicted as that class, and the sum of its row of `counts` is near 0. So check these sums after training.

    In `eval` mode T stays as it is. Both buffers are in the `state_dict`, so training can be resumed. In distributed
    training the counts of all processes are added.

    Args:
        num_classes: number of classes k.
        loss: a module that takes logits and targets, as for :class:`mgce.ForwardCorrection`;
            :class:`mgce.GCELoss` at beta = 3 if None.
        window: number of rows that T remembers; by default 100 for each class, and at least 1000.

    Attributes:
        transition: T, a buffer (k, k): T[c, y] is the estimated probability that class c is labelled y.
        counts: the weighted counts of rows that T is computed from, which fade, a buffer (k, k).
        left_out: number of rows with a label that were not counted, since one of their logits is NaN or +inf; a
            buffer ().

    Shape:
        As for `loss`: logits with k classes; class indices or class probabilities. Ignored rows are not counted.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.
        RuntimeError: in `train` mode inside `torch.func.vmap`.

    Example:
        >>> criterion = LearnedForwardCorrection(num_classes=2, window=100)
        >>> logits = torch.tensor([[5.0, 0.0]] * 10 + [[0.0, 5.0]] * 10)
        >>> target = torch.tensor([0] * 6 + [1] * 14)  # of the first class, 40 % are labelled as the second
        >>> for step in range(50):
        ...     loss = criterion(logits, target)
        >>> criterion.transition.round(decimals=2)
        tensor([[0.6100, 0.3900],
                [0.0000, 1.0000]])

    Reference: Bekker and Goldberger, Training deep neural-networks based on unreliable labels, 2016, for expectation
    maximisation after each epoch; Patrini et al., 2017, for forward correction.
    """

    least = LEARNING.least / 2  # half of it, for the rounding of half types
    counts: Tensor

    def __init__(self, num_classes: int, loss: nn.Module | None = None, *, window: int | None = None) -> None:
        check_count("num_classes", num_classes, 2)
        if window is not None:
            check_count("window", window)
        k, start = int(num_classes), LEARNING.start
        # Transposed in memory, as later matrices are: a column of T is then read in one piece.
        self_and_others = torch.full((k, k), (1 - start) / (k - 1), dtype=torch.float32).fill_diagonal_(start).T
        super().__init__(GCELoss(beta=LEARNING.beta) if loss is None else loss, self_and_others)
        self.window = max(LEARNING.rows, LEARNING.rows_per_class * k) if window is None else int(window)
        self.register_buffer("counts", self_and_others * (self.window / k))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the forward-corrected logits against noisy labels; in `train` mode, learn T."""
        dim, k = check_input(self.loss, input), len(self.transition)
        if input.shape[dim] != k:
            raise ValueError(expected("input", f"logits of {k} classes, `num_classes`", input.shape[dim]))
        value = super().forward(input, target)
        if self.training and not (is_indices(target) and terms_of(self.loss)):  # else `_see` was called
            kind = input.device.type
            # Where there is no mixed precision, as on the device `meta`, it cannot be left out either.
            exact = torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
            with torch.no_grad(), exact:  # in float16, the probability of a label would be rounded to 0
                logits = input.detach().float() if input.dtype in HALF_TYPES else input.detach()
                p = self.link(logits).float().movedim(dim, -1).reshape(-1, k)
                if is_indices(target):
                    label = target.flatten().long()
                    rows = label != ignore_index_of(self.loss)
                    label = torch.where(rows, label, 0)
                    self._see(p, p * columns(self.transition.float(), label), label, rows)
                else:
                    self._learn(*self._of_probs(p, target.movedim(dim, -1).reshape(-1, k).float()))
        return value

    @torch.no_grad()
    def _see(self, p: Tensor, mixed: Tensor, label: Tensor, rows: Tensor) -> None:
        """Learn T from rows with class indices; rows whose probabilities are not finite are left out."""
        if not self.training:
            return
        k = len(self.transition)
        p, mixed, labelled = p.reshape(-1, k).float(), mixed.reshape(-1, k).float(), rows.flatten()
        # p^2, the sharpened prediction, times the column of T: most of a row counts for its most probable class. With p
        # itself, T took the doubts of a network for noise, and the network had no reason to become surer.
        right = p * mixed
        total = right.sum(1)
        counted = labelled & total.isfinite()
        weight = p.amax(1) ** LEARNING.trust / total
        seen = counted.sum()
        if right.is_cuda:  # there, sums by index are rounded in an order that changes from run to run
            right = torch.where(counted[:, None], right * weight[:, None], 0)
            one_hot = (label[:, None] == torch.arange(k, device=p.device)).float()
            with torch.autocast("cuda", enabled=False):
                new = right.T @ one_hot
        else:  # rows that do not count are added up beside the others
            place = torch.where(counted, label, k)
            new = right.new_zeros(k + 1, k).index_add(0, place, right * weight[:, None])[:k].T
        self._learn(new, seen, labelled.sum() - seen)

    def _of_probs(self, p: Tensor, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weighted counts (k, k) of rows with class probabilities, their number, and how many are left out.

        The number of rows is the sum of their probabilities.
        """
        rows = (p.isfinite() & given.isfinite()).all(1, keepdim=True)
        left_out = (~rows[:, 0] & given.any(1)).sum()
        p, given = torch.where(rows, p, 1 / p.shape[1]), torch.where(rows, given, 0)
        transition, sharp = self.transition.float(), p.square()
        weight = p.amax(1, keepdim=True) ** LEARNING.trust
        # The sum over rows of w r, without a matrix for each row: r_ic / T_cy = sharp_ic / sum_d sharp_id T_dy.
        new = transition * (sharp.T @ (weight * given / (sharp @ transition)))
        return new, given.sum(), left_out

    def _learn(self, new: Tensor, seen: Tensor, left_out: Tensor) -> None:
        """Add the counts of a batch with `seen` rows, and estimate T again, in float32."""
        if distributed.is_available() and distributed.is_initialized():
            new = new.contiguous()
            for one in (new, seen, left_out):
                distributed.all_reduce(one)
        self.left_out = _outside_transforms(self.left_out + left_out)
        counts = torch.addcmul(new, self.counts.float(), (1 - seen / self.window).clamp(min=0))
        # New tensors, not the old ones changed: losses whose gradients are still to come need the old T.
        self.counts = _outside_transforms(counts)
        share = (1 - len(counts) * LEARNING.least) / (counts.sum(1) + LEARNING.prior)
        transition = counts * share[:, None] + LEARNING.least
        transition.diagonal().add_(LEARNING.prior * share)
        self.transition = _outside_transforms(transition)

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"num_classes={len(self.transition)}, window={self.window}{self.said_left_out()}"


def _outside_transforms(tensor: Tensor) -> Tensor:
    """Return a tensor that can be kept after the transforms of `torch.func` that the call is inside of."""
    functorch = torch._C._functorch
    if torch.compiler.is_compiling() or not functorch.is_functorch_wrapped_tensor(tensor):
        return tensor
    while functorch.is_gradtrackingtensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    if functorch.is_batchedtensor(tensor):
        raise RuntimeError(
            "Expected no `torch.func.vmap` in `train` mode, where the noise matrix is learnt from whole batches: "
            "call `eval()` first."
        )
    return tensor


LEARNED_CORRECTION = NamedLoss(
    "learned-correction",
    LearnedForwardCorrection,
    "GCE of $p T$, T learnt from predictions",
    of=(GCE,),
    changed={"beta": LEARNING.beta},
    bounded=True,
    source="a variant of ours of Bekker, Goldberger 2016",
    recommended=True,
    of_one_network=True,
)
NAMED = (LEARNED_CORRECTION,)
