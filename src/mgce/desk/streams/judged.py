"""What is known of the rows of a table in chunks: of all in numbers, and of the most suspect ones row by row."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce.desk.review.draws import Draws
from mgce.desk.tables.learning import Counts
from mgce.desk.tables.listing import Listing
from mgce.labels.doubtful import DoubtfulLabels

LISTED = 10_000  # rows in the file of suspects for people: weeks of looking
DRAWN = 1_000  # rows of a random order there: a day of looking, of which half are rows held out
OF_ROWS = ("target", "probs", "wrong", "suggestion", "is_issue", "is_distinct", "rank")  # what is judged of each row


@dataclass(frozen=True)
class Judged:
    """What is known of the rows of one chunk or more."""

    judgement: DoubtfulLabels  # of the rows that are kept: see `listed`
    names: pd.Series[Any]
    listing: Listing
    counts: Counts  # of all rows
    differing: int  # distinct rows whose label differs from the prediction
    missing: dict[str, int]  # missing values of each feature
    left_out: NDArray[np.int64]  # (2,), rows without a label, and with one that is none of the classes
    notes: dict[str, str]  # the first note on each column

    def __add__(self, other: Judged) -> Judged:
        """Return what is known of the rows of both."""
        every: dict[str, Any] = {
            name: np.concatenate([getattr(one.judgement, name) for one in (self, other)]) for name in OF_ROWS
        }
        lead = every["probs"][np.arange(len(every["target"])), every["target"]] - every["probs"].max(1)
        every["rank"] = np.argsort(np.lexsort((every["rank"], lead)))
        one, two = self.listing, other.listing
        return Judged(
            replace(self.judgement, **every),
            pd.concat([self.names, other.names], ignore_index=True),
            replace(
                one,
                cells=pd.concat([one.cells, two.cells], ignore_index=True),
                keys=[*one.keys, *two.keys],
                draws=Draws(*map(np.concatenate, zip(astuple(one.draws), astuple(two.draws), strict=True))),
            ),
            self.counts + other.counts,
            self.differing + other.differing,
            {name: n + other.missing[name] for name, n in self.missing.items()},
            self.left_out + other.left_out,
            other.notes | self.notes,
        ).listed()

    def listed(self) -> Judged:
        """Return the same, with the rows alone that the file of suspects lists: most suspect ones, and drawn ones."""
        judged, listing = self.judgement, self.listing
        rows = np.union1d(judged.order[:LISTED], np.flatnonzero(listing.draws.number <= DRAWN))
        return replace(
            self,
            judgement=replace(judged, **{name: getattr(judged, name)[rows] for name in OF_ROWS}),
            names=self.names.iloc[rows].reset_index(drop=True),
            listing=replace(
                listing,
                cells=listing.cells.iloc[rows].reset_index(drop=True),
                keys=[listing.keys[row] for row in rows.tolist()],
                draws=Draws(listing.draws.number[rows], listing.draws.probability[rows]),
            ),
        )
