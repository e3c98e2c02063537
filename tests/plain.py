"""MGCE by the plain operations of `numerics`, which no kernel has a part in."""

import torch.nn.functional as F
from torch import Tensor

from mgce.numerics import implicit


def normalized_logits(x: Tensor, *, beta: float) -> Tensor:
    """Return f + phi of rows, classes last."""
    x, t, _ = implicit.solve(x, beta, -1)
    return x + t.unsqueeze(-1)


def loss_and_gradient(x: Tensor, y: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """Return the loss of each row (N, k) with the label y (N,), and its gradient."""
    x, t, _ = implicit.solve(x, beta, -1)
    loss = -(x.gather(1, y[:, None])[:, 0] + t)
    return loss, implicit.worst_case(x, t, beta) - F.one_hot(y, x.shape[1])
