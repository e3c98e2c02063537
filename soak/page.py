"""The results as text and as a page of the documentation: `python -m soak.page` renders the JSON that was saved last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS, PAGE = Path("results/reliability/numerics.json"), Path("docs/reliability.md")


def table_of_errors(summary: dict[str, Any]) -> str:
    """Give the worst error of each quantity, with the case that replays it, and what is beyond its limit."""
    lines = []
    for where, record in summary["worst"].items():
        backend, dtype, quantity = where.split("/")
        over = [
            family
            for b, d, family, q in (name.split("/") for name in summary["failures"])
            if (b, d, q) == (backend, dtype, quantity)
        ]
        at = f"{record['case']} row {record['row']}, beta {record['beta']:.12g}"
        text = f"{backend:10}{dtype:9}{quantity:14}{record['error']:>10.4g}  {at}"
        lines.append(text + (f"\n    BEYOND ITS LIMIT {summary['limits'][quantity]:g} in: {', '.join(over)}" if over else ""))
    tried = {key: n for key, n in summary["counts"].items() if "/" in key}
    lines.append("Rows: " + ", ".join(f"{key} {n:,}" for key, n in sorted(tried.items())))
    lines.append(f"{len(summary['failures'])} of all backend x dtype x family x quantity are beyond their limits.")
    return "\n".join(lines)


def write(results: dict[str, Any]) -> None:
    """Save the results, and render them."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
