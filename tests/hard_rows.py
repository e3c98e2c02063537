"""Rows of logits that break careless solvers: ties, ladders, edges of the support, masks, extremes."""

import math

import numpy as np
import torch


def hard_rows(k, beta, dtype):
    """Return a batch (n, k) of rows at which a solver meets its worst; the last masks every second class."""
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
    # All others equal, so that every rounding goes the same way: below by so much, or by beta less a little.
    rows += [-min(depth, 0.9 * width) * (1 - first) for depth in (1, 3, 5, 7, 9, 11, 12)]
    rows += [-width * (1 - first) * (1 - 0.1**d) for d in (1, 2, 3, 4.5)]
    rows += [width * first + 1e-6 * rows[2]]  # near-ties at a lead of beta
    rows += [j * torch.finfo(dtype).tiny / 1024, 1e30 * rows[2], torch.where(j % 2 == 1, -1e30, rows[2])]
    rows += _part_random_rest_at_the_edge(k, beta if math.isfinite(beta) else width, width, dtype, generator)
    return torch.stack([*rows, masked]).to(dtype)


def _part_random_rest_at_the_edge(k, beta, width, dtype, generator):
    """Return rows whose first classes are random, the others on the edge of their support, or an ulp beside it."""
    rows = []
    for share, ulps in ((0.01, 0), (0.1, 0), (0.1, 1), (0.1, -1), (0.5, 0), (0.9, 0)):
        size = max(1, round(share * k))
        if size == k:
            continue
        part = torch.randn(size, generator=generator, dtype=torch.float64) * width
        part = (part - part.max()).to(dtype)
        edge = torch.tensor(-beta - _root(part.double().numpy(), beta), dtype=dtype)
        for _ in range(abs(ulps)):
            edge = torch.nextafter(edge, torch.tensor(ulps * torch.inf, dtype=dtype))
        rows.append(torch.cat([part, edge.expand(k - size)]).double())
    return rows


def _root(x, beta):
    """Halve [-log k, 0], in which the root for x with maximum 0 lies, until nothing is left of it."""
    low, high = -math.log(len(x)) - 1e-9, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        z = (x + middle) / beta
        on = z > -1
        above = np.exp(beta * np.log1p(z[on])).sum() > 1
        low, high = (low, middle) if above else (middle, high)
    return high
