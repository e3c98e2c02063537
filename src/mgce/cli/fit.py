"""`mgce fit TABLE --target COLUMN`: fit a robust classifier to a table, with a certificate and a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console

from mgce._files import write_files
from mgce._validation import check_count, expected
from mgce.cli.annotated import AnnotationFile, LabelColumns, SeveralLabels, target_of, with_consensus
from mgce.cli.embedded import EMBEDDINGS, LABEL, Source, read_folder, read_source
from mgce.cli.fit_files import FitFiles
from mgce.cli.fit_printed import print_fit
from mgce.cli.inputs import files_of, files_of_encoder, files_of_features
from mgce.cli.list_options import parse_names
from mgce.cli.noise_options import NOISE_RATE, NOISE_TYPE, parse_rate
from mgce.cli.outputs import Json, Quiet, terminal, write_json
from mgce.cli.progress import steps_shown
from mgce.cli.table_options import TABLE, Category, Decimal, Drop, Encoding, Sep, Sheet, Text, columns_of
from mgce.cli.terminal import nothing_written_if_interrupted
from mgce.datasets.table_files import table_name
from mgce.datasets.text_tables import TextFormat
from mgce.encoders.libraries import BUILT_IN
from mgce.review.decision_file import read_decisions
from mgce.tables import report
from mgce.tables.annotations import with_doubts
from mgce.tables.fit import TableFit, run
from mgce.tables.fit_plan import FitPlan
from mgce.tables.summary import summary
from mgce.tables.suspects_report import next_steps

MENDED = "mended"  # the end of the name of a mended table, as `mgce fit` and `mgce clean` write it: NAME.mended.csv


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
        Path | None, typer.Option(help="File for the model, with the report beside it [TABLE's name with .mgce].")
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
    form = TextFormat(sep, decimal, encoding, sheet)
    read = _Input(table, target_file, embeddings, encoder, form)
    several = SeveralLabels.of(label_columns, annotations, {"cleaned": cleaned, "mended": mended}, read.is_folder)
    plan = FitPlan(
        target_of(target, several, read.is_folder and target_file is None),
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
    reviewed = () if checked is None else parse_names(checked)
    files = FitFiles(out or Path(f"{table_name(table)}.mgce"), cleaned, mended, several is not None, read.is_folder)
    files.check(json_file, [*read.files, annotations, *map(Path, reviewed)])
    _check(files, reviewed, jobs, suspects)
    decisions, replaced = read_decisions(*map(Path, reviewed))  # before the table, which may take a while
    console = terminal(json_file, quiet)
    start = monotonic()
    with nothing_written_if_interrupted(console):
        source = read.source(console, plan, several, files.features)
        asked = replace(plan, id=source.id)
        source, plan, labelled = with_consensus(several, source, asked, form, jobs)
        with steps_shown(console, "Fitting") as told:
            result = run(source.frame, plan, told, jobs, source.reading, decisions, source.card)
        if labelled is not None:
            result = with_doubts(result, labelled.consensus)
        notes = [*source.notes, *result.notes, *_on_replaced(replaced)]
        result = replace(result, notes=notes, caution=_caution(table))
        others = {"--sep": sep, "--sheet": sheet, "--out": out, "--embeddings": embeddings, "--encoder": encoder}
        others |= {"--target-file": target_file, "--label-columns": label_columns, "--annotations": annotations}
        repeated = {option: None if value is None else str(value) for option, value in others.items()}
        steps = next_steps(result, asked, str(table), str(files.model), reviewed, repeated)
        contents = files.contents(result, plan, table.name, suspects, steps, labelled)
    write_files(files.model.parent, contents)
    marked = files.write_changed(result, source.frame, plan.target, read.labels, form, formulas=formulas)
    result = replace(result, notes=[*result.notes, *marked])
    headline = report.headline(result, plan)
    write_json(json_file, {"headline": headline, "table": table.name, "files": [*contents], **summary(result, plan)})
    print_fit(console, result, plan, steps)
    console.print(f"Took {monotonic() - start:.0f} s. {files}")
    return result  # to other commands that run this one; the command line leaves it


@dataclass(frozen=True)
class _Input:
    """What the command reads: a table, or a folder of pictures that may have a table of their labels."""

    table: Path
    target_file: Path | None
    embeddings: str | None
    encoder: str | None
    form: TextFormat

    def __post_init__(self) -> None:
        """Check that options for a table were left out for a folder, and the other way round."""
        of_folders = {"target_file": self.target_file, "encoder": self.encoder}
        wrong = {"embeddings": self.embeddings} if self.is_folder else of_folders
        for option, value in wrong.items():
            if value is not None:
                what = "left out for a folder of pictures" if self.is_folder else "given with a folder of pictures"
                raise ValueError(expected(option, what, str(value)))

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of pictures."""
        return self.table.is_dir()

    @property
    def files(self) -> list[Path | None]:
        """The files that are read; None for an option that was left out."""
        others = [*files_of_features(self.embeddings), *files_of_encoder(self.encoder)]
        return [*files_of(self.table), self.target_file, *others]

    @property
    def labels(self) -> Path:
        """The table that the labels are in, or the folder whose folders are the labels."""
        return self.target_file or self.table

    def source(self, console: Console, plan: FitPlan, several: SeveralLabels | None, features: Path) -> Source:
        """Return the table, with the features of pictures or its embeddings.

        Args:
            console: shows the progress.
            plan: the settings of the fit.
            several: where several labels a row are, if there are any.
            features: the file for the features of pictures.
        """
        if self.is_folder:
            encoder = self.encoder or BUILT_IN
            return read_folder(
                console, self.table, self.target_file, plan.target, self.form, plan.id, encoder, features
            )
        classes = [plan.target] if several is None else several.columns
        named = [name for name in (plan.id, plan.groups, *plan.text, *plan.category) if name is not None]
        return read_source(self.table, [*classes, *named], classes, self.form, self.embeddings, plan.id)


def _check(files: FitFiles, reviewed: tuple[str, ...], jobs: int, suspects: int) -> None:
    """Raise an error before fitting if an option is not as its help describes it."""
    if files.mended is not None and not reviewed:
        raise ValueError(expected("mended", "given with decisions, see --checked", str(files.mended)))
    if jobs == 0 or jobs < -1:
        raise ValueError(expected("jobs", "a positive number, or -1", jobs))
    check_count("suspects", suspects, minimum=0)


def _on_replaced(n: int) -> list[str]:
    """Return a note if decisions were replaced by later ones."""
    return [f"{n:,} {'decision was' if n == 1 else 'decisions were'} replaced by a later one."] if n else []


def _caution(table: Path) -> str:
    """Return sentences on what the figures of a mended table do not say; "" for another table, by its name."""
    if table_name(table).split(".")[-1].lower() != MENDED:
        return ""
    return (
        f"The labels of {table.name} are mended, by its name. Agreement with mended labels is not accuracy. Fit the "
        "table of before with --checked instead."
    )


def _beta(text: str) -> float | None:
    """Return the beta that a text states: a number, or None for "cv"."""
    if text == "cv":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(expected("beta", "a number in [1, inf] or 'cv'", text)) from None
