"""Read the input of commands on tables: a table, a table with embeddings in other files, or a folder of pictures."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import pandas as pd
import typer
from rich.console import Console

from mgce._messages import expected
from mgce.desk.cli.main import exit_code
from mgce.desk.cli.shared_options import Form, parse_names, refuse
from mgce.desk.cli.terminal import steps_shown
from mgce.desk.columns.embeddings import COLUMN, as_table, beside, read_all
from mgce.desk.encoders.embedding import Encoder, Inputs, embed, pictures_in, unread_pictures
from mgce.desk.encoders.libraries import BUILT_IN, load_encoder
from mgce.desk.files.layout import Names
from mgce.desk.files.parts import is_parts, part_files
from mgce.desk.files.reading import Reading, cells_with_line_breaks
from mgce.desk.files.table_files import accounted, read_accounted
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.review.suspect_file import PICTURE
from mgce.desk.tables.model import TableModel
from mgce.features.feature_files import NPY, NPZ, PARQUET, SAFETENSORS, Card, Features, read_features, sidecar


def loaded_encoder(name: str, kind: str, **options: Any) -> Encoder:
    """Load an encoder; if its library is not installed, raise a ValueError whose message is one sentence.

    Args:
        name: name of the encoder.
        kind: the kind of its inputs, `PICTURES` or `TEXTS`.
        **options: options of :func:`mgce.desk.encoders.libraries.load_encoder`.

    Raises:
        ValueError: if the encoder cannot be loaded.
    """
    try:
        return load_encoder(name, kind, **options)
    except ImportError as error:
        raise ValueError(str(error)) from error


def embed_with_progress(console: Console, encoder: Encoder, inputs: Inputs, out: Path, **options: Any) -> bool:
    """Encode all inputs into a file; after Ctrl-C, the same command continues where it was stopped.

    Args:
        console: where the command prints, see :func:`mgce.desk.cli.terminal.steps_shown`.
        encoder: the encoder.
        inputs: the pictures or texts to encode.
        out: the file of features.
        **options: options of :func:`mgce.desk.encoders.embedding.embed`.

    Returns:
        Whether anything had to be encoded.
    """
    with steps_shown(console, "Encoding") as told:
        try:
            return embed(encoder, inputs, out, on_rows=partial(told, "Encoding"), **options)
        except ImportError as error:
            raise ValueError(str(error)) from error
        except KeyboardInterrupt as error:
            console.print("Interrupted: the same command goes on from here.")
            raise typer.Exit(exit_code(error)) from None


PATH, LABEL = "path", "label"  # columns of a folder of classes: a file seen from the folder, and the folder it lies in
EMBEDDINGS = "Files of features of a table's rows, as `mgce embed` writes them, with commas between."


@dataclass(frozen=True)
class NewForm(Form):
    """The options on the format of new rows for a fitted model."""

    embeddings: Annotated[str | None, EMBEDDINGS] = None


@dataclass(frozen=True)
class PredictForm(NewForm):
    """The options on the format of rows to predict, which may be pictures."""

    encoder: Annotated[str | None, f"Encoder of a folder of pictures, if it is not {BUILT_IN}."] = None


@dataclass(frozen=True)
class Source:
    """A table that a command has read, the report on its file, and notes for the user.

    If the table has embeddings, `card` describes the encoder that made them.
    """

    frame: pd.DataFrame
    reading: Reading
    id: str | None = None  # the column that names the rows
    card: Card | None = None  # of the encoder
    notes: list[str] = field(default_factory=list)

    @property
    def all_notes(self) -> list[str]:
        """Notes for the user on the file, on its embeddings, and on cells with line breaks."""
        return [*self.reading.notes, *self.notes, *cells_with_line_breaks(self.frame)]


def read_source(
    table: Path,
    text: Collection[str],
    classes: Collection[str],
    form: TextFormat,
    embeddings: str | None,
    id: str | None,
) -> Source:
    """Read a table to fit a model to, with its embeddings if `embeddings` names files of them.

    Args:
        table: the file.
        text: columns whose values stay text.
        classes: the columns of the labels.
        form: format of a text file.
        embeddings: paths of files of features, with commas between; None for no such file.
        id: the column that names the rows.
    """
    frame, reading = read_accounted(table, "table", text=text, classes=classes, form=form)
    if embeddings is None:
        return Source(frame, reading, id)
    features = read_all([*map(Path, parse_names(embeddings))])
    frame, column, notes = beside(frame, features, id)
    return Source(frame, reading, id or column, features.card, notes)


class FolderLabels(NamedTuple):
    """The table of the labels of a folder of pictures."""

    frame: pd.DataFrame
    reading: Reading
    id: str | None  # the column of the paths, if it is known
    of_file: bool  # whether the labels are those of a table, and not the folders of the pictures


def folder_labels(inputs: Inputs, labels: Path | None, target: str, form: TextFormat, id: str | None) -> FolderLabels:
    """Return the table of the labels of a folder of pictures.

    Args:
        inputs: the pictures; without a file of labels, the folders that they lie in are the classes.
        labels: a table of labels, one of whose columns holds the pictures' paths from the folder; None for no file.
        target: the column of the labels.
        form: format of the table of labels, if it is a text file.
        id: the column of the paths; None to find it.
    """
    if labels is None:
        return FolderLabels(*accounted(by_class(inputs, target)), PATH, of_file=False)
    text = [target, *([] if id is None else [id])]
    read = read_accounted(labels, "target_file", text=text, classes=[target], form=form)
    return FolderLabels(*read, id, of_file=True)


def read_folder(
    console: Console,
    folder: Path,
    inputs: Inputs,
    labelled: FolderLabels,
    encoder: str,
    out: Path,
) -> Source:
    """Encode the pictures of a folder, and return them as a table with their labels.

    Args:
        console: shows the progress.
        folder: the folder.
        inputs: its pictures.
        labelled: the table of their labels.
        encoder: name of the encoder.
        out: file for the features. Features that the file already holds are kept.
    """
    frame, reading, id, of_file = labelled
    features, lost, unread = encoded(console, inputs, encoder, out)
    if lost and of_file:
        what = f"a table of pictures that can be read in {folder}"
        raise ValueError(expected("target_file", what, f"{len(lost):,} that cannot, such as {lost[0]}"))
    frame = frame[~frame[PATH].isin(lost)].reset_index(drop=True) if lost else frame
    frame, column, notes = beside(frame, features, id)
    notes = [*unread, *notes]
    if column is None:
        what = f"a table with a column of paths of pictures in {folder}, such as {inputs.names[0]}"
        raise ValueError(expected("target_file", what, "none"))
    if not of_file:
        classes = len({name.partition("/")[0] for name in frame[column].astype(str)})
        reading = replace(reading, file=folder.resolve().name, source="folders of pictures", classes=classes)
    files = dict(zip(inputs.names, inputs.items, strict=True))
    pictures = [os.path.relpath(files[name], out.parent) for name in frame[column].astype(str)]
    return Source(frame.assign(**{PICTURE: pictures}), reading, column, features.card, notes)


def by_class(inputs: Inputs, target: str) -> pd.DataFrame:
    """Return the table of a folder of classes: each picture's path, and the folder that it lies in as its label.

    Raises:
        ValueError: if a picture lies in no folder of a class.
    """
    for name in inputs.names:
        if "/" not in name:
            what = "a folder with a folder of pictures for each class, or given with --target-file"
            raise ValueError(expected("table", what, f"one where {name} lies in no such folder"))
    return pd.DataFrame({PATH: inputs.names, target: [name.partition("/")[0] for name in inputs.names]})


def encoded(console: Console, inputs: Inputs, encoder: str, out: Path) -> tuple[Features, list[str], list[str]]:
    """Encode pictures, write their features to the file `out`, and return the features.

    Also return the names of pictures that cannot be read, and sentences on all pictures that were left out.
    """
    embed_with_progress(console, loaded_encoder(encoder, inputs.kind), inputs, out)
    features = read_features(out)
    lost, notes = unread_pictures(inputs, features.names)
    return features, lost, [*inputs.notes, *notes]


def read_new(
    console: Console,
    fitted: TableModel,
    table: Path,
    text: Collection[str],
    classes: Collection[str],
    form: NewForm,
) -> Source:
    """Read new rows for a fitted model from a table, a table with embeddings, a file of features or a picture folder.

    Args:
        console: shows the progress.
        fitted: the model. Pictures are encoded by the built-in encoder or the one that `form` names. The encoder that
            the model's file names is never loaded: the file may be from somebody else.
        table: the file or folder.
        text: columns whose values stay text.
        classes: columns of classes or names, in which only an empty cell is missing.
        form: format of a text file, with the files of features and the encoder.

    Raises:
        ValueError: if the features are of another encoder than the model's.
    """
    width, id = fitted.columns.width, fitted.columns.id
    embeddings, encoder = form.embeddings, form.encoder if isinstance(form, PredictForm) else None
    if not width:
        refuse("given with a model of embeddings", embeddings=embeddings, encoder=encoder)
    if width and table.is_dir() and not is_parts(table):
        with TemporaryDirectory() as folder:
            inputs = Inputs.of_folder(table)
            features, _, notes = encoded(console, inputs, encoder or BUILT_IN, Path(folder, "new.npz"))
        return replace(_of_features(features, fitted), notes=notes)
    if width and embeddings is None and table.suffix.lower() in (NPY, NPZ, SAFETENSORS):
        return _of_features(read_features(table, "table"), fitted)
    # Before the embeddings are there, the table need not have their column.
    columns = fitted.columns
    names = Names([*columns.kinds, *classes], form.header, columns.target)
    frame, reading = read_accounted(table, "table", text=text, classes=classes, form=form, names=names)
    if not width or (embeddings is None and fitted.columns.embedding in frame.columns):
        return Source(frame, reading, id)
    if embeddings is None and table.suffix.lower() == PARQUET:
        return _of_features(read_features(table, "table"), fitted)
    if embeddings is None:
        what = f"a table with a column {fitted.columns.embedding!r}, features, a folder of pictures, or --embeddings"
        raise ValueError(expected("table", what, table.name))
    features = read_all([*map(Path, parse_names(embeddings))])
    frame, _, notes = beside(frame, features, id if id in frame.columns else None)
    return Source(_named(frame, fitted, features), reading, id, features.card, notes)


def _of_features(features: Features, fitted: TableModel) -> Source:
    frame, reading = accounted(as_table(features, fitted.columns.id))
    return Source(_named(frame, fitted, features), reading, fitted.columns.id, features.card)


def _named(frame: pd.DataFrame, fitted: TableModel, features: Features) -> pd.DataFrame:
    """Check a table's embeddings against the model, and return the table with their column named as in the model."""
    if fitted.encoder is not None:
        fitted.encoder.require(features.card)
    if features.values.shape[1] != fitted.columns.width:
        what = f"features of {fitted.columns.width:,} numbers, as the model has them"
        raise ValueError(expected("embeddings", what, f"{features.values.shape[1]:,}"))
    return frame.rename(columns={COLUMN: fitted.columns.embedding})


def files_of(source: Path) -> list[Path]:
    """Return the parts or pictures in a folder; or the file, and the description beside it if it is an .npy file."""
    if source.is_dir():
        return part_files(source) or [*pictures_in(source)]
    return [source, sidecar(source)] if source.suffix.lower() == NPY else [source]


def files_of_features(embeddings: str | None) -> list[Path]:
    """Return the files that an option `--embeddings` names, with the descriptions beside them."""
    return [] if embeddings is None else [path for name in parse_names(embeddings) for path in files_of(Path(name))]


def files_of_encoder(encoder: str | None) -> list[Path]:
    """Return the files of an encoder whose name is that of a local folder; none for any other encoder."""
    names = [] if encoder is None else [encoder, encoder.partition(":")[2]]
    return [path for name in names if name and Path(name).is_dir() for path in Path(name).rglob("*") if path.is_file()]
