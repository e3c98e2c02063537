"""The part of a fit's report that goes class by class and column by column."""

from __future__ import annotations

import numpy as np

from mgce.pages.web_page import paragraph, table
from mgce.tables.fit import TableFit

# Classes for which a page shows every pair: as many columns of counts as a phone has room for.
MOST_CLASSES = 7
N_PAIRS = 20  # of more classes, the pairs that are confused most often
N_COLUMNS = 20  # the most important ones


def class_sections(fit: TableFit) -> dict[str, str]:
    """Give the sections as HTML by heading."""
    return {
        "Class by class": _beside_the_simplest(fit) + _by_class(fit) + _confusion(fit),
        "Which columns matter": _importance(fit),
    }


def _beside_the_simplest(fit: TableFit) -> str:
    measures = fit.measures
    text = (
        f"The model agrees with the given label in {fit.quality['accuracy']:.1%} of the rows held out; always "
        f"predicting the most frequent label of the training rows would in {measures.majority:.1%}."
    )
    if measures.clean_accuracy is not None and measures.clean_majority is not None:
        text += (
            f" With a share of {fit.certificate.noise_rate:.3g} of the labels wrong at random, that makes about "
            f"{measures.clean_accuracy:.1%} and {measures.clean_majority:.1%} against right labels: an estimate, not a "
            "bound."
        )
    return paragraph(text)


def _by_class(fit: TableFit) -> str:
    counts = fit.measures.confusion
    given, predicted, right = counts.sum(1), counts.sum(0), counts.diagonal()
    rows = [
        [str(label), f"{given[i]:,}", f"{predicted[i]:,}", _share(right[i], given[i]), _share(right[i], predicted[i])]
        for i, label in enumerate(fit.model.classes)
    ]
    caption = (
        "The classes on the rows held out. Found: of the rows given this label, the share that the model gives it "
        "(recall). Right: of the rows that the model gives it, the share that were given it (precision)."
    )
    return table(caption, ["class", "given", "predicted", "found", "right"], rows)


def _confusion(fit: TableFit) -> str:
    counts, classes = fit.measures.confusion, [str(label) for label in fit.model.classes]
    if len(classes) <= MOST_CLASSES:
        rows = [[label, *(f"{count:,}" for count in counts[i])] for i, label in enumerate(classes)]
        return table("Rows held out by given label (rows) and predicted class (columns).", ["", *classes], rows)
    wrong = counts - np.diag(counts.diagonal())
    most = np.argsort(-wrong, axis=None, kind="stable")[:N_PAIRS]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(most, wrong.shape), strict=True) if wrong[i, j]]
    if not pairs:
        return paragraph("No label is confused with another.")
    rows = [[classes[i], classes[j], f"{wrong[i, j]:,}", _share(wrong[i, j], counts[i].sum())] for i, j in pairs]
    caption = "The labels that are confused most often, on the rows held out, and of how many given the first."
    return table(caption, ["given", "predicted", "rows", "of them"], rows, words=2)


def _importance(fit: TableFit) -> str:
    found = fit.measures.importance
    if found is None:
        return paragraph("Not measured: the table has too many columns.")
    rows = [[each.column, _points(each.mean), _points(each.deviation)] for each in found[:N_COLUMNS]]
    caption = (
        "Points of accuracy that are lost, on rows held out, when the values of a column are shuffled among the rows, "
        "and the standard deviation over shuffles. Columns that say the same share what they matter."
    )
    return table(caption, ["column", "points", "deviation"], rows)


def _points(share: float) -> str:
    """Give a share in points of a hundred; what rounds to nothing has no sign."""
    return f"{round(100 * share, 1) + 0.0:.1f}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""
