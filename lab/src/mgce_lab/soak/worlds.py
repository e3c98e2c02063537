"""Finite worlds of rows with a classifier whose errors are known, and kinds of noise on their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

ATOMS = 300  # of a world


@dataclass(frozen=True, eq=False)
class World:
    """Equally likely atoms, each with a right label and a classifier's probabilities."""

    label: Any  # (a,)
    probs: Any  # (a, k)

    @classmethod
    def of(cls, k: int) -> World:
        """Make a world whose classifier is wrong on 15 % of the atoms, most of them where it is not sure."""
        rng = np.random.default_rng(k)
        label = np.arange(ATOMS) % k
        sure = rng.uniform(0.4, 0.98, ATOMS)
        wrong = np.argsort(sure + rng.normal(0, 0.15, ATOMS))[: round(0.15 * ATOMS)]
        wrong = wrong[sure[wrong] < 0.75]
        guess = label.copy()
        guess[wrong] = (label[wrong] + 1) % k
        probs = rng.dirichlet(np.full(k, 0.5), ATOMS) * (1 - sure[:, None])
        probs[np.arange(ATOMS), guess] += sure
        return cls(label, probs)

    @property
    def error(self) -> float:
        """The probability that the most probable class is wrong."""
        return float((self.probs.argmax(1) != self.label).mean())

    @property
    def own(self) -> Any:
        """The probability of the right label of each atom."""
        return self.probs[np.arange(ATOMS), self.label]

    def sample(self, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        """Draw atoms; give them and their labels."""
        atoms = rng.integers(0, ATOMS, n)
        return atoms, self.label[atoms]


def flip(rng: np.random.Generator, y: Any, k: int, rate: float) -> Any:
    """Replace a share of the labels by other classes, all with equal probability."""
    return np.where(rng.random(y.size) < rate, (y + rng.integers(1, k, y.size)) % k, y)


@dataclass(frozen=True, eq=False)
class InstanceNoise:
    """Noise by which some atoms' labels are wrong more often than others'; a wrong label is mostly the next class."""

    world: World
    chance: Any  # (a,), the probability that the label of each atom is wrong
    pair: float  # the share of wrong labels that are the next class; all other classes share the rest

    @classmethod
    def of(cls, world: World, rate: float, strength: float = 1.0, pair: float = 1.0) -> InstanceNoise:
        """Make noise of a mean rate; at strength 1 it grows with the uncertainty from 0 to thrice the rate.

        At strength 0 the labels of all atoms are wrong with the same probability. Atoms on which the classifier errs
        count as more uncertain than all others. Its errors are the next class, too.
        """
        k = world.probs.shape[1]
        wrong, sure = world.probs.argmax(1) != world.label, world.probs.max(1)
        place = np.empty(ATOMS)
        place[np.lexsort((1 - sure, wrong))] = (np.arange(ATOMS) + 0.5) / ATOMS
        growing = place**2 / (place**2).mean()
        return cls(world, rate * (1 - strength + strength * growing), 1.0 if k == 2 else pair)

    def labels(self, rng: np.random.Generator, atoms: Any) -> Any:
        """Draw the labels that are given to atoms."""
        y, k = self.world.label[atoms], self.world.probs.shape[1]
        step = np.where(rng.random(y.size) < self.pair, 1, rng.integers(1, k, y.size))
        return np.where(rng.random(y.size) < self.chance[atoms], (y + step) % k, y)

    @property
    def _given(self) -> Any:
        """The probability of each given label for each atom."""
        rows, y, k = np.arange(ATOMS), self.world.label, self.world.probs.shape[1]
        given = np.repeat((1 - self.pair) * self.chance[:, None] / (k - 1), k, axis=1)
        given[rows, (y + 1) % k] += self.pair * self.chance
        given[rows, y] = 1 - self.chance
        return given

    @property
    def transition(self) -> Any:
        """The mean probability of each given label for each right one: T."""
        return np.array([self._given[self.world.label == y].mean(0) for y in range(self.world.probs.shape[1])])

    @property
    def disagreement(self) -> float:
        """How often the classifier disagrees with the given label."""
        return float(1 - self._given[np.arange(ATOMS), self.world.probs.argmax(1)].mean())
