"""Turn rows that lie in many files into directions and coordinates, by sums over each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mgce._validation import expected
from mgce.estimators.directions import Coordinates, Directions, SingleArray, basis, root_deviations
from mgce.features.feature_files import read_features

BLOCK_ROWS = 8192  # rows of a file that are read at once: 4,096 columns of them are 268 MB in float64


@dataclass(frozen=True)
class Moments:
    """Sums over n rows.

    Attributes:
        count: n.
        least: the smallest number.
        means: of x and of the signed square roots of x, shape (2, d).
        squares: sums of squared deviations from these means, shape (2, d).
    """

    count: int
    least: float
    means: NDArray[np.float64]
    squares: NDArray[np.float64]

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows together (Chan, Golub and LeVeque, 1979)."""
        n, gap = self.count + other.count, other.means - self.means
        return Moments(
            n,
            min(self.least, other.least),
            self.means + gap * other.count / n,
            self.squares + other.squares + gap**2 * self.count * other.count / n,
        )


def shard_coordinates(paths: Sequence[Path], jobs: int | None = None) -> tuple[Directions, Coordinates]:
    """Return the directions and the coordinates of the rows of all files, in the order of the files.

    Each file is read three times: for means and deviations, for the Gram matrix, and to be projected. Sums are added in
    the order of the files, so the result does not depend on the number of jobs.

    Args:
        paths: files of features, as `mgce embed` writes them. Those of .npy are mapped into memory and read by blocks.
        jobs: files read at a time; None for what `joblib.parallel_config` says, or else one.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a file is damaged, of another width than the first, or has numbers that are not finite.
    """
    from joblib import Parallel, delayed

    def over(task: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        return Parallel(n_jobs=jobs, return_as="generator")(delayed(task)(path, *arguments) for path in paths)  # type: ignore[no-any-return]

    moments: Moments | None = None
    for path, part in zip(paths, over(_moments), strict=True):
        if moments is not None and part.means.shape != moments.means.shape:
            what = f"files of {moments.means.shape[1]:,} features, as the first"
            raise ValueError(expected("shards", what, f"{path} with {part.means.shape[1]:,}"))
        moments = part if moments is None else moments + part
    if moments is None:
        raise ValueError(expected("shards", "at least one file", "none"))
    rooted = moments.least >= 0
    means = moments.means[int(rooted)]
    scales = root_deviations(means, np.sqrt(moments.squares[int(rooted)] / moments.count))
    single = [values.astype(np.float32) for values in (means, scales)]
    uncentered = Directions(rooted, single[0], single[1], np.zeros_like(single[0]))
    total, gram = np.zeros(len(means)), np.zeros((len(means), len(means)))
    for part_total, part_gram in over(_gram, uncentered):
        total += part_total
        gram += part_gram
    center = (total / moments.count).astype(np.float32)
    directions = Directions(rooted, single[0], single[1], center)
    spread, axes = basis((gram / moments.count - np.outer(center, center)).astype(np.float32))
    rows = np.concatenate(list(over(_projected, directions, axes)))
    return directions, Coordinates(rows, spread, axes)


def _blocks(path: Path) -> Iterator[SingleArray]:
    """Yield the rows of a file in blocks, in float32."""
    values = read_features(path, "shards").values
    for first in range(0, len(values), BLOCK_ROWS):
        with np.errstate(over="ignore"):
            block = np.array(values[first : first + BLOCK_ROWS], dtype=np.float32)
        if not np.isfinite(block).all():
            raise ValueError(expected("shards", "files of finite numbers in the range of float32", f"others in {path}"))
        yield block


def _moments(path: Path) -> Moments:
    found: Moments | None = None
    for block in _blocks(path):
        both = np.stack([block, np.sign(block) * np.sqrt(np.abs(block))]).astype(np.float64)
        means = both.mean(1)
        part = Moments(len(block), float(block.min()), means, np.square(both - means[:, None]).sum(1))
        found = part if found is None else found + part
    if found is None:
        raise ValueError(expected("shards", "files that hold rows", f"{path} without any"))
    return found


def _directed(path: Path, directions: Directions) -> Iterator[SingleArray]:
    with torch.no_grad():
        for block in _blocks(path):
            yield directions(torch.from_numpy(block).double()).float().numpy()


def _gram(path: Path, directions: Directions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    total: NDArray[np.float64] = np.zeros(len(directions.means))
    gram = np.zeros((len(total), len(total)))
    for u in _directed(path, directions):
        total += u.sum(0, dtype=np.float64)
        gram += u.T @ u
    return total, gram


def _projected(path: Path, directions: Directions, axes: SingleArray) -> SingleArray:
    return np.concatenate([z @ axes for z in _directed(path, directions)])
