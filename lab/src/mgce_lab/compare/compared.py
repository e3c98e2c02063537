"""Define the results of a comparison of losses: selected networks, their table, and the files to write."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from mgce._files import to_json
from mgce._machine import describe
from mgce.desk.files import Table
from mgce_lab.compare.compare import Comparison
from mgce_lab.engine import render, select

FILES = ("table.csv", "runs.json", "accuracy.png", "reliability.png")


@dataclass(frozen=True)
class Compared:
    """The results of a comparison of losses on one table.

    Attributes:
        table: the data set.
        plan: the settings.
        records: the records of all networks.
    """

    table: Table
    plan: Comparison
    records: list[dict[str, Any]]

    @cached_property
    def chosen(self) -> list[dict[str, Any]]:
        """The record with the best validation accuracy of each method and seed, among all values of beta and trim."""
        return select.best_candidate(self.records)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the results table: for each method the means and standard deviations over the seeds."""
        return select.summarize(self.chosen)

    @property
    def title(self) -> str:
        """The title of the results: the name of the table, and the noise."""
        return f"{self.table.name}, {self.plan.noise_type} noise {self.plan.noise_rate:g}"

    def files(self) -> dict[str, bytes]:
        """Return the contents of all files by name, as listed in `FILES`."""
        settings = {"dataset": self.table.name, "plan": asdict(self.plan)}
        document = {**settings, "environment": describe(), "runs": self.records}
        draw = (render.accuracy_figure, render.reliability_figure)
        pictures = [figure(self.chosen, self.title) for figure in draw]
        return dict(zip(FILES, (render.to_csv(self.rows), to_json(document), *pictures), strict=True))
