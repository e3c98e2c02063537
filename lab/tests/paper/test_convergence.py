import math

import pytest
from paper.image_runs import finished

from mgce_lab.paper import figure3, figure4, figure5

RUNS = [
    *(finished("mgce", 1.4, seed, accuracy=accuracy) for seed, accuracy in enumerate((0.8, 0.9))),
    finished("mgce", 2.0, 0, accuracy=0.1),
    finished("ce", math.inf, 0, noise_rate=0.2, accuracy=0.6),
    finished("mgce", 1.4, 0, l1=1e-3, accuracy=0.1),
    finished("gce", 1.4, 0, accuracy=0.7),
    finished("gce", 1.4, 0, dataset="webvision", validation=None, accuracy=0.2),
    finished("gce", 1.4, 0, dataset="clothing1m", accuracy=0.3),
]


def test_curves_are_means_over_the_seeds():
    result = figure3.render(RUNS)
    numbers = {(row["series"], row["epoch"]): row for row in result.numbers if row["noise_rate"] == 0}
    assert len(numbers) == 4 and {row["dataset"] for row in result.numbers} == {"cifar10"}
    assert numbers["MGCE", 2]["mean"] == pytest.approx(85) and numbers["MGCE", 2]["std"] == pytest.approx(50**0.5)
    assert numbers["GCE", 2]["mean"] == pytest.approx(70) and numbers["GCE", 2]["seeds"] == 1
    assert result.notes["cifar10/0.0/cifar stem, 150 epochs/convergence"] == (
        "cifar10, 0% wrong, cifar stem, 150 epochs: GCE ends at 70.00 % after 2 epochs; MGCE reaches it in epoch 2."
    )
    assert result.cells[0]["last epoch"] == "85.00 ± 7.07" and result.cells[0]["epoch 10"] == ""
    assert result.image.startswith(b"\x89PNG")


def test_each_noise_rate_has_a_panel_that_names_the_network():
    other = finished("ce", math.inf, 0, noise_rate=0.4, dataset="fashion_mnist", stem="imagenet", epochs=30)
    result = figure3.render([*RUNS, other])
    panels = {(row["dataset"], row["noise_rate"], row["network"]) for row in result.numbers}
    assert panels == {
        ("cifar10", 0.0, "cifar stem, 150 epochs"),
        ("cifar10", 0.2, "cifar stem, 150 epochs"),
        ("fashion_mnist", 0.4, "imagenet stem, 30 epochs"),
    }
    assert [row["noise"] for row in result.cells] == ["0% wrong", "0% wrong", "20% wrong", "40% wrong"]


def test_a_data_set_without_any_of_the_series_is_left_out():
    other = finished("mgce", 1.0, 0, dataset="cifar100", accuracy=0.5)
    assert {row["dataset"] for row in figure3.render([*RUNS, other]).numbers} == {"cifar10"}
    assert figure3.render([other]) is None


def test_each_figure_has_its_data_sets():
    for figure, dataset in ((figure4, "webvision"), (figure5, "clothing1m")):
        assert {row["dataset"] for row in figure.render(RUNS).numbers} == {dataset}
        assert figure.render(RUNS[:6]) is None
    assert figure3.render(RUNS[6:]) is None
