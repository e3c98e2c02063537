"""Time against the number of classes, and its slope on logarithmic scales: 1 where time grows in proportion."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.nn import functional as F

from mgce.functional import mgce_loss
from mgce_lab.studies.grid import rows
from mgce_lab.studies.timing import medians

CLASSES = (1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000)
ROWS = 256


def run(seconds: float) -> dict[str, Any]:
    """Measure and print the time of a batch for each number of classes, and the slopes of fitted lines."""
    print(f"\nTime of {ROWS} rows against the number of classes, beta = 1.4, margins N(0, 1)")
    times = []
    for k in CLASSES:
        logits, target = rows(ROWS, k, 1.0)
        contestants = {
            "ours": lambda f=logits, y=target: mgce_loss(f, y, beta=1.4, backend="cpu"),
            "cross_entropy": lambda f=logits, y=target: F.cross_entropy(f, y),
        }
        times.append(medians(contestants, [logits], seconds=seconds))
        print(f"{k:>8}", *(f"{name} {1e3 * t:.3f} ms" for name, t in times[-1].items()), flush=True)
    slopes = {name: float(np.polyfit(np.log(CLASSES), np.log([row[name] for row in times]), 1)[0]) for name in times[0]}
    print("slope of log time against log k:", *(f"{name} {slope:.2f}" for name, slope in slopes.items()))
    return {"classes": CLASSES, "rows": ROWS, "seconds": times, "slopes": slopes}
