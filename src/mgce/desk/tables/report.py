"""Write the HTML report of a fit to a table; the command line prints some sentences of the report too."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mgce._machine import describe
from mgce._rounding import confidence_text, percent_up, rate_down, rate_up
from mgce.desk.columns.cells import PLAIN, TRUTH
from mgce.desk.columns.kinds import CATEGORY, DATE, EMBEDDING, KINDS, NUMBER, TEXT
from mgce.desk.pages.web_page import bullets, document, facts, paragraph, table
from mgce.desk.review.bounds import MORE
from mgce.desk.review.draws import share_range
from mgce.desk.tables.checked import Findings
from mgce.desk.tables.choice import CORRECTING, HEAD
from mgce.desk.tables.class_report import annotator_section, calibration_section, class_sections, never_predicted
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.summary import columns_left_out
from mgce.desk.tables.suspects_report import (
    FEW_LOOKS,
    NO_PICTURES,
    checked_section,
    next_section,
    next_steps,
    right_on_checked,
    suspect_cells,
    suspect_head,
    worst_rows,
)
from mgce.labels.share import ASSUMPTION
from mgce.risk import RiskCertificate

NOISE_LIMITS = {
    "symmetric": "The noise rate is taken as a lower bound of the share of wrong labels, and a wrong label as any of "
    "the other classes with equal probability. If the true share is smaller, or some mistakes are likelier than "
    "others, the bounds are too low.",
    "any": "The noise rate is taken as an upper bound of the share of wrong labels. If the true share is larger, the "
    "bounds are too low.",
}
OFF = 0.1  # of the rows, by which an estimate of wrong labels is off in a third of the cells of `mgce_lab.suite`
NO_SETS_IN_ORDER = "None: prediction sets need rows held out at random, not by groups or in the order of time."
PLURALS = {NUMBER: "numbers", CATEGORY: "categories", DATE: "dates", TEXT: "text", EMBEDDING: "embeddings"}


def page(
    fit: TableFit,
    name: str,
    model_file: str,
    n_suspects: int = 50,
    steps: Mapping[str, str] | None = None,
    pictures: Mapping[int, bytes] | None = None,
) -> bytes:
    """Return the report as an HTML page in UTF-8.

    Args:
        fit: what :func:`mgce.desk.tables.fit.run` returned.
        name: name of the table's file.
        model_file: name of the model's file.
        n_suspects: rows with the most suspect labels to show, at most.
        steps: sentences with commands for what to do next; None to build them from the file names.
        pictures: small JPEGs of rows, by the index of the row; None for none.
    """
    checked = {"What checked rows tell": checked_section(fit)} if fit.findings else {}
    annotators = {"The annotators": annotator_section(fit.consensus)} if fit.consensus else {}
    sections = {
        "The ten most suspect labels": worst_rows(fit, pictures or NO_PICTURES),
        "Do this next": next_section(fit, steps or next_steps(fit, name, model_file)),
        **checked,
        **annotators,
        "The bounds": _certificate(fit),
        **class_sections(fit),
        "Prediction sets": _sets(fit),
        "Calibration": calibration_section(fit),
        "The model": _choice(fit),
        "The most suspect labels": _suspects(fit, n_suspects),
        "What was done": _done(fit, name, model_file),
        "Limits": _limits(fit.plan),
    }
    lead = [*filter(None, [fit.caution]), headline(fit), wrong_labels(fit)]
    return document(f"{fit.plan.target} in {name}", "\n".join(lead), sections)


def headline(fit: TableFit) -> str:
    """Return sentences on accuracy and certified error, on classes never predicted and on rows that seem dependent.

    If random rows were checked, the accuracy is that against their right labels: see also :func:`against_given`.
    """
    signs = "; ".join(each.what for each in fit.dependence)
    warning = f" Rows may depend on one another, so that the bound may be too low: {signs}." if signs else ""
    first = right_on_checked(fit) or _measured_and_certified(fit)
    return " ".join(filter(None, [first, never_predicted(fit)])) + warning


def against_given(fit: TableFit) -> str:
    """Return sentences on the agreement with given labels if the headline has none; otherwise ""."""
    return _measured_and_certified(fit) if right_on_checked(fit) else ""


def _measured_and_certified(fit: TableFit) -> str:
    certificate = fit.certificate
    rows = "distinct rows" if fit.n_copies else "rows"
    label = fit.given_label
    measured = (
        f"Accuracy: on {certificate.n:,} {rows} that it had not seen, the model agrees with {label} in "
        f"{fit.quality['accuracy']:.1%}."
    )
    error = certificate.assumed.argmax_error
    confidence = f"With confidence {confidence_text(1 - certificate.delta)}"
    if certificate.refuted is not None:
        return (
            f"{measured} {confidence}, these labels refute {certificate.refuted}. The model disagrees with "
            f"{label} in at most {_bound(error)} of {rows} drawn like these."
        )
    if error is None or error >= 1:
        return f"{measured} These rows do not suffice for a bound."
    condition = _condition(certificate, fit.plan)
    if condition:
        return f"{measured} {confidence}, it is wrong on at most {_bound(error)} of {rows} drawn like these{condition}."
    return (
        f"{measured} {confidence}, it disagrees with {label} in at most {_bound(error)} of {rows} drawn and labelled "
        "like these."
    )


def in_short(fit: TableFit, steps: Mapping[str, str]) -> list[str]:
    """Return what a person needs first: how good the model is, how many labels are wrong, and what to do next."""
    review, *_, last = steps.values()
    suspects = fit.judgement.suspects(1).size
    command = f"{review} writes a page on which you check labels, the most suspect first" if suspects else last
    return [*filter(None, [fit.caution]), headline(fit), wrong_labels(fit), f"Next: {command}."]


def wrong_labels(fit: TableFit) -> str:
    """Return sentences on how many wrong labels were found, how many may be left, and what more checks would tell."""
    share, review = fit.share, fit.findings
    so_far = "Wrong labels: " + ("" if review is None else f"{review.changed:,} found and mended so far. ")
    if review is not None and review.about is not None:
        return f"{so_far}{_left_by_random_rows(fit, review, review.about)} {FEW_LOOKS}"
    n = math.floor(share.upper * share.n)
    of = f"{share.n:,}{' labels of distinct rows' if fit.n_copies else ''} ({percent_up(share.upper)})"
    most = f"0 to {n:,} of the {of}{'' if review is None else ' may be left'}, if {ASSUMPTION}."
    asked, others = fit.counts.expected
    first = ""
    if fit.n_asked:
        are = "label is" if fit.n_asked == 1 else "labels are"
        first = f" {fit.n_asked:,} {are} more likely wrong than right; {asked:,.0f} of them, by this estimate."
    expected = f"{asked + others:,.0f}" if asked + others >= 1 else "less than 1"
    off = max(1, round(OFF * share.n))
    estimate = (
        f" A rough estimate is {expected}; on two of three public tables such an estimate was off by {off:,} at most."
        f"{first}"
    )
    half_an_hour = MORE[0]
    lower, upper = share_range(round(half_an_hour * min(share.upper, 0.5)), half_an_hour)  # the widest possible one
    width = upper - lower
    looks = (
        f" If you check {half_an_hour} rows drawn at random, the share is known to within an interval of at most "
        f"{100 * width:.0f} percentage points."
    )
    return f"{so_far}{most}{estimate}{looks if width < share.upper else ''}"


def _left_by_random_rows(fit: TableFit, review: Findings, about: float) -> str:
    """Return sentences on how many wrong labels are left: an estimate, the lower of two bounds, and their sources.

    One bound is by the checked rows drawn at random, the other by the model. The bound by the model is not taken if the
    estimate lies above it.
    """
    share, rows = fit.share, f"the {review.drawn:,} rows drawn at random"
    most, n = share.upper, share.n
    source = f"The estimate is by {rows}, the bound by the model, if {ASSUMPTION}."
    if review.left is not None and (review.left < share.upper or about > share.upper * share.n):
        most, n = review.left, len(fit.row_names)
        source = (
            f"Both are by {rows}, with confidence {confidence_text(1 - review.delta)}, if the decisions are right. You "
            "may check more rows and look again: the bound holds at all looks together."
        )
    of = f"{n:,}{' labels of distinct rows' if fit.n_copies and most == share.upper else ''}"
    at_most = math.floor(most * n)
    return (
        f"About {min(about, at_most):,.0f} of the {of} may be left, at most {at_most:,} ({percent_up(most)}). {source}"
    )


def which_model(fit: TableFit) -> str:
    """Return sentences that say which model is in the file, and which model was measured and certified."""
    return (
        f"The model in the file was fitted to all {len(fit.model.trained_rows):,} rows. The figures and the bound are "
        f"of the same model fitted to {fit.n_train:,} of them; no bound is proved for the one in the file."
    )


def reading(fit: TableFit) -> str:
    """Return two or three sentences on the lines of the file, the kinds of its columns, and columns left out."""
    columns = fit.model.columns
    kinds = [f"{n} of {PLURALS[kind]}" for kind in KINDS if (n := [*columns.kinds.values()].count(kind))]
    formats = [f"{name} as {form}" for name, form in columns.formats.items() if form not in (PLAIN, TRUTH)]
    learnt = f"Columns: {', '.join(kinds)}" + (f" ({', '.join(formats)})" if formats else "")
    left_out = ", ".join(f"{name} ({reason})" for name, reason in columns_left_out(fit).items())
    return f"{fit.reading or ''} {learnt}.{f' Left out: {left_out}.' if left_out else ''}".lstrip()


def _condition(certificate: RiskCertificate, plan: FitPlan) -> str:
    """Return the condition on wrong labels under which a bound holds, as the end of a sentence; "" if there is none."""
    if plan.noise_type == "any":
        return f", if at most {rate_down(certificate.noise_rate)} of the given labels are wrong"
    if not plan.noise_rate:
        return ""
    return f", if {rate_up(certificate.noise_rate)} or more of the given labels are wrong at random"


def _bound(probability: float | None) -> str:
    """Format an upper bound in percent."""
    return "" if probability is None else percent_up(probability)


def _certificate(fit: TableFit) -> str:
    """Return HTML with the bounds on errors and their assumptions."""
    certificate = fit.certificate
    corrected = not certificate.against_given
    fails = "is wrong" if corrected else "disagrees with the given label"
    rows = "distinct rows" if fit.n_copies else "rows"
    bounds = table(
        f"{'Errors' if corrected else 'Disagreements'} on {rows} like the {certificate.n:,} {rows} held out. Both "
        f"bounds hold at once with confidence {confidence_text(1 - certificate.delta)}.",
        ["", "measured, given labels", "at most, right labels"] if corrected else ["", "measured", "at most"],
        [
            [
                f"the most probable class {fails}",
                f"{1 - fit.quality['accuracy']:.1%}",
                _bound(certificate.assumed.argmax_error),
            ],
            [
                f"a class drawn by the predicted probabilities {fails}",
                f"{fit.quality['randomized_error']:.1%}",
                _bound(certificate.assumed.randomized_error),
            ],
        ],
    )
    labels = _which_labels(certificate)
    notes = "".join(paragraph(f"Note: {note}") for note in (*fit.asked, *fit.notes))
    of_given = against_given(fit)
    return (
        (paragraph(of_given) if of_given else "")
        + bounds
        + paragraph(which_model(fit))
        + paragraph(labels)
        + notes
        + paragraph("This assumes that")
        + bullets(certificate.assumptions)
    )


def _which_labels(certificate: RiskCertificate) -> str:
    """Return sentences that say whether the bounds are on errors against right labels or against given labels."""
    if certificate.refuted is not None:
        return (
            f"These labels refute {certificate.refuted}. No correction was made: the bounds are on disagreements with "
            "the labels as given."
        )
    if certificate.against_given:
        return (
            "The bounds are on disagreements with the labels as given. They bound errors of the model if the labels "
            "are right. If some are wrong, --noise-rate says how many, and the bounds are then against right labels."
        )
    only_if = "."
    if certificate.conditional is not None:
        only_if = f", and hold only if labels are wrong whatever the row. {certificate.caution}"
    return (
        "The bounds are on errors against right labels: they are corrected for a noise rate of "
        f"{rate_up(certificate.noise_rate)}{only_if} All other figures on this page, accuracy and calibration among "
        "them, are against the labels as given."
    )


def _sets(fit: TableFit) -> str:
    """Return HTML with the guarantee of the prediction sets and their mean size."""
    if fit.model.sets is None:
        return paragraph(NO_SETS_IN_ORDER)
    return paragraph(
        "If one predicted class is not enough, mgce predict with --sets gives every row a set of classes. On the rows "
        f"held out, a set has {fit.set_size:.2f} of the {len(fit.model.classes)} classes on average. {fit.model.sets} "
        "The right class is the label as given, unless this paragraph names a share of wrong labels."
    )


def _choice(fit: TableFit) -> str:
    """Return HTML that says what the model is, and how it was chosen if there were several."""
    choice = fit.choice
    beta = "" if choice.name in CORRECTING else f", with beta {fit.model.beta:g}"
    said = paragraph(f"The {choice.description}{beta}.")
    if len(choice.trials) < 2:
        return said
    learnt = "given" if fit.findings is None else "mended by the review"
    caption = (
        f"Share of the labels as {learnt} that were predicted by models that had not learnt them, and the processor "
        "time of a fit. The best was chosen."
    )
    rows = [[trial.name, f"{trial.accuracy:.1%}", f"{trial.seconds:.1f}"] for trial in choice.trials]
    return said + table(caption, ["model", "accuracy", "seconds"], rows)


def _suspects(fit: TableFit, most: int) -> str:
    """Return HTML with the number of labels that look wrong by class, and the most suspect rows."""
    judged_by = (
        "A forest and a kernel regression judge the label of each row, without having learnt it: trees whose sample "
        "lacks the row, and a regression that leaves it out."
    )
    if fit.judgement.source == HEAD:
        judged_by = "The label of each row is judged by a linear classifier that was not fitted to the row."
    look_wrong = "Rows whose label is more probably wrong than right, by the class that was given."
    if fit.consensus is not None:
        judged_by = "Rows stand in the order of doubt in their consensus, which the labels and a model of them decide."
        look_wrong = "Rows whose consensus is more probably wrong than right, by their consensus."
    words = paragraph(
        f"{judged_by} A place at the top of the list is a reason to check a label, not a proof that it is wrong. Hard "
        "rows and wrong labels look alike. So the number of wrong labels is a range from 0."
    )
    each = zip(fit.model.classes, fit.counts.rows.tolist(), fit.counts.look_wrong.tolist(), strict=True)
    counts = [[str(label), f"{n:,}", f"{wrong:,}"] for label, n, wrong in each if n]
    words += table(look_wrong, ["given", "rows", "look wrong"], counts)
    suspects = fit.judgement.suspects(most)
    if not suspects.size:
        return words + paragraph("None: every label is the most probable class of its row.")
    numbers = "" if fit.plan.id else " Rows are numbered from 1; lines are those of a spreadsheet."
    return words + table(
        f"The most suspect rows, {len(suspects)} of them. Of their labels, "
        f"{fit.judgement.wrong[suspects].mean():.0%} are expected to be wrong.{numbers}",
        suspect_head(fit),
        [suspect_cells(fit, int(row)) for row in suspects],
        words=3,
    )


def _done(fit: TableFit, name: str, model_file: str) -> str:
    """Return HTML with the settings of the fit, the versions of the software, and the columns."""
    settings = {
        "table": name,
        "target": f"{fit.plan.target}, {len(fit.model.classes)} classes",
        "rows": f"{fit.n_train:,} to train on, {fit.certificate.n:,} held out for the certificate and the figures",
        "model": fit.choice.description,
        "file": model_file,
        "fitted to": which_model(fit),
        "options": f"--model {fit.plan.model}",
        "noise rate": f"{fit.plan.noise_rate}",
        "noise_type": fit.plan.noise_type,
        "delta": f"{fit.plan.delta:g}",
        "holdout": f"{fit.plan.holdout:g}",
        "seed": f"{fit.plan.seed}",
    }
    if fit.plan.id:
        settings["row names"] = f"column {fit.plan.id}"
    if fit.plan.groups:
        settings["rows held out"] = f"all rows of {fit.plan.holdout:.0%} of the groups in column {fit.plan.groups}"
    if fit.plan.time:
        settings["rows held out"] = f"the last rows in the order of column {fit.plan.time}"
    left_out = columns_left_out(fit)
    if names := [*fit.plan.drop, *fit.left_out]:
        settings["columns left out"] = ", ".join(f"{name} ({left_out[name]})" for name in names)
    if fit.reading is not None:
        settings["lines read"] = str(fit.reading)
    columns = table(
        "The columns that the model learns from. In columns of numbers, and of dates as days since 1970, missing "
        "values are replaced by the median and marked in an additional column; then all are scaled to mean 0 and "
        "variance 1. "
        "Columns of categories are one-hot encoded; if there are more than 50 categories, the rarest share one column.",
        ["column", "kind", "format", "missing"],
        [
            [column, kind, fit.model.columns.formats.get(column, ""), f"{fit.n_missing[column]:,}"]
            for column, kind in fit.model.columns.kinds.items()
        ],
        words=3,
    )
    return facts({**settings, **describe()}) + columns


def _limits(plan: FitPlan) -> str:
    """Return HTML that lists the limits of the results."""
    limits = [
        "The certificate is about rows drawn in the same way as the rows of this table. It says nothing about other "
        "places or times; for those, `mgce certify` makes a certificate from new labelled rows.",
        "The certificate holds for the model of the training rows. If several models are compared on the same rows "
        "held out and the best is taken, its certificate is too optimistic.",
        "Calibration errors are estimates without a guarantee, and depend on the choice of bins.",
        "A label can be suspect because it is wrong, because the row is unusual, or because the model is too simple.",
    ]
    if plan.noise_rate:
        limits.append(NOISE_LIMITS[plan.noise_type])
    return bullets(limits)
