"""MGCE beside cross-entropy as the loss of the transformer: `python -m mgce_lab.table_model.loss FOLDER FOLDER`.

The folders are of `mgce_lab.table_model.train`, from one seed and with one plan. Both models are measured on the same
simulated tables, which neither has seen. `results/table-model/loss.jsonl` gets the figures and the curves.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mgce_lab.engine.markdown import table
from mgce_lab.table_model.measure import interval
from mgce_lab.table_model.prior import Shape, draw_tables
from mgce_lab.table_model.train import LEAST, VALIDATION, average_precision, batch_of, read_weights

RESULTS = Path("results/table-model/loss.jsonl")
SHAPES, TABLES, AT_ONCE = (Shape(96, 32, 4), Shape(96, 32, 6)), 256, 32


def main() -> None:
    """Measure the runs in the folders, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.table_model.loss", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = [_run(folder) for folder in options.folders]
    RESULTS.write_text("".join(json.dumps(run) + "\n" for run in runs))
    print(render(runs), end="")


def _run(folder: Path) -> dict[str, Any]:
    curve = [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]
    valid = [{key: one[key] for key in ("step", "tables", "accuracy", "new", "ap")} for one in curve if "valid" in one]
    model = read_weights(folder / "weights.npz")
    by_table = {name: [round(float(value), 5) for value in values] for name, values in _by_table(model).items()}
    parameters = sum(p.numel() for p in model.parameters())
    return {"beta": f"{model.sizes.beta:g}", "parameters": parameters, "curve": valid, "by_table": by_table}


@torch.no_grad()
def _by_table(model: Any) -> dict[str, Any]:
    """Return scores of each simulated table: of new rows, and of finding wrong labels of the context, if any."""
    parts: list[dict[str, Any]] = []
    for shape in SHAPES:
        for first in range(0, TABLES // len(SHAPES), AT_ONCE):
            generator = torch.Generator().manual_seed(VALIDATION + 1 + first)
            tables = draw_tables(AT_ONCE, shape, generator)
            batch = batch_of(tables, generator, torch.float32)
            logits = model(batch.cells, batch.given, batch.n_classes, batch.names)
            own, new = (model.probabilities(part) for part in logits)
            n = batch.given.shape[1]
            of_right = new.gather(2, batch.right[:, n:, None])[..., 0]
            wrong = batch.given != batch.right[:, :n]
            ap = average_precision(1 - own.gather(2, batch.given[..., None])[..., 0], wrong)
            parts.append(
                {
                    "accuracy": (new.argmax(-1) == batch.right[:, n:]).float().mean(1),
                    "log_loss": -of_right.clamp(LEAST).log().mean(1),
                    "ap": ap.where(wrong.any(1), torch.tensor(torch.nan, dtype=ap.dtype)),
                }
            )
    return {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}


def render(runs: list[dict[str, Any]]) -> str:
    """Return the table of the page: a line for each loss, and their difference with its interval over tables."""
    rows = []
    for run in runs:
        means = {name: np.nanmean(values) for name, values in run["by_table"].items()}
        name = "cross-entropy" if run["beta"] == "inf" else f"MGCE, beta {run['beta']}"
        rows.append([name, f"{100 * means['accuracy']:.1f}", f"{means['log_loss']:.3f}", f"{100 * means['ap']:.1f}"])
    first, second = (run["by_table"] for run in runs)
    line = ["difference"]
    for name, scale, digits in (("accuracy", 100, 1), ("log_loss", 1, 3), ("ap", 100, 1)):
        differences = scale * (np.array(second[name]) - np.array(first[name]))
        mean, lower, upper = interval(differences[~np.isnan(differences)])
        line.append(f"{mean:+.{digits}f} ({lower:+.{digits}f} to {upper:+.{digits}f})")
    heads = ["loss", "accuracy", "log-loss", "average precision"]
    return table(heads, [*rows, line]) + "\n"


if __name__ == "__main__":
    main()
