import math

import pytest
from matplotlib.figure import Figure

from mgce_lab.engine.report import write_report
from mgce_lab.engine.store import Run, Runs
from mgce_lab.protocols import noise_picture
from mgce_lab.protocols.columns import filled
from mgce_lab.protocols.noise_picture import draw_dots
from mgce_lab.protocols.noise_tables import noise_table
from mgce_lab.protocols.published import published
from mgce_lab.protocols.rate_table import rate_table
from mgce_lab.protocols.selection_table import selection_table
from mgce_lab.protocols.study import BENCHMARK, headline
from mgce_lab.protocols.training_table import training_table
from web_pages import check_structure


def image_run(method, beta, seed, accuracy, *, protocol="p1", noise_rate=0.4, best=None, l1=0.0):
    cell = {
        "noise_type": "symmetric",
        "noise_rate": noise_rate,
        "labels": "",
        "seed": seed,
        "method": method,
        "beta": beta,
    }
    numbers = {"accuracy": accuracy, "best_accuracy": best or accuracy, "ece_h": 0.1, "beta_start": None}
    axes = ["noise_rate", "seed", "method", "beta"]
    specification = {"kind": "losses", "axes": axes, "protocol": protocol, "dataset": "cifar10", "l1": l1, **cell}
    return Run(specification, [{**cell, **numbers}], {"seconds": 1.0})


def rate_run(method, lr, validation, accuracies, beta="inf"):
    records = [
        {
            **{"method": method, "beta": beta, "seed": seed, "lr": lr, "validation_accuracy": validation},
            **{"accuracy": accuracy, "test_accuracy_by_epoch": [0.99, accuracy - 0.01], "ece_h": 0.1},
        }
        for seed, accuracy in enumerate(accuracies)
    ]
    specification = {"kind": "rates", "axes": ["lr", "method"], "dataset": "letter", "lr": lr, "method": method}
    return Run(specification, records, {"seconds": 2.0})


def training_run(method, beta, seed, accuracy, **settings):
    run = image_run(method, beta, seed, accuracy, protocol="training", best=accuracy + 0.05)
    run.specification.update({"dataset": "mnist", "lr": 0.01, "weight_decay": 1e-3, "l1": 0.0, **settings})
    return run


IMAGES = [
    image_run(method, beta, seed, accuracy + 0.001 * seed, best=0.95, noise_rate=noise)
    for method, beta, accuracy in (("ce", "inf", 0.6), ("gce", 1 / 0.7, 0.8), ("mgce", 1.4, 0.9))
    for noise in (0.4, 0.8)
    for seed in range(3)
]
RATES = [
    rate_run("ce", 0.01, 0.5, [0.70, 0.71, 0.72]),
    rate_run("ce", 0.001, 0.6, [0.60, 0.61, 0.62]),
    rate_run("mgce", 0.01, 0.7, [0.80, 0.81, 0.83], beta=1.4),
]


def test_cells_are_sorted_with_published_numbers_and_tallies():
    result = noise_table("p1", IMAGES)
    assert result.name == "p1" and result.image.startswith(b"\x89PNG")
    rows = [row for row in result.cells if row["noise"] == "symmetric 0.4"]
    assert [row["loss"] for row in rows] == ["mgce 1.4", "gce", "ce"]
    assert [row["w/t/l"] for row in rows] == ["2/0/0", "1/0/1", "0/0/2"]
    assert [row["published"] for row in rows] == ["", "82.24", "58.46"]
    assert "“Published” is the mean of three seeds at the last epoch." in result.caption
    assert rows[0]["last"] == "90.10 ± 0.10" and rows[0]["best"] == "95.00 ± 0.00"
    assert result.numbers[0]["last_std"] == pytest.approx(0.1)


def test_a_penalty_that_a_loss_does_not_have_itself_is_named_and_has_no_published_number():
    own, other = image_run("anl-ce", "inf", 0, 0.8, l1=5e-5), image_run("ce", "inf", 0, 0.7, l1=1e-3)
    rows = {row["loss"]: row for row in noise_table("p1", [own, other, image_run("ce", "inf", 0, 0.6)]).cells}
    assert set(rows) == {"anl-ce", "ce", "ce, L1 0.001"}
    assert rows["ce, L1 0.001"]["published"] == "" != rows["ce"]["published"]
    assert rows["ce, L1 0.001"]["last"] == "70.00"


