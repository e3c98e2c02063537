"""A linear head and its loss: logits computed first (unfused), or a part at a time within the loss (fused)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce.functional import linear_mgce_loss, mgce_loss
from mgce_lab.studies.timing import medians

N, D, K, BETA = 512, 256, 32000, 1.4


def run(seconds: float) -> dict[str, Any]:
    """Measure and print forward and backward over `F.linear_cross_entropy`, for dense and sparse rows."""
    print(f"\nHead and loss, n = {N}, d = {D}, k = {K}, beta = {BETA}: time over that of F.linear_cross_entropy")
    cells = []
    for scale in (0.3, 1.0, 3.0, 10.0):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(N, D, generator=generator).requires_grad_()
        # A logit is a sum of D products: divided by sqrt(D), its standard deviation is the scale.
        w = (torch.randn(K, D, generator=generator) * scale / D**0.5).requires_grad_()
        y = torch.randint(K, (N,), generator=generator)
        contestants = {
            "F.linear_cross_entropy": lambda x=x, w=w, y=y: F.linear_cross_entropy(x, w, y),
            "cross_entropy, unfused": lambda x=x, w=w, y=y: F.cross_entropy(F.linear(x, w), y),
            "mgce_loss, unfused": lambda x=x, w=w, y=y: mgce_loss(F.linear(x, w), y, beta=BETA),
            "linear_mgce_loss": lambda x=x, w=w, y=y: linear_mgce_loss(x, w, y, beta=BETA),
            **_cut_cross_entropy(x, w, y),
        }
        times = medians(contestants, [x, w], seconds=seconds)
        base = times["F.linear_cross_entropy"]
        print(f"margins N(0, {scale:g}^2):", *(f"{name} {t / base:.2f};" for name, t in times.items()), flush=True)
        cells.append({"scale": scale, "seconds": times})
    return {"n": N, "d": D, "k": K, "beta": BETA, "cells": cells}


def _cut_cross_entropy(x: Tensor, w: Tensor, y: Tensor) -> dict[str, Callable[[], Tensor]]:
    try:
        from cut_cross_entropy import linear_cross_entropy
    except ImportError:
        return {}
    return {"cut_cross_entropy": lambda: linear_cross_entropy(x, w, y, impl="torch_compile")}  # the others need a GPU
