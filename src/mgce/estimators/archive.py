"""Pack numbers and names into the bytes of a file, and read them again; no pickle and no object.

The file is a zip archive without compression. Its member `content.json` holds the names, and each array is a member of
its own, in NumPy's format. A *tree* in `content.json` names arrays by their numbers.

:func:`mgce.estimators.load` builds the objects and fills their attributes with whatever the file holds. A caller of
:class:`Node` asks by name for each value that it needs, whose type is checked, and builds the objects itself. Nothing
else in the file is read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from mgce._limits import TooLargeError, check_zip
from mgce._machine import build
from mgce._messages import expected

FORMAT = 2  # version of the format, to be increased when files hold something else
# Bytes of `content.json`. The shortest parts, empty lists, take 60 bytes of memory for each three in the file: 400 MB.
# Most are the names of categories, of which there is room for a million.
CONTENT_BYTES = 1 << 24
CONTENT = "content.json"
KINDS = "biufU"  # of arrays: truth values, whole numbers, fractions and texts; none refers to Python objects


class OtherFormatError(ValueError):
    """The error for a file of a version of mgce with another format."""


class Arrays:
    """The arrays of an archive. Each array is read once, however many parts refer to it."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._read: dict[int, NDArray[Any]] = {}

    def __getitem__(self, number: Any) -> NDArray[Any]:
        """Return the array of this number, after checking its header."""
        if type(number) is not int:
            raise ValueError(expected("array", "the number of an array", number))
        if number not in self._read:
            self._read[number] = _array(self._archive.read(f"{number}.npy"))
        return self._read[number]


