"""What runs of `files`, `faults` and `load` found, before and after the mending: files that the page is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path("results/reliability")


def write(kind: str, when: str, document: dict[str, Any]) -> None:
    """Store the results of one kind of test, from before or from after the improvements."""
    path = RESULTS / f"{kind}.json"
    stored = read(kind)
    stored[when] = document
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1) + "\n")


def read(kind: str) -> dict[str, Any]:
    """Return the results of one kind, by `before` and `after`; none if there are none."""
    path = RESULTS / f"{kind}.json"
    return json.loads(path.read_text()) if path.is_file() else {}
