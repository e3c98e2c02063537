"""The choice: the code that is judged on a locked list, by its hash, so that nothing is chosen on what was locked."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

RESULTS = Path("results/suite")
CHOICE = RESULTS / "choice.json"
# What was chosen on the choosing tables: how right labels are estimated and learnt, and how labels are ranked.
MODULES = (
    "mgce.labels.correction",
    "mgce.labels.mixture",
    "mgce.labels.doubtful",
    "mgce.labels.sharpened",
    "mgce.estimators.correction",
    "mgce.estimators.fourier_ridge",
)


def hash_of_choice() -> str:
    """Return the SHA-256 of the modules of the choice."""
    total = hashlib.sha256()
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        total.update(Path(spec.origin).read_bytes())
    return total.hexdigest()


def check_readable(which: str) -> None:
    """Refuse to read a locked list unless the choice is the committed one.

    Raises:
        SystemExit: if the list is locked and the code is not that of `choice.json`.
    """
    if which == "choosing":
        return
    committed = json.loads(CHOICE.read_text()) if CHOICE.exists() else {}
    if committed.get(which) != hash_of_choice():
        raise SystemExit(
            f"The list {which!r} is locked: {CHOICE} has no hash of this code for it. Commit the choice first: "
            f"{hash_of_choice()}. Nothing may be chosen on this list afterwards."
        )
