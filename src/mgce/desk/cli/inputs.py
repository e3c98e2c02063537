"""List the files that options of commands stand for, which no command may overwrite."""

from __future__ import annotations

from pathlib import Path

from mgce.desk.cli.list_options import parse_names
from mgce.desk.encoders.inputs import pictures_in
from mgce.features.feature_files import NPY, sidecar


def files_of(source: Path) -> list[Path]:
    """Return the pictures in a folder; or the file itself, and the description beside it if it is an .npy file."""
    if source.is_dir():
        return [*pictures_in(source)]
    return [source, sidecar(source)] if source.suffix.lower() == NPY else [source]


def files_of_features(embeddings: str | None) -> list[Path]:
    """Return the files that an option `--embeddings` names, with the descriptions beside them."""
    return [] if embeddings is None else [path for name in parse_names(embeddings) for path in files_of(Path(name))]


def files_of_encoder(encoder: str | None) -> list[Path]:
    """Return the files of an encoder in a local folder; none of one with another name."""
    names = [] if encoder is None else [encoder, encoder.partition(":")[2]]
    return [path for name in names if name and Path(name).is_dir() for path in Path(name).rglob("*") if path.is_file()]
