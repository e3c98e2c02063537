"""Which rows are tried: cases of one family, size, dtype and beta, each of which can be drawn again from its name."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import torch

from mgce_lab.soak.families import FAMILIES

_SMALL_BETAS, _LARGE_BETAS = (1, 1 + 1e-12, 1.02, 1.05, 1.18, 1.4, 1.5, 2, 2.7), (3, 4, 5, 11, 20, 100, 1e4, 1e6, 1e9)
BETAS = tuple(float(beta) for beta in (*_SMALL_BETAS, *_LARGE_BETAS, math.inf))
BETAS_OF_A_ROW = 4  # next to one another, at which a row is solved where the results are compared
DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
DTYPE_WEIGHTS = (4, 4, 1, 1)  # half types are solved in float32, and differ in what the rows may be
# Families by which solvers were broken are drawn three times as often as the others.
FAMILY_WEIGHTS = [3 if family in ("edge", "lead", "part_at_edge", "tied_near_edge") else 1 for family in FAMILIES]


@dataclass(frozen=True)
class Size:
    """Numbers of classes: in half of the cases one of those listed, else any from `least` to the last of them."""

    least: int
    listed: tuple[int, ...]
    share: float  # of all rows
    rows: int  # of a case, in a run of less than LONG_RUN rows


# The shares give each size about as many logits. Listed are the sizes at which the code changes its ways: vectors of
# 8 and 16 lanes, blocks of 64 and 128, budgets of steps at 1024, rows in registers up to 4096, vocabularies.
SIZES = (
    Size(1, (1, 2, 3, 7, 16, 17), 0.8899, 255),
    Size(18, (63, 64, 65, 127, 128, 129), 0.1, 63),
    Size(130, (1000, 1024, 1025), 0.0085, 12),
    Size(1026, (4097,), 0.0014, 6),
    Size(4098, (32768, 50000, 100000, 128000), 0.0002, 3),
)


# From so many rows on a case has four times as many: what is not arithmetic then takes little of the time, and of each
# family, dtype and beta there are several cases all the same.
LONG_RUN = 1_000_000


@dataclass(frozen=True)
class Case:
    """A batch of rows; `str` gives the name it can be drawn from again, family:dtype:n:k:beta:seed."""

    family: str
    dtype: str
    n: int
    k: int
    beta: float
    seed: int

    def __str__(self) -> str:
        return ":".join(str(value) for value in astuple(self))

    @property
    def betas(self) -> tuple[float, ...]:
        """The betas at which the rows are solved, ascending: several where the results of one row are compared."""
        if self.family != "betas":
            return (self.beta,)
        first = self.seed % (len(BETAS) - BETAS_OF_A_ROW + 1)
        return BETAS[first : first + BETAS_OF_A_ROW]

    @classmethod
    def parse(cls, name: str) -> Case:
        """Read what `str` wrote."""
        family, dtype, n, k, beta, seed = name.split(":")
        return cls(family, dtype, int(n), int(k), float(beta), int(seed))


def plan(total: int, seed: int) -> Iterator[Case]:
    """Draw the cases of a run of about `total` rows, a row at two betas counted twice; the same for the same seed."""
    draw = random.Random(seed)
    for size in SIZES:
        left = max(1, round(size.share * total))
        most = size.rows * (4 if total >= LONG_RUN else 1)
        while left > 0:
            any_size = round(math.exp(draw.uniform(math.log(size.least), math.log(size.listed[-1]))))
            k = draw.choice((any_size, draw.choice(size.listed)))
            family = draw.choices(list(FAMILIES), FAMILY_WEIGHTS)[0]
            dtype = draw.choices(list(DTYPES), DTYPE_WEIGHTS)[0]
            case = Case(family, dtype, min(most, left + 2), k, draw.choice(BETAS), draw.getrandbits(32))
            yield case
            left -= case.n * len(case.betas)
