"""Write the section on calibration in the HTML report of a fit."""

from __future__ import annotations

import numpy as np

from mgce._svg import Axis, Series, chart
from mgce.desk.pages.web_page import figure, paragraph, table
from mgce.desk.tables.fit import TableFit
from mgce.metrics.evaluation import pool

SHARES = tuple((share / 5, f"{share * 20}%") for share in range(6))  # marks of an axis from 0 to 1, with their text


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
    axes = Axis("confidence", 0, 1, SHARES), Axis("right", 0, 1, SHARES)
    return figure(chart(series, *axes, text, height=350, diagonal=True), caption)
