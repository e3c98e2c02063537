"""Define the options of commands that run one network: where, and on how many threads."""

from __future__ import annotations

from typing import Annotated

import torch
import typer

from mgce._validation import check_count

Threads = Annotated[int | None, typer.Option(help="Threads of the network [all cores].")]
Device = Annotated[str, typer.Option(help="Where the network runs, such as cpu or cuda.")]


def use_threads(threads: int | None) -> None:
    """Let PyTorch compute on so many threads; None leaves their number as it is.

    Raises:
        ValueError: if there is not at least one thread.
    """
    if threads is not None:
        check_count("threads", threads, minimum=1)
        torch.set_num_threads(threads)
