"""Runs on a table: which rows they use."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from mgce.desk.files import Table
from mgce_lab.engine import tables
from mgce_lab.engine.place import Place
from mgce_lab.engine.tables import TableRun


@dataclass(frozen=True)
class Run(TableRun):
    """A run that is only asked for its rows."""

    def run(self, place):
        raise NotImplementedError

    def _hyperparameters(self):
        return {}


@pytest.fixture
def published(monkeypatch):
    """A table of 100 rows whose features are their numbers, of which the last 37 are the published test rows."""
    table = Table(
        name="counted",
        features=pd.DataFrame({"number": np.arange(100.0)}),
        target=np.arange(100) % 2,
        classes=("a", "b"),
        n_train=63,
    )
    monkeypatch.setattr(tables, "load", lambda name, **options: table)
    return table


@pytest.mark.parametrize("rows", [10, 41, 63, 64, 99])
def test_published_test_rows_stay_test_rows_where_some_rows_are_used(published, rows):
    run = Run(dataset="iris", noise_rate=0.0, seeds=(0,), members=(("ce", np.inf),), rows=rows)
    table = run.table(Place())
    number = table.features["number"].to_numpy()
    assert len(number) == len(table.target) == rows and (np.diff(number) > 0).all()
    np.testing.assert_array_equal(table.target, published.target[number.astype(int)])
    assert (number[: table.n_train] < 63).all() and (number[table.n_train :] >= 63).all()


def test_the_first_published_test_row_is_no_training_row(published, monkeypatch):
    """Also where it is among the rows that are used."""
    run = Run(dataset="iris", noise_rate=0.0, seeds=(0,), members=(("ce", np.inf),), rows=50)
    used = run.table(Place()).features["number"].to_numpy().astype(int)
    for first in used[[5, 30]].tolist():
        monkeypatch.setattr(tables, "load", lambda name, first=first, **options: replace(published, n_train=first))
        assert run.table(Place()).n_train == (used < first).sum()


def test_all_rows_and_random_test_rows(published):
    run = Run(dataset="iris", noise_rate=0.0, seeds=(0,), members=(("ce", np.inf),))
    assert run.table(Place()).n_train == 63
    assert replace(run, random_test=True).table(Place()).n_train is None
    assert replace(run, random_test=True, rows=50).table(Place()).n_train is None
