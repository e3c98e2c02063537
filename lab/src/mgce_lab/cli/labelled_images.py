"""What `mgce-lab train` reads: a folder of pictures with their labels, or an .npz file of images and labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._limits import EXPANDED_BYTES, check_zip
from mgce._messages import expected
from mgce._text import printable
from mgce.desk.cli.embedded import LABEL, PATH, by_class
from mgce.desk.columns.embeddings import column_of_names
from mgce.desk.columns.notes import without_label
from mgce.desk.encoders.embedding import Inputs
from mgce.desk.encoders.pictures import on_unread
from mgce.desk.files.table_files import read_accounted, require_column
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.review.suspect_file import PICTURE
from mgce_lab.images.square_images import LEAST_SIZE, Pixels, as_pixels, read_squares, squared

SIZE = 32  # of pictures, in pixels: that of CIFAR, on which small networks are compared
IMAGES, LABELS = "x", "y"  # arrays of an .npz file
ROW = "row"  # the column that names the rows of arrays by their numbers


@dataclass(frozen=True)
class LabelledImages:
    """Square images with a label each, and the table of what is known of each row."""

    pixels: Pixels  # (n, channels, size, size)
    frame: pd.DataFrame  # n rows: names, labels, and of pictures the file as it is seen from the model's folder
    id: str  # the column of the names
    target: str  # the column of the labels
    notes: list[str]

    @property
    def labels(self) -> list[str]:
        """The labels as texts, n of them."""
        return self.frame[self.target].astype(str).tolist()


def read_folder(
    folder: Path,
    labels: Path | None,
    target: str | None,
    size: int | None,
    out: Path,
    on_picture: Callable[[int], None],
) -> LabelledImages:
    """Read the pictures of a folder, with the folders in it as labels, or with the labels of a table.

    Args:
        folder: the folder.
        labels: a table of labels, one of whose columns holds the pictures' paths from the folder; None for no file.
        target: the column of the labels; None for `LABEL`.
        size: to which the pictures are scaled; None for `SIZE`.
        out: the file of the model.
        on_picture: called with the number of pictures read so far.
    """
    inputs, target = Inputs.of_folder(folder), target or LABEL
    if labels is None:
        frame = by_class(inputs, target)
        column: str | None = PATH
    else:
        frame, _ = read_accounted(labels, "target_file", text=[target], classes=[target], form=TextFormat())
        require_column(frame, target, "target")
        column = column_of_names(frame.drop(columns=target), np.array(inputs.names))
    if column is None:
        what = f"a table with a column of paths of pictures in {folder}, such as {inputs.names[0]}"
        raise ValueError(expected("target_file", what, "none"))
    files = dict(zip(inputs.names, inputs.items, strict=True))
    absent = [name for name in frame[column].astype(str) if name not in files]
    if absent:
        got = f"{len(absent):,} that are not there, such as {absent[0]!r}"
        raise ValueError(expected("target_file", f"a table of pictures in {folder}", got))
    frame, notes = _with_label(frame, target)
    unused = len(files) - frame[column].nunique()
    if unused:
        notes.append(f"Of the {len(files):,} pictures, {unused:,} without a label stayed unused.")
    paths = [Path(files[name]) for name in frame[column].astype(str)]
    frame = frame.assign(**{PICTURE: [os.path.relpath(path, out.parent) for path in paths]})
    try:
        pixels, read = read_squares(paths, size or SIZE, on_picture)
    except ImportError as error:  # Pillow, of an extra
        raise ValueError(str(error)) from error
    notes += [*inputs.notes, *on_unread(frame[column][~read].astype(str).tolist(), len(read))]
    return LabelledImages(pixels, frame[read].reset_index(drop=True), column, target, notes)


def read_arrays(path: Path, size: int | None) -> LabelledImages:
    """Read images and labels from an .npz file.

    Args:
        path: the file, with the arrays `IMAGES` and `LABELS`.
        size: to which the images are scaled; None for `SIZE`, or for their own size if that is smaller.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if it is damaged, or has no such arrays.
    """
    arrays = _arrays(path)
    pixels, y = as_pixels(arrays[IMAGES], IMAGES), arrays[LABELS]
    if y.shape != (len(pixels),) or y.dtype.kind not in "biufUS":
        what = f"one label for each of the {len(pixels):,} images, a number or a text"
        raise ValueError(expected(LABELS, what, f"{y.dtype} of shape {y.shape}"))
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    labels = pd.Series(y)
    if y.dtype.kind == "f" and (y[np.isfinite(y)] % 1 == 0).all():
        labels = labels.where(np.isfinite(y)).astype("Int64")  # 3.0 is the label 3
    frame, notes = _with_label(pd.DataFrame({ROW: np.arange(1, len(pixels) + 1), LABEL: labels}), LABEL)
    pixels = squared(pixels[frame[ROW].to_numpy() - 1], size or min(SIZE, *pixels.shape[2:]))
    return LabelledImages(pixels, frame, ROW, LABEL, notes)


def _arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    if not path.is_file():
        raise FileNotFoundError(expected("source", "a folder of pictures, or an .npz file", str(path)))
    try:
        with ZipFile(path) as archive:  # what is not compressed unpacks to no more than the file
            check_zip(archive, limit=max(EXPANDED_BYTES, path.stat().st_size))
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files if name in (IMAGES, LABELS)}
            others = arrays.files
    except Exception as error:  # a damaged file, which NumPy meets with an exception of any type
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        what = f"Expected `source` to be a folder of pictures, or an .npz file, but {path.name} could not be read"
        raise ValueError(printable(f"{what}: {reason}")) from error
    if len(found) < 2:
        got = f"{path.name} with {', '.join(others) or 'none'}"
        raise ValueError(expected("source", f"an .npz file with the arrays {IMAGES} and {LABELS}", got))
    return found


def _with_label(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that have a label, and a note on the others."""
    labelled = frame[target].notna()
    return frame[labelled].reset_index(drop=True), without_label(int((~labelled).sum()))


def check_size(size: int | None) -> None:
    """Require the size of images to be one that the network takes."""
    if size is not None and size < LEAST_SIZE:
        raise ValueError(expected("size", f"an integer of at least {LEAST_SIZE}", size))
