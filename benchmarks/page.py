"""The results as a page of the documentation: `python -m benchmarks.page` renders the JSON that was written last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.grid import BETAS

JSON = Path("results/benchmarks/cpu.json")
PAGE = Path("docs/performance.md")


def render(results: dict[str, Any]) -> str:
    """Give the page as Markdown; nothing in it is a number that the JSON has not."""
    parts = [
        "# Performance",
        "Ratios of time, forward and backward, measured in one run with the contestants taking turns; each is a ratio "
        "of medians. `python -m benchmarks` measures them again and writes this page.",
        _machine(results["machine"]),
        "## Against `F.cross_entropy`",
        'Time of `mgce_loss(..., backend="cpu")` over that of `F.cross_entropy`; margins N(0, s^2). Below 1 is faster.',
        _grid(results["grid"]["cells"]),
        _summary(results["grid"]["summary"]),
        "## Against other losses",
        "Time over that of the fused kernel at beta = 1.4, margins N(0, 1).",
        _peers(results["grid"]["peers"]),
        "## Number of classes",
        _scaling(results["scaling"]),
        "## The physical limit",
        _bandwidth(results["bandwidth"]),
        "## First call",
        _first_call(results["first_call"]),
        "## GPU",
        "Not measured: there is no GPU kernel yet, and plain operations run there.",
    ]
    return "\n\n".join(parts) + "\n"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _machine(machine: dict[str, str]) -> str:
    names = ("processor", "threads", "torch", "numba", "python", "mgce")
    return "Measured on: " + ", ".join(f"{name} {machine[name]}" for name in names if name in machine) + "."


def _grid(cells: list[dict[str, Any]]) -> str:
    rows = []
    for cell in cells:
        base = cell["seconds"]["cross_entropy"]
        ratios = [f"{cell['seconds'][str(beta)] / base:.2f}" for beta in BETAS]
        rows.append([f"{cell['n']} x {cell['k']}", f"{cell['scale']:g}", f"{1e3 * base:.3f} ms", *ratios])
    return _table(["n x k", "s", "cross-entropy", *(f"beta = {beta:g}" for beta in BETAS)], rows)


def _summary(summary: dict[str, float]) -> str:
    return _table(["ratio", "value"], [[name, f"{value:.2f}"] for name, value in summary.items()])


def _peers(peers: list[dict[str, Any]]) -> str:
    names = [name for name in peers[0]["seconds"] if name != "cpu"]
    rows = [
        [f"{p['n']} x {p['k']}", *(f"{p['seconds'][name] / p['seconds']['cpu']:.1f}" for name in names)] for p in peers
    ]
    shown = ["plain operations (`torch`)" if name == "torch" else f"`entmax.{name}`" for name in names]
    return _table(["n x k", *shown], rows)


def _scaling(scaling: dict[str, Any]) -> str:
    rows = [
        [str(k), f"{1e3 * t['ours']:.2f} ms", f"{1e3 * t['cross_entropy']:.2f} ms"]
        for k, t in zip(scaling["classes"], scaling["seconds"], strict=True)
    ]
    slopes = scaling["slopes"]
    ours, theirs = slopes["ours"], slopes["cross_entropy"]
    text = f"The slope of log time against log k is {ours:.2f}; that of cross-entropy {theirs:.2f}."
    return _table([f"classes, {scaling['rows']} rows", "ours, beta = 1.4", "cross-entropy"], rows) + "\n\n" + text


def _bandwidth(bandwidth: dict[str, Any]) -> str:
    shares = ", ".join(f"{share:.0%} at s = {float(scale):g}" for scale, share in bandwidth["share"].items())
    speed = bandwidth["copy_bytes_per_second"] / 1e9
    return (
        f"The logits must be read once and the gradient written once. Memory is copied here at {speed:.1f} GB/s, read "
        f"and written; at 512 x 32000 and beta = 1.4 the loss moves its bytes at this share of that speed: {shares}."
    )


def _first_call(first_call: dict[str, Any]) -> str:
    seconds = first_call["seconds"]
    return (
        f"The kernel is compiled at its first call, in {seconds['empty cache']:.1f} s, and kept on disk: the first "
        f"call of every later process takes {seconds['filled cache']:.2f} s. `import mgce` compiles and loads nothing."
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(json.loads(JSON.read_text())))
    print(f"Written to {PAGE}.")


if __name__ == "__main__":
    main()
