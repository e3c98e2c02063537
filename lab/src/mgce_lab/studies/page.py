"""The results as a page of the documentation: `mgce_lab.studies.page` renders the JSON that was written last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import machine_line, table, write_between
from mgce_lab.studies.gpu import page as gpu_page
from mgce_lab.studies.grid import BETAS

CPU = Path("results/benchmarks/cpu.json")
INTEL = Path("results/benchmarks/cpu-intel.json")  # the grid of an Intel processor, by the kernels of an earlier commit
GPU = Path("results/benchmarks/gpu")  # a file for each stage of `python -m mgce_lab.studies gpu`
KERNELS = Path("results/benchmarks/kernel")  # a file for each instruction set, written by `mgce_lab.studies.against`
NAMED = Path("results/benchmarks/named.json")  # written by `mgce_lab.studies.named`
PROBS = Path("results/benchmarks/probs.json")  # written by `mgce_lab.studies.probs`
PAGE, SHORT = Path("docs/lab/performance.md"), Path("docs/performance.md")
BEGIN, END = "<!-- answer -->\n", "<!-- /answer -->"
MGCE = "mgce"  # the loss of the grid, among those that `mgce_lab.studies.against` compares


def render(
    results: dict[str, Any],
    intel: dict[str, Any],
    kernels: list[dict[str, Any]],
    named: dict[str, Any],
    probs: dict[str, Any],
    on_gpu: dict[str, Any],
) -> str:
    """Return the page as Markdown.

    It is of results of the CPU, those of an Intel processor, two versions of the kernels, losses by name,
    probabilities and what there is of a GPU.
    """
    parts = [
        "# Performance, measured",
        "This page supports [Performance](../performance.md). A ratio compares the median times, forward and backward, "
        "of two functions, which take turns within one run. The logits are drawn from a normal distribution with "
        "standard deviation s, or 1 where no s is named. `python -m mgce_lab.studies` measures again.",
        machine_line(results["machine"]),
        "## Against `F.cross_entropy`",
        'The time of `mgce_loss(..., backend="cpu")` over the time of `F.cross_entropy`: from the least to the most '
        "over s of 0.01, 1, 3 and 10. The last column was measured on an Intel Xeon, by an earlier version of the "
        "kernels.",
        _grid(results["grid"]["cells"], intel["cells"]),
        _summary(results["grid"]["summary"]),
        "## By instruction set",
        _by_instructions(kernels, results["machine"]),
        "## Against other losses",
        "Each cell divides the time of another loss by the time of the fused kernel, at `beta=1.4`.",
        _peers(results["grid"]["peers"]),
        "## Losses by name",
        _named(named, results["machine"]),
        "## Probabilities",
        _probs(probs, results["machine"]),
        "## Number of classes",
        _scaling(results["scaling"]),
        "## The physical limit",
        _bandwidth(results["bandwidth"]),
        "## Head and loss together",
        _head(results["head"]),
        _memory(results["memory"]),
        "## First call",
        _first_call(results["first_call"]),
        "## GPU",
        gpu_page.render(on_gpu),
    ]
    return "\n\n".join(parts) + "\n"


def answer(results: dict[str, Any], kernels: list[dict[str, Any]]) -> str:
    """Compare instruction sets on the same shapes and threads, then name what the grid has beyond them."""
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


def _grid(cells: list[dict[str, Any]], intel: list[dict[str, Any]]) -> str:
    by_shape: dict[str, list[list[float]]] = {}
    for cell, other in zip(cells, intel, strict=True):
        base, times = cell["seconds"]["cross_entropy"], other["seconds"]
        ratios = [cell["seconds"][str(beta)] / base for beta in BETAS]
        by_shape.setdefault(f"{cell['n']} x {cell['k']}", []).append([*ratios, times["1.4"] / times["cross_entropy"]])
    rows = [
        [shape, *(f"{min(column):.2f} to {max(column):.2f}" for column in zip(*found, strict=True))]
        for shape, found in by_shape.items()
    ]
    return table(["n x k", *(f"beta = {beta:g}" for beta in BETAS), "beta = 1.4, Intel"], rows)


def _summary(summary: dict[str, float]) -> str:
    return table(["ratio", "value"], [[name, f"{value:.2f}"] for name, value in summary.items()])


def _by_instructions(kernels: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    """Return ratios by shape, and by loss at the largest shape, for each instruction set."""
    heads = [_instructions(run) for run in kernels]
    of_grid: dict[str, list[list[float]]] = {}
    of_loss: dict[str, list[str]] = {}
    for cells in zip(*(run["cells"] for run in kernels), strict=True):
        ratios = [cell["this"] for cell in cells]
        if cells[0]["loss"] == MGCE:
            of_grid.setdefault(f"{cells[0]['n']} x {cells[0]['k']}", []).append(ratios)
        else:
            of_loss[cells[0]["loss"]] = [f"{ratio:.2f}" for ratio in ratios]  # the last shape is the largest
    rows = [
        [shape, *(f"{min(column):.2f} to {max(column):.2f}" for column in zip(*found, strict=True))]
        for shape, found in of_grid.items()
    ]
    rows.append(["geometric mean", *(f"{run['means']['this']:.2f}" for run in kernels)])
    return "\n\n".join(
        (
            "AVX2 instructions are those that most processors have. The first table shows MGCE at `beta=1.4`, from the "
            "least to the most over s. The second shows other losses and further arguments, 512 x 1000 logits, s = 1. "
            "`python -m mgce_lab.studies.against FOLDER` compares with the kernels of another checkout."
            + _elsewhere(kernels[0]["machine"], machine),
            table(["n x k", *heads], rows),
            table(["loss", *heads], [[name, *ratios] for name, ratios in of_loss.items()]),
        )
    )


def _instructions(run: dict[str, Any]) -> str:
    return {"avx2": "AVX2", "avx512": "AVX-512"}.get(run["machine"]["kernel"], run["machine"]["kernel"])


def _peers(peers: list[dict[str, Any]]) -> str:
    names = [name for name in peers[0]["seconds"] if name != "cpu"]
    rows = [
        [f"{p['n']} x {p['k']}", *(f"{p['seconds'][name] / p['seconds']['cpu']:.1f}" for name in names)] for p in peers
    ]
    ours = {"torch": "plain operations (`torch`)", "reference": 'float64 (`"reference"`)', "MRCpy": "`MRCpy`"}
    shown = [ours.get(name, f"`entmax.{name}`") for name in names]
    return table(["n x k", *shown], rows)


def _named(named: dict[str, Any], machine: dict[str, Any]) -> str:
    cells = named["cells"]
    base = [f"{1e3 * cell['seconds']['F.cross_entropy']:.2f} ms" for cell in cells]
    names = [name for name in cells[0]["seconds"] if name != "F.cross_entropy"]
    rows = [["`F.cross_entropy`, time", *base]]
    for name in names:
        times = [(cell["seconds"].get(name), cell["seconds"]["F.cross_entropy"]) for cell in cells]
        rows.append([f"`{name}`", *("" if time is None else f"{time / base:.1f}" for time, base in times)])
    text = (
        "Each cell divides the time of [a loss](../losses.md) with its defaults by the time of `F.cross_entropy`. "
        "MGCE has its own kernel. A second kernel computes cross-entropy, GCE, MAE, RCE and their sums. All other "
        "losses, and wrappers, are computed by plain PyTorch operations. Many losses take turns: the cache is empty. "
        "`python -m mgce_lab.studies.named` "
        "measures all losses again."
    )
    heads = [f"{cell['n']} x {cell['k']}" for cell in cells]
    return text + _elsewhere(named["machine"], machine) + "\n\n" + table(["loss", *heads], rows)


def _probs(probs: dict[str, Any], machine: dict[str, Any]) -> str:
    cells = probs["cells"]
    names = [name for name in cells[0]["forward"] if name != "softmax"]
    rows = []
    for cell in cells:
        times = cell["both"]
        ratios = [f"{times[name] / times['softmax']:.1f}" for name in names]
        rows.append([f"{cell['n']} x {cell['k']}", f"{1e3 * times['softmax']:.3f} ms", *ratios])
    text = (
        f"Times of functions, forward and backward, over the time of `torch.softmax`, at `beta={probs['beta']:g}`. "
        "`entmax_bisect` and `normmax_bisect` come from the `entmax` package. Both return the same numbers as the "
        "function in the column before them. *Plain* means plain PyTorch operations, without the kernel. "
        "`python -m mgce_lab.studies.probs` measures all functions again."
    )
    shown_names = [f"`{name}`".replace(", plain`", "`, plain") for name in names]
    return text + _elsewhere(probs["machine"], machine) + "\n\n" + table(["n x k", "softmax", *shown_names], rows)


def _scaling(scaling: dict[str, Any]) -> str:
    rows = [
        [str(k), f"{1e3 * t['ours']:.2f} ms", f"{1e3 * t['cross_entropy']:.2f} ms"]
        for k, t in [*zip(scaling["classes"], scaling["seconds"], strict=True)][:: len(scaling["classes"]) - 1]
    ]
    slopes = scaling["slopes"]
    rows.append(["slope of log time against log k", *(f"{slopes[name]:.2f}" for name in ("ours", "cross_entropy"))])
    return table([f"classes, {scaling['rows']} rows", "ours, beta = 1.4", "cross-entropy"], rows)


def _bandwidth(bandwidth: dict[str, Any]) -> str:
    speed = bandwidth["copy_bytes_per_second"] / 1e9
    shares = [f"{share:.0%}" for share in bandwidth["share"].values()]
    text = (
        "Any kernel must read the logits once and write the gradient once, as a copy of memory does. On this machine a "
        f"copy of memory reads and writes {speed:.1f} GB/s. The table shows what share of the speed of a copy the loss "
        "reaches, for logits of shape 512 x 32000 at `beta=1.4`:"
    )
    scales = [f"s = {float(s):g}" for s in bandwidth["share"]]
    return text + "\n\n" + table(["", *scales], [["share of a copy", *shares]])


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
        "The next table shows the peak resident memory of a linear layer and a loss, beyond their inputs. In each "
        f"cell, {memory['gradients']:.0f} MiB are for the returned gradients. If few classes have a gradient, the "
        "gradients take less memory, because the operating system stores no pages of zeros."
    )
    return text + "\n\n" + table(["", *(f"s = {float(s):g}" for s in scales)], rows)


def _first_call(first_call: dict[str, Any]) -> str:
    seconds = first_call["seconds"]
    rows = [[f"`{name}`", f"{1e3 * value:.0f} ms"] for name, value in seconds.items()]
    return "The table shows the time of the first forward and backward pass of a process:\n\n" + table(
        ["loss", "time"], rows
    )


def main() -> None:
    """Write the page."""
    cpu, intel, named, probs = (json.loads(file.read_text()) for file in (CPU, INTEL, NAMED, PROBS))
    kernels = [json.loads(file.read_text()) for file in sorted(KERNELS.glob("*.json"))]
    PAGE.write_text(render(cpu, intel, kernels, named, probs, gpu_page.read(GPU)))
    write_between(SHORT, BEGIN, f"\n{answer(cpu, kernels)}\n\n", END)
    print(f"Written to {PAGE} and {SHORT}.")


if __name__ == "__main__":
    main()
