"""Define a data set that returns the index of each row with the row, for losses that remember rows."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from mgce._messages import expected


class IndexedDataset(Dataset[Any]):
    r"""A map-style data set whose rows end with their index: :math:`(x_i, y_i)` becomes :math:`(x_i, y_i, i)`.

    Losses that remember each training row need the index, such as :class:`mgce.ELRLoss`. The index stays right with a
    shuffling `DataLoader`, with a sampler and with several workers.

    Args:
        dataset: a data set with `__len__` and `__getitem__`. A row that is no tuple becomes `(row, index)`.
        targets: a target for each row, which replaces the last element of a row of several elements, and is appended
            to any other row: class indices, shape (n,), or class probabilities, shape (n, k), such as
            `find_consensus(labels).soft_targets()`. They become tensors, probabilities of float32. None keeps the
            targets of the data set.

    Raises:
        TypeError: if the data set has no length, such as an iterable data set, or targets are no numbers.
        ValueError: if there is not one target for each row.

    Example:
        >>> import torch
        >>> rows = torch.utils.data.TensorDataset(torch.tensor([5.0, 6.0]), torch.tensor([0, 1]))
        >>> IndexedDataset(rows)[1]
        (tensor(6.), tensor(1), 1)
        >>> [index.tolist() for *_, index in torch.utils.data.DataLoader(IndexedDataset(rows), batch_size=2)]
        [[0, 1]]
        >>> IndexedDataset(rows, targets=[[0.9, 0.1], [0.2, 0.8]])[1]
        (tensor(6.), tensor([0.2000, 0.8000]), 1)
    """

    def __init__(self, dataset: Dataset[Any], targets: Any = None) -> None:
        if not isinstance(dataset, Sized):
            raise TypeError(expected("dataset", "a data set with a length, whose rows have an index", dataset))
        self.dataset = dataset
        self.targets = None if targets is None else _as_targets(targets, len(dataset))

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        row = self.dataset[index]
        row = tuple(row) if isinstance(row, tuple | list) else (row,)
        if self.targets is not None:
            row = (*(row[:-1] or row), self.targets[index])
        return (*row, index)


def _as_targets(targets: Any, n: int) -> Tensor:
    """Return targets as int64 class indices (n,) or float32 class probabilities (n, k)."""
    try:
        tensor = torch.as_tensor(targets)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(expected("targets", "class indices or class probabilities", type(targets).__name__)) from None
    tensor = tensor.float() if tensor.is_floating_point() else tensor.long()
    if tensor.ndim != 1 + tensor.is_floating_point() or len(tensor) != n:
        what = f"class indices of shape ({n},) or class probabilities of shape ({n}, k), one target for each row"
        raise ValueError(expected("targets", what, f"{tensor.dtype} of shape {tuple(tensor.shape)}"))
    return tensor
