"""A run is found by its name, the hash of its specification: names of finished runs stay."""

from pathlib import Path

import pytest

from mgce_lab.engine.specification import document
from mgce_lab.engine.store import Runs, former_names, run_name
from mgce_lab.paper.items import plan as plan_paper
from mgce_lab.paper.plan import Options
from mgce_lab.protocols.protocols import Request
from mgce_lab.protocols.protocols import plan as plan_benchmark

RESULTS = Path(__file__).parents[3] / "results"
IMAGENET_STEM = {"stem": "imagenet", "epochs": 30}
ONE = {"betas": (1.4,), "seeds": 1, "noise_rates": (0.4,)}


def names(runs):
    return {run_name(document(run)) for run in runs}


def first_names(runs):
    """The names that runs had in the first version, under which those that are committed lie."""
    return {former_names(document(run))[-1] for run in runs}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "datasets", "name", "folder"),
    [
        ("rates", ("letter",), "9741026a85c8", "losses"),
        ("p1", ("mnist",), "5b123e170769", "losses-p1"),
        ("reduced", ("mnist",), "7d6be60900ac", "losses-reduced"),
        ("selection", ("fashion_mnist",), "6c4a75174271", "losses-selection"),
        ("training", ("mnist",), "b2fe5d0c31dd", "losses-training"),
    ],
)
def test_protocols_find_their_committed_runs(protocol, datasets, name, folder):
    runs, committed = plan_benchmark(protocol, Request(datasets=datasets)), Runs(RESULTS / folder).read()
    assert name in first_names(runs) and name in {run.stored_as for run in committed.values()}
    assert len(names(runs) & committed.keys()) > 0.4 * sum(
        run.specification["dataset"] in datasets for run in committed.values()
    )


def test_the_paper_finds_its_committed_runs():
    runs, committed = plan_paper("table3", Options(datasets=("letter",))), Runs(RESULTS / "paper").read()
    assert "f55288893d80" in first_names(runs) and names(runs) <= committed.keys()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Of these no records are committed; checkpoints of runs that go on bear their names.
        ({"datasets": ("fashion_mnist",), "methods": ("mgce",), "settings": IMAGENET_STEM}, "3fac46b7b73e"),
        ({"datasets": ("fashion_mnist",), "methods": ("ce",), "settings": IMAGENET_STEM}, "a9f7b204809d"),
        ({"datasets": ("cifar10",), "methods": ("mgce@1",)}, "419aaee5f77e"),
        ({"datasets": ("cifar10",), "methods": ("nce+agce",)}, "6802f34ce62f"),
    ],
)
def test_networks_on_images_keep_their_names(options, expected):
    assert first_names(plan_paper("table1", Options(**ONE, **options))) == {expected}
