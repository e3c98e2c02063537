"""Compose docstrings of losses: the arguments that cross-entropy has too are described here, once."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TypeVar

Documented = TypeVar("Documented", bound=Callable[..., object])

PLACE = "<the arguments of cross-entropy>"
_WEIGHT = "weight: a rescaling weight for each class, shape (C)"
_IGNORED = "ignore_index: a class index; rows with this target add nothing to the loss."
_LAST = 'reduction: `"none"`, `"mean"` or `"sum"`.\nlabel_smoothing: in [0, 1].'
OF_FUNCTIONS = f"""\
input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
target: class indices or class probabilities, as for :func:`mgce_loss`.
{_WEIGHT}.
{_IGNORED}
{_LAST}"""
OF_MODULES = f"""\
{_WEIGHT}; a buffer, as in `nn.CrossEntropyLoss`.
size_average: deprecated, see `reduction`.
{_IGNORED}
reduce: deprecated, see `reduction`.
{_LAST}"""


def with_shared_arguments(documented: Documented) -> Documented:
    """Describe the arguments of cross-entropy in the docstring of a loss function or module, in the line `PLACE`."""
    if documented.__doc__:  # there is none under `python -OO`
        shared = OF_MODULES if isinstance(documented, type) else OF_FUNCTIONS
        documented.__doc__ = documented.__doc__.replace(PLACE, textwrap.indent(shared, 8 * " ").lstrip())
    return documented
