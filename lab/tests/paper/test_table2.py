import pytest
from paper.image_runs import finished
from scipy import stats

from mgce_lab.engine.result import to_latex
from mgce_lab.paper import table2
from mgce_lab.paper.published import published_row


@pytest.mark.parametrize(
    ("dataset", "method", "l1", "accuracy"),
    [  # read from the paper's Table 2
        ("svhn", "mgce", 1e-3, [80.42, 0.57]),
        ("svhn", "gce", 1e-3, [85.00, 1.06]),
        ("svhn", "mgce", 1e-5, [94.58, 0.02]),
        ("cifar10", "gce", 1e-4, [88.06, 0.39]),
        ("fashion_mnist", "gce", 1e-5, [92.71, 0.31]),
    ],
)
def test_numbers_of_the_paper(dataset, method, l1, accuracy):
    assert published_row("table2", dataset, method, l1=l1)["validation_accuracy"] == accuracy


def test_rows_and_differences():
    runs = [
        finished("gce", 1.4, 0, l1=1e-3, validation=0.69, accuracy=0.5),
        finished("gce", 1.4, 1, l1=1e-3, validation=0.70, accuracy=0.6),
        finished("mgce", 1.4, 0, l1=1e-3, validation=0.60),
        finished("mgce", 1.4, 0, validation=0.9149),
        finished("mgce", 2.0, 0, validation=0.1),
        finished("mgce", 1.4, 0, noise_rate=0.2, validation=0.2),
    ]
    result = table2.render(runs)
    rows = {(row["l1"], row["method"]): row for row in result.numbers}
    assert len(rows) == 6 and rows[1e-3, "gce"]["seeds"] == 2 and rows[1e-4, "gce"]["seeds"] == 0
    assert rows[1e-3, "gce"]["validation_accuracy"] == pytest.approx(69.5)
    assert rows[1e-3, "gce"]["validation_accuracy_std"] == pytest.approx(0.5**0.5)
    assert rows[1e-3, "gce"]["accuracy"] == pytest.approx(55)
    assert rows[1e-5, "mgce"]["validation_accuracy"] == pytest.approx(91.49)
    assert rows[1e-5, "mgce"]["paper_validation_accuracy_std"] == 0.53
    note = result.notes["cifar10/0.001/mgce/validation_accuracy"]
    p = 2 * stats.t.sf((67.40 - 60) / (1.27 * 1.2**0.5), 4)  # one number against the spread of the paper's five
    assert f"60.00 against 67.40 ± 1.27, below the paper (p = {p:.2g})" in note
    assert "cifar10/1e-05/mgce/validation_accuracy" not in result.notes
    assert "2 differ" in result.agreement or "1 differ" in result.agreement
    assert r"$\lambda_0$" in to_latex(result)
    assert result.cells[0] == {
        "dataset": "cifar10",
        "λ_0": "0.001",
        "method": "mgce",
        "seeds": "1",
        "network": "cifar stem, 150 epochs",
        "validation accuracy": "60.00",
        "paper's": "67.40 ± 1.27",
        "test accuracy": "90.00",
    }


def test_one_penalty_is_no_table():
    assert table2.render([]) is None and table2.render([finished("mgce", 1.4, 0)]) is None
