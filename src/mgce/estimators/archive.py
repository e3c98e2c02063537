"""Check the file of an estimator before skops builds objects from it, and rewrite the file in one canonical form.

The file is a zip archive. Its member `schema.json` is a tree of *nodes*: JSON objects, each with a key `__loader__`
that names how skops builds the node. Each array is a member of its own, in NumPy's format. Nodes name the array that
they need.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from mgce._limits import EXPANDED_BYTES, NESTING, TooLargeError, check_zip

# How a part may be built. Left out are the ways of skops that call what a file names, or that fill objects of compiled
# code (trees, generators of random numbers), whose arrays nobody checks.
LOADERS = frozenset(
    {
        "DTypeNode",
        "DictNode",
        "FunctionNode",  # skops itself trusts the mathematical functions of NumPy and SciPy only
        "JsonNode",
        "ListNode",
        "LossNode",
        "MaskedArrayNode",
        "NdArrayNode",
        "ObjectNode",
        "RandomStateNode",
        "SetNode",
        "SliceNode",
        "TupleNode",
        "TypeNode",
    }
)
# Bytes of `schema.json`, and parts of an estimator. A part takes 100 to 200 bytes there, but some 3,000 in memory once
# skops has read it: 600 MB. Most are the categories of columns, of which each is one.
SCHEMA_BYTES = 1 << 26
PARTS = 200_000
SCHEMA = "schema.json"
DATE = (1980, 1, 1, 0, 0, 0)  # of every member: the least that a zip file can hold
STATE_LENGTH = 624  # words of a Mersenne Twister, and the largest position in them


def canonical(content: bytes) -> bytes:
    """Check the file of an estimator; return an equivalent file whose bytes depend only on the estimator.

    skops names objects by their memory addresses, which differ between runs. In the returned file, arrays are numbered
    in the order of the tree of nodes. The names of other objects are removed. Such names let several nodes share one
    object, and a short file could then describe an endless tree. All members of the archive get the same date and no
    compression.

    Raises:
        ValueError: if the file is too large, or holds a part that no estimator of this package has; the message names
            the part. Other exceptions if the file is not a zip archive of this form.
    """
    with ZipFile(io.BytesIO(content)) as archive:
        check_zip(archive)
        members = _Members(archive)
        schema = _checked(read_schema(archive), members.name, 0)
        return _zip({**members.contents, SCHEMA: json.dumps(schema, separators=(",", ":")).encode()})


def read_schema(archive: ZipFile) -> Any:
    """Return the tree of nodes from the `schema.json` of an archive.

    Raises:
        TooLargeError: if `schema.json` has more than `SCHEMA_BYTES` bytes, or describes more than `PARTS` parts.
    """
    if archive.getinfo(SCHEMA).file_size > SCHEMA_BYTES:
        raise TooLargeError(f"a description of more than {SCHEMA_BYTES:,} bytes")
    description = archive.read(SCHEMA)
    if description.count(b"__loader__") > PARTS:
        raise TooLargeError(f"more than {PARTS:,} parts")
    return json.loads(description)


class _Members:
    """The arrays of an archive: each is checked at its first use, and renamed by the order of first uses."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._names: dict[bytes, str] = {}  # by content
        self._read = 0

    @property
    def contents(self) -> dict[str, bytes]:
        """The content of each array, by its new name."""
        return {name: content for content, name in self._names.items()}

    def name(self, loader: str, old: Any) -> str:
        """Return the new name of an array; add its size to the total at each use, since skops rebuilds it each time."""
        if loader != "NdArrayNode" or not isinstance(old, str):
            raise ValueError(f"{loader} with the file {old!r}")
        self._read += self._archive.getinfo(old).file_size
        if self._read > EXPANDED_BYTES:
            raise TooLargeError(f"arrays of more than {EXPANDED_BYTES:,} bytes")
        content = self._archive.read(old)
        if content not in self._names:
            check_array(content)
            self._names[content] = f"{len(self._names)}.npy"
        return self._names[content]


def check_array(content: bytes) -> None:
    """Require the content of a NumPy file to hold no Python objects, and as many bytes as its header announces."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers: Mapping[tuple[int, int], Callable[[Any], Any]] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = readers[version](file)
    expected = dtype.itemsize
    for size in shape:  # exact, unlike NumPy's product
        expected *= size
    left = len(content) - file.tell()
    if dtype.hasobject or min(shape, default=0) < 0 or expected != left:
        raise ValueError(f"an array of {dtype} and shape {shape} in {left} bytes")


def _checked(value: Any, name: Callable[[str, Any], str], depth: int) -> Any:
    """Check a node of `schema.json`; return a copy with new names of arrays, and without names of other objects."""
    if depth > NESTING:
        raise TooLargeError(f"a description nested more than {NESTING} times")
    if isinstance(value, list):
        return [_checked(item, name, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    new = {key: _checked(item, name, depth + 1) for key, item in value.items()}
    loader = value.get("__loader__")
    if isinstance(loader, str):  # else this is the content of a dictionary, whose keys may be any
        _check_loader(loader, value)
        new.pop("__id__", None)
        if "file" in value:
            new["file"] = name(loader, value["file"])
    return new


def _check_loader(loader: str, node: Mapping[str, Any]) -> None:
    if loader not in LOADERS:
        raise ValueError(f"a part built by {loader}: {node.get('__module__')}.{node.get('__class__')}")
    if loader == "RandomStateNode":
        position = node["content"]["content"]["state"]["content"]["pos"]["content"]
        if not 0 <= int(position) <= STATE_LENGTH:  # NumPy reads there unchecked
            raise ValueError(f"a generator of random numbers at position {position}")


def _zip(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(ZipInfo(name, DATE), content)
    return buffer.getvalue()
