"""A data set that gives the index of each row with it, for losses that remember rows."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from torch.utils.data import Dataset

from mgce._validation import expected


class IndexedDataset(Dataset[Any]):
    r"""A map-style data set whose rows end with their index: :math:`(x_i, y_i)` becomes :math:`(x_i, y_i, i)`.

    Losses that remember each training row need the index, such as :class:`mgce.ELRLoss`. A shuffling `DataLoader`, a
    sampler and several workers leave the index right.

    Args:
        dataset: a data set with `__len__` and `__getitem__`. A row that is no tuple becomes `(row, index)`.

    Raises:
        TypeError: if the data set has no length, as an iterable one.

    Example:
        >>> import torch
        >>> rows = torch.utils.data.TensorDataset(torch.tensor([5.0, 6.0]), torch.tensor([0, 1]))
        >>> IndexedDataset(rows)[1]
        (tensor(6.), tensor(1), 1)
        >>> [index.tolist() for *_, index in torch.utils.data.DataLoader(IndexedDataset(rows), batch_size=2)]
        [[0, 1]]
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        if not isinstance(dataset, Sized):
            raise TypeError(expected("dataset", "a data set with a length, whose rows have an index", dataset))
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        row = self.dataset[index]
        return (*row, index) if isinstance(row, tuple | list) else (row, index)
