"""What a fit to a table says of itself: a headline, the rows of its tables, and a page."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mgce.metrics.evaluation import pool
from mgce.pages.svg import Axis, Series, chart
from mgce.pages.web_page import bullets, document, facts, figure, paragraph, table
from mgce.risk import RiskCertificate
from mgce.tables.candidates import MODELS
from mgce.tables.choice import Choice, Trial
from mgce.tables.class_report import class_sections
from mgce.tables.fit import FitPlan, TableFit

SHARES = tuple((share / 5, f"{share * 20}%") for share in range(6))
NOISE_LIMITS = {
    "symmetric": "The noise rate is a lower bound, and wrong labels are taken to be any of the others, all alike. If "
    "the true rate is smaller, or some mistakes are likelier than others, the bounds are too low.",
    "any": "The noise rate is an upper bound. If the true one is larger, the bounds are too low.",
}
NO_SETS_OF_ALL = "None: the model was fitted again to all rows, so that none are left to calibrate prediction sets on."
NO_SETS_IN_ORDER = "None: they want rows held out at random, not by groups or in the order of time."
N_SUSPECTS = 50  # on the page: as many as a person may look through at a sitting; the file has every row
N_TRIALS = 12  # on the page: all that were tried on the most rows, and the best of the others


def page(fit: TableFit, plan: FitPlan, name: str, model_file: str, environment: Mapping[str, str]) -> bytes:
    """Give the HTML page as UTF-8.

    Args:
        fit: what :func:`mgce.tables.fit.run` gives.
        plan: its settings.
        name: the file of the table.
        model_file: the file of the model.
        environment: versions by name.
    """
    sections = {
        "How wrong it can be": _certificate(fit, plan),
        **class_sections(fit),
        "Prediction sets": _sets(fit, plan),
        "Calibration": _calibration(fit),
        "The choice of the model": _choice(fit),
        "The most suspect labels": _suspects(fit, plan),
        "What was done": _done(fit, plan, name, model_file, environment),
        "Limits": _limits(plan),
    }
    return document(f"{plan.target} in {name}", headline(fit, plan), sections)


def headline(fit: TableFit, plan: FitPlan) -> str:
    """Say in two sentences how good the model is."""
    certificate = fit.certificate
    measured = (
        f"On {certificate.n:,} rows that it had not seen, the model agrees with the given label in "
        f"{fit.quality['accuracy']:.1%}."
    )
    error, confidence = certificate.argmax_error, f"With confidence {certificate.confidence:.4g}"
    if certificate.refuted is not None:
        return (
            f"{measured} {confidence}, these labels refute {certificate.refuted}. Against labels as given, the model "
            f"is wrong on at most {_bound(error)} of rows drawn like these."
        )
    if error is None or error >= 1:
        return f"{measured} This does not suffice to bound how often it is wrong."
    return (
        f"{measured} {confidence}, it is wrong on at most {_bound(error)} of rows drawn like these"
        f"{_condition(certificate, plan)}."
    )


def suspect_cells(fit: TableFit, row: int) -> list[str]:
    """Give a suspect row as the text of a table's cells: row, labels, and how probable it is that its own is wrong."""
    found, classes = fit.judgement, fit.model.classes
    given, suggested = (str(classes[labels[row]]) for labels in (found.target, found.suggested))
    return [fit.row_names.iloc[row], given, suggested, f"{found.wrong[row]:.1%}"]


def wrong_labels(fit: TableFit) -> str:
    """Say in a sentence how many labels look wrong."""
    share, low, high = fit.judgement.share_wrong()
    n = len(fit.judgement.target)
    return (
        f"About {share:.1%} of the {n:,} labels look wrong ({low:.1%} to {high:.1%}, which allows for the number of "
        "rows, not for the errors of the forest that judges)."
    )


def _condition(certificate: RiskCertificate, plan: FitPlan) -> str:
    """Say under which noise of the labels a bound holds."""
    if plan.noise == "any":
        return f", if at most {certificate.noise_rate:g} of the given labels are wrong"
    if plan.noise_rate == "auto":
        return (
            f", if {certificate.noise_rate:.3g} or more of the given labels are wrong at random, as where the model is "
            "most sure, and there right"
        )
    return f", if {plan.noise_rate:g} or more of the given labels are wrong at random" if plan.noise_rate else ""


