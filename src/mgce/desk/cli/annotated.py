"""Define the options of tables with several labels a row, and read such tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated as Typed

from mgce.desk.cli.embedded import LABEL as FOLDER
from mgce.desk.cli.embedded import Source
from mgce.desk.cli.first import no_target
from mgce.desk.cli.shared_options import parse_names, refuse
from mgce.desk.files.layout import Names
from mgce.desk.files.table_files import read_accounted
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.tables.annotations import (
    ANNOTATOR,
    LABEL,
    ROW,
    Annotated,
    annotated,
    columns_of_long_file,
    of_columns,
    of_long_file,
)
from mgce.desk.tables.fit_plan import FitPlan

TARGET = "consensus"  # the column of the consensus, unless --target names it
LabelColumns = Typed[
    str | None, "Columns with the labels of several annotators, separated by commas, instead of --target."
]
AnnotationFile = Typed[
    Path | None, "Table of further labels: of which row, by whom, which; a row is a number or a value of --id."
]


@dataclass(frozen=True)
class SeveralLabels:
    """Where the labels of several annotators are: columns of the table, or a long file with one label a line."""

    columns: tuple[str, ...]
    file: Path | None
    named: Mapping[str, str] = field(default_factory=dict)  # columns of the long file that are not to be found

    @classmethod
    def of(
        cls,
        columns: str | None,
        file: Path | None,
        named: Mapping[str, str | None],
        left_out: Mapping[str, object],
        is_folder: bool,
    ) -> SeveralLabels | None:
        """Return where the several labels of each row are; None if the table has one label a row.

        Args:
            columns: names of the columns with labels, separated by commas.
            file: the long file.
            named: columns of the long file by role: row, annotator or label; None to find the column.
            left_out: options that must be left out with several labels, with their values.
            is_folder: whether the table is a folder of pictures.

        Raises:
            ValueError: if options contradict each other.
        """
        if file is None:
            refuse("given with a file of annotations", **named)
        if columns is None and file is None:
            return None
        if columns is not None:
            refuse("left out with label columns", annotations=file)
        if is_folder:
            refuse("left out for a folder of pictures", label_columns=columns, annotations=file)
        refuse("left out with several labels a row", **left_out)
        known = {role: name for role, name in named.items() if name is not None}
        return cls(() if columns is None else parse_names(columns), file, known)

    def read(self, source: Source, plan: FitPlan, form: TextFormat, jobs: int) -> Annotated:
        """Read the labels of all annotators, and return the table with the consensus of each row."""
        if self.file is None:
            return annotated(source.frame, plan, of_columns(source.frame, self.columns), [], jobs)
        form = replace(form, sheet=None, header=None)
        wanted = Names([*self.named.values(), ROW, ANNOTATOR, LABEL], label=self.named.get(LABEL, LABEL))
        names = [*read_accounted(self.file, "annotations", form=form, names=wanted)[0].columns]
        long, _ = read_accounted(self.file, "annotations", text=names, classes=names, form=form, names=wanted)
        rows = plan.columns(source.frame.assign(**{plan.target: ""})).row_names(source.frame)
        columns = columns_of_long_file(long, rows, self.named)
        long = long[[*columns.values()]].set_axis([*columns], axis=1)
        labels, notes = of_long_file(long, rows, apart=plan.apart)
        return annotated(source.frame, plan, labels, notes, jobs)


def target_of(target: str | None, several: SeveralLabels | None, by_folder: bool) -> str:
    """Return the column of labels: `target`, or a default name for folders of classes and for several labels a row."""
    if target is None and several is None and not by_folder:
        raise no_target()
    return target or (FOLDER if several is None else TARGET)
