"""Draw examples in a random order, in which a person checks them, and compute the probability of each draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mgce._seeds import derived_seed

# Share of the draws that are of rows held out: their right labels bound the error of a model that was not trained on
# them. Of a quarter of the rows held out, half of the draws make that bound as narrow as twice the draws among all
# rows. The bound on what is left wrong in the table is a little wider for it.
HELD_OUT = 0.5


@dataclass(frozen=True)
class Draws:
    """A random order of all n examples, with the probability of each example to be drawn first.

    Attributes:
        number: position of each example in the random order, 1 to n, shape (n,).
        probability: for each example, the probability with which it is the first draw, shape (n,).
    """

    number: NDArray[np.int64]
    probability: NDArray[np.float64]


def draw(keys: Sequence[str], held_out: NDArray[np.bool_], seed: int) -> Draws:
    r"""Return a random order: draw all examples one after the other, without replacement.

    Each draw selects a held-out example with probability 1/2, otherwise a training example. Within each of these two
    groups, all examples not yet drawn have equal probability.

    Args:
        keys: the key of each example; the result does not depend on the order of the examples.
        held_out: whether each example is held out, shape (n,).
        seed: seed of the draws.

    Example:
        >>> drawn = draw(["a", "b", "c", "d"], np.array([True, False, False, False]), seed=0)
        >>> sorted(drawn.number.tolist()), drawn.probability.round(3).tolist()
        ([1, 2, 3, 4], [0.5, 0.167, 0.167, 0.167])
    """
    generator = np.random.default_rng(derived_seed(seed, "review"))
    by_key = np.array(sorted(range(len(keys)), key=lambda place: keys[place]), dtype=np.int64)
    ours, others = (generator.permutation(by_key[part]) for part in (held_out[by_key], ~held_out[by_key]))
    of_ours = generator.random(len(keys)) < HELD_OUT
    turn = np.empty(len(keys), dtype=np.int64)
    for own, drawn in ((ours, of_ours), (others, ~of_ours)):
        turns = np.flatnonzero(drawn)[: len(own)]
        turn[own] = [*turns, *range(len(keys), len(keys) + len(own) - len(turns))]  # once the others are used up
    number = turn.argsort().argsort() + 1
    share = HELD_OUT if len(ours) and len(others) else 1.0
    probability = np.where(held_out, share / max(1, len(ours)), (1 - share * (len(ours) > 0)) / max(1, len(others)))
    return Draws(number, probability)


def share_range(wrong: int, n: int, delta: float = 0.05) -> tuple[float, float]:
    r"""Return a range for the share of wrong labels, from n rows drawn at random, as the review page shows it.

    .. math:: \Big\{p: \frac{B(w + 1/2, n - w + 1/2)}{B(1/2, 1/2)} \le \frac{p^w (1 - p)^{n - w}}{\delta}\Big\}

    if w of the n labels are wrong. The fraction is the mean of the likelihood over shares, with the weights of a beta
    distribution. With probability :math:`1 - \delta`, this mean never exceeds the likelihood of the true share divided
    by :math:`\delta`. So the range holds whenever a person stops.

    Args:
        wrong: number of these rows whose label is wrong.
        n: number of rows.
        delta: probability in (0, 1) with which the range may fail.

    Example:
        >>> [round(end, 3) for end in share_range(10, 30)]
        [0.116, 0.617]

    Reference: Robbins (1970), Statistical methods related to the law of the iterated logarithm.
    """
    from scipy import optimize, special

    log = special.betaln(wrong + 0.5, n - wrong + 0.5) - special.betaln(0.5, 0.5) + np.log(delta)

    def beaten(share: float) -> float:
        return float(log - special.xlogy(wrong, share) - special.xlogy(n - wrong, 1 - share))

    lower = optimize.brentq(beaten, np.finfo(float).eps, wrong / n) if wrong else 0.0
    upper = optimize.brentq(beaten, wrong / n, 1 - np.finfo(float).eps) if wrong < n else 1.0
    return lower, upper
