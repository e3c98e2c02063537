"""Pack numbers and names into the bytes of a file, and unpack them; no pickle and no object.

The file is a zip archive without compression. Its member `content.json` holds the names, and each array is a member of
its own, in NumPy's format. A *tree* in `content.json` names arrays by their numbers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from mgce._limits import TooLargeError, check_zip
from mgce._machine import build
from mgce._validation import expected

FORMAT = 2  # version of the format, to be increased when files hold something else
# Bytes of `content.json`. The shortest parts, empty lists, take 60 bytes of memory for each three in the file: 400 MB.
# Most are the names of categories, of which there is room for a million.
CONTENT_BYTES = 1 << 24
CONTENT = "content.json"
DATE = (1980, 1, 1, 0, 0, 0)  # of every member: the least that a zip file can hold
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
            archive.writestr(ZipInfo(name, DATE), content)
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
