"""Write the sections on calibration, annotators, single classes and single columns in the HTML report of a fit."""

from __future__ import annotations

import numpy as np

from mgce._messages import NAMED, listed
from mgce._svg import Axis, Series, chart
from mgce._text import printable
from mgce.desk.pages.web_page import figure, paragraph, table
from mgce.desk.tables.fit import TableFit
from mgce.labels.annotators import CAUTION
from mgce.labels.consensus import Consensus
from mgce.metrics.evaluation import pool

MOST_CLASSES = 7  # show the whole confusion matrix up to this many classes: more columns do not fit on a phone
SCREEN = 20  # pairs of classes that are shown, those confused most often, and columns, the most important ones


def class_sections(fit: TableFit) -> dict[str, str]:
    """Return the HTML of the sections on single classes and columns, by their headings."""
    return {
        "Class by class": _beside_the_simplest(fit) + _by_class(fit) + _confusion(fit),
        "Which columns matter": _importance(fit),
    }


def never_predicted(fit: TableFit) -> str:
    """Return a sentence on classes that the model predicts for none of the held-out rows; "" if there are none.

    Only classes that occur as given labels of held-out rows are considered.
    """
    counts = fit.measures.confusion
    never = np.flatnonzero((counts.sum(0) == 0) & (counts.sum(1) > 0))
    if not never.size:
        return ""
    never = never[np.argsort(-counts.sum(1)[never], kind="stable")]
    names = listed([f"{str(fit.model.classes[place])!r}" for place in never], NAMED)
    rows = int(counts.sum(1)[never].sum())
    return f"It never predicts {names}, the given label of {rows:,} row{'s' * (rows != 1)} held out."


def _beside_the_simplest(fit: TableFit) -> str:
    """Return HTML that compares the accuracy with that of always predicting the most frequent label."""
    measures = fit.measures
    text = (
        f"The model agrees with the given label in {fit.quality['accuracy']:.1%} of the rows held out; always "
        f"predicting the most frequent label of the training rows would in {measures.majority:.1%}. The balanced "
        f"accuracy, the mean of the shares found of each class, is {measures.balanced_accuracy:.1%}."
    )
    if measures.clean_accuracy is not None and measures.clean_majority is not None:
        text += (
            f" With a share of {fit.certificate.noise_rate:.3g} of the labels wrong at random, that makes about "
            f"{measures.clean_accuracy:.1%} and {measures.clean_majority:.1%} against right labels: an estimate, not a "
            "bound."
        )
    return paragraph(text)


def _by_class(fit: TableFit) -> str:
    """Return HTML with the recall and precision of every class."""
    counts = fit.measures.confusion
    given, predicted, right = counts.sum(1), counts.sum(0), counts.diagonal()
    rows = [
        [str(label), f"{given[i]:,}", f"{predicted[i]:,}", _share(right[i], given[i]), _share(right[i], predicted[i])]
        for i, label in enumerate(fit.model.classes)
    ]
    caption = (
        "The classes on the rows held out. Found: the share of the rows with this given label for which the model "
        "predicts it (recall). Right: the share of the rows predicted as this class that have this given label "
        "(precision)."
    )
    return table(caption, ["class", "given", "predicted", "found", "right"], rows)


def _confusion(fit: TableFit) -> str:
    """Return HTML with the confusion matrix; for many classes, only the pairs of classes confused most often."""
    counts, classes = fit.measures.confusion, [str(label) for label in fit.model.classes]
    if len(classes) <= MOST_CLASSES:
        rows = [[label, *(f"{count:,}" for count in counts[i])] for i, label in enumerate(classes)]
        return table("Rows held out by given label (rows) and predicted class (columns).", ["", *classes], rows)
    wrong = counts - np.diag(counts.diagonal())
    most = np.argsort(-wrong, axis=None, kind="stable")[:SCREEN]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(most, wrong.shape), strict=True) if wrong[i, j]]
    if not pairs:
        return paragraph("No label is confused with another.")
    rows = [[classes[i], classes[j], f"{wrong[i, j]:,}", _share(wrong[i, j], counts[i].sum())] for i, j in pairs]
    caption = (
        "The pairs of classes that are confused most often on the rows held out: the number of rows, and their share "
        "of all rows with this given label."
    )
    return table(caption, ["given", "predicted", "rows", "share"], rows, words=2)


