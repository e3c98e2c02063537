"""The results as a page of the documentation: `mgce_lab.studies.page` renders the JSON that was written last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import machine_line, table, write_between
from mgce_lab.studies.gpu import page as gpu_page

CPU = Path("results/benchmarks/cpu.json")
GPU = Path("results/benchmarks/gpu")  # a file for each stage of `python -m mgce_lab.studies gpu`
KERNELS = Path("results/benchmarks/kernel")  # a file for each instruction set, written by `mgce_lab.studies.against`
NAMED = Path("results/benchmarks/named.json")  # written by `mgce_lab.studies.named`
PROBS = Path("results/benchmarks/probs.json")  # written by `mgce_lab.studies.probs`
PAGE, SHORT = Path("docs/lab/performance.md"), Path("docs/performance.md")
BEGIN, END = "<!-- answer -->\n", "<!-- /answer -->"
SHOWN_BETAS = (1.05, 1.4, 5.0)  # of the grid; the table of ratios is of all
# Losses by name on the page: what a page recommends, and the slowest one.
SHOWN = ("ce", "gce", "mgce", "sce", "nce+agce", "ce+forward", "ce+trim", "mgce+forward", "mgce+trim", "bi-tempered")
MGCE = "mgce"  # the loss of the grid, among those that `mgce_lab.studies.against` compares


def render(results: dict[str, Any], named: dict[str, Any], probs: dict[str, Any], on_gpu: dict[str, Any]) -> str:
    """Return the page as Markdown: results of the CPU, losses by name, probabilities and what there is of a GPU."""
    parts = [
        "# Performance, measured",
        "This page supports [Performance](../performance.md), which compares instruction sets. A ratio compares "
        "median times of forward and backward; the functions take turns within one run. Logits are normal with "
        "standard deviation s, or 1 if no s is named. `python -m mgce_lab.studies` measures again.",
        machine_line(results["machine"]),
        "## Against `F.cross_entropy`",
        'The time of `mgce_loss(..., backend="cpu")` over the time of `F.cross_entropy`: from the least to the most '
        "over four values of s, up to 10.",
        _grid(results["grid"]["cells"]),
        _summary(results["grid"]["summary"]),
        "## Losses by name",
        _named(named, results["machine"]),
        "## Probabilities",
        _probs(probs, results["machine"]),
        "## Head and loss together",
        _head(results["head"]),
        _memory(results["memory"]),
        "## GPU",
        gpu_page.render(on_gpu),
    ]
    return "\n\n".join(parts) + "\n"


def answer(results: dict[str, Any], kernels: list[dict[str, Any]]) -> str:
    """Return the answer of docs/performance.md: times by instruction set, and of the shapes that only the grid has."""
    summary, grid = results["grid"]["summary"], results["grid"]["cells"]
    by_set = {run["machine"]["kernel"]: run for run in kernels}
    means = {name: run["means"]["this"] for name, run in by_set.items()}
    worst = {name: max(_shapes(run), key=lambda cell: cell["this"])["this"] for name, run in by_set.items()}
    shapes, threads = len(_shapes(by_set["avx2"])), by_set["avx2"]["machine"]["threads"]
    threads_of_grid, more = results["machine"]["threads"], len(grid) - shapes
    rows = [
        [f"AVX2, {shapes} shapes, threads: {threads}", f"{means['avx2']:.2f}", f"{worst['avx2']:.2f}"],
        [f"AVX-512, {shapes} shapes, threads: {threads}", f"{means['avx512']:.2f}", f"{worst['avx512']:.2f}"],
        [
            f"AVX-512, {more} shapes of 128,000 classes more, threads: {threads_of_grid}",
            f"{summary['beta = 1.4, geometric mean']:.2f}",
            f"{summary['beta = 1.4, worst cell']:.2f}",
        ],
    ]
    return (
        "On a CPU, the MGCE loss by the fused kernel takes less time than `F.cross_entropy`, on average over shapes of "
        "the logits. The table shows the ratio of times at `beta=1.4`. Most processors have "
        "AVX2 instructions.\n\n" + table(["instructions", "geometric mean", "slowest shape"], rows)
    )


def _shapes(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in run["cells"] if cell["loss"] == MGCE]


def _elsewhere(machine: dict[str, Any], first: dict[str, Any]) -> str:
    """Name the machine of a section if it is not the first one."""
    return "" if machine_line(machine) == machine_line(first) else " " + machine_line(machine)


def _grid(cells: list[dict[str, Any]]) -> str:
    by_shape: dict[str, list[list[float]]] = {}
    for cell in cells:
        base = cell["seconds"]["cross_entropy"]
        ratios = [cell["seconds"][str(beta)] / base for beta in SHOWN_BETAS]
        by_shape.setdefault(f"{cell['n']} x {cell['k']}", []).append(ratios)
    rows = [
        [shape, *(f"{min(column):.2f} to {max(column):.2f}" for column in zip(*found, strict=True))]
        for shape, found in by_shape.items()
    ]
    return table(["n x k", *(f"beta = {beta:g}" for beta in SHOWN_BETAS)], rows)


def _summary(summary: dict[str, float]) -> str:
    """Say what concerns `F.cross_entropy` over all measured betas; other losses have a table of their own."""
    mean, worst = (summary[f"all beta, {of}"] for of in ("geometric mean", "k >= 32000, worst cell"))
    return f"Over all betas, the geometric mean is {mean:.2f}. From 32,000 classes on, the worst is {worst:.2f}."


def _named(named: dict[str, Any], machine: dict[str, Any]) -> str:
    cells = named["cells"]
    base = [f"{1e3 * cell['seconds']['F.cross_entropy']:.2f} ms" for cell in cells]
    rows = [["`F.cross_entropy`, time", *base]]
    for name in SHOWN:
        times = [(cell["seconds"].get(name), cell["seconds"]["F.cross_entropy"]) for cell in cells]
        rows.append([f"`{name}`", *("" if time is None else f"{time / base:.1f}" for time, base in times)])
    text = (
        "Each cell divides the time of [a loss](../losses.md) with its defaults by the time of `F.cross_entropy`. "
        "`python -m mgce_lab.studies.named` measures all losses."
    )
    heads = [f"{cell['n']} x {cell['k']}" for cell in cells]
    return text + _elsewhere(named["machine"], machine) + "\n\n" + table(["loss", *heads], rows)


def _probs(probs: dict[str, Any], machine: dict[str, Any]) -> str:
    cells = probs["cells"]
    names = [name for name in cells[0]["forward"] if name != "softmax" and "plain" not in name]
    rows = []
    for cell in cells:
        times = cell["both"]
        ratios = [f"{times[name] / times['softmax']:.1f}" for name in names]
        rows.append([f"{cell['n']} x {cell['k']}", f"{1e3 * times['softmax']:.3f} ms", *ratios])
    text = (
        f"Times over the time of `torch.softmax`, at `beta={probs['beta']:g}`. `entmax_bisect` and `normmax_bisect` "
        "return the same numbers as the function in the column before. "
        "`python -m mgce_lab.studies.probs` measures again."
    )
    heads = ["n x k", "softmax", *(f"`{name}`" for name in names)]
    return text + _elsewhere(probs["machine"], machine) + "\n\n" + table(heads, rows)


def _head(head: dict[str, Any]) -> str:
    names = list(head["cells"][0]["seconds"])
    rows = []
    for cell in head["cells"]:
        base = cell["seconds"]["F.linear_cross_entropy"]
        rows.append([f"{cell['scale']:g}", *(f"{cell['seconds'][name] / base:.2f}" for name in names)])
    text = (
        "Each cell divides the time of a linear layer and a loss by the time of `F.linear_cross_entropy`, for "
        f"`n={head['n']}`, `d={head['d']}`, `k={head['k']}` and `beta={head['beta']}`."
    )
    return text + "\n\n" + table(["s of the margins", *names], rows)


def _memory(memory: dict[str, Any]) -> str:
    scales = list(next(iter(memory["mebibytes"].values())))
    rows = [[name, *(f"{values[s]:.0f} MiB" for s in scales)] for name, values in memory["mebibytes"].items()]
    text = (
        "Peak resident memory of a linear layer and a loss, beyond their inputs. Of each number, "
        f"{memory['gradients']:.0f} MiB are for the returned gradients."
    )
    return text + "\n\n" + table(["", *(f"s = {float(s):g}" for s in scales)], rows)


def main() -> None:
    """Write the page."""
    cpu, named, probs = (json.loads(file.read_text()) for file in (CPU, NAMED, PROBS))
    kernels = [json.loads(file.read_text()) for file in sorted(KERNELS.glob("*.json"))]
    PAGE.write_text(render(cpu, named, probs, gpu_page.read(GPU)))
    write_between(SHORT, BEGIN, f"\n{answer(cpu, kernels)}\n\n", END)
    print(f"Written to {PAGE} and {SHORT}.")


if __name__ == "__main__":
    main()
