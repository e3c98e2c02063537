"""Families of rows at which a solver meets its worst, each drawn from a generator in the dtype that is tested."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from mgce_lab.soak import truth

Family = Callable[[Generator, int, int, float, torch.dtype], Tensor]


def rows(family: str, n: int, k: int, beta: float, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Return logits (n, k) of a family and labels (n): a quarter of them the largest class, the others any."""
    generator = Generator().manual_seed(seed)
    f = FAMILIES[family](generator, n, k, beta, dtype)
    labels = torch.randint(k, (n,), generator=generator)
    largest = torch.rand(n, generator=generator) < 0.25
    if family == "segments":  # a segment has one label
        labels, largest = labels[torch.arange(n) // 3 * 3], torch.zeros(n, dtype=torch.bool)
    return f, torch.where(largest, f.argmax(-1), labels)


def normal(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Logits drawn from N(0, s^2), s from 0.01 to 100."""
    return _cast(_choice(generator, n, (0.01, 0.1, 1, 3, 10, 100)) * _randn(generator, n, k), dtype)


def ties(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Normal logits rounded to a coarse grid, so that many are equal."""
    grid = _choice(generator, n, (0.125, 0.5, 1))
    return _cast(torch.round(_choice(generator, n, (0.5, 2, 8)) * _randn(generator, n, k) / grid) * grid, dtype)


def near_ties(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Logits a few units in the last place apart, around one number."""
    around = _choice(generator, n, (0.1, 1, 7.7, 1000)).expand(n, k)
    return nudged(_cast(around, dtype), torch.randint(-3, 4, (n, k), generator=generator))


def ladders(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Arithmetic, quadratic and geometric sequences of logits in random order; some are as wide as the support."""
    j = torch.arange(k, dtype=torch.float64)
    width = _width(beta)
    arithmetic = [j / 8, j / k, j / k * width, j / max(1, k - 1) * width]
    quadratic = [j**2 / 64, (j / k) ** 2 * width]
    geometric = [width * (1 - 0.5**j), (2.0 ** j.clamp(max=40) - 1) / 64, torch.log1p(j)]
    steps = torch.stack(arithmetic + quadratic + geometric)
    return _cast(_shuffled(generator, -steps[_integers(generator, n, len(steps))]), dtype)


def clusters(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Clusters near the edge of the support: each has twice the classes of the last, at half the distance."""
    j = torch.arange(k, dtype=torch.float64)
    width = _width(beta) * _choice(generator, n, (1, 1 - 1e-6, 1 + 1e-6, 0.5))
    return _cast(_shuffled(generator, -width * (1 - 2.0 ** -torch.floor(torch.log2(j + 1)))), dtype)


def one_hot(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """All logits equal, except one that is larger or smaller."""
    f = torch.zeros(n, k, dtype=torch.float64)
    height = _choice(generator, n, (1e4, -1e4, 1, -1, _width(beta), _width(beta) / 2))
    return _cast(f.scatter(1, torch.randint(k, (n, 1), generator=generator), height), dtype)


def constant(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """All logits equal."""
    return _cast(_choice(generator, n, (0, 0.1, -3.3, 7.7, 1e4)).expand(n, k), dtype)


def edge(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """One logit lies beta above all others, which are at the edge of the support, or a unit in the last place off.

    In a third of the rows all smaller logits are at the edge. In a third of the rows each smaller logit is off the edge
    by -1, 0 or 1 units. In the other rows a quarter of the smaller logits lies within the support.
    """
    top = _choice(generator, n, (0, 1, -3.3, 1000))
    at_edge = _cast((top - _width(beta)).expand(n, k), dtype)
    kind = _integers(generator, n, 3)[:, None]
    off = torch.randint(-1, 2, (n, k), generator=generator)
    inside = (kind == 2) & (torch.rand(n, k, generator=generator) < 0.25)
    within = _cast(top - _width(beta) * torch.rand(n, k, dtype=torch.float64, generator=generator), dtype)
    f = torch.where(inside, within, nudged(at_edge, torch.where(kind == 0, 0, off)))
    return f.scatter(1, torch.randint(k, (n, 1), generator=generator), _cast(top, dtype))


def lead(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """One logit lies beta above the others, which are equal up to rounding, or nearly equal."""
    f = _choice(generator, n, (1e-6, 1e-3, torch.finfo(dtype).eps)) * _randn(generator, n, k)
    f[:, 0] += _width(beta)
    return _cast(_shuffled(generator, f), dtype)


def part_at_edge(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Some logits drawn from N(0, beta^2), and all others at the edge of their support, or a unit off."""
    part = 1 + int((k - 1) ** torch.rand((), generator=generator).item()) if k > 2 else 1
    scale = _width(beta) * _choice(generator, n, (1, 1, 0.25))
    f = _cast(scale * _randn(generator, n, k), dtype)
    solved = truth.solve(f[:, :part].double().numpy(), min(beta, _width(beta)))
    bottom = f[:, :part].double().amax(-1) - torch.from_numpy((solved.t + solved.beta).astype(float))
    off = torch.randint(-1, 2, (n, k - part), generator=generator) * _integers(generator, n, 2)[:, None]
    f[:, part:] = nudged(_cast(bottom[:, None].expand(n, k - part), dtype), off)
    return _shuffled(generator, f)


def tied_near_edge(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Up to four logits, and equal others, 1 to 2048 units (in half precision 1 to 32) off the edge of the support.

    If t changes by less than the dtype can represent, all the equal logits enter the support.
    """
    part = min(k, 1 + int(torch.randint(4, (), generator=generator)))
    scale = _width(beta) * _choice(generator, n, (0.05, 0.2, 1))
    f = _cast(scale * _randn(generator, n, part) + _choice(generator, n, (0, 1, 10)), dtype)
    solved = truth.solve(f.double().numpy(), min(beta, _width(beta)))
    bottom = f.double().amax(-1) - torch.from_numpy((solved.t + solved.beta).astype(float))
    units = 2 ** _integers(generator, n, 12 if f.element_size() > 2 else 6) * (2 * _integers(generator, n, 2) - 1)
    edge = _cast(bottom[:, None], dtype)
    tied = nudged(edge, units[:, None])
    tied = torch.where(tied.isfinite(), tied, edge)  # at the ends of the range
    return _shuffled(generator, torch.cat((f, tied.expand(n, k - part)), 1))


def subnormal(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Multiples of the smallest number of the dtype; half of the rows also hold ordinary logits."""
    small = torch.randint(-1000, 1001, (n, k), generator=generator) * torch.finfo(dtype).smallest_normal / 1024
    ordinary = (torch.rand(n, k, generator=generator) < 0.5) & (_integers(generator, n, 2)[:, None] == 1)
    return _cast(torch.where(ordinary, _randn(generator, n, k), small.double()), dtype)


def huge(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Logits of 1e30, of -1e30 or of the largest number of the dtype, alone or among ordinary logits."""
    sign = _choice(generator, n, (-1, 1)) * torch.sign(_randn(generator, n, k)) ** _integers(generator, n, 2)[:, None]
    value = _choice(generator, n, (1e30, min(1e30, 0.25 * torch.finfo(dtype).max), torch.finfo(dtype).max))
    ordinary = torch.rand(n, k, generator=generator) < _choice(generator, n, (0, 0.5))
    return _cast(torch.where(ordinary, _randn(generator, n, k), sign * value), dtype)


def masked(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Normal logits; some of them, or all except one, are replaced by -inf."""
    f = normal(generator, n, k, beta, dtype)
    f[torch.rand(n, k, generator=generator) < _choice(generator, n, (0.1, 0.5, 1))] = -torch.inf
    return f.scatter(1, torch.randint(k, (n, 1), generator=generator), _cast(_randn(generator, n, 1), dtype))


def offset(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Normal logits plus a number so large that the dtype rounds them coarsely."""
    large = 0.01 / torch.finfo(dtype).eps
    return _cast(_randn(generator, n, k) + _choice(generator, n, (large, -large, 1000, -1000)), dtype)


def invalid(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Every second row holds a NaN, a +inf, or only -inf."""
    f = normal(generator, n, k, beta, dtype)
    bad = _choice(generator, n, (torch.nan, torch.inf, -torch.inf)).to(dtype)
    at = torch.zeros(n, k, dtype=torch.bool).scatter(1, torch.randint(k, (n, 1), generator=generator), True)
    at |= bad == -torch.inf
    at[::2] = False
    return torch.where(at, bad.expand(n, k), f)


def segments(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Triples of two rows and their exact mean; the rows have few digits, so that the mean is exact."""
    third, unit = -(-n // 3), 64 * torch.finfo(dtype).eps
    middle, step = (torch.round(_randn(generator, third, k).clamp(-4, 4) / unit) * unit for _ in range(2))
    step = torch.round(step * 2.0 ** -_integers(generator, third, 16)[:, None] / unit) * unit
    scale = 2.0 ** (_integers(generator, third, 6)[:, None, None] - 2)
    return _cast((torch.stack((middle - step, middle, middle + step), 1) * scale).flatten(0, 1)[:n], dtype)


def betas(generator: Generator, n: int, k: int, beta: float, dtype: torch.dtype) -> Tensor:
    """Rows of the other families, each solved at neighbouring betas."""
    mixed = (normal, ladders, lead, part_at_edge)
    parts = [family(generator, n, k, beta, dtype) for family in mixed]
    return torch.stack(parts)[_integers(generator, n, len(mixed)), torch.arange(n)]


_SPREAD = (normal, ties, near_ties, ladders, clusters, one_hot, constant, offset)
_AT_THE_EDGE = (edge, lead, part_at_edge, tied_near_edge)
_EXTREME = (subnormal, huge, masked, invalid)
_COMPARED = (segments, betas)
FAMILIES: dict[str, Family] = {family.__name__: family for family in (*_SPREAD, *_AT_THE_EDGE, *_EXTREME, *_COMPARED)}


def nudged(f: Tensor, steps: Tensor) -> Tensor:
    """Move finite numbers other than zero by units in the last place, away from zero for positive steps."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[f.element_size()]
    return torch.where(f == 0, f, (f.contiguous().view(bits) + steps.to(bits)).view(f.dtype))


def _width(beta: float) -> float:
    """Return beta, how far below its largest class a row's support may reach, or for infinity a width that suffices."""
    return 50.0 if math.isinf(beta) else beta


def _cast(f: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to a dtype; what is beyond its range becomes its largest number."""
    largest = torch.finfo(dtype).max
    return torch.where(f.isfinite(), f.clamp(-largest, largest), f).to(dtype)


def _randn(generator: Generator, n: int, k: int) -> Tensor:
    return torch.randn(n, k, dtype=torch.float64, generator=generator)


def _integers(generator: Generator, n: int, high: int) -> Tensor:
    return torch.randint(high, (n,), generator=generator)


def _choice(generator: Generator, n: int, values: tuple[float, ...]) -> Tensor:
    """Draw one of the values for each row: (n, 1), float64."""
    return torch.tensor(values, dtype=torch.float64)[_integers(generator, n, len(values))][:, None]


def _shuffled(generator: Generator, f: Tensor) -> Tensor:
    """Bring the classes of each row into another order."""
    return f.gather(1, torch.rand(f.shape, generator=generator).argsort(1))
