"""The results as text, and as a page of the documentation: `python -m mgce_lab.soak.page` renders those saved last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import machine_line, table
from mgce_lab.soak import hardness
from mgce_lab.soak.families import FAMILIES
from mgce_lab.soak.measure import QUANTITIES

RESULTS, PAGE = Path("results/reliability/numerics.json"), Path("docs/lab/reliability.md")
LATER = " Then the kernels were changed. A remark in the record names the changes, and the tests repeated after them."
MAIN = ("t", "loss", "h", "p", "gradient")
Results = dict[str, Any]


def table_of_errors(results: Results) -> str:
    """Return the worst error of each quantity, with the case that replays it, and what is beyond its limit."""
    lines = []
    for where, worst in results["worst"].items():
        backend, dtype, quantity = where.split("/")
        lines.append(f"{backend:10}{dtype:9}{quantity:14}{worst['error']:>10.4g}  {worst['case']} row {worst['row']}")
        failures = (name.split("/") for name in results["failures"])
        over = [family for *names, family, last in failures if [*names, last] == [backend, dtype, quantity]]
        if over:
            lines.append(f"    BEYOND ITS LIMIT {QUANTITIES[quantity].limit:g} in: {', '.join(over)}")
    lines.append("Rows: " + ", ".join(f"{key} {tried:,}" for key, tried in results["counts"].items()))
    return "\n".join([*lines, f"{len(results['failures'])} beyond their limits."])


def render(results: Results) -> str:
    """Return the page as Markdown; nothing in it is a number that was not measured."""
    over = ", ".join(results["failures"])
    parts = [
        "# Reliability, measured",
        "This page supports [Reliability](../reliability.md).",
        "## No wrong numbers",
        f"Every backend computed the loss, its gradient and the probabilities for {results['rows']:,} rows of "
        "difficult logits. The true values come from separate code in extended precision. "
        + (f"**Beyond their limits: {over}.**" if over else "**No error was above its limit.**"),
        machine_line(results["machine"]) + f" {results['minutes']:.0f} minutes of one process. "
        f"`python -m mgce_lab.soak numerics --rows {results['planned']} --record` measures again."
        + ("" if results["rows"] >= results["planned"] else " **It was stopped before its last row.**")
        + (LATER if "remark" in results else ""),
        "### Worst errors",
        "Each cell is the largest error in any row of logits, in units of eps: the spacing of floating-point numbers "
        "at 1 in the dtype of the result. A backend has up to four dtypes.",
        _by_backend(results),
        "`linear` is the fused linear head. `cuda` is the Triton kernel, in Triton's interpreter. `compile` is plain "
        "operations, compiled by PyTorch. h and p have one implementation, under `torch`.",
        "### What is allowed",
        "f are the logits of a row; phi is the [normalizer](../numerics.md). e_y is 1 at the label and 0 elsewhere.",
        _limits(),
        "`mgce_lab.soak.measure` has five more quantities, `mgce_lab.soak.families` all kinds of rows."
        + _added(results),
        *hardness.sections(),
    ]
    start, machine, rest = ("\n\n".join(parts) + "\n").partition(machine_line(results["machine"]))
    return start + machine + rest.replace(f"{machine} ", "")  # other machines alone are named again


def _limits() -> str:
    lines = ["| quantity | at most | meaning |", "|---|---:|---|"]
    for name in MAIN:
        limit, meaning, _ = QUANTITIES[name]
        said = meaning.partition(";")[0].replace("|", "\\|")
        lines.append(f"| **{name}** | {limit:g} | {said} |")
    return "\n".join(lines)


def _by_backend(results: Results) -> str:
    rows: dict[str, int] = {}
    errors: dict[tuple[str, str], float] = {}
    for backend_and_dtype, tried in results["counts"].items():
        backend = backend_and_dtype.partition("/")[0]
        rows[backend] = rows.get(backend, 0) + tried
        for quantity in MAIN:
            worst = results["worst"].get(f"{backend_and_dtype}/{quantity}")
            if worst is not None:
                errors[backend, quantity] = max(worst["error"], errors.get((backend, quantity), 0.0))
    shown = [
        [backend, f"{tried:,}", *(_number(errors[backend, q]) if (backend, q) in errors else "" for q in MAIN)]
        for backend, tried in rows.items()
    ]
    return table(["backend", "rows", *MAIN], shown)


def _tried(family: str, results: Results) -> bool:
    return any(where.split("/")[0] == family for where in results["families"])


def _added(results: Results) -> str:
    later = ", ".join(f"`{name}`" for name in FAMILIES if not _tried(name, results))
    return f" Added after the run, and not tried by it: {later}." if later else ""


def _number(error: float) -> str:
    return f"{error:.2g}" if error < 100 else f"{error:.1e}"


def save(results: Results) -> None:
    """Keep the results of `numerics`."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    """Write the page from the results that were saved."""
    PAGE.write_text(render(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
