"""The results of the four stages as a part of the page; what was not measured is an empty cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import table
from mgce_lab.studies.gpu import heads, kernels, losses, training
from mgce_lab.studies.timing import geometric_mean

STAGES = ("tests", "heads", "losses", "training")
HEADS_SAY = (
    "The logits have the standard deviation s. The error is how far the gradient of the weights is from float64, in "
    "units of the error of rounding to bfloat16."
)
CROSS_ENTROPIES = ("cross_entropy", "cross_entropy, compiled", "liger_cross_entropy", "quack.cross_entropy")
HEADS = (
    "cross_entropy, unfused",
    "mgce_loss, unfused",
    "linear_mgce_loss",
    "F.linear_cross_entropy",
    "cut_cross_entropy",
    "liger_fused_linear_cross_entropy",
)
# Sizes and betas of the table of losses: a batch that is too small for the device, and short rows.
SHOWN_SHAPES = ((64, 128000), (128, 100))
SHOWN_BETAS = (1.4, 5.0, 11.0)
# Rows of so many classes are long, as in language models.
LONG = 32000
FACTS = ("gpu", "torch", "triton")  # of a machine, shown
Cells = Mapping[str, Mapping[str, Any]]  # the results of a stage by the names of its cells


def read(folder: Path) -> dict[str, Any]:
    """Return the results of the stages that are there."""
    files = {name: folder / f"{name}.json" for name in STAGES}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def render(results: Mapping[str, Any]) -> str:
    """Return the part of the page."""
    cells: dict[str, Cells] = {name: results.get(name, {}).get("cells", {}) for name in STAGES}
    return "\n\n".join(
        [
            _machine(results),
            *_failed(results),
            "### Tests on the device",
            _tests(cells["tests"]),
            *(stage["note"] for stage in results.values() if "note" in stage),
            "### Linear heads",
            HEADS_SAY,
            _heads(cells["heads"]),
            _launch(cells["heads"]),
            "### Losses",
            "Each cell divides the time of forward and backward of a loss in bfloat16 by the time of "
            "`F.cross_entropy`, with an empty cache. The time of `liger_cross_entropy` includes a copy of the logits.",
            _losses(cells["losses"]),
            _summary(cells["losses"]),
            "### Training",
            _speeds(cells["training"]),
        ]
    )


def _machine(results: Mapping[str, Any]) -> str:
    command = (
        "On a machine with a GPU, `python -m mgce_lab.studies gpu` measures the tables of this section, "
        "in four stages that can be stopped."
    )
    machines = {name: stage["machine"] for name, stage in results.items()}
    if not machines:
        return (
            "No GPU was at hand, and the kernels have not been timed. They are tested in Triton's interpreter and "
            f"compiled for compute capabilities 8.0 and 9.0. {command}"
        )
    facts = [fact for fact in FACTS if any(fact in machine for machine in machines.values())]
    rows: dict[str, list[str]] = {}  # the stages that were measured on each machine
    for name, machine in machines.items():
        rows.setdefault(", ".join(str(machine.get(fact, "")) for fact in facts), []).append(name)
    shown = [[", ".join(names), machine] for machine, names in rows.items()]
    return f"{command}\n\n{table(['measured', 'on: ' + ', '.join(facts)], shown)}"


def _failed(results: Mapping[str, Any]) -> list[str]:
    """Name the cells that could not be measured, and what they said."""
    failed = {key: said for stage in results.values() for key, said in stage.get("failed", {}).items()}
    return [f"Failed: {key}: `{' '.join(said.split())[:200]}`" for key, said in failed.items()]


def _tests(cells: Cells) -> str:
    rows = []
    for name in kernels.TESTS:
        found = cells.get(name, {})
        memory = sum("out of memory" in said for said in found.get("failures", {}).values())
        failed = found.get("failed", 0) - memory
        if "passed" in found:
            rows.append([name, *map(str, (found["passed"], failed, memory, found["skipped"]))])
    for tool in kernels.TOOLS:
        found = cells.get(f"compute-sanitizer {tool}", {})
        if found:
            said = found.get("missing") or ("no fault" if found["returned"] == 0 else "a fault")
            rows.append([f"compute-sanitizer {tool}", said, "", "", ""])
    absent = [
        name for name in (*kernels.TESTS, *(f"compute-sanitizer {tool}" for tool in kernels.TOOLS)) if name not in cells
    ]
    return table(["", "passed", "failed", "no memory", "skipped"], rows) + (
        f"\n\nNot run: {', '.join(absent)}." if absent else ""
    )


def _losses(cells: Cells) -> str:
    shown = [
        cell for cell in cells.values() if cell.get("dtype") == "bfloat16" and (cell["n"], cell["k"]) in SHOWN_SHAPES
    ]
    others = [name for name in CROSS_ENTROPIES[1:] if any(name in cell["seconds"] for cell in shown)]
    contestants = {**{name: name for name in others}, **{f"beta = {beta:g}": str(beta) for beta in SHOWN_BETAS}}
    rows = []
    for n, k in SHOWN_SHAPES:
        for cell in shown:
            if (cell["n"], cell["k"]) == (n, k):
                size = [f"{n} x {k}", f"{cell['scale']:g}"]
                rows.append([*size, *(_ratio(cell, name) for name in contestants.values())])
    return table(["n x k", "s", *contestants], rows)


def _ratio(cell: Mapping[str, Any], name: str) -> str:
    seconds = cell.get("seconds", {})
    return f"{seconds[name]['device'] / seconds['cross_entropy']['device']:.2f}" if name in seconds else ""


def _summary(cells: Cells) -> str:
    """Say for long rows in bfloat16 what matters: our loss over the faster of PyTorch's cross-entropies."""
    header = [
        f"bfloat16, k of {LONG} or more, geometric mean over the faster of `F.cross_entropy` eager and compiled",
        *(f"{kind}, beta = {beta:g}, s = {scale:g}" for kind, (beta, scale) in losses.SUPPORTS.items()),
    ]
    long = [c for c in cells.values() if c.get("dtype") == "bfloat16" and c["k"] >= LONG]
    means = []
    for beta, scale in losses.SUPPORTS.values():
        ratios = [_over_the_best(cell["seconds"], str(beta)) for cell in long if cell["scale"] == scale]
        means.append(f"{geometric_mean(ratios):.2f}" if ratios else "")
    return table(header, [["`mgce_loss`", *means]])


