"""What commands on tables read: a table, one with embeddings in files beside it, or a folder of pictures."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from rich.console import Console

from mgce._validation import expected
from mgce.desk.cli.encoding import embed_with_progress, loaded_encoder
from mgce.desk.cli.list_options import parse_names
from mgce.desk.columns.embeddings import COLUMN, as_table, beside, read_all
from mgce.desk.encoders.embedding import unread_pictures
from mgce.desk.encoders.inputs import Inputs
from mgce.desk.encoders.libraries import BUILT_IN
from mgce.desk.files.reading import Reading, cells_with_line_breaks
from mgce.desk.files.table_files import accounted, read_accounted
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.review.suspect_file import PICTURE
from mgce.desk.tables.model import TableModel
from mgce.features.card import Card
from mgce.features.feature_files import NPY, NPZ, PARQUET, SAFETENSORS, Features, read_features

PATH, LABEL = "path", "label"  # columns of a folder of classes: a file seen from the folder, and the folder it lies in
EMBEDDINGS = "Files of features of a table's rows, as `mgce embed` writes them, with commas between."


@dataclass(frozen=True)
class Source:
    """A table with what has to be known of its embeddings."""

    frame: pd.DataFrame
    reading: Reading
    id: str | None = None  # the column that names the rows
    card: Card | None = None  # of the encoder
    notes: list[str] = field(default_factory=list)

    @property
    def all_notes(self) -> list[str]:
        """Notes on the file, on its embeddings, and on cells with line breaks."""
        return [*self.reading.notes, *self.notes, *cells_with_line_breaks(self.frame)]


def read_source(
    table: Path,
    text: Collection[str],
    classes: Collection[str],
    form: TextFormat,
    embeddings: str | None,
    id: str | None,
) -> Source:
    """Read a table to fit to, with its embeddings, if there are files of them.

    Args:
        table: the file.
        text: columns whose values stay text.
        classes: the columns of the labels.
        form: of a text file.
        embeddings: paths of files of features, with commas between; None for no such file.
        id: the column that names the rows.
    """
    frame, reading = read_accounted(table, "table", text=text, classes=classes, form=form)
    if embeddings is None:
        return Source(frame, reading, id)
    features = read_all([*map(Path, parse_names(embeddings))])
    frame, column, notes = beside(frame, features, id)
    return Source(frame, reading, id or column, features.card, notes)


def read_folder(
    console: Console,
    folder: Path,
    labels: Path | None,
    target: str,
    form: TextFormat,
    id: str | None,
    encoder: str,
    out: Path,
) -> Source:
    """Encode the pictures of a folder, and return them as a table with their labels.

    Args:
        console: shows the progress.
        folder: the folder; without a file of labels, the folders in it are the classes.
        labels: a table of labels, one of whose columns holds the pictures' paths from the folder; None for no file.
        target: the column of the labels.
        form: of the table, if it is a text file.
        id: the column of the paths; None to find it.
        encoder: name of the encoder.
        out: file for the features. Those that are there already are kept.
    """
    inputs = Inputs.of_folder(folder)
    if labels is None:
        frame, reading = accounted(by_class(inputs, target))
        id = PATH
    else:
        text = [target, *([] if id is None else [id])]
        frame, reading = read_accounted(labels, "target_file", text=text, classes=[target], form=form)
    features, lost, unread = encoded(console, inputs, encoder, out)
    if lost and labels is not None:
        what = f"a table of pictures that can be read in {folder}"
        raise ValueError(expected("target_file", what, f"{len(lost):,} that cannot, such as {lost[0]}"))
    frame = frame[~frame[PATH].isin(lost)].reset_index(drop=True) if lost else frame
    frame, column, notes = beside(frame, features, id)
    notes = [*unread, *notes]
    if column is None:
        what = f"a table with a column of paths of pictures in {folder}, such as {inputs.names[0]}"
        raise ValueError(expected("target_file", what, "none"))
    files = dict(zip(inputs.names, inputs.items, strict=True))
    pictures = [os.path.relpath(files[name], out.parent) for name in frame[column].astype(str)]
    return Source(frame.assign(**{PICTURE: pictures}), reading, column, features.card, notes)


def by_class(inputs: Inputs, target: str) -> pd.DataFrame:
    """Return the table of a folder of classes: each picture's path, and the folder that it lies in as its label.

    Raises:
        ValueError: if a picture lies in no such folder.
    """
    for name in inputs.names:
        if "/" not in name:
            what = "a folder with a folder of pictures for each class, or given with --target-file"
            raise ValueError(expected("table", what, f"one where {name} lies in no such folder"))
    return pd.DataFrame({PATH: inputs.names, target: [name.partition("/")[0] for name in inputs.names]})


def encoded(console: Console, inputs: Inputs, encoder: str, out: Path) -> tuple[Features, list[str], list[str]]:
    """Return the features of pictures by an encoder, and leave them in a file.

    Also return the names of pictures that cannot be read, and sentences on all that were left out.
    """
    embed_with_progress(console, loaded_encoder(encoder, inputs.kind), inputs, out)
    features = read_features(out)
    lost, notes = unread_pictures(inputs, features.names.tolist() if features.names is not None else inputs.names)
    return features, lost, [*inputs.notes, *notes]


def read_new(
    console: Console,
    fitted: TableModel,
    table: Path,
    text: Collection[str],
    classes: Collection[str],
    form: TextFormat,
    embeddings: str | None,
    encoder: str | None,
) -> Source:
    """Read new rows for a fitted model: a table, with embeddings in it or beside it, features, or pictures.

    Args:
        console: shows the progress.
        fitted: the model. Its encoder is loaded only if it is the built-in one, or named by `encoder`: the name in a
            file of somebody else may stand for anything.
        table: the file or folder.
        text: columns whose values stay text.
        classes: columns of classes.
        form: of a text file.
        embeddings: paths of files of features, with commas between; None for no such file.
        encoder: name of the encoder of pictures; None for the built-in one.

    Raises:
        ValueError: if they are features of another encoder.
    """
    width, id = fitted.columns.width, fitted.columns.id
    if not width:
        for option, given in (("embeddings", embeddings), ("encoder", encoder)):
            if given is not None:
                raise ValueError(expected(option, "given with a model of embeddings", given))
    if width and table.is_dir():
        with TemporaryDirectory() as folder:
            inputs = Inputs.of_folder(table)
            features, _, notes = encoded(console, inputs, encoder or BUILT_IN, Path(folder, "new.npz"))
        return replace(_of_features(features, fitted), notes=notes)
    if width and embeddings is None and table.suffix.lower() in (NPY, NPZ, SAFETENSORS):
        return _of_features(read_features(table, "table"), fitted)
    # Before the embeddings are there, the table need not have their column.
    frame, reading = read_accounted(table, "table", text=text, classes=classes, form=form)
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
    """Return a table whose column of embeddings has the model's name for it, after checking their encoder."""
    if fitted.encoder is not None:
        fitted.encoder.require(features.card)
    if features.values.shape[1] != fitted.columns.width:
        what = f"features of {fitted.columns.width:,} numbers, as the model has them"
        raise ValueError(expected("embeddings", what, f"{features.values.shape[1]:,}"))
    return frame.rename(columns={COLUMN: fitted.columns.embedding})