def _bound(probability: float | None) -> str:
    """Show an upper bound, rounded up so that it stays one."""
    if probability is None:
        return ""
    return f"{math.ceil(1000 * probability) / 10:.1f}%"


def _certificate(fit: TableFit, plan: FitPlan) -> str:
    certificate = fit.certificate
    corrected = bool(certificate.noise_rate) and certificate.refuted is None
    bounds = table(
        f"Errors on rows like the {certificate.n:,} held out. Both bounds hold at once with confidence "
        f"{certificate.confidence:.4g}.",
        ["", "measured, given labels", "at most, right labels"] if corrected else ["", "measured", "at most"],
        [
            [
                "the most probable class is wrong",
                f"{1 - fit.quality['accuracy']:.1%}",
                _bound(certificate.argmax_error),
            ],
            [
                "a class drawn from h is wrong",
                f"{fit.quality['randomized_error']:.1%}",
                _bound(certificate.randomized_error),
            ],
        ],
    )
    labels = _which_labels(certificate)
    notes = "".join(paragraph(f"Note: {note}") for note in fit.notes)
    return bounds + paragraph(labels) + notes + paragraph("This assumes that") + bullets(certificate.assumptions)


def _which_labels(certificate: RiskCertificate) -> str:
    """Say against which labels the bounds are."""
    if certificate.refuted is not None:
        return (
            f"These labels refute {certificate.refuted}. No correction was made: the bounds are against them as given."
        )
    if not certificate.noise_rate:
        return "The labels are taken as right: a wrong one counts as an error of the model."
    return (
        f"The bounds are on errors against right labels: they are corrected for a noise rate of "
        f"{certificate.noise_rate:.4g}. All other figures on this page, accuracy and calibration among them, are "
        "against the labels as given."
    )


def _sets(fit: TableFit, plan: FitPlan) -> str:
    """Say what prediction sets guarantee, and how large they are."""
    if fit.model.sets is None:
        return paragraph(NO_SETS_OF_ALL if plan.refit else NO_SETS_IN_ORDER)
    return paragraph(
        "Where one class says too little, mgce predict with --sets gives every row a set of classes. On the rows held "
        f"out a set has {fit.set_size:.2f} of the {len(fit.model.classes)} classes on average. {fit.model.sets} A "
        "right class is a label as given, unless a share of wrong ones is named here."
    )


def _calibration(fit: TableFit) -> str:
    words = (
        "<p>The model gives two probabilities. <span class=key-h>h</span>, the minimax one, is what it predicts with: "
        "sharp, often exactly 0 or 1. <span class=key-p>p</span>, the worst-case one, is meant to be calibrated to "
        "labels like those it was trained on.</p>"
    )
    names = {"ece": "expected, of the top label (ECE)", "sce": "static, of all classes (SCE)"}
    errors = table(
        "Calibration errors on the rows held out, 15 bins; smaller is better.",
        ["", "h", "p"],
        [[text, *(f"{fit.quality[f'{name}_{output}']:.1%}" for output in "hp")] for name, text in names.items()],
    )
    return words + errors + _reliability_diagram(fit)


def _reliability_diagram(fit: TableFit) -> str:
    series, distances = [], []
    for output in "hp":
        confidence, accuracy, share = pool([fit.quality[f"reliability_{output}"]])
        radius = 2.5 + 9 * np.sqrt(share)
        series.append(Series(list(zip(confidence.tolist(), accuracy.tolist(), radius.tolist(), strict=True)), output))
        distances.append(f"{output} is {fit.quality[f'ece_{output}']:.1%} from the diagonal on average")
    text = f"Reliability diagram: share of right labels against confidence. {'; '.join(distances)}."
    caption = (
        "How often the predicted label is right, by the confidence in it: on the dashed line if calibrated, below it "
        "if overconfident. Larger circles hold more rows. <span class=key-h>● h</span>, <span class=key-p>○ p</span>."
    )
    axes = Axis("confidence", 0, 1, SHARES), Axis("right", 0, 1, SHARES)
    return figure(chart(series, *axes, text, height=350, diagonal=True), caption)


