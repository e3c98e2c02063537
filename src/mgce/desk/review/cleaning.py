r"""Clean labels with a proof: which proposals to keep, and which rows to check, so that few wrong labels are left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._messages import expected, expected_share

BoolArray = NDArray[np.bool_]
# Rows that a person drops or skips make the mended table smaller. This share of them is foreseen: of few rows a person
# knows no label. The bound costs about one look in a hundred more for it.
FORESEEN = 0.02
# Share of delta that is spent if no more rows are left out than foreseen. The rest is for a smaller number of wrong
# labels allowed. At 400 to 5,000 rows it costs no look.
SPENT = 0.95
SEED = 2506  # of the sample; not 0, with which people draw their simulations


@dataclass(frozen=True, eq=False)
class Cleaning:
    """The rows to check next, and the rows whose proposed label is kept: masks over the n rows, shape (n,).

    Attributes:
        sample: rows of the random sample, all of which are checked first.
        dropped: rows that are left out of the mended table without a check.
        kept: rows whose proposed label is kept without a check; None until the sample is checked.
        to_check: rows to check next.
        wrong_left: with probability 1 - delta, at most so many labels of the mended table are wrong once no row is
            left to check.
        delta: probability with which this bound may fail.
    """

    sample: BoolArray
    dropped: BoolArray
    kept: BoolArray | None
    to_check: BoolArray
    wrong_left: int
    delta: float

    @property
    def is_done(self) -> bool:
        """Whether every row is checked, dropped, or has a proposal that is kept."""
        return self.kept is not None and not self.to_check.any()


@dataclass(frozen=True)
class Allowance:
    """The arguments for :func:`clean_labels` if some rows are left out of the mended table.

    Attributes:
        at_most: largest share of wrong labels among all rows. It is so small that at most the share that was asked for
            is wrong among the rows that stay.
        delta: probability with which more labels may be wrong.
        sampled: probability with which each row is in the sample; it does not depend on the rows left out.
    """

    at_most: float
    delta: float
    sampled: float


def sample_share(p_wrong: Any, allowed: int, delta: float) -> float:
    r"""Return the probability pi with which each row is in the sample, so that few rows have to be checked.

    For each k, pi is the least with :math:`P\big(\mathrm{Bin}(A + k + 1, \pi) \le k\big) \le \delta`. Let W be the
    estimated number of wrong proposals among the rows up to one row, the least doubtful first. About Poisson(pi W) of
    these proposals are in the sample, and the row is kept if they are k at most. The estimates only change how many
    rows are checked: any pi is valid that is fixed before the checks.

    Args:
        p_wrong: how probably each proposal is wrong, shape (n,).
        allowed: A, the number of wrong labels allowed.
        delta: probability with which more may be wrong.

    Example:
        >>> [round(sample_share(np.full(3000, share), 150, 0.05), 3) for share in (0.0, 0.02, 0.04)]
        [0.02, 0.082, 0.165]
    """
    from scipy import special

    # Fifty numbers of wrong proposals in the sample, of which the best is taken: neighbours differ by a tenth.
    k = np.unique(np.geomspace(1, allowed + 1, 50).astype(np.int64)) - 1
    # Above its rounding errors, so that k errors in the sample are allowed indeed.
    share = np.minimum(1.0, special.bdtri(k.astype(float), allowed + k + 1, delta) * (1 + 1e-9))
    expected_wrong = np.sort(np.clip(p_wrong, 0, 1)).cumsum()
    unseen = [(1 - pi) * special.pdtr(j, pi * expected_wrong).sum() for j, pi in zip(k, share, strict=True)]
    return float(share[np.argmax(unseen)])


def allowance(p_wrong: Any, left_out: int, at_most: float, delta: float) -> Allowance:
    r"""Return how many labels may be wrong, so that at most a share `at_most` is wrong of the rows that stay.

    The number allowed depends on how many rows a person could not label, and so on the sample. There are steps
    :math:`i = 0, 1, \dots`, one for each 2 % of the rows left out. Step i spends :math:`\delta_i`, with
    :math:`\sum_i \delta_i \le \delta`, so that the bound of whichever step is reached holds.

    Args:
        p_wrong: how probably the proposal of each row is wrong, of the n rows that nobody dropped before, shape (n,).
        left_out: number of these rows that a person dropped or skipped.
        at_most: the largest share of wrong labels among the rows that stay, in (0, 1).
        delta: probability in (0, 1) with which more labels may be wrong.

    Raises:
        ValueError: if a share is out of range.

    Example:
        >>> may = allowance(np.full(1000, 0.02), 3, 0.05, 0.05)
        >>> may.at_most, may.delta, round(may.sampled, 3)
        (0.049, 0.0475, 0.163)
    """
    n = len(p_wrong)
    for name, value in (("at_most", at_most), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(expected_share(name, "in (0, 1)", value))
    step = max(0, math.ceil(left_out / (FORESEEN * n)) - 1)
    first = math.floor(at_most * (1 - FORESEEN) * n)
    spent = SPENT if step == 0 else (1 - SPENT) / 2**step
    # With every row left out, nothing may be wrong, but a share has to be positive.
    share = at_most * max(1 / n, 1 - FORESEEN * (step + 1))
    return Allowance(share, spent * delta, sample_share(p_wrong, first, SPENT * delta))


def clean_labels(
    doubt: Any,  # (n,)
    found_wrong: Mapping[int, bool],
    at_most: float = 0.05,
    *,
    drop: float = 0.0,
    known: Any = None,  # (n,)
    delta: float = 0.05,
    sampled: float | None = None,
    generator: np.random.Generator | None = None,
) -> Cleaning:
    r"""Say which rows to check, so that at most a share `at_most` of the labels of the mended table is wrong.

    Each row has a proposed label: the given one, or the suggestion of a model. Each row is in a random sample with
    probability pi, independently of the others. A person checks the whole sample. Then go through the rows from the
    least doubtful one on, and stop before the sample has shown k + 1 wrong proposals. The proposals of the rows passed
    are kept, and all other rows are checked. With A the number of wrong labels allowed,

    .. math:: k = \max\{j: P\big(\mathrm{Bin}(A + j + 1, \pi) \le j\big) \le \delta\}

    The bound holds for every n, whatever the doubts and the noise. Take the wrong proposals in the order of doubt. Each
    is in the sample with probability pi. If more than A wrong proposals are left, at most k wrong proposals in the
    sample come before the (A + 1)-th wrong one outside of it. The number of these is negative binomial, so that this
    event has the probability :math:`P(\mathrm{Bin}(A + k + 1, \pi) \le k) \le \delta`. Nothing is paid for the choice
    of the place to stop.

    Args:
        doubt: how doubtful each proposal is, shape (n,); only the order counts. It must not depend on right labels of
            the rows to be sampled.
        found_wrong: whether the proposal was wrong, for each row that was checked. A row without an answer counts as
            wrong, and has to be left out of the mended table.
        at_most: the largest share of wrong labels in the mended table, in (0, 1).
        drop: share of the rows, the most doubtful ones, to leave out without a check, in [0, 1).
        known: rows whose right label was known beforehand, shape (n,); they are neither sampled nor dropped.
        delta: probability in (0, 1) with which more labels may be wrong.
        sampled: pi, in (0, 1], the same at every call; by default that of :func:`sample_share`, which takes `doubt` for
            the probability that a proposal is wrong.
        generator: NumPy generator for the sample, in the same state at every call; by default one with a fixed seed.

    Returns:
        The rows to check next, and the rows that are kept.

    Raises:
        ValueError: if shapes or shares are out of range.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> doubt = rng.random(2000) ** 3
        >>> wrong = rng.random(2000) < doubt
        >>> first = clean_labels(doubt, {})
        >>> int(first.to_check.sum()), first.wrong_left
        (224, 100)
        >>> looked_up = {int(row): bool(wrong[row]) for row in np.flatnonzero(first.sample)}
        >>> then = clean_labels(doubt, looked_up)
        >>> int(then.to_check.sum()), int((wrong & then.kept).sum())
        (837, 43)

    Reference: Candès, Ilyas and Zrnic (2025), Probably approximately correct labels, arXiv 2506.10908, for the aim.
    """
    from scipy import special

    s = np.asarray(doubt, dtype=np.float64)
    if s.ndim != 1 or s.size == 0:
        raise ValueError(expected("doubt", "of shape (n,) with n >= 1", s.shape))
    for name, value, least in (("at_most", at_most, 0.0), ("delta", delta, 0.0), ("drop", drop, -1.0)):
        if not (0 <= value < 1 and value > least):
            raise ValueError(expected_share(name, "in [0, 1)" if least else "in (0, 1)", value))
    free = np.ones(s.size, dtype=bool) if known is None else ~np.asarray(known, dtype=bool)
    draws = (generator or np.random.default_rng((SEED, s.size))).random(s.size)
    order = np.argsort(s, kind="stable")  # the least doubtful first
    dropped = np.zeros(s.size, dtype=bool)
    dropped[[row for row in order[::-1].tolist() if free[row]][: math.floor(drop * s.size)]] = True
    free &= ~dropped
    allowed = math.floor(at_most * (s.size - int(dropped.sum())))
    chance = sample_share(s[free], allowed, delta) if sampled is None else sampled
    if not 0 < chance <= 1:
        raise ValueError(expected_share("sampled", "in (0, 1]", chance))
    sample = free & (draws < chance)
    looked_up = np.zeros(s.size, dtype=bool)
    looked_up[list(found_wrong)] = True
    if (sample & ~looked_up).any():
        return Cleaning(sample, dropped, None, sample & ~looked_up, allowed, delta)
    k = np.arange(s.size + 1)
    enough = np.flatnonzero(special.bdtr(k.astype(float), allowed + k + 1, chance) <= delta)
    kept = np.zeros(s.size, dtype=bool)
    if enough.size:
        wrong = np.zeros(s.size, dtype=bool)
        wrong[[row for row, was_wrong in found_wrong.items() if was_wrong]] = True
        ordered = order[free[order]]
        kept[ordered[(wrong & sample)[ordered].cumsum() <= enough[-1]]] = True
        # Rows of one doubt are kept together or not at all, so that the order of the file does not matter.
        edge = s[ordered][~kept[ordered]].min(initial=np.inf)
        kept &= s < edge
    return Cleaning(sample, dropped, kept & ~looked_up, free & ~kept & ~looked_up, allowed, delta)
