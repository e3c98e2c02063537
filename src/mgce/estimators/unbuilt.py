"""Read the numbers and names in an estimator's file without building its objects; check the type of each value.

:func:`mgce.estimators.load` builds the objects and fills their attributes with whatever the file holds. With this
module the caller asks by name for each value that it needs, and builds the objects itself. Nothing else in the file is
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._validation import expected
from mgce.estimators.archive import Arrays, unpack


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
        """Return the tag and the content of this part; a list or a plain value has the name of its type as tag."""
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
