import math
from dataclasses import replace

import pytest

from mgce.experiments.paper.specification import check_one_setting, document
from mgce.experiments.paper.tabular import TabularRun
from mgce.experiments.store import run_name

SMALL = TabularRun("wine", 0.2, (0, 1), (("mgce", 1.4), ("mae", 1.0)), hidden=8, epochs=3)


def test_the_name_depends_on_every_field_and_on_nothing_else():
    others = replace(SMALL, noise=0.4), replace(SMALL, dataset="iris"), replace(SMALL, epochs=4)
    assert len({run_name(document(spec)) for spec in (SMALL, *others)}) == 4
    assert run_name(document(SMALL)) == run_name(dict(reversed(document(SMALL).items())))


def test_runs_of_one_folder_have_one_setting_and_nothing_twice():
    def spec(**changes):
        return document(
            TabularRun(**{"dataset": "wine", "noise": 0.0, "seeds": (0,), "members": (("ce", math.inf),), **changes})
        )

    check_one_setting(
        [spec(), spec(seeds=(1,)), spec(noise=0.2), spec(members=(("mae", 1.0),)), spec(dataset="iris", epochs=3)]
    )
    with pytest.raises(ValueError, match="Expected `epochs` to be 150 in all runs on wine"):
        check_one_setting([spec(), spec(seeds=(1,), epochs=3)])
    with pytest.raises(ValueError, match="different networks"):
        check_one_setting([spec(), spec(seeds=(1, 0))])