def test_the_picture_is_of_rates_where_there_are_three_and_of_losses(monkeypatch):
    monkeypatch.setattr(noise_picture, "png", lambda chart: chart)
    lines = noise_table(
        "p1", [*IMAGES, *(image_run("ce", "inf", 0, 0.9, noise_rate=rate) for rate in (0.0, 0.2))]
    ).image
    axis, *others = lines.axes
    assert axis.get_xlabel() == "rate of symmetric noise"
    drawn = {line.get_label(): line for line in axis.lines}  # not the other losses, which have two rates
    assert drawn.keys() == {"ce"} and list(drawn["ce"].get_xdata()) == [0.0, 0.2, 0.4, 0.8]
    assert drawn["ce"].get_ydata() == pytest.approx([90, 90, 60.1, 60.1])
    titles = [f"cifar10, symmetric {rate}" for rate in ("0", "0.2", "0.4", "0.8")]
    assert [axis.get_title() for axis in others] == titles
    few = noise_table("p1", IMAGES).image
    assert [axis.get_title() for axis in few.axes] == ["cifar10, symmetric 0.4", "cifar10, symmetric 0.8"]
    assert [tick.get_text() for tick in few.axes[0].get_yticklabels()] == ["ce", "gce", "mgce 1.4"]  # from below
    dots = [line for line in few.axes[0].lines if line.get_marker() == "o"]
    full, hollow = ([dot.get_xdata()[0] for dot in dots if dot.get_fillstyle() == style] for style in ("full", "none"))
    assert full == pytest.approx([60.1, 80.1, 90.1]) and hollow == pytest.approx([95, 95, 95])
    human = [image_run(method, "inf", 0, 0.5) for method in ("ce", "sce")]
    for run in human:
        run.records[0] |= {"noise_type": "human", "labels": "worst", "noise_rate": 0.0}
    assert [axis.get_title() for axis in noise_table("p1", human).image.axes] == ["cifar10, worst"]


def test_a_loss_of_one_seed_is_not_compared_and_reduced_says_so():
    one, other = image_run("ce", "inf", 0, 0.1, protocol="reduced"), image_run("gce", 2.0, 0, 0.9, protocol="reduced")
    result = noise_table("reduced", [one, other])
    assert "REDUCED" in result.caption and not any({"published", "w/t/l"} & set(row) for row in result.cells)
    more = [image_run(name, "inf", seed, 0.01 * seed, protocol="reduced") for name in ("ce", "sce") for seed in (1, 2)]
    rows = {row["loss"]: row["w/t/l"] for row in noise_table("reduced", [one, other, *more]).cells}
    assert rows == {"ce": "0/1/0", "sce": "0/1/0", "gce": ""}


def test_columns_that_single_rows_have_are_in_the_order_of_the_rows():
    """Not in that of a set, which differs from one process to the next."""
    rows = [{"loss": 0, name: 1} for name in "abcdefgh"]
    assert [list(row) for row in filled(rows)] == 8 * [["loss", *"abcdefgh"]]
    assert [sum(value == "" for value in row.values()) for row in filled(rows)] == 8 * [7]


def test_the_learning_rate_is_chosen_by_validation_and_not_by_the_test():
    result = rate_table(RATES)
    rows = {row["loss"]: row for row in result.cells}
    assert rows["ce"]["chosen"] == "0.001" and rows["ce"]["accuracy"] == "61.00 ± 1.00"
    assert rows["ce"]["lr 0.01"] == "71.00 ± 1.00" and rows["ce"]["last"] == "60.00 ± 1.00"
    assert rows["mgce 1.4"]["lr 0.001"] == "" and rows["mgce 1.4"]["w/t/l"] == "1/0/0"
    assert [row["loss"] for row in result.cells] == ["mgce 1.4", "ce"]
    assert rate_table([]) is None


def test_what_is_level_is_in_an_order_of_its_own_and_not_in_that_of_the_runs():
    images = [image_run(name, "inf", 0, 0.8) for name in ("gce", "ce", "sce")]
    rates = [
        rate_run(name, lr, 0.6, [accuracy]) for name in ("sce", "ce") for lr, accuracy in ((0.01, 0.7), (0.001, 0.8))
    ]
    training = [training_run(name, "inf", 0, 0.8) for name in ("sce", "ce")]
    for order in (1, -1):
        assert [row["loss"] for row in noise_table("p1", images[::order]).cells] == ["ce", "gce", "sce"]
        assert [row["loss"] for row in training_table(training[::order]).cells] == ["ce", "sce"]
        rows = rate_table(rates[::order]).cells
        assert [(row["loss"], row["chosen"], row["accuracy"]) for row in rows] == [
            ("ce", "0.001", "80.00"),
            ("sce", "0.001", "80.00"),
        ]
        axis = Figure().subplots()
        draw_dots(axis, dict([(name, [(0.8, 0.9)]) for name in ("gce", "ce", "sce")][::order]), "", "")
        assert [tick.get_text() for tick in axis.get_yticklabels()] == ["sce", "gce", "ce"]  # from below


