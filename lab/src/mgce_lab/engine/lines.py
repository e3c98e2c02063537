"""Store the results of a study that is stopped and goes on: a file with a line of JSON for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Lines:
    """The results in a file, told apart by some of their fields.

    Args:
        path: the file; it need not exist.
        key: names of the fields that tell two results apart.

    Example:
        >>> import tempfile
        >>> lines = Lines(Path(tempfile.mkdtemp()) / "x.jsonl", "seed")
        >>> {"seed": 0} in lines
        False
        >>> lines.add({"seed": 0, "accuracy": 0.5}, quiet=True)
        >>> {"seed": 0} in lines, lines.read()
        (True, [{'seed': 0, 'accuracy': 0.5}])
    """

    def __init__(self, path: Path, *key: str) -> None:
        self.path, self.key = path, key
        self._done = {self._key(record) for record in self.read()}

    def read(self) -> list[Record]:
        """Return the results, in the order in which they were added."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.is_file() else []

    def __contains__(self, cell: Mapping[str, Any]) -> bool:
        """Return whether there is a result with the fields of this cell."""
        return self._key(cell) in self._done

    def add(self, record: Mapping[str, Any], *, unseen: Sequence[str] = (), quiet: bool = False) -> None:
        """Append a result, and print it without the fields `unseen`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._done.add(self._key(record))
        if not quiet:
            shown = {name: value for name, value in record.items() if name not in unseen}
            sys.stdout.write(json.dumps(shown) + "\n")
            sys.stdout.flush()

    def _key(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(record.get(name) for name in self.key)
