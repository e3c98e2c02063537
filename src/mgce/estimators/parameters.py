"""Check the parameters of an estimator before it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from numbers import Integral
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import config_context
from sklearn.utils import check_random_state

from mgce._messages import expected

Fit = TypeVar("Fit", bound=Callable[..., Any])


class ParameterError(ValueError, TypeError):
    """The error for a parameter of a wrong type or out of range."""


@dataclass(frozen=True)
class Interval:
    """The numbers between two bounds; `closed` says which bounds belong to the interval."""

    kind: type
    low: float
    high: float = np.inf
    closed: str = "left"

    def allows(self, value: Any) -> bool:
        """Return whether a value is one of the numbers."""
        if not isinstance(value, self.kind):
            return False
        number = cast(float, value)
        above = number >= self.low if self.closed in ("left", "both") else number > self.low
        return bool(above and (number <= self.high if self.closed in ("right", "both") else number < self.high))

    def __str__(self) -> str:
        opening = "[" if self.closed in ("left", "both") else "("
        closing = "]" if self.closed in ("right", "both") else ")"
        return f"{'an integer' if self.kind is Integral else 'a float'} in {opening}{self.low}, {self.high}{closing}"


@dataclass(frozen=True)
class Choice:
    """One of several texts."""

    names: Iterable[str]

    def allows(self, value: Any) -> bool:
        """Return whether a value is one of the texts."""
        return isinstance(value, str) and value in self.names

    def __str__(self) -> str:
        return ", ".join(map(repr, sorted(self.names)))


def _is_state(value: Any) -> bool:
    try:
        check_random_state(value)
    except ValueError:
        return False
    return True


NAMED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "random_state": (_is_state, "a seed, a RandomState or None"),
    "boolean": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
}


def checked(fit: Fit) -> Fit:
    """Return the method `fit` with a check before: each parameter must lie in the domains of the class's `_domains`.

    Estimators of scikit-learn that `fit` fits do not check their parameters again.
    """

    @wraps(fit)
    def run(self: Any, *data: Any, **options: Any) -> Any:
        check_parameters(self)
        with config_context(skip_parameter_validation=True):
            return fit(self, *data, **options)

    return cast(Fit, run)


def check_parameters(estimator: Any) -> None:
    """Require each parameter to lie in one of its domains.

    Raises:
        ParameterError: if a parameter is in none of its domains.
    """
    for name, value in estimator.get_params(deep=False).items():
        domains = estimator._domains.get(name, [])
        if domains and not any(_allows(domain, value) for domain in domains):
            raise ParameterError(expected(name, " or ".join(map(_words, domains)), value))


def _allows(domain: Any, value: Any) -> bool:
    if isinstance(domain, Interval | Choice):
        return domain.allows(value)
    if isinstance(domain, str):
        return NAMED[domain][0](value)
    return value is None if domain is None else isinstance(value, domain)


def _words(domain: Any) -> str:
    if isinstance(domain, str):
        return NAMED[domain][1]
    return f"a {domain.__name__}" if isinstance(domain, type) else str(domain)