TRAINING = [
    training_run("mgce", 1.05, 0, 0.70),
    training_run("mgce", 1.05, 1, 0.72),
    training_run("mgce", 1.05, 0, 0.90, weight_decay=0.1),
    training_run("mgce", 1.05, 0, 0.60, l1=1e-4),
    training_run("ce", "inf", 0, 0.75),
    training_run("ce", "inf", 0, 0.80, lr=0.001),
    training_run("ce", "inf", 0, 0.65, lr=0.1),
]


def test_settings_of_training_are_columns_and_the_best_loss_is_first():
    assert training_table(IMAGES) is None and noise_table("p1", TRAINING) is None
    first = training_table(TRAINING[:1])  # of which the others are still to be run
    assert [row["loss"] for row in first.cells] == ["mgce 1.05"] and first.image is None
    result = training_table(TRAINING)
    assert result.name == "training"
    where = {"dataset": "mnist", "noise": "symmetric 0.4"}
    changed = ["lr 0.001", "lr 0.1", "decay 0.1", "L1 0.0001"]
    assert list(result.cells[0]) == [*where, "loss", "seeds", "reduced", *changed]
    values = ["mgce 1.05", "2", "71.00 ± 1.41", "", "", "90.00", "60.00"]
    assert list(result.cells[0].values()) == [*where.values(), *values]
    assert list(result.cells[1].values()) == [*where.values(), "ce", "1", "75.00", "80.00", "65.00", "", ""]
    numbers = {(row["loss"], row["setting"]): row for row in result.numbers}
    assert len(numbers) == 6 and numbers["mgce 1.05", "decay 0.1"]["weight_decay"] == 0.1
    assert numbers["mgce 1.05", "reduced"]["last"] == pytest.approx(71)
    assert numbers["ce", "lr 0.1"]["best"] == pytest.approx(70)
    assert "mnist symmetric 0.4: mgce 1.05 is first of 2" in headline([result])


def test_the_picture_of_settings_has_each_loss_against_each_setting(monkeypatch):
    monkeypatch.setattr("mgce_lab.protocols.training_table.png", lambda chart: chart)
    axes = training_table(TRAINING).image.axes
    assert [axis.get_xlabel() for axis in axes] == ["learning rate", "weight decay", "L1 penalty"]
    ticks = [[tick.get_text() for tick in axis.get_xticklabels()] for axis in axes]
    assert ticks == [["0.001", "0.01", "0.1"], ["0.001", "0.1"], ["0", "0.0001"]]
    drawn = {line.get_label(): line for line in axes[0].lines if not line.get_label().startswith("_")}
    assert list(drawn["ce"].get_xdata()) == [0, 1, 2] and list(drawn["mgce 1.05"].get_xdata()) == [1]
    assert drawn["ce"].get_ydata() == pytest.approx([80, 75, 65])


def selected_run(method, beta, seed, noisy, test, *, l1=0.0, trim=None):
    run = training_run(method, beta, seed, test[max(range(len(noisy)), key=noisy.__getitem__)], l1=l1)
    run.specification["protocol"] = "selection"
    run.records[0] |= {"validation_accuracy_by_epoch": noisy, "test_accuracy_by_epoch": test}
    run.records[0] |= {} if trim is None else {"trim": trim}
    return run


SELECTED = [  # accuracies on noisy labels, and on right ones, by epoch
    selected_run("mgce", 1.05, 0, [0.50, 0.40], [0.80, 0.60]),
    selected_run("mgce", 1.05, 0, [0.45, 0.48], [0.85, 0.90], l1=0.001),
    selected_run("mgce", 1.05, 0, [0.52, 0.48], [0.75, 0.95], l1=0.01),
    selected_run("mgce", 1.05, 1, [0.52, 0.40], [0.82, 0.62]),
    selected_run("mgce", 1.05, 1, [0.40, 0.41], [0.83, 0.88], l1=0.001),
    selected_run("mgce", 1.05, 1, [0.51, 0.50], [0.70, 0.80], l1=0.01),
    selected_run("mgce", 1.05, 2, [0.52, 0.40], [0.99, 0.99]),  # with no other size yet
    selected_run("mgce+trim", 1.05, 0, [0.49, 0.49], [0.91, 0.92], trim=0.3),
    selected_run("anl-ce", "inf", 0, [0.30, 0.30], [0.65, 0.70], l1=1e-6),
]


