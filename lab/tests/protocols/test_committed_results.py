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
@pytest.mark.parametrize(
    ("folder", "protocol"),
    [
        pytest.param(*one, marks=pytest.mark.nightly if one[1] in ("rates", "reduced", "selection") else ())  # large
        for one in PROTOCOLS.items()
    ],
)
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


# The columns of the figures of docs/protocols.md: folder of records, data set, noise, and column of their table.
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


BY_DATA = "| loss | letter, 40 % |"


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


def test_the_figures_by_which_to_choose_are_those_of_the_records(tables):
    """Every cell is the record's to one decimal, no run of a row is left out, and the best of each column is bold.

    Not with an L1 penalty, whose size is the best by the test.
    """
    columns, rows = table("docs/protocols.md", BY_DATA)
    assert len(columns) == 9 and set(columns) <= set(FIGURES)
    rows = {loss.strip("`"): cells for loss, cells in rows.items()}
    assert {"ce, L1", "mgce 1.05, L1"} < set(rows)
    for place, column in enumerate(columns):
        records, values = measured(tables, column), shown(rows, place)
        assert values == {loss: pytest.approx(records[loss], abs=0.051) for loss in rows if loss in records}
        bold = {loss for loss, cells in rows.items() if "**" in cells[place]}
        compared = {loss: value for loss, value in values.items() if ", L1" not in loss}
        assert bold == {loss for loss, value in compared.items() if value == max(compared.values())}


def test_what_beta_does_on_all_images_is_what_the_records_say(tables):
    columns, rows = table("docs/protocols.md", "| | MNIST, 20 % |")
    assert set(rows) == {"`mgce 1.05`", "`mgce 1.4`", "`ce`"}
    for place, column in enumerate(columns):
        records = measured(tables, column)
        assert shown(rows, place) == {name: pytest.approx(records[name.strip("`")], abs=0.051) for name in rows}
    # "Ahead only of cross-entropy, with logits clipped or not": of losses without penalty or trimming.
    values = measured(tables, "FashionMNIST, 40 %")
    worse = {name for name, value in values.items() if value < values["mgce 1.05"]}
    assert worse == {"mgce 1.4", "ce", "ce+logitclip"}


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
    said = (
        "in one of three runs on MNIST under symmetric and under asymmetric noise. "
        "The accuracy of that run was 9 points or more below the mean of the others."
    )
    assert said in " ".join((COMMITTED.parent / "docs/protocols/few-images.md").read_text().split())
    for values in last.values():
        lowest, *others = sorted(values)
        assert len(others) == 2 and 9 < sum(others) / 2 - lowest and others[1] - others[0] < 3


def test_mixed_precision_ends_as_the_records_say():
    """The same runs, by name, in both precisions; a run has one network."""
    found = {folder: Runs(COMMITTED / folder).read() for folder in ("losses-precision", "losses-reduced")}
    mixed, plain = found.values()
    assert all(run.records[0]["precision"] == "bf16-mixed" for run in mixed.values())
    pairs = [(mixed[name].records[0], plain[name].records[0]) for name in mixed if name in plain]
    assert len(pairs) == 11 and all(record.get("precision", "32-true") == "32-true" for _, record in pairs)
    differences = pd.Series([100 * (one["accuracy"] - other["accuracy"]) for one, other in pairs])
    told = [differences.mean(), differences.std(), differences.abs().max()]
    assert told == pytest.approx([0.1, 0.4, 1.2], abs=0.051)
    said = "mixed precision changes accuracies by 0.1 points on average, and by 1.2 at most."
    assert said in " ".join((COMMITTED.parent / "docs/protocols.md").read_text().split())


def test_losses_that_the_page_leaves_out_are_not_better_but_where_it_says_so(tables):
    columns, rows = table("docs/protocols.md", BY_DATA)
    rows, better, trained = {loss.strip("`") for loss in rows}, {}, set()
    for column in columns:
        values = {loss: value for loss, value in measured(tables, column).items() if ", L1" not in loss}
        best = max(value for loss, value in values.items() if loss in rows)
        better |= {(column, loss): value for loss, value in values.items() if value > best}
        trained |= {re.split("[ ,]", loss)[0] for loss in values}
    on_page = {loss.split(" ")[0] for loss in rows}
    assert better == {
        ("adult, 40 %", "poly-1"): pytest.approx(82.2, abs=0.051),
        ("2,000 of MNIST, 40 %", "ce+trunc, epoch 2"): pytest.approx(95.2, abs=0.051),
    }
    said = re.search(r"show (\d+) more of the (\d+) losses", (COMMITTED.parent / "docs/protocols.md").read_text())
    assert said.groups() == (f"{len(trained - on_page)}", f"{len(trained)}") and trained <= set(LOSSES)
