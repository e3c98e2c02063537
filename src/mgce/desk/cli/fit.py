"""`mgce fit TABLE --target COLUMN`: fit a robust classifier to a table, with a certificate and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text as Plain

from mgce._files import write_files
from mgce.desk.cli.annotated import SeveralLabels, target_of
from mgce.desk.cli.embedded import (
    Source,
    files_of,
    files_of_encoder,
    files_of_features,
    folder_labels,
    read_folder,
    read_source,
)
from mgce.desk.cli.fit_files import FitFiles, Origin
from mgce.desk.cli.fit_options import Given, Labels, Large, Settings, Written
from mgce.desk.cli.main import STARTED
from mgce.desk.cli.outputs import terminal, write_json
from mgce.desk.cli.shared_options import Form, grouped, typed
from mgce.desk.cli.terminal import Terminal, nothing_written_if_interrupted, steps_shown
from mgce.desk.encoders.embedding import Inputs
from mgce.desk.encoders.libraries import BUILT_IN
from mgce.desk.files.layout import were
from mgce.desk.files.parts import is_parts
from mgce.desk.files.table_files import table_name
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.review.decision_file import Decision, read_decisions, saved_as
from mgce.desk.tables import report
from mgce.desk.tables.annotations import Annotated as Labelled
from mgce.desk.tables.annotations import annotator_sentences
from mgce.desk.tables.fit import About, TableFit, run
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.summary import summary
from mgce.desk.tables.suspects_report import (
    WORST,
    checked_sentences,
    next_steps,
    suspect_cells,
    suspect_head,
)


def print_fit(console: Terminal, result: TableFit, steps: Mapping[str, str], notes: Sequence[str]) -> None:
    """Print what was found, the most suspect rows, and the commands to type next.

    Args:
        console: where to print.
        result: the fit.
        steps: sentences on what to do next, each with its command.
        notes: sentences on the changed tables that were written.
    """
    against = report.against_given(result), result.certificate.caution
    for sentence in (*result.asked, *report.in_short(result, steps), *filter(None, against)):
        console.print(sentence)
    console.print(f"Read {report.reading(result)}")
    console.print_notes([*result.notes, *notes])
    annotators = [] if result.consensus is None else annotator_sentences(result.consensus)
    for sentence in (*checked_sentences(result), *annotators):
        console.print(sentence)
    rows = result.judgement.suspects(WORST)
    if rows.size:
        console.print(_suspects_grid(result, rows))
    console.print_steps([*steps.values()], " (the page of the first saves the decisions; NEW stands for new rows)")


def _suspects_grid(result: TableFit, rows: NDArray[np.int64]) -> Grid:
    """Return a table to print of the rows with these indices; names and labels are `Plain`, without rich's markup."""
    title = "Most suspect labels" if result.consensus is None else "Most doubtful consensus labels"
    grid = Grid(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for place, name in enumerate(suspect_head(result)):
        grid.add_column(Plain(name), justify="left" if place < 3 else "right")
    for row in rows.tolist():
        grid.add_row(*map(Plain, suspect_cells(result, row)))
    return grid


MENDED = "mended"  # the end of the name of a mended table, as `mgce fit` and `mgce clean` write it: NAME.mended.csv


@grouped
def fit(
    *,
    given: Given,
    settings: Settings,
    labels: Labels,
    form: Form,
    large: Large,
    written: Written,
) -> TableFit:
    """Fit a classifier to a table whose labels may be partly wrong, and bound how often it disagrees with them.

    Columns may be numbers, dates, categories or text, with missing values. The model learns from the training rows, and
    is certified and calibrated on the rows held out. Then it is fitted once more, to all rows, and saved. Writes the
    model, an HTML report, and NAME.suspects.csv: all rows, the most suspect label first. In CSV files, a cell that a
    spreadsheet would run as a formula gets an apostrophe in front. With --checked, a person's decisions replace labels;
    checked rows that were drawn at random then bound the errors against right labels.
    """
    table, target, reviewed = given.table, given.target, labels.reviewed
    read = _Input(table, labels, form)
    several = SeveralLabels.of(
        labels.label_columns,
        labels.annotations,
        {"row": labels.row, "annotator": labels.annotator, "label": labels.label},
        {"cleaned": written.cleaned, "mended": written.mended},
        read.is_folder,
    )
    plan = settings.plan(target_of(target, several, read.is_folder and labels.target_file is None))
    model = written.out or Path(f"{table_name(table)}.mgce")
    files = FitFiles(model, written.cleaned, written.mended, several is not None, read.is_folder)
    files.check(written.json_file, [*read.files, labels.annotations, *map(Path, reviewed)], read.labels_file)
    written.check(reviewed)
    decided = read_decisions(*map(Path, reviewed))  # before the table, which may take a while
    console = terminal(written.json_file, written.quiet)
    parts, n = large.n_chunks(table, plan, several=several is not None)
    source, labelled = None, None
    with ExitStack() as stack:
        with nothing_written_if_interrupted(console):
            if parts is not None and n > 1:
                large.check(written, labels)
                folders = stack.enter_context(files.chunks(table))
                with steps_shown(console, "Fitting") as told:
                    result = large.fitted(parts, plan, n, folders, told, written.jobs)
                result, files = replace(result, caution=_caution(table)), replace(files, in_chunks=True)
            else:
                source = read.source(console, plan, several, files.features)
                result, labelled = read.fitted(console, source, plan, several, decided, written.jobs)
            beside = replace(labels, checked=None)  # files of decisions come and go between the steps
            words = ["--target", target or plan.target, *typed(settings), *typed(form), *typed(beside), *typed(large)]
            words += [] if written.out is None else ["--out", str(written.out)]
            steps = next_steps(result, str(table), str(files.model), reviewed, words)
            steps = files.steps(steps, saved_as(str(files.model.with_suffix("")), 0))
            contents = files.contents(result, table.name, written.suspects, steps, labelled)
        write_files(files.model.parent, contents)
    marked = []
    if source is not None:
        origin = Origin(read.labels_file, form, source.reading)
        marked = files.write_changed(result, source.frame, origin, formulas=written.formulas)
    facts = {"headline": report.headline(result), "caution": result.caution, "table": table.name, "files": [*contents]}
    write_json(written.json_file, {**facts, **summary(result, marked)})
    print_fit(console, result, steps, marked)
    console.print(f"Took {monotonic() - STARTED:.0f} s. {files}")
    return result  # to other commands that run this one; the command line leaves it


@dataclass(frozen=True)
class _Input:
    """The input of `mgce fit`: a table, or a folder of pictures that may have a table of their labels."""

    table: Path
    labels: Labels
    form: TextFormat

    def __post_init__(self) -> None:
        self.labels.check(self.is_folder)

    @property
    def is_folder(self) -> bool:
        """Whether the input is a folder of pictures."""
        return self.table.is_dir() and not is_parts(self.table)

    @property
    def files(self) -> list[Path | None]:
        """The files that are read; None for an option that was left out."""
        others = [*files_of_features(self.labels.embeddings), *files_of_encoder(self.labels.encoder)]
        return [*files_of(self.table), self.labels.target_file, *others]

    @property
    def labels_file(self) -> Path:
        """The file of the table with the labels, or the folder of pictures whose subfolders are the classes."""
        return self.labels.target_file or self.table

    def source(self, console: Console, plan: FitPlan, several: SeveralLabels | None, features: Path) -> Source:
        """Read and return the table, with its embeddings or the features of its pictures.

        Args:
            console: shows the progress.
            plan: the settings of the fit.
            several: where the several labels of each row are; None for one label a row.
            features: the file for the features of pictures.
        """
        labels = self.labels
        if self.is_folder:
            inputs, encoder = Inputs.of_folder(self.table), labels.encoder or BUILT_IN
            labelled = folder_labels(inputs, labels.target_file, plan.target, self.form, plan.id)
            return read_folder(console, self.table, inputs, labelled, encoder, features)
        classes = [plan.target] if several is None else several.columns
        named = [name for name in (plan.id, plan.groups, *plan.text, *plan.category) if name is not None]
        return read_source(self.table, [*classes, *named], classes, self.form, labels.embeddings, plan.id)

    def fitted(
        self,
        console: Terminal,
        source: Source,
        plan: FitPlan,
        several: SeveralLabels | None,
        decided: tuple[Sequence[Decision], int],
        jobs: int,
    ) -> tuple[TableFit, Labelled | None]:
        """Return the fit to a table in memory, and the consensus of several labels a row; None for one label a row.

        Args:
            console: shows the progress.
            source: the table.
            plan: the settings of the fit.
            several: where the several labels of each row are; None for one label a row.
            decided: decisions of a person, and the number of decisions that later ones replaced.
            jobs: number of trees that a forest grows at once.
        """
        plan, consensus, labelled = replace(plan, id=source.id), None, None
        if several is not None:
            labelled = several.read(source, plan, self.form, jobs)
            source = replace(source, frame=labelled.frame, notes=[*source.notes, *labelled.notes])
            plan, consensus = labelled.plan, labelled.consensus
        decisions, replaced = decided
        last = [f"{were(replaced, 'decision')} replaced by a later one."] if replaced else []
        about = About(source.reading, decisions, source.card, consensus, source.notes, last, _caution(self.table))
        with steps_shown(console, "Fitting") as told:
            return run(source.frame, plan, told, jobs, about), labelled


def _caution(table: Path) -> str:
    """Return a caution on the figures of a mended table, known by the name of its file; "" for any other table."""
    if table_name(table).split(".")[-1].lower() != MENDED:
        return ""
    return (
        f"The labels of {table.name} are mended, by its name. Agreement with mended labels is not accuracy. Fit the "
        "table of before with --checked instead."
    )