def _over_the_best(seconds: Mapping[str, Mapping[str, float]], name: str) -> float:
    best = min(seconds[other]["device"] for other in CROSS_ENTROPIES[:2] if other in seconds)
    return seconds[name]["device"] / best


def _heads(cells: Cells) -> str:
    """Show time, memory and error of each head; the error over that of an exact gradient which is rounded."""
    tables = []
    for n, d, k in [
        shape for shape in heads.HEADS if shape == heads.HEADS[0] or any(c.get("k") == shape[2] for c in cells.values())
    ]:
        found = [cells.get(f"head {n} x {d} x {k}, s = {scale:g}", {}) for scale in sorted(heads.SCALES)]
        header = [
            f"{n} x {d} x {k}, bfloat16: ms; GiB at the peak; error",
            *(f"s = {scale:g}" for scale in sorted(heads.SCALES)),
        ]
        rows = [[name, *(_head(cell, name) for cell in found)] for name in HEADS]
        rows = [row for row in rows if any(row[1:])]
        tables.append(table(header, rows))
    return "\n\n".join(tables)


def _head(cell: Mapping[str, Any], name: str) -> str:
    found = cell.get("contestants", {}).get(name)
    if not found:
        return ""
    error = found["error"] / cell["rounded"]["1.4" if "mgce" in name else "inf"]
    return f"{1e3 * found['device']:.1f}; {found['peak_bytes'] / 2**30:.2f}; {error:.2f}"


def _launch(cells: Cells) -> str:
    n, k = heads.SMALL
    seconds = cells.get("launch", {}).get("seconds", {})
    rows = [
        [name, *(f"{1e6 * seconds[name][part]:.0f}" if seconds else "" for part in ("forward", "both"))]
        for name in ("cross_entropy", "mgce_loss")
    ]
    return table([f"{n} x {k}, the host's microseconds a call", "forward", "forward and backward"], rows)


def _speeds(cells: Cells) -> str:
    rows = []
    for name in training.MACHINES:
        found = cells.get(f"images, {name}", {})
        if found:
            rows.append([f"ResNet-18 on FashionMNIST, {name}, images/s", f"{found['images_per_second']:.0f}"])
    found = cells.get("tables", {})
    rows.append(
        [
            f"{training.GROUPS * training.MEMBERS} networks for a table at once, over one at a time",
            f"{found['times']:.0f} times as fast" if found else "",
        ]
    )
    return table(["", ""], rows)
