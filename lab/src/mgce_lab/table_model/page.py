"""Write the tables and the picture of docs/lab/table-model.md: `python -m mgce_lab.table_model.page`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mgce_lab.engine.markdown import table, write_between
from mgce_lab.engine.picture import AMBER, BLUE, GREEN, Line, lines
from mgce_lab.table_model import cases, costs, loss
from mgce_lab.table_model.measure import read, render

PAGE, PICTURE = Path("docs/lab/table-model.md"), Path("docs/images/table-model-curves.svg")
CURVES, TABLES = Path("results/table-model/curves.jsonl"), Path("results/table-model/tables.jsonl")
SUITE = Path("results/suite/transformer-300.md")
# Probabilities and score of the lines of SUITE that the page shows, and their names there.
SHOWN = {
    ("the model of `mgce fit`", "mgce"): "`mgce fit`",
    ("transformer", "1 - p of the label"): "transformer",
    ("all three", "margin"): "best single score of forest, SVM and logistic regression",
}
METHODS = {
    "transformer h100-175s x8": "transformer",
    "forest": "forest",
    "svm": "SVM",
    "logistic": "logistic regression",
}


def main() -> None:
    """Write the parts of the page and the picture."""
    for name, text in parts().items():
        write_between(PAGE, f"<!-- {name} -->\n", text, f"<!-- /{name} -->\n")
    PICTURE.write_text(picture(read(CURVES)))


def parts() -> dict[str, str]:
    """Return what each pair of marks on the page encloses."""
    return {
        "suspects": suspects(SUITE.read_text()),
        "stages": stages(read(CURVES)),
        "tables": render(read(TABLES), METHODS),
        "cases": cases.render(read(cases.RESULTS)),
        "costs": costs.render(read(costs.RESULTS)),
        "loss": loss.render(read(loss.RESULTS)),
    }


def suspects(written: str) -> str:
    """Return the average precisions of suspects on the choosing tables."""
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in written.splitlines()[2:]]
    found = {(line[0], line[1]): line[2:] for line in cells}
    heads = [cell.strip().replace("%", " %") for cell in written.splitlines()[0].strip("| ").split("|")[2:]]
    return table(["39 tables of 300 rows", *heads], [[SHOWN[key], *found[key]] for key in SHOWN]) + "\n"


def stages(curve: list[dict[str, Any]]) -> str:
    """Return the table of stages: the last figures of each on made tables that it had not seen."""
    last = {(one["stage"], tuple(one["valid"])): one for one in curve}
    rows = []
    for (stage, (context, _, columns)), one in last.items():
        figures = [f"{one['new']:.3f}", f"{100 * one['accuracy']:.1f}", f"{100 * one['ap']:.1f}"]
        rows.append([f"{stage}: {context} x {columns}", f"{one['tables']:,}", *figures])
    return table(["stage, rows x columns", "tables seen", "log-loss", "accuracy", "average precision"], rows) + "\n"


def picture(curve: list[dict[str, Any]]) -> str:
    """Return the training curves as SVG: accuracy on new rows of made tables, by seconds of both stages."""
    drawn, first = [], [one for one in curve if one["stage"].startswith("175")]
    before = max(one["s"] for one in first)
    for stage, shape, colour, dash in (
        ("175 s, an earlier prior", [256, 64, 10], BLUE, "7 4"),
        ("400 s", [256, 64, 10], GREEN, "none"),
        ("400 s", [512, 128, 20], AMBER, "none"),
    ):
        own = [one for one in curve if one["stage"] == stage and one["valid"] == shape]
        since = before if stage == "400 s" else 0
        points = [(since + one["s"], 100 * one["accuracy"]) for one in own]
        drawn.append(Line(f"{shape[0]} x {shape[2]}" + (", first prior" if not since else ""), colour, points, dash))
    said = "; ".join(f"{line.name} {line.points[0][1]:.1f} to {line.points[-1][1]:.1f}" for line in drawn)
    ticks = {float(np.floor(first[0]["s"])): "20", 175.0: "175", 375.0: "375", 575.0: "575"}
    return lines(
        f"Percent of right classes of new rows, by seconds of training: {said}",
        "right classes of new rows, made tables",
        "seconds on an H100",
        drawn,
        ticks,
        low=50,
    )


if __name__ == "__main__":
    main()
