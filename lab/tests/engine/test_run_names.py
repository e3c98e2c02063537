"""A run is found by its name, the hash of its specification: what is committed is found by the plans of today."""

from pathlib import Path

import pytest

from mgce_lab.engine.specification import document
from mgce_lab.engine.store import Runs, run_name
from mgce_lab.paper.items import plan as plan_paper
from mgce_lab.paper.plan import Options
from mgce_lab.protocols.protocols import Request
from mgce_lab.protocols.protocols import plan as plan_benchmark

RESULTS = Path(__file__).parents[3] / "results"


def names(runs):
    return {run_name(document(run)) for run in runs}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "datasets", "folder"),
    [
        ("rates", ("letter",), "losses"),
        ("p1", ("mnist",), "losses-p1"),
        ("reduced", ("mnist",), "losses-reduced"),
        ("selection", ("fashion_mnist",), "losses-selection"),
        ("training", ("mnist",), "losses-training"),
    ],
)
def test_protocols_find_their_committed_runs(protocol, datasets, folder):
    runs, committed = plan_benchmark(protocol, Request(datasets=datasets)), Runs(RESULTS / folder).read()
    assert len(names(runs) & committed.keys()) > 0.4 * sum(
        run.specification["dataset"] in datasets for run in committed.values()
    )


def test_the_paper_finds_its_committed_runs():
    runs, committed = plan_paper("table3", Options(datasets=("letter",))), Runs(RESULTS / "paper").read()
    assert runs and names(runs) <= committed.keys()
