"""The results as text, and as a page of the documentation: `python -m soak.page` renders those saved last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.markdown import machine_line, table

from soak import hardness
from soak.families import FAMILIES
from soak.measure import QUANTITIES
from soak.plan import BETAS, BETAS_OF_A_ROW, FAMILY_WEIGHTS, SIZES

RESULTS, PAGE = Path("results/reliability/numerics.json"), Path("docs/reliability.md")
MAIN = ("t", "loss", "h", "p", "gradient")
ADDED = " Added after this run, in which it was not tried."
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
        "# Reliability",
        "We tried to make the library fail: by rows of logits, files, faults, load and changes of its source. The page "
        "says what was done, how often, and what came of it.",
        "## No wrong numbers",
        f"{results['rows']:,} rows of logits, of families at which a solver meets its worst, were given to every way "
        "to compute the loss, its gradient and the probabilities. The results were compared with a truth in extended "
        "precision (80 bits), which shares no code with the library and proves each of its roots by a bracket. "
        + (f"**Beyond their limits: {over}.**" if over else "**Nothing was beyond its limit.**"),
        machine_line(results["machine"]) + f" Seed {results['seed']}, {results['minutes']:.0f} minutes of one process. "
        f"`python -m soak numerics --rows {results['planned']} --record` does it again and writes this page; begun "
        "again after a stop, it goes on from what is done."
        + ("" if results["rows"] >= results["planned"] else " **It was stopped before its last row.**")
        + (f" {results['remark']}" if "remark" in results else ""),
        "### Worst errors",
        "Of any row, in units of eps of the result's dtype.",
        _by_backend(results),
        "`linear` is the fused linear head with an identity for its weight (or its input, where that is smaller); it "
        "was given a quarter of the rows, those without masks and up to 4097 classes. `cuda` runs in Triton's "
        "interpreter where there is no GPU, and `compile` is the plain operations as PyTorch's compiler translates "
        "them: these two are slow there, and were given few rows. h and p have one implementation, under `torch`.",
        "### What was measured, and what is allowed",
        _limits(),
        "### What was tried",
        _shares(results),
        "\n".join(_described(name) + ("" if _tried(name, results) else ADDED) for name in FAMILIES),
        "The worst of each family, and the backend that it is from:",
        _by_family(results),
        "### The worst rows",
        "`python -m soak numerics --replay CASE` computes a case again; in its name are the family, dtype, rows, "
        "classes, beta and seed.",
        _worst_rows(results),
        *hardness.sections(),
    ]
    return "\n\n".join(parts) + "\n"


def _limits() -> str:
    lines = ["| quantity | at most | meaning | reason |", "|---|---:|---|---|"]
    for name, (limit, meaning, reason) in QUANTITIES.items():
        cells = (text.replace("|", "\\|") for text in (f"**{name}**", f"{limit:g}", meaning, reason))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _by_backend(results: Results) -> str:
    rows = []
    for backend_and_dtype, tried in results["counts"].items():
        errors = [results["worst"].get(f"{backend_and_dtype}/{quantity}") for quantity in QUANTITIES]
        shown = ["" if worst is None else _number(worst["error"]) for worst in errors]
        rows.append([backend_and_dtype.replace("/", ", "), f"{tried:,}", *shown])
    return table(["backend, dtype", "rows", *QUANTITIES], rows)


def _tried(family: str, results: Results) -> bool:
    return any(where.split("/")[0] == family for where in results["families"])


def _described(family: str) -> str:
    return f"* `{family}`: {' '.join(str(FAMILIES[family].__doc__).split())}"


def _shares(results: Results) -> str:
    sizes = [[f"{size.least} to {size.listed[-1]}", f"{100 * size.share:g} %"] for size in SIZES]
    weights = zip(FAMILIES, FAMILY_WEIGHTS, strict=True)
    often = ", ".join(f"`{family}`" for family, weight in weights if weight > 1 and _tried(family, results))
    return (
        f"{table(['classes', 'share of the rows'], sizes)}\n\n"
        f"Beta is one of `{', '.join(f'{beta:.13g}' for beta in BETAS)}`. The families {often} were "
        f"drawn three times as often as the others. A row of `betas` is solved at {BETAS_OF_A_ROW} betas next to one "
        "another, and counted as often."
    )


def _by_family(results: Results) -> str:
    rows = []
    for name in (name for name in FAMILIES if _tried(name, results)):
        errors = [results["families"].get(f"{name}/{quantity}") for quantity in MAIN]
        shown = ["" if worst is None else f"{_number(worst['error'])}, {worst['backend']}" for worst in errors]
        rows.append([name, *shown])
    return table(["family", *MAIN], rows)


def _worst_rows(results: Results) -> str:
    worst: Results = {}
    for where, record in results["worst"].items():
        quantity = where.split("/")[2]
        if record["error"] >= worst.get(quantity, record)["error"]:
            worst[quantity] = record
    rows = [[name, _number(w["error"]), w["backend"], f"`{w['case']}`", str(w["row"])] for name, w in worst.items()]
    return table(["quantity", "worst", "backend", "case", "row"], rows)


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
