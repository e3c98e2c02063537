"""`mgce certify MODEL TABLE`: bound the errors of a model, or of given predictions, from new labelled rows."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table as Grid

from mgce._files import write_files
from mgce._messages import expected
from mgce._rounding import confidence_text, percent_up, share_text
from mgce._text import printable
from mgce.desk.cli.embedded import NewForm, files_of, files_of_features
from mgce.desk.cli.labelled_rows import Given
from mgce.desk.cli.outputs import Json, Quiet, check_outputs, terminal, write_json
from mgce.desk.cli.shared_options import NOISE_RATE, NOISE_TYPE, grouped, parse_names, parse_rate
from mgce.desk.files.table_files import require_column
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.review.bounds import MORE, without_label
from mgce.desk.review.decision_file import ON_LOOKS, read_decisions
from mgce.desk.tables.looked_up import looked_up, order_to_check, to_check_csv
from mgce.desk.tables.predictions import LabelledPredictions, class_matrix, read_class_table
from mgce.risk import RiskCertificate, certify_each
from mgce.risk import certify as certify_probs
from mgce.risk.certifying import MendedLabelsWarning
from mgce.risk.checking import upper_after
from mgce.risk.concentration import check_delta
from mgce.risk.parts import LABEL
from mgce.risk.parts import PREDICTION as PREDICTED
from mgce.risk.sample import UNSEEN

if TYPE_CHECKING:
    import pandas as pd

NO_VALUE = "(no value)"  # the part of the rows whose column is empty
PARTS = (LABEL, PREDICTED)  # values of --by that are not columns: a certificate for each label or prediction


@dataclass(frozen=True)
class Claim:
    """The options on what is bounded, and on what is assumed of wrong labels."""

    noise_rate: Annotated[str, NOISE_RATE] = "0"
    noise_type: Annotated[str, NOISE_TYPE] = "symmetric"
    transition: Annotated[
        Path | None, "A table of the probability of each given class (columns) by right class (rows)."
    ] = None
    bounds: Annotated[
        str,
        "argmax: on the most probable class. randomized: on a class drawn by the predicted probabilities. "
        "Both, with a comma between, are wider.",
    ] = "argmax"
    delta: Annotated[float, "Probability with which the certificate may fail."] = 0.05

    def options(self, classes: list[str], form: TextFormat) -> dict[str, Any]:
        """Return the arguments for :func:`mgce.risk.certify` that the options stand for."""
        rate = parse_rate(self.noise_rate)
        options: dict[str, Any] = {"delta": self.delta, "bounds": parse_names(self.bounds)}
        if rate != 0 or self.noise_type != "symmetric":
            options |= {"noise_rate": rate, "noise_type": self.noise_type}
        if self.transition is not None:
            table = read_class_table(self.transition, "transition", form)
            options["transition"] = class_matrix(table, classes, "transition")
        return options


@dataclass(frozen=True)
class Looks:
    """The options on rows whose labels a person checks."""

    checked: Annotated[
        str | None, "Files of decisions on the rows of --to-check, as `mgce review` saves them: right labels."
    ] = None
    checked_again: Annotated[
        str | None, "Files of decisions of a second person, on the first rows of --to-check once more."
    ] = None
    anytime: Annotated[bool, "With --checked: the bound holds at every look, whenever you stop."] = False
    share: Annotated[bool, "With --to-check and --checked: doubtful rows come twice as often; for --bounds argmax."] = (
        False
    )
    to_check: Annotated[Path | None, "File for the rows to look up next, for `mgce review`: NAME.suspects.csv."] = None
    width: Annotated[float, "Wanted width of the bound by the rows of --to-check."] = 0.05

    @cached_property
    def files(self) -> dict[str, list[Path]]:
        """The files of decisions by the option that names them; the files of the second person come first."""
        given = {"checked_again": self.checked_again, "checked": self.checked}
        return {name: [*map(Path, parse_names(files))] for name, files in given.items() if files is not None}

    def check(self, given: Given) -> None:
        """Raise an error for options that contradict each other.

        Raises:
            ValueError: if they do.
        """
        check_delta(self.width, "width")
        again, decided = self.files.get("checked_again", []), self.files.get("checked", [])
        alone = self.anytime or given.by is not None  # without decisions of a second person
        if again and (not decided or alone or {*again} & {*decided}):
            what = "other files than those of `checked`, and left out without `checked`, and with `anytime` or `by`"
            raise ValueError(expected("checked_again", what, ", ".join(map(str, again))))
        if self.share and (again or self.anytime):
            raise ValueError(expected("share", "left out with `anytime` or `checked_again`", True))
        if self.to_check is not None and (decided or given.groups is not None):
            raise ValueError(expected("to_check", "left out with `checked` or `groups`", self.to_check))


@grouped
def certify(
    *, given: Given, claim: Claim, looks: Looks, form: NewForm, json_file: Json = None, quiet: Quiet = False
) -> None:
    """Bound the errors of a model on future rows, from labelled rows that it has not seen.

    The rows must be independent draws that the model does not depend on in any way: it was neither fitted to these rows
    nor chosen by them. Training rows of the model are refused. `mgce certify PREDICTIONS.csv --target COLUMN` reads the
    predictions of any model instead.
    """
    looks.check(given)
    read = [given.model, *files_of(given.rows_file), *files_of_features(form.embeddings), claim.transition]
    check_outputs({"json": json_file, "to_check": looks.to_check}, [*read, *chain(*looks.files.values())])
    rows = given.rows(form)
    predictions, notes = rows.predictions, rows.notes
    options = claim.options(predictions.classes, form)
    for option, files in looks.files.items():
        found = looked_up(rows.frame, rows.predictions, read_decisions(*files)[0], option, share=looks.share)
        predictions, notes = found.predictions, [*rows.notes, *found.notes]
        options[option] = found.rows, found.right
        if looks.share:
            options["checked_with"] = found.chance
    if rows.groups is not None:
        options["groups"] = rows.groups
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MendedLabelsWarning)  # decisions tell the labels of before the looks
        certificate = certify_probs(predictions.target, predictions.probs, anytime=looks.anytime, **options)
        parts = {} if given.by is None else _certify_parts(rows.frame, predictions, given.by, options)
    plan, commands = "", list[str]()
    if certificate.looked_up is None and rows.groups is None:
        plan, commands = _rows_to_check(rows.frame, predictions, looks, claim.delta)
    elif certificate.rows_error is not None:
        plan = _after_more_looks(predictions, options, certificate)
    document = {"model": given.model.name, "table": given.rows_file.name, **certificate.to_dict()}
    if parts:
        document |= {"by": given.by, "parts": {name: part.to_dict() for name, part in parts.items()}}
    write_json(json_file, {**document, "notes": notes})
    console = terminal(json_file, quiet)
    console.print(f"{_counted(predictions, options.get('checked'))} {certificate}")
    if parts:
        console.print(_grid(parts, given.by or "", claim.delta))
    console.print_notes(notes)
    if plan:
        console.print(plan)
        console.print_steps(commands)


def _counted(predictions: LabelledPredictions, checked: tuple[NDArray[np.int64], NDArray[np.int64]] | None) -> str:
    """Say how often the model agrees with the labels or, of checked rows, how often it is right and labels are wrong.

    `checked` holds the numbers of the checked rows and their right labels; None if no row was checked.
    """
    guess = predictions.probs.argmax(1)
    if checked is None:
        n, right = len(guess), int(np.count_nonzero(guess == predictions.target))
        confused = _confused(predictions.target, guess, predictions.classes)
        return f"The model agrees with {share_text(right, n, 'given labels')}.{confused}"
    rows, labels = checked
    n, known = len(rows), labels != UNSEEN
    right = int(np.count_nonzero(guess[rows] == labels))
    wrong = int(np.count_nonzero((predictions.target[rows] != labels) & known))
    none = n - int(np.count_nonzero(known))
    return (
        f"The model is right on {share_text(right, n, 'rows that were looked up')}. Of their given labels, "
        f"{share_text(wrong, n)} were wrong.{without_label(none)}"
        f"{_confused(labels, guess[rows], predictions.classes)}"
    )


def _confused(target: NDArray[np.int64], guess: NDArray[np.int64], classes: list[str]) -> str:
    """Say which class is most often predicted to be which other class, if this happens in two rows or more."""
    differ = (target != guess) & (target != UNSEEN)
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(counts, (target[differ], guess[differ]), 1)
    label, other = np.unravel_index(counts.argmax(), counts.shape)
    if counts[label, other] < 2:
        return ""
    return (
        f" Most often, {printable(classes[label])} is predicted to be {printable(classes[other])}: "
        f"{counts[label, other]:,} of {np.count_nonzero(target == label):,} rows."
    )


def _rows_to_check(
    frame: pd.DataFrame, predictions: LabelledPredictions, looks: Looks, delta: float
) -> tuple[str, list[str]]:
    """Say how many rows to check for a bound on errors against right labels.

    If `looks.to_check` names a file, write the rows to it, and return the command for their review too.
    """
    to_check = looks.to_check
    order = order_to_check(frame, predictions, looks.width, delta, share=looks.share)
    n = order.rows.size
    how = ", doubtful ones twice as often" if looks.share else " drawn at random"
    which = f"all {n:,} rows" if n == len(frame) else f"{n:,} rows{how}"
    said = (
        f"If labels may be wrong, look up {which}: the bound on errors against right labels "
        f"is then about {100 * looks.width:g} points above the share of errors found, whatever the wrong labels."
    )
    if to_check is None:
        return f"{said} --to-check FILE writes them for mgce review, and --checked takes the decisions.", []
    write_files(to_check.parent, {to_check.name: to_check_csv(frame, predictions, order)})
    command = shlex.join(["mgce", "review", str(to_check), "--suspects", "0", "--random", str(n)])
    return f"{said} {ON_LOOKS} The rows are in {to_check}.", [command]


def _after_more_looks(predictions: LabelledPredictions, options: dict[str, Any], certificate: RiskCertificate) -> str:
    """Say how low the bound will be once more rows are checked, if these show errors as often as the rows before."""
    alike = certificate.argmax_error == certificate.randomized_error  # one bound then serves for both
    delta = certificate.delta / (1 if certificate.randomized_error is None or alike else 2)
    checked, chance = options["checked"], options.get("checked_with")
    rows = predictions.target, predictions.probs, checked
    most = (predictions.target.size if chance is None else np.count_nonzero(chance)) - len(checked[0])
    bounds = [(more, upper_after(*rows, more, delta, chance)) for more in MORE if more <= most]
    said = ", ".join(f"{bound:.1%} after {more}" for more, bound in bounds)
    return said and f"If further rows of --to-check show errors as often, the bound will be about {said} more looks."


def _certify_parts(
    frame: pd.DataFrame, predictions: LabelledPredictions, by: str, options: dict[str, Any]
) -> dict[str, RiskCertificate]:
    """Return a certificate for each label, prediction or value of a column; rows without a value form a part."""
    own = by if by in PARTS and by not in frame.columns else None
    if by == predictions.column:  # labels by their own name, which do not tell the part where they may be wrong
        own = LABEL
    if own is not None:
        parts = certify_each(predictions.target, predictions.probs, own, **options)
        return {predictions.classes[place]: part for place, part in parts.items()}
    column = require_column(frame, by, "by")
    names = np.array([str(name) if present else NO_VALUE for name, present in zip(column, column.notna(), strict=True)])
    return certify_each(predictions.target, predictions.probs, names, **options)


def _grid(parts: dict[str, RiskCertificate], by: str, delta: float) -> Grid:
    """Return a table to print, with the bounds of every part of the rows."""
    against_given = any(part.against_given for part in parts.values())
    what = "Disagrees with the given label" if against_given else "Wrong"
    if any(part.conditional is not None for part in parts.values()):
        what = f"If labels are wrong as stated, whatever the row: {what.lower()}"
    title = f"{what} in at most, by {by}; all bounds hold at once with confidence {confidence_text(1 - delta)}"
    grid = Grid(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    columns = {"most probable class": "argmax_error", "class drawn": "randomized_error"}
    shown = {name: error for name, error in columns.items() if any(getattr(p.assumed, error) for p in parts.values())}
    for name in (by, "rows", *shown):
        grid.add_column(name, justify="left" if name == by else "right")
    for name, part in parts.items():
        errors = (getattr(part.assumed, error) for error in shown.values())
        grid.add_row(name, f"{part.n:,}", *("" if error is None else percent_up(error) for error in errors))
    return grid
