"""Define PyTorch modules that compute the margins (logits) of fitted estimators, for `to_torch`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mgce.estimators.fourier_ridge import LEAST
from mgce.estimators.trees import Trees

Layer = tuple[NDArray[Any], NDArray[Any]]  # weights (out, in) and biases (out,)


def dense_layers(layers: Iterable[Layer]) -> list[nn.Module]:
    """Return linear layers in float64 with these weights and biases, and ReLU between them."""
    parts: list[nn.Module] = []
    for weight, bias in layers:
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.asarray(weight)))
            layer.bias.copy_(torch.from_numpy(np.asarray(bias)))
        parts += [layer, nn.ReLU()]
    return parts[:-1]


class Cosines(nn.Module):
    """The cosines of n rows of m angles, minus the means (m,) of the cosines of the training rows."""

    means: Tensor

    def __init__(self, means: NDArray[Any]) -> None:
        super().__init__()
        self.register_buffer("means", torch.tensor(means))

    def forward(self, angles: Tensor) -> Tensor:
        """Return the centred cosines of n rows of m angles, shape (n, m)."""
        return angles.cos() - self.means


class TreeSums(nn.Module):
    """Sums of the leaf values of trees, as `Trees.sums` computes them.

    A row falls into one leaf of each tree, and each leaf holds m numbers, which are summed over the trees. All n rows
    pass through all trees at once, which needs memory for n m numbers for each tree. The sums of a row with NaN are
    NaN. The trees were grown on features in float32, so rows are rounded to float32 first.

    Args:
        trees: checked trees whose leaves hold m numbers.
    """

    starts: Tensor
    below: Tensor  # (2 nodes,): left and right child of each node; for leaf number i both are -1 - i
    features: Tensor
    thresholds: Tensor
    values: Tensor

    def __init__(self, trees: Trees) -> None:
        super().__init__()
        children = np.where(trees.children < 0, trees.children[:, :1], trees.children)
        self.depth = _depth(trees.starts, children)
        self.register_buffer("starts", torch.tensor(trees.starts))
        self.register_buffer("below", torch.tensor(children.reshape(-1)))
        self.register_buffer("features", torch.tensor(trees.features))
        self.register_buffer("thresholds", torch.from_numpy(_rounded_down(trees.thresholds)))
        self.register_buffer("values", torch.tensor(trees.values, dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Return for n rows the sums of m leaf values, shape (n, m)."""
        rows = rows.float()
        node = self.starts.expand(rows.shape[0], len(self.starts))
        for _ in range(self.depth):
            place = node.clamp(min=0)
            right = rows.gather(1, self.features[place]) > self.thresholds[place]
            node = torch.where(node < 0, node, self.below[2 * place + right.long()])
        sums = self.values[-1 - node].sum(1)  # of (n, trees, m)
        # NaN is on neither side of a threshold: `predict_proba` refuses it, and here it is to be seen.
        return torch.where(rows.isnan().any(1, keepdim=True), torch.nan, sums)


class ScaledLog(nn.Module):
    """Compute margins (logits) from summed probabilities: `scale * log(sums / number + least)`."""

    def __init__(self, scale: float, number: int, least: float) -> None:
        super().__init__()
        self.scale, self.number, self.least = scale, number, least

    def forward(self, sums: Tensor) -> Tensor:
        """Return the margins (logits) of n rows of k summed probabilities, shape (n, k)."""
        return self.scale * torch.log(sums / self.number + self.least)


class ForestAndRegression(nn.Module):
    """The sum of the mean probabilities of trees and of a regression's values, cut off at 0 and 1 and made to sum to 1.

    Args:
        trees: from rows to sums over trees, as `TreeSums`.
        number: number of trees.
        regression: from rows to values.
    """

    def __init__(self, trees: nn.Module, number: int, regression: nn.Module) -> None:
        super().__init__()
        self.trees, self.number, self.regression = trees, number, regression

    def forward(self, rows: Tensor) -> Tensor:
        """Return for n rows of d features the sums of the trees' and the regression's probabilities, shape (n, k)."""
        values = self.regression(rows).clamp(0, 1) + LEAST
        sums: Tensor = self.trees(rows) / self.number + values / values.sum(-1, keepdim=True)
        return sums


def _depth(starts: NDArray[np.int64], children: NDArray[np.int64]) -> int:
    """Return the largest number of steps from the root of a tree to one of its leaves."""
    steps, places = 0, starts
    while len(places):
        places = children[places].reshape(-1)
        places = places[places >= 0]
        steps += 1
    return steps


def _rounded_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round thresholds down to float32, so that every float32 feature stays on the same side of its threshold."""
    nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
