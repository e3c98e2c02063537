"""Define what losses with a memory share: a state that keeps its precision, and a count of what it left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

LARGEST_BUFFER = 10**10  # numbers that a loss remembers at most: 40 GB


class Precise(nn.Module):
    """A module whose buffers keep their dtype when a network around it is moved to another one.

    An average over many steps has to be precise even if the network is not: in bfloat16, a step of less than a 256th
    of a number is rounded away.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **keywords: Any) -> Any:
        """Apply the function behind `to`, `half` or `cuda`; buffers move to another device only."""
        before = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        super()._apply(fn, *arguments, **keywords)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():
            moved = self._buffers[name]
            if moved is not None and moved.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(moved.device)
        return self


class Remembering(Precise):
    """A module that learns from rows, except from rows whose numbers are not finite, which it counts.

    Gradient scalers of mixed precision skip a step whose logits overflowed. What a loss remembers must outlive it.

    Attributes:
        left_out: number of rows with a label that were not learnt from, a buffer ().
    """

    left_out: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left_out", torch.zeros((), dtype=torch.int64))

    def said_left_out(self) -> str:
        """Return, for `repr`, the number of rows that were left out, if there are any."""
        return "" if self.left_out.is_meta or not self.left_out else f", left_out={int(self.left_out)}"
