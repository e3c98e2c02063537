"""Turn embeddings into directions, and fit linear heads to them with an L2 penalty.

The coordinates along the eigenvectors of the embeddings' Gram matrix make the problem of a head well scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

SingleArray = NDArray[np.float32]


class Reduction(NamedTuple):
    """The settings of directions and of their coordinates.

    Attributes:
        fewest: rows of fewer columns keep their length. The length of an embedding says little of its class; the length
            of a row with few columns may determine its class.
        least_eigenvalue: eigenvalues below this share of the largest are rounding errors, those of float32 (6e-8) times
            the number of terms.
        kept_variance: coordinates beyond this share of the variance are left out: of 1,280 features of CIFAR-10 that
            leaves about 800, with which heads are as accurate to a tenth of a point.
    """

    fewest: int = 64
    least_eigenvalue: float = 1e-6
    kept_variance: float = 0.95


class Fit(NamedTuple):
    """The settings of fitting a head by L-BFGS.

    Attributes:
        curvature: second derivative of softmax losses in a margin: p (1 - p) is .09 for ten even classes, at most .25.
        max_steps: from a neighbouring penalty, 10 to 20 steps reach the tolerance; on CIFAR-10 features no head needed
            more than 25.
        tolerance: the fit stops after a step that lowers the mean loss, of order 1, by less than this.
    """

    curvature: float = 0.1
    max_steps: int = 60
    tolerance: float = 1e-5


REDUCTION = Reduction()
FIT = Fit()


class Directions(nn.Module):
    r"""Map rows to centred directions: square roots, centring, a scale for each column, length 1, centring.

    .. math:: z = \frac{u}{\lVert u \rVert} - c, \qquad u_j = \frac{r(x_j) - m_j}{\sqrt{s_j}},
              \qquad r(x) = \mathrm{sign}(x) \sqrt{|x|}

    Args:
        rooted: whether r is the square root; otherwise it is the identity.
        means: m, shape (d,).
        scales: the square roots of the standard deviations s, shape (d,).
        center: c, shape (d,).
    """

    means: Tensor
    scales: Tensor
    center: Tensor

    def __init__(self, rooted: bool, means: SingleArray, scales: SingleArray, center: SingleArray) -> None:
        super().__init__()
        self.rooted = bool(rooted)
        for name, values in (("means", means), ("scales", scales), ("center", center)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Return z, shape (n, d), of rows (n, d)."""
        roots = rows.sign() * rows.abs().sqrt() if self.rooted else rows
        u = (roots - self.means) / self.scales
        if u.shape[1] >= REDUCTION.fewest:
            u = nn.functional.normalize(u, dim=1, eps=torch.finfo(torch.float32).tiny)
        return u - self.center


def fitted_directions(X: SingleArray, weight: SingleArray) -> tuple[Directions, SingleArray]:
    """Fit the map to training rows X (n, d) with weights (n,); return the map, and z of these rows in float32.

    Features that are nowhere negative, such as those after a ReLU, are replaced by their square roots. A column that
    is constant is divided by 1. No label is looked at.
    """
    rooted = bool(X.min() >= 0)
    z = np.sqrt(X) if rooted else X.copy()
    share = (weight / weight.sum()).astype(np.float64)
    means = share @ z
    z -= means.astype(np.float32)
    deviation = np.sqrt(share @ np.square(z, dtype=np.float64))
    scales = root_deviations(means, deviation)
    z /= scales.astype(np.float32)
    if z.shape[1] >= REDUCTION.fewest:
        z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    center = share @ z
    z -= center.astype(np.float32)
    return Directions(rooted, *(values.astype(np.float32) for values in (means, scales, center))), z


