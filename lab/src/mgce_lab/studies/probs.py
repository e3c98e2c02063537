"""Probabilities of logits beside softmax and the `entmax` package: `python -m mgce_lab.studies.probs`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import entmax
import torch
from torch import Tensor

from mgce._machine import describe
from mgce.functional import minimax_probs, worst_case_probs
from mgce.numerics import implicit
from mgce.numerics.root import Beta
from mgce_lab.studies import page
from mgce_lab.studies.grid import rows
from mgce_lab.studies.timing import medians

SHAPES = ((128, 10), (256, 100), (512, 1000), (64, 32000))
BETA = 1.4
# Each beside those that compute the same, to the rounding of float32.
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda f: torch.softmax(f, -1),
    "minimax_probs": lambda f: minimax_probs(f, beta=BETA),
    "minimax_probs, plain": lambda f: _plain(implicit.minimax, f),
    "entmax_bisect": lambda f: entmax.entmax_bisect(f, alpha=1 + 1 / BETA, dim=-1),
    "worst_case_probs": lambda f: worst_case_probs(f, beta=BETA),
    "worst_case_probs, plain": lambda f: _plain(implicit.worst_case, f),
    "normmax_bisect": lambda f: entmax.normmax_bisect(f / BETA, alpha=BETA / (BETA - 1), dim=-1),
}


def _plain(output: Callable[[Tensor, Tensor, Beta], Tensor], f: Tensor) -> Tensor:
    """Take the plain operations, as under a transform or on another device."""
    x, t, beta = implicit.solve(f, BETA, -1)
    return output(x, t, beta)


def measure(n: int, k: int, seconds: float) -> dict[str, Any]:
    """Measure every function on one batch, taking turns: alone, and with the gradient of a weighted sum."""
    logits, _ = rows(n, k, 1.0)
    weights = torch.randn(n, k, generator=torch.Generator().manual_seed(0))
    plain = logits.detach()

    def forward(function: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
        return lambda: function(plain)

    def weighted(function: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
        return lambda: (weights * function(logits)).sum()

    alone = {name: forward(function) for name, function in FUNCTIONS.items()}
    trained = {name: weighted(function) for name, function in FUNCTIONS.items()}
    return {
        "n": n,
        "k": k,
        "forward": medians(alone, [], seconds=seconds / 2, backward=False),
        "both": medians(trained, [logits], seconds=seconds / 2),
    }


def main(seconds: float = 6.0) -> None:
    """Measure, print and write the results and the page."""
    machine = describe()
    cells = []
    for n, k in SHAPES:
        cells.append(measure(n, k, seconds))
        for passes in ("forward", "both"):
            base = cells[-1][passes]["softmax"]
            ratios = (f"{name} {time / base:.1f}" for name, time in cells[-1][passes].items())
            print(f"{n} x {k}, {passes}, softmax {1e3 * base:.3f} ms", *ratios, sep="; ", flush=True)
    page.PROBS.write_text(json.dumps({"machine": machine, "beta": BETA, "cells": cells}) + "\n")
    page.main()


if __name__ == "__main__":
    main()