def test_noisy_labels_choose_the_value_and_the_epoch():
    assert selection_table(TRAINING) is None and selection_table(SELECTED[1:3]) is not None
    result = selection_table(SELECTED)
    rows = {row["loss"]: row for row in result.cells}
    assert list(rows) == ["mgce 1.05", "mgce 1.05, trim", "mgce 1.05, L1", "anl-ce"]
    penalised = rows["mgce 1.05, L1"]
    # Last epoch: of seed 0 .001 and .01 are equal, and the smaller is taken; of seed 1 .01. At the best one .01 and 0.
    assert penalised["chosen"] == "0.001 0.01" and penalised["last"] == "85.00 ± 7.07"
    assert penalised["best value"] == "91.50 ± 4.95" and penalised["stopped"] == "78.50 ± 4.95"
    assert rows["mgce 1.05"]["seeds"] == "3" and rows["mgce 1.05"]["chosen"] == rows["mgce 1.05"]["best value"] == ""
    assert rows["mgce 1.05, trim"]["chosen"] == "0.3" and rows["mgce 1.05, trim"]["seeds"] == "1"
    assert rows["mgce 1.05, trim"]["stopped"] == "80.00"  # not to trim
    assert rows["anl-ce"]["last"] == "70.00" and rows["anl-ce"]["stopped"] == "65.00"
    numbers = {row["loss"]: row for row in result.numbers}
    assert numbers["mgce 1.05, L1"]["stopped_value"] == "0.01 0"
    by_value = {name: numbers["mgce 1.05, L1"][name] for name in ("noisy_0.001", "last_0.001", "noisy_0.01", "last_0")}
    assert list(by_value.values()) == pytest.approx([44.5, 89, 49, 61])
    assert numbers["mgce 1.05, L1"]["last"] == pytest.approx(85) and result.image.startswith(b"\x89PNG")


def test_noisy_labels_choose_beta_where_there_are_several():
    several = [
        selected_run("mgce", 1.05, 0, [0.50, 0.40], [0.80, 0.60]),
        selected_run("mgce", 5.0, 0, [0.45, 0.51], [0.85, 0.90]),
        selected_run("ce", "inf", 0, [0.55, 0.48], [0.75, 0.95]),
        selected_run("mgce", 5.0, 0, [0.99, 0.99], [0.99, 0.99], l1=0.01),  # another penalty is another choice
        selected_run("mgce+trim", 1.05, 0, [0.99, 0.99], [0.99, 0.99], trim=0.3),
    ]
    assert "mgce, beta" not in {row["loss"] for row in selection_table([several[0], *several[2:]]).cells}
    (row,) = (row for row in selection_table(several).cells if row["loss"] == "mgce, beta")
    assert [row[name] for name in ("chosen", "last", "stopped", "best value")] == ["5", "90.00", "75.00", "95.00"]


def test_the_picture_of_what_is_chosen_has_both_epochs(monkeypatch):
    monkeypatch.setattr("mgce_lab.protocols.selection_table.png", lambda chart: chart)
    (axis,) = selection_table(SELECTED).image.axes
    assert axis.get_title() == "mnist, symmetric 0.4 (reduced)"
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    assert names == ["anl-ce", "mgce 1.05, L1", "mgce 1.05, trim", "mgce 1.05"]  # from below
    dots = [line for line in axis.lines if line.get_marker() == "o"]
    full, hollow = ([dot.get_xdata()[0] for dot in dots if dot.get_fillstyle() == style] for style in ("full", "none"))
    assert full == pytest.approx([65, 78.5, 80, 87]) and hollow == pytest.approx([70, 85, 92, 221 / 3])


def test_published_numbers():
    assert published("p1", "cifar10", "asymmetric 0.4", "nce+rce") == 79.43
    assert published("p1", "cifar10", "symmetric 0.8", "anl-ce") == 61.3
    assert published("p1", "cifar100", "symmetric 0.8", "ce") == 7.33
    assert published("p2", "cifar100n", "noisy", "ce_eps+mae") == 61.78
    assert published("p2", "cifar100n", "noisy", "agce") is None
    assert published("p1", "mnist", "symmetric 0.4", "ce") is None
    assert published("reduced", "cifar10", "symmetric 0.4", "ce") is None


def test_the_page_says_who_is_first_and_where_mgce_is(tmp_path):
    store = Runs(tmp_path)
    for run in [*IMAGES, *RATES]:
        store.write(run)
    results = write_report(BENCHMARK, store, tmp_path / "out")
    assert list(results) == ["p1", "rates"]
    check_structure((tmp_path / "out" / "report.html").read_text())
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"p1.png", "p1.csv", "rates.txt", "rates.tex"}
    assert "letter: mgce 1.4 is first of 2" in headline([results["rates"]])
    assert math.isfinite(results["rates"].numbers[0]["at_chosen"])