def root_deviations(means: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the square roots of standard deviations (d,); 1 for a column that is constant up to rounding."""
    constant = deviation <= 1e-6 * np.abs(means)
    return np.asarray(np.sqrt(np.where(constant | (deviation == 0), 1.0, deviation)))


@dataclass(frozen=True)
class Coordinates:
    """Rows in an orthonormal basis that diagonalises their Gram matrix.

    Attributes:
        rows: shape (n, r), in units in which their mean squared length is 1.
        spread: mean square of each coordinate, the eigenvalues, shape (r,).
        axes: the basis, shape (d, r), divided by the unit of length.
    """

    rows: SingleArray
    spread: SingleArray
    axes: SingleArray


def coordinates(z: SingleArray, weight: SingleArray) -> Coordinates:
    """Return centred rows z (n, d) in the basis of eigenvectors of `z.T @ diag(weight) @ z / n`.

    If n < d, the eigenvectors are computed from the smaller Gram matrix of the rows.

    Args:
        z: shape (n, d).
        weight: shape (n,), with mean 1.
    """
    n, d = z.shape
    rooted = z * np.sqrt(weight / n)[:, None]
    if d <= n:
        spread, axes = basis(rooted.T @ rooted)
    else:
        gram = rooted @ rooted.T
        length = _length(gram)
        spread, vectors = _eigen(gram / length**2)
        axes = np.ascontiguousarray(rooted.T @ vectors / (np.sqrt(spread) * length**2))
    return Coordinates(rows=z @ axes, spread=spread, axes=axes)


def basis(gram: SingleArray) -> tuple[SingleArray, SingleArray]:
    """Return `spread` and `axes` of :class:`Coordinates`, given the mean of `z z.T` over the rows, shape (d, d)."""
    length = _length(gram)
    spread, axes = _eigen(gram / length**2)
    return spread, np.ascontiguousarray(axes / length)


def _length(gram: SingleArray) -> np.float32:
    """Return the root of the mean squared length of rows, the unit of their coordinates; 1 if all are zero."""
    return np.float32(np.sqrt(np.trace(gram, dtype=np.float64)) or 1.0)


def _eigen(gram: SingleArray) -> tuple[SingleArray, SingleArray]:
    """Return the eigenvalues that `REDUCTION` keeps, the largest first, and their eigenvectors as columns."""
    values, vectors = np.linalg.eigh(gram)
    kept = np.flatnonzero(values > REDUCTION.least_eigenvalue * max(values[-1], np.finfo(np.float32).tiny))[::-1]
    if not kept.size:  # all rows are alike
        kept = np.array([len(values) - 1])
    if kept.size >= REDUCTION.fewest:
        shares = values[kept].cumsum(dtype=np.float64) / values[kept].sum(dtype=np.float64)
        kept = kept[: int(np.searchsorted(shares, REDUCTION.kept_variance)) + 1]
    return np.maximum(values[kept], np.finfo(np.float32).tiny), vectors[:, kept]


class MeanSoftmax(nn.Module):
    r"""The logarithm of the mean softmax of several linear heads: `log(mean_m softmax(W_m z + b_m))`.

    Args:
        coefs: W, shape (M, k, d).
        intercepts: b, shape (M, k).
    """

    def __init__(self, coefs: NDArray[Any], intercepts: NDArray[Any]) -> None:
        super().__init__()
        heads, classes, width = coefs.shape
        self.shape = (heads, classes)
        self.linear = nn.Linear(width, heads * classes, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(coefs.reshape(heads * classes, width)))
            self.linear.bias.copy_(torch.from_numpy(intercepts.reshape(heads * classes)))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the log probabilities, shape (n, k), of rows (n, d)."""
        logits = self.linear(rows).unflatten(1, self.shape)
        mean: Tensor = logits.log_softmax(2).logsumexp(1) - float(np.log(self.shape[0]))
        return mean


def fit_head(
    rows: SingleArray,
    spread: SingleArray,
    loss: Callable[[Tensor], Tensor],
    weight: SingleArray,
    l2: float,
    start: SingleArray,
) -> SingleArray:
    r"""Minimise a weighted mean loss of linear logits with an L2 penalty; return W and b, shape (r + 1, k).

    .. math:: \min_{W, b}\ \frac{\sum_i w_i\, \ell_i(W^\top z_i + b)}{\sum_i w_i} + \frac{\lambda}{2} \lVert W \rVert^2

    The variables are W times the root of `FIT.curvature * spread + l2`, about the root of the diagonal of the Hessian.
    The Hessian in these variables is near the identity, so L-BFGS takes few steps. b, the last row, has no penalty.

    Args:
        rows: z, shape (n, r), in coordinates whose mean squares are `spread`.
        spread: shape (r,).
        loss: from logits (n, k) to losses (n,).
        weight: w, not negative, shape (n,).
        l2: lambda, positive.
        start: where to start, shape (r + 1, k). If the loss is not convex, the minimum found depends on the start.
    """
    z, share = torch.from_numpy(rows), torch.from_numpy(weight / weight.sum())
    diagonal = np.append(FIT.curvature * spread + l2, FIT.curvature)
    scale = torch.from_numpy(1 / np.sqrt(diagonal).astype(np.float32))[:, None]
    variables = (torch.from_numpy(start) / scale).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [variables],
        max_iter=FIT.max_steps,
        history_size=10,
        tolerance_change=FIT.tolerance,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        head = scale * variables
        value: Tensor = share @ loss(z @ head[:-1] + head[-1]) + l2 / 2 * head[:-1].square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(objective)  # type: ignore[no-untyped-call]
    return np.asarray((scale * variables).detach().numpy())


def margins(rows: SingleArray, head: SingleArray) -> SingleArray:
    """Return the logits of rows (n, r) by a head (r + 1, k), shape (n, k)."""
    return np.asarray(rows @ head[:-1] + head[-1])


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return softmax of logits (n, k), in float64."""
    return np.asarray(torch.from_numpy(logits).double().softmax(1).numpy())
