"""Grids of parameters: some combinations run in every tier, and the rest nightly."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest


def pairs(names: str, *values: Sequence[Any], indirect: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Parametrize a test by cases in which values of two parameters meet, each with each; the rest is nightly.

    A fault mostly depends on one or two parameters. All combinations of three parameters are several times as many.
    """
    chosen = covering(*values)
    return grid(names, *values, keep=lambda *case: case in chosen, indirect=indirect)


def grid(
    names: str, *values: Sequence[Any], keep: Callable[..., bool], indirect: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Parametrize a test by all combinations; those that `keep` refuses are nightly."""
    cases = [
        pytest.param(*case, marks=() if keep(*case) else pytest.mark.nightly) for case in itertools.product(*values)
    ]
    return pytest.mark.parametrize(names, cases, indirect=list(indirect))


def covering(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return few combinations that contain each pair of values: the next is always the one with the most new pairs."""
    every = list(itertools.product(*map(range, map(len, values))))
    pairs_of = {case: set(itertools.combinations(enumerate(case), 2)) for case in every}
    left, chosen = set(itertools.chain.from_iterable(pairs_of.values())), []
    while left:
        case = max(every, key=lambda one: len(pairs_of[one] & left))
        left -= pairs_of[case]
        chosen.append(tuple(options[i] for options, i in zip(values, case, strict=True)))
    return chosen