def _choice(fit: TableFit) -> str:
    choice = fit.choice
    words = (
        f"Chosen: {choice.trial.name}, the {MODELS[choice.trial.model]}. Candidates were tried on few rows first, and "
        f"the best of each kind {choice.measured_on}. Labels that are wrong at random lower the accuracy of all of "
        "them alike. A smaller beta is more robust to wrong labels; infinity is cross-entropy."
    )
    rows = [
        [trial.name, _remark(trial, choice), f"{trial.rows:,}", f"{trial.accuracy:.1%}", f"{trial.seconds:.1f}"]
        for trial in choice.trials[:N_TRIALS]
    ]
    caption = "Accuracy against the labels as given, on rows that were not fitted to, and the seconds it took."
    return paragraph(words) + table(caption, ["model", "", "rows", "accuracy", "seconds"], rows, words=2)


def _remark(trial: Trial, choice: Choice) -> str:
    if trial == choice.trial:
        return "chosen"
    if trial.candidate is None:
        return "to compare"
    return f"not chosen: {trial.left_out}" if trial.left_out else ""


def _suspects(fit: TableFit, plan: FitPlan) -> str:
    found = fit.judgement
    words = paragraph(
        "A forest of decision trees judges each label by the trees that have not seen its row. A high place is a "
        "reason to look, not a proof of an error."
    ) + paragraph(wrong_labels(fit))
    shares = [
        [str(label), f"{int((found.target == index).sum()):,}", *(f"{share:.1%}" for share in found.share_wrong(index))]
        for index, label in enumerate(fit.model.classes)
        if (found.target == index).any()
    ]
    words += table(
        "Labels that look wrong, by the class that was given.", ["given", "rows", "wrong", "from", "to"], shares
    )
    suspects = found.suspects(N_SUSPECTS)
    if not suspects.size:
        return words + paragraph("None: every label is the one the forest would give.")
    numbers = "" if plan.id else " Rows are counted from 1, below the names of the columns."
    return words + table(
        f"The {len(suspects)} most suspect rows. Of them, {found.wrong[suspects].mean():.0%} are expected to be wrong."
        f"{numbers}",
        [plan.id or "row", "given", "suggested", "wrong"],
        [suspect_cells(fit, int(row)) for row in suspects],
        words=3,
    )


def _done(fit: TableFit, plan: FitPlan, name: str, model_file: str, environment: Mapping[str, str]) -> str:
    settings = {
        "table": name,
        "target": f"{plan.target}, {len(fit.model.classes)} classes",
        "rows": f"{fit.n_train:,} to train on, {fit.certificate.n:,} held out for the certificate and the figures",
        "model": f"{fit.choice.trial.name}: {MODELS[fit.choice.trial.model]}"
        + (", fitted again to all rows once the figures and the certificate were made" if plan.refit else ""),
        "file": model_file,
        "asked for": f"--model {plan.model}, --budget {plan.budget:g} s",
        "noise rate": f"{plan.noise_rate}",
        "noise": plan.noise,
        "delta": f"{plan.delta:g}",
        "holdout": f"{plan.holdout:g}",
        "seed": f"{plan.seed}",
    }
    if plan.id:
        settings["names the rows"] = plan.id
    if plan.groups:
        settings["rows held out"] = f"those of {plan.holdout:.0%} of the groups in {plan.groups}"
    if plan.time:
        settings["rows held out"] = f"the last in {plan.time}"
    left_out = [*(f"{name} (as asked)" for name in plan.drop), *(f"{name} (no value)" for name in fit.left_out)]
    if left_out:
        settings["left out"] = ", ".join(left_out)
    columns = table(
        "The columns it learns from. Numbers, and dates as days since 1970: the median for what is missing and a "
        "column that says so, then mean 0 and variance 1. Categories: one column each, the rarest together beyond 50.",
        ["column", "kind", "missing"],
        [[column, kind, f"{fit.n_missing[column]:,}"] for column, kind in fit.model.columns.kinds.items()],
        words=2,
    )
    return facts({**settings, **environment}) + columns


def _limits(plan: FitPlan) -> str:
    limits = [
        "The certificate is about rows drawn as these were. It says nothing about other places or times; `mgce "
        "certify` makes one from new labelled rows.",
        "It holds for this model. Of several models that were tried on the same rows held out, the best one's "
        "certificate is too good.",
        "Calibration errors are estimates, without a guarantee, and depend on the bins.",
        "A label can be suspect because it is wrong, because the row is unusual, or because the model is too simple.",
    ]
    if plan.noise_rate:
        limits.append(NOISE_LIMITS[plan.noise])
    return bullets(limits)
