"""How often consensus labels are right that are said to be so with some probability, on CIFAR-10N and simulated tables.

`python -m mgce_lab.studies.consensus_calibration --features FOLDER --cifarn FOLDER --made 8` reads what
`mgce_lab.studies.annotators` reads. The rows are those on which the last step of the consensus was developed: the first
set, and rows of CIFAR-10 that are in none of the five sets. Each finished cell is a line of
`results/annotators/calibration.jsonl`. `--page` writes the table of `docs/lab/annotators.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mgce import ConsensusClassifier
from mgce.labels.annotators import Annotations, annotator_model, annotator_table
from mgce.labels.independence import shared_evidence
from mgce.metrics import expected_calibration_error
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table
from mgce_lab.studies.annotators import BEGIN, END, KEEPS, PAGE, thinned, within
from mgce_lab.studies.embeddings import ROWS, read
from mgce_lab.studies.made_annotators import made_table

RESULTS = Path(__file__).parents[4] / "results" / "annotators" / "calibration.jsonl"
STARTS = (0, 40_000)  # first rows of the parts of CIFAR-10N
NAME = "calibration"
MADE = "made tables"  # in the records; the page calls them simulated
WHEN = ("before", "after")  # the last step of the consensus


def main() -> None:
    """Measure what has no result yet, then write the table if asked."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.consensus_calibration", description=__doc__)
    parser.add_argument("--features", type=Path, help="folder of train-A-B-128.npz")
    parser.add_argument("--cifarn", type=Path, help="folder of CIFAR-10_human.pt")
    parser.add_argument("--made", type=int, default=0, help="number of simulated tables")
    parser.add_argument("--page", action="store_true", help="write the table of docs/lab/annotators.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = Lines(RESULTS, "data", "number")
    for data, number, x, y, labels in _parts(options):
        cell = {"data": data, "number": number}
        if cell not in lines:
            lines.add(cell | measured(x, y, labels))
    if options.page:
        PAGE.write_text(page(PAGE.read_text(), records()))


def records() -> list[dict[str, Any]]:
    """Return the finished cells."""
    return Lines(RESULTS).read()


def _parts(options: argparse.Namespace) -> Iterator[tuple[str, int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield the name of the data, a number, features, right classes, and labels."""
    for number in range(options.made):
        x, y, labels, _ = made_table(number)
        yield MADE, number, x, y, labels
    if options.features is not None:
        x, y = read(options.features)
        human = torch.load(options.cifarn / "CIFAR-10_human.pt", weights_only=False)
        given = np.stack([np.asarray(human[f"random_label{i}"], dtype=np.int64) for i in (1, 2, 3)], 1)
        for keep in KEEPS:
            for start in STARTS:
                part = slice(start, start + ROWS)
                labels = thinned(given[part], keep, np.random.default_rng(0))
                yield f"CIFAR-10N, {keep:g} labels a row", start, x[part], y[part], labels


def measured(x: NDArray[Any], y: NDArray[Any], labels: NDArray[Any]) -> dict[str, Any]:
    """Return what consensus labels are said to be and are, before and after their evidence is weakened."""
    fitted = ConsensusClassifier(random_state=0).fit(x, labels)
    k = len(fitted.classes_)
    plain = annotator_model(Annotations.of(labels, k), fitted.oof_proba_)
    weaker, rho = shared_evidence(plain)
    true = [float((labels[labels[:, j] >= 0, j] == y[labels[:, j] >= 0]).mean()) for j in range(labels.shape[1])]
    result: dict[str, Any] = {"right": float((fitted.consensus_.labels == y).mean()), "rho": rho}
    for when, model in zip(WHEN, (plain, weaker), strict=True):
        probs = torch.from_numpy(model.probs)
        annotators = annotator_table(model, [str(j) for j in range(labels.shape[1])], fitted.classes_)
        result[when] = {
            "said": float(model.probs.max(1).mean()),
            "error": float(expected_calibration_error(probs, torch.from_numpy(y))),
            "inside": [within(one, share) for one, share in zip(annotators, true, strict=True)],
        }
    return result


def page(text: str, cells: list[dict[str, Any]]) -> str:
    """Return the page with its table written anew."""
    rows = []
    for data in dict.fromkeys(cell["data"] for cell in cells):
        own = [cell for cell in cells if cell["data"] == data]
        figures = [np.mean([cell["right"] for cell in own])]
        figures += [np.mean([cell[when][what] for cell in own]) for what in ("said", "error") for when in WHEN]
        inside = [np.concatenate([cell[when]["inside"] for cell in own]) for when in WHEN]
        held = [f"{one.sum()} of {len(one)}" for one in inside]
        rows.append([data.replace(MADE, "simulated tables"), *(f"{100 * figure:.1f}" for figure in figures), *held])
    head = ["data", "right, %", "said to be, %: before", "after", "calibration error, %: before", "after"]
    head += ["ranges of accuracies that hold: before", "after"]
    before, _, rest = text.partition(BEGIN.format(NAME))
    return f"{before}{BEGIN.format(NAME)}{table(head, rows)}\n{END.format(NAME)}{rest.partition(END.format(NAME))[2]}"


if __name__ == "__main__":
    main()
