"""Call a function for many arguments, one after the other in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mgce._validation import expected, not_installed

Result = TypeVar("Result")
Each = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


@contextmanager
def workers(scheduler: str | None) -> Iterator[Each]:
    """Yield a function that returns what another function returns for each of some arguments.

    A worker that is lost costs what it was computing: Dask gives that to another one.

    Args:
        scheduler: address of the scheduler of a Dask cluster; None for this process.

    Raises:
        ValueError: if Dask is not installed, or there is no scheduler.
    """
    if scheduler is None:
        yield lambda function, arguments: [function(one) for one in arguments]
        return
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise ValueError(not_installed("`--scheduler` needs", "Dask", "dask")) from None
    try:
        client = distributed.Client(scheduler, timeout="10s")
    except (OSError, ValueError) as error:
        raise ValueError(expected("scheduler", "the address of a Dask scheduler, tcp://...", scheduler)) from error
    with client:
        yield lambda function, arguments: client.gather(client.map(function, [*arguments], pure=False))
