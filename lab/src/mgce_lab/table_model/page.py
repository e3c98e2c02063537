"""Write the tables of docs/lab/table-model.md: `python -m mgce_lab.table_model.page`."""

from __future__ import annotations

from pathlib import Path

from mgce_lab.engine.markdown import table, write_between
from mgce_lab.table_model import cases, loss
from mgce_lab.table_model.measure import read, render

PAGE, TABLES = Path("docs/lab/table-model.md"), Path("results/table-model/tables.jsonl")
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
    """Write the parts of the page."""
    for name, text in parts().items():
        write_between(PAGE, f"<!-- {name} -->\n", text, f"<!-- /{name} -->\n")


def parts() -> dict[str, str]:
    """Return what each pair of marks on the page encloses."""
    return {
        "suspects": suspects(SUITE.read_text()),
        "tables": render(read(TABLES), METHODS),
        "cases": cases.render(read(cases.RESULTS)),
        "loss": loss.render(read(loss.RESULTS)),
    }


def suspects(written: str) -> str:
    """Return the average precisions of suspects on the choosing tables."""
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in written.splitlines()[2:]]
    found = {(line[0], line[1]): line[2:] for line in cells}
    heads = [cell.strip().replace("%", " %") for cell in written.splitlines()[0].strip("| ").split("|")[2:]]
    return table(["39 tables of 300 rows", *heads], [[SHOWN[key], *found[key]] for key in SHOWN]) + "\n"


if __name__ == "__main__":
    main()
