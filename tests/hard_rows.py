"""Rows of logits that break careless solvers: ties, ladders, edges of the support, masks, extremes."""

import math

import torch


def hard_rows(k, beta, dtype):
    """Give a batch (n, k) of rows at which a solver meets its worst."""
    generator = torch.Generator().manual_seed(k)
    j = torch.arange(k, dtype=torch.float64)
    width = min(beta, 50.0) if math.isfinite(beta) else 50.0
    rows = [torch.randn(k, generator=generator, dtype=torch.float64) * s for s in (0.01, 0.1, 1, 3, 10, 100)]
    rows += [torch.full((k,), c, dtype=torch.float64) for c in (0.0, 0.1, -3.3, 7.7, 1e4)]
    first, last = (j == 0).double(), (j == k - 1).double()
    rows += [1e4 * first, -1e4 * first, first - 0.5 * last]
    rows += [-width * (1 - first) * (1 + d) for d in (0.0, 1e-6, -1e-6)]  # all others at the edge of the support
    rows += [-j / 8, -(j**2) / 64, -width * (1 - 0.5**j), 500 - torch.log1p(j), torch.round(rows[3])]
    clusters = -width * (1 - 2.0 ** -torch.floor(torch.log2(j + 1)))  # halving clusters
    rows += [clusters, -width * (1 - first) * (1 - 2.0 ** -j.clamp(max=40))]
    masked = rows[2].clone()
    masked[1::2] = -torch.inf
    return torch.stack([*rows, masked]).to(dtype)
