"""Forward and backward of the loss over a grid of sizes, margins and betas, as ratios to `F.cross_entropy`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce.functional import mgce_loss
from mgce_lab.studies.timing import geometric_mean, medians

SHAPES = ((128, 10), (128, 100), (512, 1000), (2048, 1000), (512, 32000), (64, 128000))
SCALES = (0.01, 1.0, 3.0, 10.0)
BETAS = (1.05, 1.4, 2.0, 5.0, 11.0)
PEER_BETA = 1.4  # at which the peers, which are slower by far, are measured


def rows(n: int, k: int, scale: float) -> tuple[Tensor, Tensor]:
    """Return logits N(0, scale^2) of shape (n, k) that require a gradient, and random class indices (n,)."""
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(n, k, generator=generator) * scale).requires_grad_()
    return logits, torch.randint(k, (n,), generator=generator)


def measure_cell(n: int, k: int, scale: float, seconds: float) -> dict[str, Any]:
    """Measure our loss at every beta and cross-entropy, taking turns."""
    logits, target = rows(n, k, scale)

    def ours(beta: float) -> Callable[[], Tensor]:
        return lambda: mgce_loss(logits, target, beta=beta, backend="cpu")

    contestants = {"cross_entropy": lambda: F.cross_entropy(logits, target)}
    times = medians({**contestants, **{str(beta): ours(beta) for beta in BETAS}}, [logits], seconds=seconds)
    return {"n": n, "k": k, "scale": scale, "seconds": times}


def measure_peers(n: int, k: int, scale: float) -> dict[str, Any]:
    """Measure ours, plain operations and the losses of other packages at one beta, few turns each."""
    logits, target = rows(n, k, scale)
    contestants = {
        "cpu": lambda: mgce_loss(logits, target, beta=PEER_BETA, backend="cpu"),
        "torch": lambda: mgce_loss(logits, target, beta=PEER_BETA, backend="torch"),
        "reference": lambda: mgce_loss(logits, target, beta=PEER_BETA, backend="reference"),
        **_entmax(logits, target),
        **_mrcpy(logits, target),
    }
    times = medians(contestants, [logits], seconds=0, least=3)
    return {"n": n, "k": k, "scale": scale, "seconds": times}


def _entmax(logits: Tensor, target: Tensor) -> dict[str, Callable[[], Tensor]]:
    try:
        from entmax import EntmaxBisectLoss, NormmaxBisectLoss
    except ImportError:
        return {}
    entmax = EntmaxBisectLoss(alpha=1 + 1 / PEER_BETA, n_iter=50, reduction="elementwise_mean")
    normmax = NormmaxBisectLoss(alpha=PEER_BETA / (PEER_BETA - 1), n_iter=50, reduction="elementwise_mean")
    return {
        "EntmaxBisectLoss": lambda: entmax(logits, target),
        "NormmaxBisectLoss": lambda: normmax(logits / PEER_BETA, target),
    }


def _mrcpy(logits: Tensor, target: Tensor) -> dict[str, Callable[[], Any]]:
    try:
        from MRCpy.pytorch.mgce.loss import mgce_loss as criterion_of
    except ImportError:
        return {}
    criterion = criterion_of(logits.shape[1], beta=PEER_BETA)
    # It gives the gradient, and no loss that autograd could differentiate: the gradient is handed to `logits` instead.
    return {
        "MRCpy": lambda: SimpleNamespace(
            backward=functools.partial(logits.backward, criterion.get_gradient(logits, target))
        )
    }


def run(seconds: float, shapes: tuple[tuple[int, int], ...] = SHAPES) -> dict[str, Any]:
    """Measure and print every cell of the grid and of the peers."""
    print("\nTime of forward and backward over that of F.cross_entropy; ours, backend='cpu'")
    print(f"{'n x k':>12} {'scale':>6} {'CE, ms':>8} ", *(f"b={beta:<5g}" for beta in BETAS))
    cells = []
    for n, k in shapes:
        for scale in SCALES:
            cell = measure_cell(n, k, scale, seconds)
            cells.append(cell)
            base = cell["seconds"]["cross_entropy"]
            ratios = [f"{cell['seconds'][str(beta)] / base:<7.2f}" for beta in BETAS]
            print(f"{f'{n} x {k}':>12} {scale:>6g} {1e3 * base:>8.3f} ", *ratios, flush=True)
    summary = summarize(cells)
    for name, value in summary.items():
        print(f"{name}: {value:.2f}")
    print(f"\nTime over that of ours (backend='cpu') at beta = {PEER_BETA}")
    peers = []
    for n, k in shapes:
        cell = measure_peers(n, k, 1.0)
        peers.append(cell)
        times = cell["seconds"]
        print(f"{f'{n} x {k}':>12} ", *(f"{name} {t / times['cpu']:.1f}" for name, t in times.items()), flush=True)
    for name in peers[0]["seconds"]:
        summary[f"{name} over ours, geometric mean"] = geometric_mean(
            [cell["seconds"][name] / cell["seconds"]["cpu"] for cell in peers]
        )
        print(f"{name} over ours, geometric mean: {summary[f'{name} over ours, geometric mean']:.1f}")
    return {"cells": cells, "peers": peers, "summary": summary}


def summarize(cells: list[dict[str, Any]]) -> dict[str, float]:
    """Return geometric means, and the largest ratio of all cells, of the time over that of cross-entropy."""

    def ratios(betas: tuple[float, ...], least_k: int = 0) -> list[float]:
        chosen = [cell["seconds"] for cell in cells if cell["k"] >= least_k]
        return [times[str(beta)] / times["cross_entropy"] for times in chosen for beta in betas] or [math.nan]

    return {
        "beta = 1.4, geometric mean": geometric_mean(ratios((1.4,))),
        "beta = 1.4, worst cell": max(ratios((1.4,))),
        "all beta, geometric mean": geometric_mean(ratios(BETAS)),
        "all beta, k >= 32000, geometric mean": geometric_mean(ratios(BETAS, 32000)),
        "beta = 1.4, k >= 32000, geometric mean": geometric_mean(ratios((1.4,), 32000)),
        "all beta, k >= 32000, worst cell": max(ratios(BETAS, 32000)),
    }
