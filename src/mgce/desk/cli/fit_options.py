"""Declare the options of `mgce fit`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mgce._messages import check_count, expected
from mgce.desk.cli.annotated import AnnotationFile, LabelColumns
from mgce.desk.cli.embedded import EMBEDDINGS, LABEL
from mgce.desk.cli.outputs import Json, Quiet
from mgce.desk.cli.shared_options import (
    NOISE_RATE,
    NOISE_TYPE,
    TABLE,
    Category,
    Drop,
    Number,
    Text,
    columns_of,
    parse_names,
    parse_rate,
    refuse,
    typed,
)
from mgce.desk.encoders.libraries import BUILT_IN
from mgce.desk.files.parts import Parts, is_parts
from mgce.desk.streams.chunks import Chunks, n_chunks, parse_memory
from mgce.desk.streams.dask_frames import workers
from mgce.desk.streams.fit import Work, fit_in_chunks
from mgce.desk.tables.fit import OnStep, TableFit
from mgce.desk.tables.fit_plan import FitPlan

MEMORY = "2GB"  # that every laptop has to spare: more than half of it is libraries and models


@dataclass(frozen=True)
class Given:
    """The table, and the column of its labels."""

    table: Annotated[Path, typer.Argument(help=f"{TABLE} Or a folder: of pictures, or of parts of Parquet.")]
    target: Annotated[str | None, f"Column with the labels [of a folder of classes: {LABEL}]."] = None


@dataclass(frozen=True)
class Settings:
    """The options of which a :class:`FitPlan` is made, except the column of the labels."""

    id: Annotated[str | None, "Column that names the rows; it is no feature."] = None
    drop: Drop = None
    groups: Annotated[str | None, "Column whose equal values mark rows to be held out together, or not at all."] = None
    time: Annotated[str | None, "Column that orders the rows: the last ones are held out."] = None
    holdout: Annotated[float, "Share of the rows kept for the certificate."] = 0.25
    seed: Annotated[int, "Seed of all random draws: rows held out, folds, models."] = 0
    text: Text = None
    category: Category = None
    number: Number = None
    apart: Annotated[bool, "Keep labels that differ in case, blanks, hyphens, width or final points apart."] = False
    model: Annotated[
        str,
        "auto: a forest and a kernel regression, on labels that both have corrected. forest: decision trees. "
        "linear: convex, quick.",
    ] = "auto"
    noise_rate: Annotated[str, NOISE_RATE] = "0"
    noise_type: Annotated[str, NOISE_TYPE] = "symmetric"
    coverage: Annotated[float, "Share of rows whose prediction set contains the label."] = 0.9
    delta: Annotated[float, "Probability with which the certificate may fail."] = 0.05
    metric: Annotated[
        str, "accuracy; or balanced: the mean accuracy of all labels, so that rare ones count as much."
    ] = "accuracy"

    def plan(self, target: str) -> FitPlan:
        """Return the plan of a fit to the labels in the column `target`.

        Raises:
            ValueError: if an option is out of range.
        """
        parsed = {
            "drop": columns_of(self.drop),
            "text": tuple(self.text or ()),
            "category": tuple(self.category or ()),
            "number": tuple(self.number or ()),
            "noise_rate": parse_rate(self.noise_rate),
        }
        return FitPlan(**{**vars(self), **parsed, "target": target})


@dataclass(frozen=True)
class Labels:
    """The options that name further columns and files with labels or features of the rows."""

    label_columns: LabelColumns = None
    annotations: AnnotationFile = None
    row: Annotated[str | None, "Column of --annotations that names the row [found]."] = None
    annotator: Annotated[str | None, "Column of --annotations that names who labelled [found]."] = None
    label: Annotated[str | None, "Column of --annotations with the label [found]."] = None
    embeddings: Annotated[str | None, EMBEDDINGS] = None
    target_file: Annotated[
        Path | None, "Table of the labels of a folder of pictures, with their paths [the folders are classes]."
    ] = None
    encoder: Annotated[str | None, f"Encoder of a folder of pictures [{BUILT_IN}]."] = None
    checked: Annotated[str | None, "Files of decisions that a page of `mgce review` saved, separated by commas."] = None

    @property
    def reviewed(self) -> tuple[str, ...]:
        """The files of decisions."""
        return () if self.checked is None else parse_names(self.checked)

    def check(self, is_folder: bool) -> None:
        """Check that options for tables were left out for a folder of pictures, and options for folders for a table.

        Raises:
            ValueError: if such an option was given.
        """
        if is_folder:
            refuse("left out for a folder of pictures", embeddings=self.embeddings)
        else:
            refuse("given with a folder of pictures", target_file=self.target_file, encoder=self.encoder)


@dataclass(frozen=True)
class Large:
    """The options for tables that do not fit the memory."""

    memory: Annotated[
        str | None, f"Memory to use, such as 8GB: of Parquet or Arrow, that much at a time [{MEMORY} for a folder]."
    ] = None
    scheduler: Annotated[str | None, "Dask scheduler, tcp://...: its workers, each with --memory, read and learn."] = (
        None
    )

    def n_chunks(self, table: Path, plan: FitPlan, *, several: bool) -> tuple[Parts | None, int]:
        """Return the table's parts, or None, and the number of chunks to divide the table into; 1 keeps it whole.

        Args:
            table: the file or folder.
            plan: the settings.
            several: whether there are several labels a row, whose consensus needs all rows.

        Raises:
            ValueError: if the table cannot be divided, and has to be.
        """
        if several:
            refuse("left out with several labels a row", **vars(self))
        if several or (not is_parts(table) and not typed(self)):
            return None, 1
        memory, parts = parse_memory(self.memory or MEMORY), Parts.of(table)
        n = n_chunks(parts, plan, memory)
        return parts, n if self.scheduler is None else max(2, n)  # with workers, no row comes to this process

    def fitted(
        self, parts: Parts, plan: FitPlan, n: int, folders: tuple[Path, Path], told: OnStep, jobs: int
    ) -> TableFit:
        """Fit a model to the table `parts` in `n` chunks.

        The first of `folders` is for the chunks, the second for the file of suspects, which is written in parts.
        """
        chunks = Chunks.of(folders[0], n, parts, plan)
        with workers(self.scheduler) as each:
            return fit_in_chunks(parts, Work(chunks, plan, 1 if self.scheduler else jobs, folders[1]), each, told)

    def check(self, written: Written, labels: Labels) -> None:
        """Raise an error for an option that needs all rows at once, of a table that is divided into chunks.

        Raises:
            ValueError: if such an option was given.
        """
        options = {
            "checked": labels.reviewed,
            "cleaned": written.cleaned,
            "mended": written.mended,
            "embeddings": labels.embeddings,
        }
        for option, value in options.items():
            if value:
                what = f"left out for a table that does not fit {self.memory or MEMORY}; see --memory"
                raise ValueError(expected(option, what, value))


@dataclass(frozen=True)
class Written:
    """The options on what is written and printed."""

    jobs: Annotated[int, "Trees of a forest grown at once; -1: one on each core."] = -1
    suspects: Annotated[int, "Rows with suspect labels in the report, at most."] = 50
    cleaned: Annotated[
        Path | None, "File for the table without the rows whose label looks wrong: .csv, .xlsx or .parquet."
    ] = None
    mended: Annotated[Path | None, "File for the table with the decisions of --checked: .csv, .xlsx or .parquet."] = (
        None
    )
    formulas: Annotated[
        bool, "Write cells of --cleaned and --mended as they are, even if a spreadsheet would run them."
    ] = False
    json_file: Json = None
    quiet: Quiet = False
    out: Annotated[Path | None, "File for the model, with the report beside it [TABLE's name with .mgce]."] = None

    def check(self, reviewed: tuple[str, ...]) -> None:
        """Check the options before anything is fitted, given the files of decisions.

        Raises:
            ValueError: if an option is not as its help describes it.
        """
        if self.mended is not None and not reviewed:
            raise ValueError(expected("mended", "given with decisions, see --checked", str(self.mended)))
        check_count("suspects", self.suspects, minimum=0)
        if self.jobs == 0 or self.jobs < -1:
            raise ValueError(expected("jobs", "a positive number, or -1", self.jobs))
