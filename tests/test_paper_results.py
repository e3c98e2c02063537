"""The committed tables of the paper are the rendering of the committed records."""

from pathlib import Path

import pytest

from mgce.experiments.paper.report import write_report
from mgce.experiments.store import Runs

RESULTS = Path(__file__).parents[1] / "results" / "paper"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    return out, write_report(RESULTS, out)


def test_tables_are_those_of_the_records(rendered):
    out, results = rendered
    assert {"figure1", "figure2", "figure6", "table3"} <= results.keys()
    for name in results:
        # The curves of Figures 1 and 2 are computed anew: their last digits are those of the machine.
        for suffix in ("txt", "tex") if name in ("figure1", "figure2") else ("csv", "txt", "tex"):
            assert (out / f"{name}.{suffix}").read_bytes() == (RESULTS / f"{name}.{suffix}").read_bytes()


def test_every_cell_far_from_the_papers_has_a_reason(rendered):
    _, results = rendered
    for key, note in results["table3"].notes.items():
        assert not note.endswith("the paper."), f"{key}: no reason in reasons.json"


@pytest.mark.parametrize("dataset", ["letter", "adult"])
def test_a_table_is_there_in_full(dataset):
    runs = [run for run in Runs(RESULTS).read().values() if run.specification["dataset"] == dataset]
    networks = {
        (run.specification["noise"], seed, method, beta)
        for run in runs
        for seed in run.specification["seeds"]
        for method, beta in run.specification["members"]
    }
    assert len(networks) == 3 * 5 * (8 + 8 + 1 + 1)
    assert all(run.specification["epochs"] == 150 for run in runs)
