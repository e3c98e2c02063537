"""The last layer of a network, whose logits have the precision of its weights."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn


class LogitLayer(nn.Linear):
    """A linear layer that is left out of mixed precision: features (N, in_features) to logits (N, out_features).

    Logits of bfloat16 have eight bits. Many rows would have two largest ones, and take the first for their class; and
    the gradient of a loss that ends at a margin would end before or after it.

    Example:
        >>> layer = LogitLayer(3, 2)
        >>> with torch.autocast("cpu", torch.bfloat16):
        ...     layer(torch.zeros(1, 3, dtype=torch.bfloat16)).dtype
        torch.float32
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map features to logits."""
        kind = input.device.type
        # Where there is no mixed precision, as on the device `meta`, it cannot be left out either.
        exact = torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
        with exact:
            return super().forward(input.to(self.weight.dtype))
