"""Numeric arrays of MATLAB files (level 5), read without compiled code: SciPy's reader can crash on a damaged file."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._limits import EXPANDED_BYTES, inflate

HEADER = 128  # bytes of text, version and byte order before the first element
MATRIX, COMPRESSED = 14, 15  # kinds of elements
DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMERIC = range(6, 16)  # classes of arrays: double, single, and integers
COMPLEX = 0x08  # a flag


def read_arrays(content: bytes, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of these names, as far as they are there and of real numbers.

    An element is a tag, its kind and its length in bytes, and its content. A matrix is an element of four others: flags
    with the class, sizes, name, and values with the first index running fastest, of the smallest type that holds them.

    Args:
        content: of the file.
        names: of the arrays.

    Raises:
        ValueError: if it is no such file, is damaged, or holds more than its limit.

    Example:
        >>> from io import BytesIO
        >>> from scipy.io import savemat
        >>> savemat(file := BytesIO(), {"X": np.arange(6.0).reshape(2, 3)})
        >>> read_arrays(file.getvalue(), ["X"])["X"].tolist()
        [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """
    if len(content) < HEADER or content[126:128] not in (b"IM", b"MI"):
        raise ValueError("no MATLAB file of level 5")
    order = "<" if content[126:128] == b"IM" else ">"
    arrays, left = {}, EXPANDED_BYTES
    for kind, body in _elements(content[HEADER:], order):
        if kind == COMPRESSED:
            try:
                body = inflate(body, left)
            except zlib.error as error:
                raise ValueError(f"damaged compressed content ({error})") from error
            left -= len(body)
            kind, body = next(_elements(body, order), (0, b""))
        if kind == MATRIX:
            name, values = _matrix(body, order)
            if name in names and values is not None:
                arrays[name] = values
    return arrays


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Give the kind and the content of each element; one of four bytes or less may share its tag's eight."""
    place = 0
    while place < len(content):
        if place + 8 > len(content):
            raise ValueError("an element without a whole tag")
        kind, length = struct.unpack_from(f"{order}II", content, place)
        start = place + 8
        if kind >> 16:
            kind, length, start = kind & 0xFFFF, kind >> 16, place + 4
            if length > 4:
                raise ValueError(f"{length} bytes in an element that has room for 4")
        if start + length > len(content):
            raise ValueError(f"an element of {length} bytes where {len(content) - start} are left")
        yield kind, content[start : start + length]
        # Elements begin at multiples of eight; only compressed ones, which hold a whole element, end where they end.
        place = start + length if kind == COMPRESSED else place + 8 * math.ceil((start + length - place) / 8)


def _matrix(body: bytes, order: str) -> tuple[str, NDArray[Any] | None]:
    parts = list(_elements(body, order))
    if len(parts) < 4 or len(parts[0][1]) < 8:
        return "", None
    (flags,) = struct.unpack_from(f"{order}I", parts[0][1])
    (_, sizes), (_, name), (kind, values) = parts[1:4]
    if flags & 0xFF not in NUMERIC or flags >> 8 & COMPLEX or kind not in DTYPES or len(sizes) % 4:
        return name.decode("latin1"), None
    shape = np.frombuffer(sizes, f"{order}i4").tolist()
    dtype = np.dtype(order + DTYPES[kind])
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(values):
        raise ValueError(f"{len(values)} bytes of an array of {dtype} and shape {shape}")
    array = np.frombuffer(values, dtype).reshape(shape, order="F")
    return name.decode("latin1"), array.astype(dtype.newbyteorder("="), copy=False)
