import pytest
from paper.image_runs import finished
from scipy import stats

from mgce_lab.paper import table1, table3
from mgce_lab.paper.published import published_row


@pytest.mark.parametrize(
    ("dataset", "method", "noise", "accuracy", "sce"),
    [  # read from the paper's Table 1
        ("fashion_mnist", "mgce", 0.0, [92.94, 0.17], [5.20, 0.23]),
        ("fashion_mnist", "gce", 0.4, [89.74, 0.29], [8.63, 0.35]),
        ("cifar10", "ce", 0.4, [77.31, 0.93], [25.31, 2.40]),
        ("cifar10", "mgce", 0.4, [83.49, 0.45], [12.15, 0.5]),
        ("svhn", "gce", 0.2, [93.43, 0.45], [12.27, 1.75]),
        ("svhn", "mgce@1", 0.0, [92.89, 1.45], [75.76, 2.83]),
        ("cifar100", "ce", 0.2, [52.51, 1.10], [4.30, 1.80]),
        ("cifar100", "mgce@1", 0.4, [41.99, 1.45], [60.46, 0.59]),
    ],
)
def test_numbers_of_the_paper(dataset, method, noise, accuracy, sce):
    row = published_row("table1", dataset, method, noise)
    assert (row["accuracy"], row["sce"]) == (accuracy, sce)


def test_validation_chooses_beta_and_the_paper_stands_beside():
    runs = [
        finished("mgce", 1.4, 0, validation=0.7, accuracy=0.90),
        finished("mgce", 2.0, 0, validation=0.8, accuracy=0.80),
        finished("mgce", 1.4, 1, validation=0.9, accuracy=0.84),
        finished("mgce", 2.0, 1, validation=0.1, accuracy=0.10),
    ]
    result = table1.render(runs)
    rows = {(row["noise_rate"], row["method"]): row for row in result.numbers}
    row = rows[0.0, "mgce"]
    assert len(rows) == 3 * 5 and row["betas"] == "1.4 2" and row["seeds"] == 2
    assert row["accuracy"] == pytest.approx(82) and row["accuracy_std"] == pytest.approx(8**0.5)
    assert (row["paper_accuracy"], row["paper_ece_h"]) == (91.01, 5.53)
    # Two seeds tell next to nothing, however far they are from the paper.
    test = stats.ttest_ind_from_stats(82, 8**0.5, 2, 91.01, 0.43, 5, equal_var=False)
    note = result.notes["cifar10/0/mgce/accuracy"]
    assert f"82.00 ± 2.83 against 91.01 ± 0.43, not told apart (p = {test.pvalue:.2g})" in note


def test_other_penalties_data_sets_and_kinds_are_left_out():
    others = [finished("mgce", 1.4, 0, l1=1e-3), finished("mgce", 1.4, 0, dataset="webvision", validation=None)]
    assert table1.render([]) is None and table1.render(others) is None
    assert table3.render([finished("mgce", 1.4, 0)]) is None


def test_data_sets_stand_in_the_order_of_the_paper():
    names = ["svhn", "cifar100", "cifar10", "digits", "fashion_mnist"]
    result = table1.render([finished("ce", "inf", 0, dataset=name) for name in names])
    found = list(dict.fromkeys(row["dataset"] for row in result.cells))
    assert found == ["fashion_mnist", "cifar10", "svhn", "cifar100", "digits"]


def test_fewer_epochs_stand_beside_the_paper_without_a_verdict():
    setting = {"dataset": "fashion_mnist", "noise_rate": 0.4, "stem": "imagenet"}
    short = table1.render([finished("mgce", 1.4, 0, epochs=30, accuracy=0.2, **setting)])
    assert short.title == "Table 1: accuracy and calibration on images (imagenet stem, 30 epochs)"
    (row,) = (row for row in short.numbers if row["seeds"])
    assert (row["setting"], row["paper_accuracy"]) == ("imagenet stem, 30 epochs", 88.65)
    assert not short.notes and not short.agreement and "without a verdict" in short.caption
    whole = table1.render([finished("mgce", 1.4, 0, epochs=150, accuracy=0.2, **setting)])
    assert whole.notes and whole.agreement and "without a verdict" not in whole.caption
