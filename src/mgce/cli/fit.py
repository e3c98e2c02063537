"""`mgce fit TABLE --target COLUMN`: fit a robust classifier to a table, with a certificate and a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text as Plain

from mgce._files import write_files
from mgce._validation import check_count, expected
from mgce.cli.annotated import AnnotationFile, LabelColumns, SeveralLabels, target_of, with_consensus
from mgce.cli.changed_tables import changed_table
from mgce.cli.embedded import EMBEDDINGS, LABEL, Source, read_folder, read_source
from mgce.cli.list_options import parse_names
from mgce.cli.noise_options import NOISE_RATE, NOISE_TYPE, parse_rate
from mgce.cli.outputs import STDOUT, Json, Quiet, check_json, check_output, check_table, write_json
from mgce.cli.table_options import TABLE, Category, Decimal, Drop, Encoding, Sep, Sheet, Text, columns_of
from mgce.cli.terminal import Terminal, nothing_written_if_interrupted
from mgce.datasets.table_files import TextFormat, table_name
from mgce.encoders.libraries import BUILT_IN
from mgce.encoders.pictures import thumbnail
from mgce.review.decision_file import Decision, read_decisions
from mgce.review.suspect_file import PICTURE, check_overwritten
from mgce.runs.machine import describe
from mgce.tables import report as fit_report
from mgce.tables.annotations import Annotated as Labelled
from mgce.tables.annotations import annotator_sentences, with_doubts
from mgce.tables.embeddings import COLUMN
from mgce.tables.fit import FitPlan, TableFit, run
from mgce.tables.listing import suspects_csv
from mgce.tables.summary import summary
from mgce.tables.suspects_report import (
    WORST,
    checked_sentences,
    line_cells,
    next_steps,
    suspect_cells,
    suspect_head,
    terminal_steps,
    widths,
)

MENDED = "mended"  # the end of the name of a mended table, as `mgce fit` and `mgce clean` write it: NAME.mended.csv
SHOWN_SUSPECTS = 10  # suspect rows that are printed: half a screen; the report has more, and the file has all rows


def fit(
    table: Annotated[Path, typer.Argument(help=f"{TABLE} Or a folder of pictures.")],
    target: Annotated[
        str | None, typer.Option(help=f"Column with the labels [of a folder of classes: {LABEL}].")
    ] = None,
    label_columns: LabelColumns = None,
    annotations: AnnotationFile = None,
    beta: Annotated[str, typer.Option(help="A number in [1, inf], or cv: chosen by accuracy on training rows.")] = "cv",
    model: Annotated[
        str,
        typer.Option(
            help="auto: the average of those of the following that do well on training rows. forest: decision trees. "
            "boosting: of trees, on corrected labels. linear: convex, quick. fourier: convex, for classes that no "
            "plane separates. mlp: a neural network."
        ),
    ] = "auto",
    metric: Annotated[
        str,
        typer.Option(help="accuracy; or balanced: the mean accuracy of all labels, so that rare ones count as much."),
    ] = "accuracy",
    budget: Annotated[float, typer.Option(help="Seconds of processor time to choose and fit the model, about.")] = 60.0,
    noise_rate: Annotated[str, typer.Option(help=NOISE_RATE)] = "0",
    noise_type: Annotated[str, typer.Option(help=NOISE_TYPE)] = "symmetric",
    coverage: Annotated[float, typer.Option(help="Share of rows whose prediction set contains the label.")] = 0.9,
    delta: Annotated[float, typer.Option(help="Probability with which the certificate may fail.")] = 0.05,
    holdout: Annotated[float, typer.Option(help="Share of the rows kept for the certificate.")] = 0.25,
    id: Annotated[str | None, typer.Option(help="Column that names the rows; it is no feature.")] = None,
    embeddings: Annotated[str | None, typer.Option(help=EMBEDDINGS)] = None,
    target_file: Annotated[
        Path | None,
        typer.Option(help="Table of the labels of a folder of pictures, with their paths [the folders are classes]."),
    ] = None,
    encoder: Annotated[str | None, typer.Option(help=f"Encoder of a folder of pictures [{BUILT_IN}].")] = None,
    drop: Drop = None,
    text: Text = None,
    category: Category = None,
    groups: Annotated[
        str | None, typer.Option(help="Column whose equal values mark rows to be held out together, or not at all.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders the rows: the last ones are held out.")] = None,
    suspects: Annotated[int, typer.Option(help="Rows with suspect labels in the report, at most.")] = 50,
    cleaned: Annotated[
        Path | None,
        typer.Option(help="File for the table without the rows whose label looks wrong: .csv, .xlsx or .parquet."),
    ] = None,
    checked: Annotated[
        str | None, typer.Option(help="Files of decisions that a page of `mgce review` saved, separated by commas.")
    ] = None,
    mended: Annotated[
        Path | None, typer.Option(help="File for the table with the decisions of --checked: .csv, .xlsx or .parquet.")
    ] = None,
    formulas: Annotated[
        bool,
        typer.Option(
            "--formulas",
            help="Write cells of --cleaned and --mended as they are, even if a spreadsheet would run them.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random draws: rows held out, folds, models.")] = 0,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    sheet: Sheet = None,
    jobs: Annotated[int, typer.Option(help="Trees of a forest grown at once; -1: one on each core.")] = -1,
    json_file: Json = None,
    quiet: Quiet = False,
    out: Annotated[
        Path | None, typer.Option(help="File for the model, with the report beside it [TABLE's name with .skops].")
    ] = None,
) -> TableFit:
    """Fit a classifier to a table whose labels may be partly wrong, and bound how often it disagrees with them.

    Columns may be numbers, dates, categories or text, with missing values. Models are chosen and averaged on the
    training rows; the average is certified and calibrated on the rows held out. Then the average is fitted once more,
    to all rows, and saved. Writes the model, an HTML report, and NAME.suspects.csv: all rows, the most suspect label
    first. In CSV files, a cell that a spreadsheet would run as a formula gets an apostrophe in front. With --checked, a
    person's decisions replace labels; checked rows that were drawn at random then bound the errors against right
    labels.
    """
    is_folder = _is_folder(table, {"target_file": target_file, "encoder": encoder}, embeddings)
    left_out = {"cleaned": cleaned, "mended": mended}
    several = SeveralLabels.of(label_columns, annotations, left_out, is_folder)
    plan = FitPlan(
        target_of(target, several, is_folder and target_file is None),
        id,
        drop=columns_of(drop),
        text=tuple(text or ()),
        category=tuple(category or ()),
        groups=groups,
        time=time,
        holdout=holdout,
        seed=seed,
        model=model,
        beta=_beta(beta),
        noise_rate=parse_rate(noise_rate),
        noise_type=noise_type,
        coverage=coverage,
        delta=delta,
        budget=budget,
        metric=metric,
    )
    form = TextFormat(sep, decimal, encoding, sheet)
    reviewed = () if checked is None else parse_names(checked)
    outputs = _Outputs(out or Path(f"{table_name(table)}.skops"), cleaned, mended, reviewed, several is not None)
    labels = target_file if is_folder and target_file is not None else table
    outputs.check(labels, json_file)
    if is_folder:
        check_output("out", outputs.features, labels)
    if mended is not None and not reviewed:
        raise ValueError(expected("mended", "given with decisions, see --checked", str(mended)))
    if jobs == 0 or jobs < -1:
        raise ValueError(expected("jobs", "a positive number, or -1", jobs))
    check_count("suspects", suspects, minimum=0)
    decisions, replaced = read_decisions(*map(Path, reviewed))  # before the table, which may take a while
    console = Terminal(quiet=quiet or json_file == STDOUT)
    start = monotonic()
    with nothing_written_if_interrupted(console):
        named = [name for name in (id, groups, *plan.text, *plan.category) if name is not None]
        if is_folder:
            used = encoder or BUILT_IN
            source = read_folder(console, table, target_file, plan.target, form, id, used, outputs.features)
        else:
            classes = [plan.target] if several is None else several.columns
            source = read_source(table, [*classes, *named], classes, form, embeddings, id)
        asked = replace(plan, id=source.id)
        source, plan, labelled = with_consensus(several, source, asked, form, jobs)
        result = _run_with_progress(console, source, plan, jobs, decisions)
        if labelled is not None:
            result = with_doubts(result, labelled.consensus)
        result = replace(result, notes=[*source.notes, *result.notes], caution=_caution(table))
        if replaced:
            said = f"{replaced:,} {'decision was' if replaced == 1 else 'decisions were'} replaced by a later one."
            result = replace(result, notes=[*result.notes, said])
        form_options = {"--sep": sep, "--sheet": sheet, "--out": None if out is None else str(out)}
        form_options |= {"--embeddings": embeddings, "--encoder": encoder}
        form_options |= {"--target-file": None if target_file is None else str(target_file)}
        form_options |= {"--label-columns": label_columns}
        form_options |= {"--annotations": None if annotations is None else str(annotations)}
        steps = next_steps(result, asked, str(table), str(outputs.model), reviewed, form_options)
        files = outputs.contents(result, plan, table.name, suspects, steps, labelled)
    write_files(outputs.model.parent, files)
    for path, rows, decided in outputs.tables(result):
        frame = source.frame.drop(columns=[COLUMN, PICTURE], errors="ignore")
        content, marked = changed_table(labels, frame, rows, decided, plan.target, path, form, formulas=formulas)
        write_files(path.parent, {path.name: content})
        result = replace(result, notes=[*result.notes, *marked])
    headline = fit_report.headline(result, plan)
    write_json(json_file, {"headline": headline, "table": table.name, "files": [*files], **summary(result, plan)})
    _print_summary(console, result, plan)
    stop, *lines = terminal_steps(result, steps)
    console.print(stop, markup=False)
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)  # a command is copied in one piece
    console.print(f"Took {monotonic() - start:.0f} s. {outputs}", markup=False)
    return result  # to other commands that run this one; the command line leaves it


@dataclass(frozen=True)
class _Outputs:
    """Paths of the files that the command writes: model, report and suspects in one folder, and changed tables."""

    model: Path
    cleaned: Path | None
    mended: Path | None
    reviewed: tuple[str, ...]  # files of decisions, which are read
    several: bool = False  # whether the table has several labels a row, so that their consensus is written

    @property
    def report(self) -> Path:
        """The path of the HTML report, beside the model."""
        return self.model.with_suffix(".html")

    @property
    def features(self) -> Path:
        """The path of the features of a folder of pictures."""
        return self.model.with_suffix(".features.npz")

    @property
    def suspects(self) -> Path:
        """The path of the CSV file that lists all rows, the most suspect label first."""
        return self.model.with_suffix(".suspects.csv")

    @property
    def consensus(self) -> Path:
        """The path of the CSV file of the consensus of several labels a row."""
        return self.model.with_suffix(".consensus.csv")

    def check(self, table: Path, json_file: Path | None) -> None:
        """Raise an error before fitting if a file cannot be written, or would overwrite another file or an input."""
        read = table, *map(Path, self.reviewed)
        check_output("out", self.model, *read)
        for path in (self.report, self.suspects, *[self.consensus] * self.several):
            check_output("out", path, *read, self.model)
        check_overwritten("out", self.suspects)
        written = [self.model, self.report, self.suspects]
        for option, changed in (("cleaned", self.cleaned), ("mended", self.mended)):
            if changed is not None:
                check_output(option, changed, *read, *written)
                check_table(option, changed)
                written.append(changed)
        check_json(json_file, *read, *written)

    def tables(self, result: TableFit) -> list[tuple[Path, list[int], Mapping[int, str]]]:
        """Return for each changed table its path, the numbers of the rows to remove, and new labels by row number."""
        changed: list[tuple[Path, list[int], Mapping[int, str]]] = []
        labels: Mapping[int, str] = {} if result.checked is None else result.checked.labels
        dropped = [] if result.checked is None else result.checked.dropped
        if self.cleaned is not None:
            wrong = result.row_names.index[result.judgement.is_issue].tolist()
            changed.append((self.cleaned, sorted({*wrong, *dropped}), labels))
        if self.mended is not None:
            changed.append((self.mended, dropped, labels))
        return changed

    def contents(
        self,
        result: TableFit,
        plan: FitPlan,
        table: str,
        n_suspects: int,
        steps: Mapping[str, str],
        labelled: Labelled | None = None,
    ) -> dict[str, bytes]:
        """Return the content of the model, the report and the files of suspects and consensus, by file name."""
        return {
            **({} if labelled is None else {self.consensus.name: labelled.to_csv()}),
            self.model.name: result.model.to_bytes(),
            self.report.name: fit_report.page(
                result,
                plan,
                table,
                self.model.name,
                describe(),
                n_suspects,
                steps,
                _thumbnails(result, self.model.parent),
            ),
            self.suspects.name: suspects_csv(result.judgement, result.model.classes, result.row_names, result.listing),
        }

    def __str__(self) -> str:
        return (
            f"The model is in {self.model}, the report in {self.report}, and all rows, those with the most suspect "
            f"label first, in {self.suspects}."
            + (
                f" The consensus of the labels, the most doubtful first, is in {self.consensus}."
                if self.several
                else ""
            )
            + (f" The rows whose label does not look wrong are in {self.cleaned}." if self.cleaned else "")
            + (f" The table with all decisions is in {self.mended}." if self.mended else "")
        )


def _thumbnails(result: TableFit, folder: Path) -> dict[int, bytes]:
    """Return small pictures of the most suspect rows, by row; none where the table has no column of pictures."""
    cells = result.listing.cells
    if PICTURE not in cells.columns:
        return {}
    return {row: thumbnail(folder / str(cells[PICTURE].iloc[row])) for row in result.judgement.suspects(WORST).tolist()}


def _run_with_progress(
    console: Console, source: Source, plan: FitPlan, jobs: int, decisions: list[Decision]
) -> TableFit:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = _on_a_terminal(console)
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task("Fitting", total=None)
        return run(
            source.frame,
            plan,
            lambda step, number, total: progress.update(task, description=step, completed=number, total=total),
            jobs,
            source.reading,
            decisions,
            source.card,
        )


def _on_a_terminal(console: Console) -> Console:
    """Return the console to show progress on: that of standard error, if only standard output goes to a file."""
    return console if console.is_terminal else Terminal(stderr=True, quiet=console.quiet)


def _is_folder(table: Path, of_folders: Mapping[str, object], embeddings: str | None) -> bool:
    """Return whether the table is a folder of pictures, after checking that options for another kind were left out."""
    wrong = {"embeddings": embeddings} if table.is_dir() else of_folders
    for option, value in wrong.items():
        if value is not None:
            what = "left out for a folder of pictures" if table.is_dir() else "given with a folder of pictures"
            raise ValueError(expected(option, what, str(value)))
    return table.is_dir()


def _caution(table: Path) -> str:
    """Return sentences on what the figures of a mended table do not say; "" for another table, by its name."""
    if table_name(table).split(".")[-1].lower() != MENDED:
        return ""
    return (
        f"The labels of {table.name} are mended, by its name. Agreement with mended labels is not accuracy. Fit the "
        "table of before with --checked instead."
    )


def _print_summary(console: Console, result: TableFit, plan: FitPlan) -> None:
    trial = result.choice.trial
    console.print(fit_report.headline(result, plan), markup=False)
    learnt = "" if result.findings is None else " against the mended labels"
    console.print(
        f"Model: {trial.name}. Its accuracy{learnt} was {trial.accuracy:.1%} {result.choice.measured_on}.",
        markup=False,
    )
    console.print(fit_report.which_model(result), markup=False)
    if of_given := fit_report.against_given(result, plan):
        console.print(of_given, markup=False)
    console.print("The report lists what the bound assumes, and calibration errors of the probabilities.", markup=False)
    console.print(f"Read {fit_report.reading(result, plan)}", markup=False)
    for note in result.notes:
        console.print(f"Note: {note}", markup=False)
    for sentence in checked_sentences(result):
        console.print(sentence, markup=False)
    if result.consensus is not None:
        for sentence in annotator_sentences(result.consensus):
            console.print(sentence, markup=False)
    console.print(fit_report.wrong_labels(result), markup=False)
    rows = result.judgement.suspects(SHOWN_SUSPECTS)
    if rows.size:
        console.print(_suspects_grid(result, plan, rows))
    if foretold := widths(result, plan):
        console.print(foretold, markup=False)


def _suspects_grid(result: TableFit, plan: FitPlan, rows: NDArray[np.int64]) -> Grid:
    """Return a table to print of the rows with these indices; names and labels are `Plain`, without rich's markup."""
    title = "Most suspect labels" if result.consensus is None else "Most doubtful consensus labels"
    grid = Grid(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for place, name in enumerate(suspect_head(result, plan)):
        grid.add_column(Plain(name), justify="left" if place < 3 else "right")
    for row in rows.tolist():
        grid.add_row(*map(Plain, [*suspect_cells(result, row), *line_cells(result, row)]))
    return grid


def _beta(text: str) -> float | None:
    """Return the beta that a text states: a number, or None for "cv"."""
    if text == "cv":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(expected("beta", "a number in [1, inf] or 'cv'", text)) from None
