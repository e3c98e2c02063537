"""The page of the transformer: its tables are those of the records."""

import json

import numpy as np
import pytest

pytest.importorskip("cleanlab")  # the suite needs it

from mgce_lab.table_model import cases, costs, loss
from mgce_lab.table_model.measure import read
from mgce_lab.table_model.model import Sizes, TableModel
from mgce_lab.table_model.train import write_weights


def test_a_run_is_measured_on_made_tables_by_its_own_probabilities(tmp_path, monkeypatch):
    monkeypatch.setattr(loss, "TABLES", 4)
    monkeypatch.setattr(loss, "AT_ONCE", 2)
    (tmp_path / "curve.jsonl").write_text(json.dumps({"step": 1}) + "\n")
    runs = []
    for beta in (np.inf, 1.4):
        small = {"cell": 32, "cell_blocks": 1, "row": 32, "row_blocks": 1, "thinking": 2, "votes": 1}
        write_weights(TableModel(Sizes(**small, beta=beta)), tmp_path / "weights.npz")
        runs.append(loss._run(tmp_path))
    assert all(len(values) == 4 for values in runs[0]["by_table"].values())
    same = loss.render([runs[0], runs[0]]).splitlines()[-1]
    assert same.count("+0.0 (+0.0 to +0.0)") == 2 and "+0.000 (+0.000 to +0.000)" in same
    assert "MGCE, beta 1.4" in loss.render(runs)


def test_time_and_memory_are_those_of_one_pass():
    found = costs.measured(30, 3)
    assert found["seconds"] > 0 and found["mebibytes"] < 100


def test_a_case_without_a_record_stays_empty():
    records = read(cases.RESULTS)
    rows = cases.render(records).splitlines()[2:]
    assert rows and len({row.count("|") for row in rows}) == 1
    assert len(cases.render(records[:1]).splitlines()) == 3
