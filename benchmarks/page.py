"""The results as a page of the documentation: `python -m benchmarks.page` renders the JSON that was written last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.gpu import page as gpu_page
from benchmarks.grid import BETAS
from benchmarks.markdown import machine_line, table

CPU = Path("results/benchmarks/cpu.json")
GPU = Path("results/benchmarks/gpu")  # a file for each stage of `python -m benchmarks gpu`
KERNELS = Path("results/benchmarks/kernel.json")  # written by `benchmarks.against`
NAMED = Path("results/benchmarks/named.json")  # written by `benchmarks.named`
PROBS = Path("results/benchmarks/probs.json")  # written by `benchmarks.probs`
PAGE = Path("docs/performance.md")


def render(
    results: dict[str, Any],
    kernels: dict[str, Any],
    named: dict[str, Any],
    probs: dict[str, Any],
    on_gpu: dict[str, Any],
) -> str:
    """Give the page as Markdown.

    It is of results of the CPU, two kernels, losses by name, probabilities and what there is of a GPU.
    """
    parts = [
        "# Performance",
        "Ratios of time, forward and backward, measured in one run with the contestants taking turns; each is a ratio "
        "of medians. `python -m benchmarks` measures them again and writes this page.",
        machine_line(results["machine"]),
        "## Against `F.cross_entropy`",
        'Time of `mgce_loss(..., backend="cpu")` over that of `F.cross_entropy`; margins N(0, s^2). Below 1 is faster.',
        _grid(results["grid"]["cells"]),
        _summary(results["grid"]["summary"]),
        "## Before and after",
        _before_and_after(kernels),
        "## Against other losses",
        "Time over that of the fused kernel at beta = 1.4, margins N(0, 1).",
        _peers(results["grid"]["peers"]),
        "## Losses by name",
        _named(named),
        "## Probabilities",
        _probs(probs),
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


def _grid(cells: list[dict[str, Any]]) -> str:
    rows = []
    for cell in cells:
        base = cell["seconds"]["cross_entropy"]
        ratios = [f"{cell['seconds'][str(beta)] / base:.2f}" for beta in BETAS]
        rows.append([f"{cell['n']} x {cell['k']}", f"{cell['scale']:g}", f"{1e3 * base:.3f} ms", *ratios])
    return table(["n x k", "s", "cross-entropy", *(f"beta = {beta:g}" for beta in BETAS)], rows)


def _summary(summary: dict[str, float]) -> str:
    return table(["ratio", "value"], [[name, f"{value:.2f}"] for name, value in summary.items()])


def _before_and_after(kernels: dict[str, Any]) -> str:
    rows = [
        [f"{cell['n']} x {cell['k']}", f"{cell['scale']:g}", f"{cell['other']:.2f}", f"{cell['this']:.2f}"]
        for cell in kernels["cells"]
    ]
    rows.append(["geometric mean", "", f"{kernels['means']['other']:.2f}", f"{kernels['means']['this']:.2f}"])
    return (
        "The CPU kernel was written for numba first, and is C++ now. Both in one run, each in turns with "
        "`F.cross_entropy` and with the other: time of `mgce_loss` at beta = 1.4 over that of `F.cross_entropy`. "
        "`python -m benchmarks.against FOLDER`, the `src` of another checkout, does it again. "
        + machine_line(kernels["machine"])
        + "\n\n"
        + table(["n x k", "s", "before", "after"], rows)
    )


def _peers(peers: list[dict[str, Any]]) -> str:
    names = [name for name in peers[0]["seconds"] if name != "cpu"]
    rows = [
        [f"{p['n']} x {p['k']}", *(f"{p['seconds'][name] / p['seconds']['cpu']:.1f}" for name in names)] for p in peers
    ]
    ours = {"torch": "plain operations (`torch`)", "reference": 'float64 (`"reference"`)', "MRCpy": "`MRCpy`"}
    shown = [ours.get(name, f"`entmax.{name}`") for name in names]
    return table(["n x k", *shown], rows)


def _named(named: dict[str, Any]) -> str:
    cells = named["cells"]
    base = [f"{cell['n']} x {cell['k']}: {1e3 * cell['seconds']['F.cross_entropy']:.2f} ms" for cell in cells]
    names = [name for name in cells[0]["seconds"] if name != "F.cross_entropy"]
    rows = []
    for name in names:
        times = [(cell["seconds"].get(name), cell["seconds"]["F.cross_entropy"]) for cell in cells]
        rows.append([f"`{name}`", *("" if time is None else f"{time / base:.1f}" for time, base in times)])
    text = (
        "Time of [the losses](losses.md), by their defaults and as plain operations but for MGCE, over that of "
        f"`F.cross_entropy` ({'; '.join(base)}), margins N(0, 1). So many losses take turns that none finds its code "
        "and its memory in a cache, as after the pass through a network: in the first table, of few contestants, MGCE "
        "takes less of small batches. `python -m benchmarks.named` measures them again. "
    )
    heads = [f"{cell['n']} x {cell['k']}" for cell in cells]
    return text + machine_line(named["machine"]) + "\n\n" + table(["loss", *heads], rows)


def _probs(probs: dict[str, Any]) -> str:
    cells = probs["cells"]
    names = [name for name in cells[0]["forward"] if name != "softmax"]
    rows = []
    for cell in cells:
        for passes, shown in (("forward", "forward"), ("both", "forward and backward")):
            base = cell[passes]["softmax"]
            ratios = [f"{cell[passes][name] / base:.1f}" for name in names]
            rows.append([f"{cell['n']} x {cell['k']}", shown, f"{1e3 * base:.3f} ms", *ratios])
    text = (
        f"Time over that of `torch.softmax`, at beta = {probs['beta']:g}, margins N(0, 1). `entmax_bisect` and "
        "`normmax_bisect` are of the `entmax` package, and give the same numbers as the function before each; "
        "*plain* is the function by plain operations, without the kernel. "
        "`python -m benchmarks.probs` measures them again. "
    )
    shown_names = [f"`{name}`".replace(", plain`", "`, plain") for name in names]
    return text + machine_line(probs["machine"]) + "\n\n" + table(["n x k", "", "softmax", *shown_names], rows)


def _scaling(scaling: dict[str, Any]) -> str:
    rows = [
        [str(k), f"{1e3 * t['ours']:.2f} ms", f"{1e3 * t['cross_entropy']:.2f} ms"]
        for k, t in zip(scaling["classes"], scaling["seconds"], strict=True)
    ]
    slopes = scaling["slopes"]
    ours, theirs = slopes["ours"], slopes["cross_entropy"]
    text = f"The slope of log time against log k is {ours:.2f}; that of cross-entropy {theirs:.2f}."
    return table([f"classes, {scaling['rows']} rows", "ours, beta = 1.4", "cross-entropy"], rows) + "\n\n" + text


def _bandwidth(bandwidth: dict[str, Any]) -> str:
    shares = ", ".join(f"{share:.0%} at s = {float(scale):g}" for scale, share in bandwidth["share"].items())
    speed = bandwidth["copy_bytes_per_second"] / 1e9
    return (
        f"The logits must be read once and the gradient written once. Memory is copied here at {speed:.1f} GB/s, read "
        f"and written; at 512 x 32000 and beta = 1.4 the loss moves its bytes at this share of that speed: {shares}."
    )


def _head(head: dict[str, Any]) -> str:
    names = list(head["cells"][0]["seconds"])
    rows = []
    for cell in head["cells"]:
        base = cell["seconds"]["F.linear_cross_entropy"]
        rows.append([f"{cell['scale']:g}", *(f"{cell['seconds'][name] / base:.2f}" for name in names)])
    text = (
        f"n = {head['n']}, d = {head['d']}, k = {head['k']}, beta = {head['beta']}: time over `F.linear_cross_entropy`."
    )
    return text + "\n\n" + table(["s of the margins", *names], rows)


def _memory(memory: dict[str, Any]) -> str:
    scales = list(next(iter(memory["mebibytes"].values())))
    rows = [[name, *(f"{values[s]:.0f} MiB" for s in scales)] for name, values in memory["mebibytes"].items()]
    text = (
        "Peak resident memory of the same call beyond its inputs. The gradients that each of them returns take "
        f"{memory['gradients']:.0f} MiB of it; less where few classes have any, for pages of zeros that nobody wrote "
        "to are not there:"
    )
    return text + "\n\n" + table(["", *(f"s = {float(s):g}" for s in scales)], rows)


def _first_call(first_call: dict[str, Any]) -> str:
    seconds = first_call["seconds"]
    return (
        "The first forward and backward of a process: "
        + ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in seconds.items())
        + "."
    )


def main() -> None:
    """Write the page."""
    measured = [json.loads(file.read_text()) for file in (CPU, KERNELS, NAMED, PROBS)]
    PAGE.write_text(render(*measured, gpu_page.read(GPU)))
    print(f"Written to {PAGE}.")


if __name__ == "__main__":
    main()
