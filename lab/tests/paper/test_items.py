import re

import pytest

from mgce_lab.data import IMAGE_NAMES, NAMES
from mgce_lab.engine.methods import KNOWN
from mgce_lab.paper.items import ITEMS, chosen, plan
from mgce_lab.paper.plan import Options

# Of what the paper shows of two or three methods only.
SHOWN = {
    **dict.fromkeys(("figure3", "figure4", "figure5", "table2"), ("mgce", "gce")),
    "figure6": ("mgce", "gce", "mgce@1"),
}


def kinds(name, *datasets):
    return {(run.kind, run.dataset) for run in plan(name, Options(datasets=datasets or None))}


def test_names():
    figures, tables = [f"figure{n}" for n in range(1, 7)], [f"table{n}" for n in (1, 2, 3)]
    assert chosen("all") == list(ITEMS) == ["advantage", *figures, *tables]
    with pytest.raises(ValueError, match="Expected `name` to be one of 'advantage', 'figure1', .* but got 'table9'"):
        chosen("table9")


def test_every_data_set_of_the_paper_can_be_taken():
    for name, item in ITEMS.items():
        assert {dataset for _, dataset in kinds(name)} <= set(item.datasets)
    assert kinds("all") == {pair for name in ITEMS for pair in kinds(name)}


def test_all_takes_each_data_set_where_it_can():
    assert kinds("all", "letter") == {("tabular", "letter")}
    assert kinds("all", "cifar10", "letter") == {("tabular", "letter"), ("images", "cifar10")}
    assert kinds("all", "fashion_mnist") == {("tabular", "fashion_mnist"), ("images", "fashion_mnist")}
    assert "fashion_mnist" in {*NAMES} & {*IMAGE_NAMES}
    with pytest.raises(ValueError, match="Expected `dataset` to be one of 'digits', .* but got 'nowhere'"):
        plan("all", Options(datasets=("letter", "nowhere")))


def test_what_shows_no_data_takes_none():
    with pytest.raises(ValueError, match="Expected `dataset` to be left out for figure2, which shows no data"):
        plan("figure2", Options(datasets=("letter",)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ITEMS)
def test_every_method_asked_for_has_runs_or_is_refused(name):
    """Never an empty plan of what shows runs, after which a command would say that it has written its results."""
    for method in KNOWN:
        if ITEMS[name].plan is None:
            assert plan(name, Options(methods=(method,))) == []
        elif method in SHOWN.get(name, KNOWN):
            assert plan(name, Options(methods=(method,)))
        else:
            sentence = rf"of the methods of {name} \({', '.join(SHOWN[name])}\), but got '{re.escape(method)}'"
            with pytest.raises(ValueError, match=sentence):
                plan(name, Options(methods=(method,)))
