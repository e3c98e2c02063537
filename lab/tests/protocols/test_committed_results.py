import functools
import itertools
import re
from pathlib import Path

import pandas as pd
import pytest

from mgce._files import plain
from mgce_lab.engine.methods import Method
from mgce_lab.engine.report import write_report
from mgce_lab.engine.store import Runs
from mgce_lab.losses import LOSSES
from mgce_lab.protocols.study import BENCHMARK

COMMITTED = Path(__file__).parents[3] / "results"


PROTOCOLS = {
    "losses": "rates",
    "losses-p1": "p1",
    "losses-reduced": "reduced",
    "losses-training": "training",
    "losses-selection": "selection",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return a function from the name of a folder of records to the folder of their tables, rendered once."""

    @functools.cache
    def rendered(folder):
        out = tmp_path_factory.mktemp(folder)
        in_order = Runs.read
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Runs, "read", lambda self: dict(reversed(in_order(self).items())))  # in whatever order
            assert list(write_report(BENCHMARK, Runs(COMMITTED / folder), out)) == [PROTOCOLS[folder]]
        return out

    return rendered


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "protocol"), PROTOCOLS.items())
def test_the_table_of_the_page_is_the_rendering_of_the_committed_records(tables, folder, protocol):
    name = f"{protocol}.txt"
    assert (tables(folder) / name).read_bytes() == (COMMITTED / folder / name).read_bytes()


@pytest.mark.parametrize("folder", sorted(folder.name for folder in COMMITTED.glob("losses*")))
def test_the_hyperparameters_of_the_committed_records_are_those_of_today(folder):
    """Where a preset changes, its runs have to be made anew."""
    for run in Runs(COMMITTED / folder).read().values():
        made = run.specification
        if made["kind"] == "rates":
            found = {name: Method(name, float(beta)).hyperparameters("cifar10") for name, beta in made["members"]}
        else:
            noise = () if made["noise_type"] == "human" else (made["noise_type"], made["noise_rate"])
            method = Method(made["method"], float(made["beta"]))
            found = {method.name: method.hyperparameters(made["dataset"].removesuffix("n"), *noise)}
        assert plain(found) == made["hyperparameters"], run.name


# The columns of the figures of docs/lab/choosing.md: folder of records, data set, noise, and column of their table.
FIGURES = {
    "letter, 40 %": ("losses", "letter", None, "at_chosen"),
    "adult, 40 %": ("losses", "adult", None, "at_chosen"),
    "MNIST, 40 %": ("losses-p1", "mnist", "symmetric 0.4", "last"),
    "FashionMNIST, 40 %": ("losses-p1", "fashion_mnist", "symmetric 0.4", "last"),
    "MNIST, right labels": ("losses-p1", "mnist", "symmetric 0", "last"),
    "MNIST, 20 %": ("losses-p1", "mnist", "symmetric 0.2", "last"),
    "MNIST, 60 %": ("losses-p1", "mnist", "symmetric 0.6", "last"),
    "MNIST, 80 %": ("losses-p1", "mnist", "symmetric 0.8", "last"),
    "MNIST, asymmetric": ("losses-p1", "mnist", "asymmetric 0.4", "last"),
    "2,000 of MNIST, 20 %": ("losses-reduced", "mnist", "symmetric 0.2", "last"),
    "2,000 of MNIST, 40 %": ("losses-reduced", "mnist", "symmetric 0.4", "last"),
    "2,000 of MNIST, 60 %": ("losses-reduced", "mnist", "symmetric 0.6", "last"),
    "2,000 of MNIST, 80 %": ("losses-reduced", "mnist", "symmetric 0.8", "last"),
    "2,000 of MNIST, asymmetric": ("losses-reduced", "mnist", "asymmetric 0.4", "last"),
    "5,000 of CIFAR-10, 40 %": ("losses-reduced", "cifar10", "symmetric 0.4", "last"),
    "5,000 of CIFAR-10N": ("losses-reduced", "cifar10n", "worst", "last"),
}


def table(path, begins):
    """Return the columns and, by the first cell, the rows of the Markdown table whose first line begins so."""
    lines = [line.strip() for line in (COMMITTED.parent / path).read_text().splitlines()]
    after = itertools.dropwhile(lambda line: not line.startswith(begins), lines)
    of_table = itertools.takewhile(lambda line: line.startswith("|"), after)
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in of_table]
    return header[1:], {row[0]: row[1:] for row in rows}


def measured(tables, column):
    """Return the percentage of each loss that is shown in a column, of one with an L1 penalty at the best size."""
    folder, dataset, noise, name = FIGURES[column]
    frame = pd.read_csv(tables(folder) / f"{PROTOCOLS[folder]}.csv")
    frame = frame[(frame["dataset"] == dataset) & (noise is None or frame["noise"] == noise)]
    values = frame.set_index("loss")[name].to_dict()
    settings = pd.read_csv(tables("losses-training") / "training.csv")
    settings = settings[(settings["dataset"] == dataset) & (settings["noise"] == noise) & (settings["l1"] > 0)]
    for loss in ("ce", "mgce 1.05"):
        sizes = [
            value for label, value in values.items() if label.startswith(f"{loss}, L1 ") and not label.endswith(" L1 0")
        ]
        if "reduced" in folder:
            sizes += settings[settings["loss"] == loss]["last"].tolist()
        values |= {f"{loss}, L1": max(sizes)} if sizes else {}
    return values


def shown(rows, place):
    return {loss: float(cells[place].strip("*")) for loss, cells in rows.items() if cells[place]}


@pytest.mark.parametrize("begins, width", [("| loss | letter, 40 % |", 9), ("| loss | 2,000 of MNIST, 20 % |", 8)])
def test_the_figures_by_which_to_choose_are_those_of_the_records(tables, begins, width):
    """Every cell is the record's to one decimal, no run of a row is left out, and the best of each column is bold.

    Not with an L1 penalty, whose size is the best by the test.
    """
    columns, rows = table("docs/lab/choosing.md", begins)
    assert len(columns) == width and set(columns) <= set(FIGURES)
    rows = {loss.strip("`"): cells for loss, cells in rows.items()}
    assert {"ce, L1", "mgce 1.05, L1"} < set(rows)
    for place, column in enumerate(columns):
        records, values = measured(tables, column), shown(rows, place)
        assert values == {loss: pytest.approx(records[loss], abs=0.051) for loss in rows if loss in records}
        bold = {loss for loss, cells in rows.items() if "**" in cells[place]}
        compared = {loss: value for loss, value in values.items() if ", L1" not in loss}
        assert bold == {loss for loss, value in compared.items() if value == max(compared.values())}


def test_what_beta_does_on_all_images_is_what_the_records_say(tables):
    columns, rows = table("docs/lab/choosing.md", "| | MNIST, 20 % |")
    assert set(rows) == {"`mgce 1.05`", "`mgce 1.4`", "`ce`"}
    for place, column in enumerate(columns):
        records = measured(tables, column)
        assert shown(rows, place) == {name: pytest.approx(records[name.strip("`")], abs=0.051) for name in rows}
    # "Ahead only of cross-entropy, with logits clipped or not": of losses without penalty or trimming.
    values = measured(tables, "FashionMNIST, 40 %")
    worse = {name for name, value in values.items() if value < values["mgce 1.05"]}
    assert worse == {"mgce 1.4", "ce", "ce+logitclip"}


def test_how_far_trimming_is_behind_is_what_the_records_say(tables):
    columns, rows = table("docs/lab/choosing.md", "| trimmed | columns | at most 2.5 behind |")
    for name, loss in (("cross-entropy", "ce+trim"), ("MGCE", "mgce+trim 1.05")):
        behind = {}
        for begins in ("| loss | letter, 40 % |", "| loss | 2,000 of MNIST, 20 % |"):
            of_page, all_rows = table("docs/lab/choosing.md", begins)
            compared = {name.strip("`"): cells for name, cells in all_rows.items() if ", L1" not in name}
            for place, column in enumerate(of_page):
                values = shown(compared, place)
                if loss in values:
                    behind[column] = max(values.values()) - values[loss]
        near = sum(difference < 2.55 for difference in behind.values())
        expected = [len(behind), near, *(behind[column] for column in columns[2:])]
        assert list(map(float, rows[name])) == pytest.approx(expected, abs=0.051)


def test_which_loss_to_trim_is_what_the_records_say(tables):
    """Of 60,000 images MGCE, by so many points; of fewer cross-entropy."""
    ahead = {}
    for column in FIGURES:
        values = measured(tables, column)
        if {"ce+trim", "mgce+trim 1.05"} <= values.keys():
            ahead[column] = values["mgce+trim 1.05"] - values["ce+trim"]
    many = [difference for column, difference in ahead.items() if column.startswith(("MNIST", "FashionMNIST"))]
    few = [difference for column, difference in ahead.items() if "000 of" in column]
    _, rows = table("docs/lab/choosing.md", "| | least | most |")
    for name, differences in (("60,000 images, four columns", many), ("few images, seven columns", few)):
        assert list(map(float, rows[name])) == pytest.approx([min(differences), max(differences)], abs=0.051)
    assert len(many) == 4 and len(few) == 7 and max(few) < 0 < ahead["letter, 40 %"]


def of_reduced(tables, dataset, noise):
    """Return the accuracy at the last epoch and at the best of each loss on few images."""
    frame = pd.read_csv(tables("losses-reduced") / "reduced.csv")
    return frame[(frame["dataset"] == dataset) & (frame["noise"] == noise)].set_index("loss")


def test_shares_to_trim_are_those_of_the_records(tables):
    columns, rows = table("docs/lab/choosing.md", "| left out | 20 % |")
    rates = pd.read_csv(tables("losses") / "rates.csv").set_index(["dataset", "loss"])["at_chosen"]
    even, confused = (of_reduced(tables, "mnist", f"{kind} 0.4")["last"] for kind in ("symmetric", "asymmetric"))
    sources = [
        (rates["letter"], "mgce+trim 1.05"),
        (rates["adult"], "mgce+trim 1.05"),
        (even, "mgce+trim 1.05"),
        (confused, "mgce+trim 1.05"),
        (confused, "ce+trim"),
    ]
    for (values, loss), (name, cells) in zip(sources, rows.items(), strict=True):
        for column, cell in zip(columns[:-1], cells, strict=False):
            variant = f"{loss}, trim 0.{column[0]}"
            if variant in values.index and cell:
                assert float(cell) == pytest.approx(values[variant], abs=0.051), (name, column)


def test_sizes_of_a_penalty_are_those_of_the_records(tables):
    columns, rows = table("docs/lab/choosing.md", "| size | 0 | 0.0003 |")
    frame = pd.read_csv(tables("losses-training") / "training.csv")
    frame = frame[(frame["noise"] == "symmetric 0.4") & ((frame["l1"] > 0) | (frame["setting"] == "reduced"))]
    datasets = {"2,000 of MNIST": "mnist", "2,000 of FashionMNIST": "fashion_mnist", "5,000 of CIFAR-10": "cifar10"}
    for name, cells in rows.items():
        loss, data = name.split(", ", 1)
        loss = {"MGCE": "mgce 1.05", "cross-entropy": "ce"}[loss]
        runs = frame[(frame["dataset"] == datasets[data]) & (frame["loss"] == loss)].set_index("l1")["last"]
        assert {float(size): float(cell) for size, cell in zip(columns, cells, strict=True) if cell} == pytest.approx(
            runs.to_dict(), abs=0.051
        )


def test_calibration_after_a_penalty_is_that_of_the_records(tables):
    columns, rows = table("docs/lab/choosing.md", "| ANL-CE | trimmed MGCE |")
    frame = pd.read_csv(tables("losses-p1") / "p1.csv").set_index(["dataset", "noise", "loss"])["ece_h"]
    (first, others), *_ = rows.items()
    losses = ["anl-ce", "mgce+trim 1.05", "nce+agce", "mgce 1.05, L1 0.0003", "ce, L1 0.001"]
    assert len(columns) == 4
    expected = [frame["mnist", "symmetric 0.8", loss] for loss in losses]
    assert list(map(float, [first, *others])) == pytest.approx(expected, abs=0.51)


def test_when_a_threshold_begins_and_the_best_epoch_are_those_of_the_records(tables):
    _, rows = table("docs/lab/choosing.md", "| MGCE, the threshold begins after |")
    _, best = table("docs/lab/choosing.md", "|  | SCE | NCE+AGCE |")
    losses = ["sce", "nce+agce", "ce+trim", "ce", "mgce 1.05"]
    for name, dataset in (("2,000 of MNIST", "mnist"), ("5,000 of CIFAR-10", "cifar10")):
        frame = of_reduced(tables, dataset, "symmetric 0.4")
        early, default = (frame["last"][f"mgce+trunc 1.05{variant}"] for variant in (", epoch 1", ""))
        said = [float(cell.removesuffix(" (one seed)")) for cell in rows[name]]
        assert said == pytest.approx([early, default], abs=0.051)
        assert list(map(float, best[name])) == pytest.approx([frame["best"][loss] for loss in losses], abs=0.051)


def test_accuracies_on_letter_by_learning_rate_are_those_of_the_records(tables):
    columns, rows = table("docs/lab/choosing.md", "| loss | 0.003 | 0.01 | 0.03 |")
    frame = pd.read_csv(tables("losses") / "rates.csv")
    frame = frame[frame["dataset"] == "letter"].set_index("loss")
    losses = ["sce", "mgce+rce 1.4", "mgce+trim 1.05", "mgce 1.05", "mgce+scale 1.4", "ce"]
    for loss, cells in zip(losses, rows.values(), strict=True):
        expected = [frame.loc[loss, f"lr_{rate}"] for rate in columns]
        assert list(map(float, cells)) == pytest.approx(expected, abs=0.051)


def test_which_runs_of_forward_correction_lost_a_class_is_what_the_records_say():
    runs = Runs(COMMITTED / "losses-reduced").read().values()
    last = {"symmetric": [], "asymmetric": []}
    for run in runs:
        for record in run.records:
            if (
                run.specification["dataset"] == "mnist"
                and record["method"] == "mgce+forward"
                and record["noise_rate"] == 0.4
            ):
                last[record["noise_type"]].append(100 * record["accuracy"])
    _, rows = table("docs/protocols/few-images.md", "| forward-corrected MGCE | lost a class |")
    assert set(rows) == {"symmetric, 40 %", "asymmetric"}
    for name, values in last.items():
        cells = rows["asymmetric" if name == "asymmetric" else "symmetric, 40 %"]
        assert list(map(float, cells)) == pytest.approx(sorted(values), abs=0.051)


@pytest.mark.parametrize(
    "begins, column",
    [("| left out, 40 % wrong |", "2,000 of MNIST, 40 %"), ("| left out, asymmetric |", "2,000 of MNIST, asymmetric")],
)
def test_what_one_share_to_trim_does_is_that_of_the_records(tables, begins, column):
    columns, rows = table("docs/protocols/few-images.md", begins)
    assert set(rows) == {"cross-entropy", "MGCE"}
    records = measured(tables, column)
    for name, loss in (("cross-entropy", "ce+trim"), ("MGCE", "mgce+trim 1.05")):
        values = [records[f"{loss}, trim 0.{share[0]}"] for share in columns]
        assert list(map(float, rows[name])) == pytest.approx(values, abs=0.051)


def test_what_trimming_does_on_adult_is_that_of_the_records(tables):
    columns, rows = table("docs/protocols/tables.md", "| adult | chosen epoch |")
    assert columns == ["chosen epoch", "last epoch", "last epoch, not trimmed"]
    frame = pd.read_csv(tables("losses") / "rates.csv").set_index(["dataset", "loss"]).loc["adult"]
    for name, trimmed, loss in (("MGCE", "mgce+trim 1.05", "mgce 1.05"), ("cross-entropy", "ce+trim", "ce")):
        values = [*frame.loc[trimmed, ["lr_0.03", "last_lr_0.03"]], frame.loc[loss, "last_lr_0.03"]]
        assert list(map(float, rows[name])) == pytest.approx(values, abs=0.051)


@pytest.mark.parametrize("page, datasets", [("few-images", {"mnist"}), ("cifar", {"cifar10", "cifar10n"})])
def test_a_page_that_shows_a_part_of_a_table_shows_its_data_sets(page, datasets):
    text = (COMMITTED.parent / f"docs/protocols/{page}.md").read_text()
    lines = (COMMITTED / "losses-reduced/reduced.txt").read_text().splitlines()
    picked = re.search(r"^:lines: (.*)$", text, re.MULTILINE).group(1)
    kept = []
    for part in picked.split(","):
        first, _, last = part.partition("-")
        kept += lines[int(first) - 1 : int(last or len(lines))]
    begins = {line: line.split()[0] for line in lines if re.search(r" (?:a?symmetric 0|worst)", line)}
    assert [line for line in kept if line in begins] == [line for line, name in begins.items() if name in datasets]
    assert "seeds" in kept[2] and kept[-1] == lines[-1]


def percentages(tables, folder, dataset, loss, variants, column):
    """Return the percentages in a column of a table of records for a loss and its variants."""
    frame = pd.read_csv(tables(folder) / f"{PROTOCOLS[folder]}.csv").set_index(["dataset", "loss"])[column]
    return [float(frame[dataset, f"{loss}{variant}"]) for variant in variants]


SIZES = [f", L1 {size}" for size in ("0", "0.0001", "0.0003", "0.001", "0.003")]
TRIMMED = [" 1.05", *(f"+trim 1.05, trim 0.{tenths}" for tenths in range(1, 6))]
RATES = ("losses", "letter")


@pytest.mark.parametrize(
    "begins, rows",
    [
        (
            "| | L1 0 |",
            {
                "MGCE": ("losses", "adult", "mgce 1.05", SIZES, "last"),
                "cross-entropy": ("losses", "adult", "ce", SIZES, "last"),
            },
        ),
        (
            "| L1 | 0 | 0.0001 |",
            {
                "MGCE, test labels": (*RATES, "mgce 1.05", SIZES, "at_chosen"),
                "MGCE, labels of the validation rows": (*RATES, "mgce 1.05", SIZES, "validation"),
                "cross-entropy, test labels": (*RATES, "ce", SIZES, "at_chosen"),
                "cross-entropy, labels of the validation rows": (*RATES, "ce", SIZES, "validation"),
            },
        ),
        (
            "| MGCE, left out | 0 |",
            {
                "test labels": (*RATES, "mgce", TRIMMED, "at_chosen"),
                "labels of the validation rows": (*RATES, "mgce", TRIMMED, "validation"),
            },
        ),
    ],
)
def test_small_tables_of_the_protocols_are_those_of_the_records(tables, begins, rows):
    _, shown = table("docs/protocols/tables.md", begins)
    assert set(shown) == set(rows)
    for name, of in rows.items():
        values = percentages(tables, *of)
        assert list(map(float, shown[name][: len(values)])) == pytest.approx(values, abs=0.051)


def test_what_a_penalty_does_by_p1_is_that_of_the_records(tables):
    """Accuracy at the last epoch, and the calibration error in brackets."""
    columns, shown = table("docs/protocols/mnist.md", "| | 40 %, none |")
    frame = p1(tables, "mnist")
    noises = {"40 %": "symmetric 0.4", "asymmetric": "asymmetric 0.4", "80 %": "symmetric 0.8"}
    assert set(shown) == {"MGCE", "cross-entropy"}
    for name, loss in (("MGCE", "mgce 1.05"), ("cross-entropy", "ce")):
        noise = ""
        for column, cell in zip(columns, shown[name], strict=True):
            given, _, size = column.rpartition(", ")
            noise = noises.get(given, noise)
            run = (noise, loss if size == "none" else f"{loss}, L1 {size}")
            assert (cell == "not run") == (run not in frame.index)
            if cell != "not run":
                assert_accuracy_and_error(cell, frame.loc[run])


def test_what_a_penalty_does_on_fashion_mnist_is_that_of_the_records(tables):
    columns, rows = table("docs/protocols/mnist.md", "| FashionMNIST, 40 % | none |")
    frame = p1(tables, "fashion_mnist")
    assert columns == ["none", "with L1"] and set(rows) == {"MGCE, L1 0.0003", "cross-entropy, L1 0.001"}
    for name, cells in rows.items():
        with_penalty = name.replace("MGCE", "mgce 1.05").replace("cross-entropy", "ce")
        for cell, loss in zip(cells, (with_penalty.split(",")[0], with_penalty), strict=True):
            assert_accuracy_and_error(cell, frame.loc["symmetric 0.4", loss])


def p1(tables, dataset):
    """Return the figures of P1 by noise and loss."""
    frame = pd.read_csv(tables("losses-p1") / "p1.csv")
    return frame[frame["dataset"] == dataset].set_index(["noise", "loss"])[["last", "ece_h"]]


def assert_accuracy_and_error(cell, run):
    accuracy, error = cell.rstrip(")").split(" (")
    assert float(accuracy) == pytest.approx(run["last"], abs=0.051)
    assert float(error) == pytest.approx(run["ece_h"], abs=0.51)


def test_the_last_epochs_by_learning_rate_are_those_of_the_records(tables):
    """The right half of the table of penalties on adult."""
    columns, shown = table("docs/protocols/tables.md", "| | L1 0 |")
    assert columns[-4:] == ["rate 0.001", "0.003", "0.01", "0.03"]
    frame = pd.read_csv(tables("losses") / "rates.csv").set_index(["dataset", "loss"])
    for name, loss in (("MGCE", "mgce 1.05"), ("cross-entropy", "ce")):
        values = [float(frame.loc[("adult", loss), f"last_lr_{rate}"]) for rate in ("0.001", "0.003", "0.01", "0.03")]
        assert list(map(float, shown[name][-4:])) == pytest.approx(values, abs=0.051)


@pytest.mark.parametrize(
    "begins, chosen, values",
    [
        ("| L1 | 0 | 0.0003 |", "L1", ("0", "0.0003", "0.001", "0.003", "0.01")),
        ("| left out | 0 |", "trim", ("0", "0.2", "0.3", "0.4", "0.5", "0.6")),
    ],
)
def test_what_noisy_labels_can_choose_is_that_of_the_records(tables, begins, chosen, values):
    columns, shown = table("docs/protocols/selection.md", begins)
    percent = [name.endswith("%") for name in columns]
    numbers = [float(name.rstrip(" %")) / (100 if share else 1) for name, share in zip(columns, percent, strict=True)]
    assert numbers == pytest.approx(list(map(float, values)))
    frame = selected(tables)
    for name, loss in (("MGCE", "mgce 1.05"), ("cross-entropy", "ce")):
        for words, column in (("noisy labels", "noisy"), ("test labels", "last")):
            measured = [float(frame.loc[("mnist", f"{loss}, {chosen}"), f"{column}_{value}"]) for value in values]
            assert list(map(float, shown.pop(f"{name}, {words}"))) == pytest.approx(measured, abs=0.051)
    assert not shown


def test_mixed_precision_ends_as_the_records_say():
    """The same runs, by name, in both precisions; a run has one network."""
    found = {folder: Runs(COMMITTED / folder).read() for folder in ("losses-precision", "losses-reduced")}
    mixed, plain = found.values()
    assert all(run.records[0]["precision"] == "bf16-mixed" for run in mixed.values())
    pairs = [(mixed[name].records[0], plain[name].records[0]) for name in mixed if name in plain]
    assert len(pairs) == 11 and all(record.get("precision", "32-true") == "32-true" for _, record in pairs)
    columns, shown = table("docs/protocols.md", "| | cross-entropy | MGCE | GCE |")
    losses = dict(zip(("ce", "mgce", "gce", "nce+agce"), columns, strict=True))
    for place, row in enumerate(("mixed precision", "float32")):
        frame = pd.DataFrame([pair[place] for pair in pairs])
        means = 100 * frame.groupby("method")["accuracy"].mean()
        assert list(map(float, shown[row])) == pytest.approx([means[loss] for loss in losses], abs=0.051)
    differences = pd.Series([100 * (one["accuracy"] - other["accuracy"]) for one, other in pairs])
    told = [differences.mean(), differences.std(), differences.abs().max()]
    assert told == pytest.approx([0.1, 0.4, 1.2], abs=0.051)


def test_what_beta_does_where_noisy_labels_choose_is_that_of_the_records(tables):
    columns, shown = table("docs/protocols/selection.md", "| beta | 1 | 1.05 |")
    frame = selected(tables)
    for dataset, name in (("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")):
        for words, column in (("noisy labels", "noisy"), ("test labels", "last")):
            measured = [float(frame.loc[(dataset, "mgce, beta"), f"{column}_{beta}"]) for beta in columns]
            assert list(map(float, shown.pop(f"{name}, {words}"))) == pytest.approx(measured, abs=0.051)
    assert not shown


def selected(tables):
    """Return what noisy labels choose where they are wrong at random."""
    frame = pd.read_csv(tables("losses-selection") / "selection.csv")
    return frame[frame["noise"] == "symmetric 0.4"].set_index(["dataset", "loss"])


def test_what_is_stopped_by_noisy_labels_is_that_of_the_records(tables):
    columns, rows = table("docs/lab/choosing.md", "| accuracy at the chosen epoch |")
    frame = selected(tables)["stopped"].unstack("dataset")
    losses = {"trimmed cross-entropy": "ce, trim", "trimmed MGCE": "mgce 1.05, trim"}
    for name in rows:
        known = name.lower().replace("l1", "L1").replace("mgce", "mgce 1.05").replace("cross-entropy", "ce")
        losses.setdefault(name, known)
    # All losses but the other betas, of which the page of the protocols has a table.
    assert set(frame.index) - set(losses.values()) == {
        "mgce, beta",
        *(f"mgce {beta}" for beta in ("1", "1.4", "2", "5")),
    }
    for place, dataset in enumerate({"MNIST": "mnist", "FashionMNIST": "fashion_mnist"}[column] for column in columns):
        assert shown(rows, place) == {name: pytest.approx(frame.loc[losses[name], dataset], abs=0.051) for name in rows}


def test_losses_that_the_page_leaves_out_are_not_better_but_where_it_says_so(tables):
    better, left_out, trained = {}, set(), set()
    for begins in ("| loss | letter, 40 % |", "| loss | 2,000 of MNIST, 20 % |"):
        columns, rows = table("docs/lab/choosing.md", begins)
        rows = {loss.strip("`") for loss in rows}
        for column in columns:
            values = {loss: value for loss, value in measured(tables, column).items() if ", L1" not in loss}
            best = max(value for loss, value in values.items() if loss in rows)
            better |= {(column, loss): value for loss, value in values.items() if value > best}
            names = {re.split("[ ,]", loss)[0] for loss in values}
            left_out |= names - {loss.split(" ")[0] for loss in rows}
            trained |= names
    assert better == {
        ("adult, 40 %", "poly-1"): pytest.approx(82.2, abs=0.051),
        ("2,000 of MNIST, 40 %", "ce+trunc, epoch 2"): pytest.approx(95.2, abs=0.051),
    }
    said = re.search(r"shows (\d+) more of the (\d+) losses", (COMMITTED.parent / "docs/lab/choosing.md").read_text())
    assert said.groups() == (f"{len(left_out)}", f"{len(trained)}") and trained <= set(LOSSES)