def pack(tree: Any, arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return the content of a file; its bytes depend only on the arguments and on the version of mgce.

    Raises:
        TooLargeError: if :func:`unpack` would refuse the file.
    """
    names = {"format": FORMAT, "mgce": build(), "content": tree}
    members = {CONTENT: json.dumps(names, separators=(",", ":"), allow_nan=False).encode()}
    for number, array in enumerate(arrays):
        np.lib.format.write_array(member := io.BytesIO(), array, allow_pickle=False)
        members[f"{number}.npy"] = member.getvalue()
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(ZipInfo(name), content)
    unpack(packed.getvalue())
    return packed.getvalue()


def unpack(content: bytes) -> tuple[Any, Arrays]:
    """Return the tree of a file that :func:`pack` has written, and its arrays, which are read when they are needed.

    Reading takes only a few times the size of the file in memory.

    Raises:
        OtherFormatError: if a version of mgce with another format has written the file.
        ValueError: if the file is compressed or too large. Other exceptions if the content is not such a file.
    """
    archive = ZipFile(io.BytesIO(content))
    check_zip(archive)
    infos = archive.infolist()
    # Members that overlap would let a short file expand to a long one.
    if any(info.compress_type != ZIP_STORED for info in infos) or sum(info.file_size for info in infos) > len(content):
        raise TooLargeError(f"a compressed file of {len(content):,} bytes")
    if archive.getinfo(CONTENT).file_size > CONTENT_BYTES:
        raise TooLargeError(f"names of more than {CONTENT_BYTES:,} bytes")
    names = json.loads(archive.read(CONTENT))
    if names["format"] != FORMAT:
        readable = f"a file of the format that mgce {build()} writes"
        raise OtherFormatError(expected("format", readable, f"that of mgce {names['mgce']}"))
    return names["content"], Arrays(archive)


def _array(content: bytes) -> NDArray[Any]:
    """Return an array from a file in NumPy's format, which must have as many bytes as its header announces."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers: Mapping[tuple[int, int], Callable[[Any], Any]] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = readers[version](file)
    size = dtype.itemsize
    for length in shape:  # exact, unlike NumPy's product
        size *= length
    left = len(content) - file.tell()
    if dtype.kind not in KINDS or min(shape, default=0) < 0 or size != left:
        raise ValueError(f"an array of {dtype} and shape {shape} in {left} bytes")
    file.seek(0)
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


@dataclass(frozen=True)
class Node:
    """A part of a file: an object, a dictionary, a list or tuple, an array, or a plain value."""

    name: str  # its path in the file, for errors
    tree: Any  # what the file says of it
    arrays: Arrays

    @property
    def kind(self) -> str:
        """The name of the part's class, or its tag; the name of a Python type for a plain value or a list."""
        tag, content = self._tagged()
        return str(content[0] if tag == "object" else tag)

    @property
    def fields(self) -> Mapping[str, Node]:
        """The attributes of an object by name, or the values of a dictionary by key."""
        tag, content = self._tagged()
        if tag not in ("object", "dict"):
            raise ValueError(expected(self.name, "an object or a dictionary", self.kind))
        pairs = content[1].items() if tag == "object" else content
        return {key: Node(f"{self.name}.{key}", tree, self.arrays) for key, tree in pairs}

    def __getitem__(self, name: str) -> Node:
        fields = self.fields
        if name not in fields:
            raise ValueError(expected(self.name, f"something with `{name}`", "nothing of that name"))
        return fields[name]

    def items(self) -> list[Node]:
        """Return the items of a list, a tuple, or an array of objects."""
        tag, content = self._tagged()
        if tag not in ("list", "tuple", "objects"):
            raise ValueError(expected(self.name, "a list", self.kind))
        trees = content[1] if tag == "objects" else content
        return [Node(f"{self.name}[{place}]", tree, self.arrays) for place, tree in enumerate(trees)]

    def plain(self) -> str | int | float | bool | None:
        """Return this part as a plain value: a text, a number, a truth value or None."""
        tag, content = self._tagged()
        value = float(content) if tag == "float" else content[1] if tag == "scalar" else self.tree
        if not (value is None or isinstance(value, str | int | float)):
            raise ValueError(expected(self.name, "a text, a number, a truth value or None", self.kind))
        return value

    def data(self) -> Any:
        """Return this part as plain values in dictionaries with texts as keys, and in lists."""
        tag, _ = self._tagged()
        if tag == "dict":
            return {str(name): node.data() for name, node in self.fields.items()}
        return [item.data() for item in self.items()] if tag in ("list", "tuple") else self.plain()

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
        values = self._array()
        fits = len(values.shape) == len(shape) and all(
            size in (None, length) for size, length in zip(shape, values.shape, strict=True)
        )
        if values.dtype != dtype or not fits or not (np.isfinite(values) | (nan & np.isnan(values))).all():
            what = f"{np.dtype(dtype).name} of shape {shape}, finite"
            raise ValueError(expected(self.name, what, f"{values.dtype} of shape {values.shape}"))
        return values

    def labels(self) -> NDArray[np.str_]:
        """Return this part as an array of texts, which must be distinct and sorted."""
        values = self._array()
        if values.ndim != 1 or values.dtype.kind != "U" or not values.dtype.isnative:
            raise ValueError(expected(self.name, "a list of texts", f"{values.dtype} of shape {values.shape}"))
        "".join(values.tolist()).encode()
        if not (values[1:] > values[:-1]).all():
            raise ValueError(expected(self.name, "sorted, each text once", "others"))
        return values

    def _array(self) -> NDArray[Any]:
        tag, content = self._tagged()
        if tag != "array":
            raise ValueError(expected(self.name, "an array", self.kind))
        return self.arrays[content]

    def _tagged(self) -> tuple[str, Any]:
        """Return the tag of this part and what stands under it; for a list or a plain value, its type and itself."""
        if not isinstance(self.tree, dict):
            return type(self.tree).__name__, self.tree
        ((tag, content),) = self.tree.items()
        return tag, content


def read(content: bytes) -> Node:
    """Return the root part of a file that :func:`mgce.estimators.save` has written.

    Raises:
        ValueError: as :func:`mgce.estimators.archive.unpack` does. Other exceptions if the content is not such a file.
    """
    return Node("model", *unpack(content))
