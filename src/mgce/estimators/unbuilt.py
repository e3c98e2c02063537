"""Read the numbers and names in an estimator's file without building its objects; check the type of each value.

skops would build the objects and fill their attributes with whatever the file holds. With this module the caller asks
by name for each value that it needs, and builds the objects itself. Nothing else in the file is read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

from mgce._limits import TooLargeError, check_zip
from mgce._validation import expected
from mgce.estimators.archive import check_array, read_schema


@dataclass(frozen=True)
class Node:
    """A part of a file: an object, a dictionary, a list or tuple, an array, or a plain value."""

    name: str  # its path in the file, for errors
    tree: Any  # its description in the schema
    members: Members

    @property
    def kind(self) -> str:
        """The full name, with the module, of the part's class."""
        module, name = self._field("__module__"), self._field("__class__")
        if not (isinstance(module, str) and isinstance(name, str)):
            raise ValueError(expected(self.name, "a part with a class", type(self.tree).__name__))
        return f"{module}.{name}"

    @property
    def fields(self) -> Mapping[str, Node]:
        """The attributes of an object by name, or the values of a dictionary by key."""
        content = self._field("content")
        if self._field("__loader__") == "ObjectNode":
            content = content.get("content") if isinstance(content, dict) else None
        if not isinstance(content, dict):
            raise ValueError(expected(self.name, "an object or a dictionary", self.kind))
        return {key: Node(f"{self.name}.{key}", tree, self.members) for key, tree in content.items()}

    def __getitem__(self, name: str) -> Node:
        fields = self.fields
        if name not in fields:
            raise ValueError(expected(self.name, f"something with `{name}`", "nothing of that name"))
        return fields[name]

    def items(self) -> list[Node]:
        """Return the items of a list, a tuple, or an array of objects."""
        content = self._field("content")
        if not isinstance(content, list):
            raise ValueError(expected(self.name, "a list", self.kind))
        return [Node(f"{self.name}[{place}]", tree, self.members) for place, tree in enumerate(content)]

    def plain(self) -> str | int | float | bool | None:
        """Return this part as a plain value: a text, a number, a truth value or None."""
        if self._field("__loader__") == "NdArrayNode":  # a number of NumPy's
            return float(self.array(np.float64))
        content = self._field("content")
        value = json.loads(content) if isinstance(content, str) else self
        if not (value is None or isinstance(value, str | int | float)):
            raise ValueError(expected(self.name, "a text, a number, a truth value or None", self.kind))
        return value

    def text(self) -> str:
        """Return this part as a text, which must be encodable in UTF-8."""
        value = self.plain()
        if not isinstance(value, str):
            raise ValueError(expected(self.name, "a text", value))
        value.encode()
        return value

    def texts(self) -> dict[str, str]:
        """Return this part as a dictionary from texts to texts."""
        for name in self.fields:
            name.encode()
        return {name: node.text() for name, node in self.fields.items()}

    def number(self, low: float, high: float) -> float:
        """Return this part as a number, which must lie between `low` and `high`."""
        value = self.plain()
        if isinstance(value, str | bool) or value is None or not low <= value <= high:
            raise ValueError(expected(self.name, f"a number in [{low:g}, {high:g}]", value))
        return float(value)

    def array(self, dtype: Any, *shape: int | None, nan: bool = False) -> NDArray[Any]:
        """Return this part as a finite array of this type and shape; None stands for any length, `nan` allows NaN."""
        values = self.members.read(self._field("file"))
        fits = len(values.shape) == len(shape) and all(
            size in (None, length) for size, length in zip(shape, values.shape, strict=True)
        )
        if values.dtype != dtype or not fits or not (np.isfinite(values) | (nan & np.isnan(values))).all():
            what = f"{np.dtype(dtype).name} of shape {shape}, finite"
            raise ValueError(expected(self.name, what, f"{values.dtype} of shape {values.shape}"))
        return values

    def labels(self) -> NDArray[np.str_]:
        """Return this part as an array of texts, which must be distinct and sorted."""
        values = self.members.read(self._field("file"))
        if values.ndim != 1 or values.dtype.kind != "U" or not values.dtype.isnative:
            raise ValueError(expected(self.name, "a list of texts", f"{values.dtype} of shape {values.shape}"))
        "".join(values.tolist()).encode()
        if not (values[1:] > values[:-1]).all():
            raise ValueError(expected(self.name, "sorted, each text once", "others"))
        return values

    def _field(self, name: str) -> Any:
        return self.tree.get(name) if isinstance(self.tree, dict) else None


class Members:
    """The arrays of an archive. Each array is read once, however many parts refer to it."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._arrays: dict[str, NDArray[Any]] = {}

    def read(self, name: Any) -> NDArray[Any]:
        """Return the array of this name after checking that it holds plain values, not Python objects."""
        if not isinstance(name, str):
            raise ValueError(expected("file", "the name of an array", name))
        if name not in self._arrays:
            content = self._archive.read(name)
            check_array(content)
            self._arrays[name] = np.load(io.BytesIO(content), allow_pickle=False)
        return self._arrays[name]


def read(content: bytes) -> Node:
    """Return the root part of a file that :func:`mgce.estimators.save` has written.

    Such files are not compressed, so reading one takes only a few times its size in memory.

    Raises:
        ValueError: if the file is compressed or too large. Other exceptions if the content is not such a file.
    """
    archive = ZipFile(io.BytesIO(content))
    check_zip(archive)
    infos = archive.infolist()
    # Members that overlap would let a short file expand to a long one.
    if any(info.compress_type != ZIP_STORED for info in infos) or sum(info.file_size for info in infos) > len(content):
        raise TooLargeError(f"a compressed file of {len(content):,} bytes")
    return Node("model", read_schema(archive), Members(archive))