def _importance(fit: TableFit) -> str:
    """Return HTML with the accuracy that is lost when the values of a column are shuffled."""
    importances = fit.measures.importance
    if importances is None:
        return paragraph("Not measured: the table has too many columns.")
    rows = [[each.column, _points(each.mean), _points(each.deviation)] for each in importances[:SCREEN]]
    caption = (
        "Percentage points of accuracy that are lost, on rows held out, when the values of a column are shuffled among "
        "the rows, and the standard deviation over shuffles. If several columns hold the same information, shuffling "
        "one of them loses few points, since the model still has the others."
    )
    return table(caption, ["column", "points", "deviation"], rows)


def _points(share: float) -> str:
    """Format a share in percentage points; adding 0.0 turns a rounded -0.0 into 0.0."""
    return f"{round(100 * share, 1) + 0.0:.1f}"


def _share(part: int, whole: int) -> str:
    """Format part / whole in percent; return an empty text if the whole is 0."""
    return f"{part / whole:.1%}" if whole else ""


def annotator_section(consensus: Consensus) -> str:
    """Return HTML with a line for each annotator, and whether annotators err independently."""
    rows = [
        [
            printable(one.name),
            f"{one.n_labels:,}",
            f"{one.estimated_accuracy:.1%}",
            " to ".join(f"{end:.1%}" for end in one.estimated_range),
            ", ".join(printable(f"{right} as {given} ({share:.0%})") for right, given, share in one.confused),
            ", ".join(printable(f"{name} ({share:.0%})") for name, share in one.together),
        ]
        for one in consensus.annotators
    ]
    head = [
        "annotator",
        "labels",
        "right, estimated",
        "estimated range",
        "most frequent wrong labels",
        "errs together with",
    ]
    caption = "What the labels and a model of the features say of each annotator."
    return table(caption, head, rows) + paragraph(CAUTION) + paragraph(str(consensus.independence))


def calibration_section(fit: TableFit) -> str:
    """Return the section as HTML: calibration errors of the probabilities h and p, and a reliability diagram."""
    words = (
        "The model's probabilities are those of right labels, as it estimates them: h, p and q are equal. Against "
        "given labels, of which some are wrong, a model that is right seems too sure."
        if fit.model.corrects
        else "The model gives two probabilities for every class. The minimax probability h is the one by which it "
        "predicts: it is sharp, often exactly 0 or 1. The worst-case probability p is meant to be calibrated to labels "
        "like those that the model was trained on."
    )
    names = {"ece": "expected, of the top label (ECE)", "sce": "static, of all classes (SCE)"}
    errors = table(
        "Calibration errors on the rows held out, 15 bins; smaller is better.",
        ["", "h", "p"],
        [[text, *(f"{fit.quality[f'{name}_{output}']:.1%}" for output in "hp")] for name, text in names.items()],
    )
    return paragraph(words) + errors + _reliability_diagram(fit) + _right_labels(fit)


def _right_labels(fit: TableFit) -> str:
    """Return HTML that explains q, the estimated probabilities of the right label, and an accuracy estimated from q."""
    if not fit.model.about_q:
        return ""
    return paragraph(
        f"{fit.model.about_q} By q, the model predicts the right label of {fit.sure:.1%} of the rows held out: an "
        "estimate, not a bound."
    )


def _reliability_diagram(fit: TableFit) -> str:
    """Return an SVG plot of accuracy against confidence, with a circle for each bin."""
    series, distances = [], []
    for output in "hp":
        confidence, accuracy, share = pool([fit.quality[f"reliability_{output}"]])
        # In pixels: the area grows with the share of the rows, and the emptiest bin can still be seen.
        radius = 2.5 + 9 * np.sqrt(share)
        series.append(Series(list(zip(confidence.tolist(), accuracy.tolist(), radius.tolist(), strict=True)), output))
        distances.append(f"{output} is {fit.quality[f'ece_{output}']:.1%} from the diagonal on average")
    text = f"Reliability diagram: share of right labels against confidence. {'; '.join(distances)}."
    caption = (
        "How often the predicted label is right, against the model's confidence in it. Circles of a calibrated model "
        "are on the dashed line, those of an overconfident model below it. Larger circles stand for more rows. "
        "<span class=key-h>● h</span>, <span class=key-p>○ p</span>."
    )
    marks = [(share / 5, f"{share * 20}%") for share in range(6)]
    axes = Axis("confidence", 0, 1, marks), Axis("right", 0, 1, marks)
    return figure(chart(series, *axes, text, height=350, diagonal=True), caption)
