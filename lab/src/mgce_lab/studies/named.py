"""Losses by name, forward and backward, as ratios to `F.cross_entropy`: `python -m mgce_lab.studies.named`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn import functional as F

from mgce import noise, robust_loss
from mgce._machine import describe
from mgce_lab.losses import LOSSES
from mgce_lab.studies import page
from mgce_lab.studies.grid import rows
from mgce_lab.studies.timing import medians

SHAPES = ((128, 10), (256, 100), (512, 1000))
# A matrix of the noise has k^2 numbers, and losses by such a one are for few classes.
MOST_CLASSES = 100


def criterion(name: str, k: int) -> nn.Module:
    """Make a loss with its defaults; a loss that needs to know the noise gets 40 % wrong labels."""
    given: dict[str, Any] = {"transition": noise.symmetric(k, 0.4).float(), "trim": 0.4, "num_classes": k}
    return robust_loss(name, **{key: value for key, value in given.items() if key in LOSSES[name].told})


def measure(n: int, k: int, seconds: float) -> dict[str, Any]:
    """Measure every loss and cross-entropy on one batch, taking turns."""
    logits, target = rows(n, k, 1.0)

    def step(loss: nn.Module) -> Callable[[], Any]:
        return lambda: loss(logits, target)

    names = [name for name, loss in LOSSES.items() if k <= MOST_CLASSES or "transition" not in loss.told]
    contestants = {"F.cross_entropy": lambda: F.cross_entropy(logits, target)}
    times = medians({**contestants, **{name: step(criterion(name, k)) for name in names}}, [logits], seconds=seconds)
    return {"n": n, "k": k, "seconds": times}


def main(seconds: float = 20.0) -> None:
    """Measure, print and write the results and the page."""
    machine = describe()
    cells = []
    for n, k in SHAPES:
        cells.append(measure(n, k, seconds))
        times = cells[-1]["seconds"]
        base = times["F.cross_entropy"]
        print(f"{n} x {k}", *(f"{name} {time / base:.1f}" for name, time in times.items()), sep="; ", flush=True)
    page.NAMED.write_text(json.dumps({"machine": machine, "cells": cells}) + "\n")
    page.main()


if __name__ == "__main__":
    main()
