"""Load an encoder for a command, and encode with a progress bar."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from mgce.desk.cli.progress import steps_shown
from mgce.desk.encoders.embedding import embed
from mgce.desk.encoders.encoder import Encoder
from mgce.desk.encoders.inputs import Inputs
from mgce.desk.encoders.libraries import load_encoder


def loaded_encoder(name: str, kind: str, **options: Any) -> Encoder:
    """Load an encoder; a library that is not installed is an error in the input, told in one sentence.

    Args:
        name: of the encoder.
        kind: what it is to encode.
        **options: of :func:`mgce.desk.encoders.libraries.load_encoder`.

    Raises:
        ValueError: if it cannot be loaded.
    """
    try:
        return load_encoder(name, kind, **options)
    except ImportError as error:
        raise ValueError(str(error)) from error


def embed_with_progress(console: Console, encoder: Encoder, inputs: Inputs, out: Path, **options: Any) -> bool:
    """Encode all inputs into a file; after Ctrl-C, the same command goes on.

    Args:
        console: where the command prints, see :func:`mgce.desk.cli.progress.steps_shown`.
        encoder: the encoder.
        inputs: what it encodes.
        out: the file of features.
        **options: of :func:`mgce.desk.encoders.embedding.embed`.

    Returns:
        Whether anything had to be encoded.
    """
    with steps_shown(console, "Encoding", alike=True) as told:
        try:
            return embed(encoder, inputs, out, on_rows=partial(told, "Encoding"), **options)
        except ImportError as error:
            raise ValueError(str(error)) from error
        except KeyboardInterrupt:
            console.print("Interrupted: the same command goes on from here.")
            raise typer.Exit(130) from None
