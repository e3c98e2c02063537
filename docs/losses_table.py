"""The table of docs/losses.md, from what each loss says of itself: `python docs/losses_table.py` prints it."""

from typing import Any

import torch

from mgce.losses.records import REQUIRED, NamedLoss
from mgce_lab.losses import HERE, NAMED

PAGE, PLACE = "losses", "<!-- the table of losses -->"
COLUMNS = (
    *("name", "recommended?", "module", "loss of a row", "hyperparameters: default"),
    *("bounded?", "symmetric?", "convex?", "source"),
)
TOLD = {
    "transition": torch.eye(2),
    "trim": 0.0,
    "num_classes": 2,
    "num_rows": 2,
}  # values for hyperparameters without a default


def table() -> str:
    """Return the table in Markdown, a row for each loss that `robust_loss` makes."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(_row, NAMED.values())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def fill(app: Any, name: str, source: list[str]) -> None:
    """Put the table into its page, when Sphinx has read that."""
    if name == PAGE:
        before, after = source[0].split(PLACE)
        source[0] = before + table() + after


def _row(loss: NamedLoss) -> tuple[str, ...]:
    module = type(loss(**{name: TOLD[name] for name in loss.told})).__name__
    fixed = ", ".join(f"{name}={value:g}" for name, value in loss.fixed.items())
    own = ", ".join(_with_default(name, default) for name, default in loss.hyperparameters.items())
    claims = [
        loss.claims.get(name, "yes" if getattr(loss, name) else "no") for name in ("bounded", "symmetric", "convex")
    ]
    shown = "sum" if len(loss.of) > 1 else f"`{module}({fixed})`" if fixed else f"`{module}`"
    place = "in the lab" if loss.name in HERE else ""
    return (f"`{loss.name}`", "yes" if loss.recommended else place, shown, loss.formula, own, *claims, loss.source)


def _with_default(name: str, default: Any) -> str:
    if default is REQUIRED or default is None:
        return f"`{name}`"
    values = default if isinstance(default, tuple) else (default,)
    return f"`{name}`: {', '.join(f'{value:.4g}' for value in values)}"


if __name__ == "__main__":
    print(table())
