"""Define forward correction by a noise matrix that is learnt during training."""

from __future__ import annotations

import torch
from torch import Tensor, distributed, nn

from mgce import _validation
from mgce.losses.base import OF_LOSSES_INSIDE
from mgce.losses.forward import ForwardCorrection
from mgce.losses.modules import GCELoss
from mgce.losses.protocol import dim_of, ignore_index_of

# Of the inner loss by default. GCE at 3 is between cross-entropy and its default of 1.4: p T already explains most
# wrong labels, so less robustness is needed than without T. :class:`mgce.MGCEEmbeddingClassifier` corrects by it too.
BETA = 3.0
# Predictions are counted with the probability p^2, normalised: most of a row counts for its most probable class. With
# p itself, T took the doubts of a network for noise, and the network had no reason to become surer.
SHARPNESS = 2
# A row counts with the weight (max p)^4: rows on which the network is unsure say little about the noise.
TRUST = 4
START = 0.8  # diagonal of T before the first batch: labels are more often right than wrong
PRIOR = 1.0  # rows of each class that are right, added to the counts
# Least entry of T: p T is then at least that, and its logarithm needs no other care, on any device.
LEAST = 1e-6
# The window by default: so many rows for each class, and so many at least. A row of T then has errors of a few points.
# With four times as many rows T lagged behind the network: 81 % of right test rows, not 91 %, on 2,000 images of MNIST
# with 40 % of the labels moved to the next class.
ROWS_PER_CLASS, ROWS = 100, 1000


class LearnedForwardCorrection(ForwardCorrection):
    r"""Forward correction with a noise matrix T that is learnt from the network's own predictions; nothing is known.

    .. math:: \ell(f', y) \quad\text{with}\quad \mathrm{link}(f') = p(f)\, T, \qquad
        T_{cy} \propto \sum_{i:\, y_i = y} w_i\, r_{ic}, \qquad r_{ic} \propto p_{ic}^2\, T_{c y_i}, \qquad
        w_i = \max_c p_{ic}^4

    Each call in `train` mode computes the loss with the present T, as :class:`mgce.ForwardCorrection` does. Then it
    adds the rows of the batch to the counts of which T is made: r is the probability of each class to be the right one,
    given the prediction and the label (a step of expectation maximisation). Older rows fade out: the counts have a
    memory of `window` rows. Rows on which the network is sure count more.

    Use it if labels of some classes are mostly given one other label: such noise misleads a loss that knows nothing of
    T. `link` turns logits into p, the probabilities of the labels before the noise. No index of rows is needed.

    In `eval` mode T stays as it is. Both buffers are in the `state_dict`, so training can be resumed. In distributed
    training the counts of all processes are added.

    Args:
        num_classes: number of classes k.
        loss: a module that takes logits and targets, as for :class:`mgce.ForwardCorrection`;
            :class:`mgce.GCELoss` at beta = 3 if None.
        window: number of rows that T remembers; by default 100 for each class, and at least 1000.

    Attributes:
        transition: T, a buffer (k, k): T[c, y] is the estimated probability that class c is labelled y.
        counts: the numbers of rows that T is made of, a buffer (k, k).

    Shape:
        As for `loss`: logits with k classes; class indices or class probabilities. Ignored rows are not counted.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.

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

    inside = OF_LOSSES_INSIDE
    least = LEAST / 2  # half of it, for the rounding of other dtypes
    counts: Tensor

    def __init__(self, num_classes: int, loss: nn.Module | None = None, *, window: int | None = None) -> None:
        _validation.check_count("num_classes", num_classes, 2)
        if window is not None:
            _validation.check_count("window", window)
        k = int(num_classes)
        self_and_others = torch.full((k, k), (1 - START) / (k - 1)).fill_diagonal_(START)
        super().__init__(GCELoss(beta=BETA) if loss is None else loss, self_and_others)
        self.window = max(ROWS, ROWS_PER_CLASS * k) if window is None else int(window)
        self.register_buffer("counts", self_and_others * (self.window / k))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of the forward-corrected logits against noisy labels; in `train` mode, learn T."""
        value = super().forward(input, target)
        if self.training:
            self._learn(input.detach(), target)
        return value

    @torch.no_grad()
    def _learn(self, input: Tensor, target: Tensor) -> None:
        """Count the rows of a batch, and estimate T anew."""
        k = len(self.transition)
        dim = dim_of(self.loss)
        dim = (1 if input.ndim > 1 else 0) if dim is None else dim
        p = self.link(input).float().movedim(dim, -1).reshape(-1, k)
        if target.is_floating_point():
            given = target.movedim(dim, -1).reshape(-1, k).float()
        else:
            label = target.reshape(-1).long()
            rows = label != ignore_index_of(self.loss)
            given = nn.functional.one_hot(torch.where(rows, label, 0), k).float() * rows[:, None]
        sharp = p**SHARPNESS
        weight = p.amax(1, keepdim=True) ** TRUST
        # A sum over rows of r, without a matrix for each row: r_ic T^-1 = sharp_ic / sum_d sharp_id T_dy.
        tiny = torch.finfo(torch.float32).tiny
        new = self.transition * (sharp.T @ (weight * given / (sharp @ self.transition).clamp(min=tiny)))
        seen = given.sum()
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(new)
            distributed.all_reduce(seen)
        self.counts = self.counts * (1 - seen / self.window).clamp(min=0) + new
        counts = self.counts + PRIOR * torch.eye(k, device=new.device)
        # A new tensor, not the old one changed: losses whose gradients are still to come need that.
        self.transition = LEAST + (1 - k * LEAST) * counts / counts.sum(1, keepdim=True)

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"num_classes={len(self.transition)}, window={self.window}"
