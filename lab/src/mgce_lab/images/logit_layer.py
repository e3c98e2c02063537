"""Define the last layer of a network, which computes logits in the precision of its weights."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn


class LogitLayer(nn.Linear):
    """A linear layer that ignores mixed precision, and maps N rows of features to logits (N, out_features).

    Logits in bfloat16 would have only eight significant bits. Then two classes would often share the largest logit, and
    the first would be predicted. A loss that is zero once the label's logit exceeds all others by a margin, such as
    MGCE, would become zero too early or too late.

    Example:
        >>> layer = LogitLayer(3, 2)
        >>> with torch.autocast("cpu", torch.bfloat16):
        ...     layer(torch.zeros(1, 3, dtype=torch.bfloat16)).dtype
        torch.float32
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map features to logits in the precision of the weights."""
        kind = input.device.type
        # Where there is no mixed precision, as on the device `meta`, it cannot be left out either.
        exact = torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
        with exact:
            return super().forward(input.to(self.weight.dtype))
