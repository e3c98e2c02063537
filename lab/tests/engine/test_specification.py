import math
from dataclasses import replace

import pytest

from mgce_lab.engine.consistency import check_no_network_twice, check_one_setting
from mgce_lab.engine.specification import document, networks, remaining
from mgce_lab.engine.store import run_name
from mgce_lab.paper.items import PAPER
from mgce_lab.paper.tabular import TabularRun
from mgce_lab.protocols.study import BENCHMARK
from mgce_lab.protocols.tables import RateRun

KINDS = PAPER.by_dataset
SMALL = TabularRun("wine", 0.2, (0, 1), (("mgce", 1.4), ("mgce", 1.0)), hidden=8, epochs=3)


def test_the_name_depends_on_every_field_and_on_nothing_else():
    others = replace(SMALL, noise_rate=0.4), replace(SMALL, dataset="iris"), replace(SMALL, epochs=4)
    assert len({run_name(document(spec)) for spec in (SMALL, *others)}) == 4
    assert run_name(document(SMALL)) == run_name(dict(reversed(document(SMALL).items())))


def test_runs_of_one_folder_have_one_setting_and_nothing_twice():
    def spec(**changes):
        return document(
            TabularRun(
                **{"dataset": "wine", "noise_rate": 0.0, "seeds": (0,), "members": (("ce", math.inf),), **changes}
            )
        )

    runs = [spec(), spec(seeds=(1,)), spec(noise_rate=0.2), spec(members=(("mgce", 1.0),))]
    check_one_setting([*runs, spec(dataset="iris", rows=9), spec(dataset="digits", scaling="pixels")], KINDS)
    check_no_network_twice(runs)
    with pytest.raises(ValueError, match="Expected `epochs` to be 150 in all runs on wine"):
        check_one_setting([spec(), spec(seeds=(1,), epochs=3)], KINDS)
    with pytest.raises(ValueError, match="Expected `scaling` to be 'standard' in all runs on wine"):
        check_one_setting([spec(), spec(seeds=(1,), scaling="pixels")], KINDS)
    with pytest.raises(ValueError, match="Expected `epochs` to be 150 in all runs of one folder, but got 3"):
        check_one_setting([spec(), spec(dataset="iris", epochs=3)], KINDS)
    with pytest.raises(ValueError, match="different networks"):
        check_no_network_twice([spec(), spec(seeds=(1, 0))])
    with pytest.raises(ValueError, match="to be all of --smoke or none"):
        check_one_setting([spec(), spec(dataset="iris", smoke="table3")], KINDS)
    comparison = document(RateRun("wine", 0.0, (0,), (("ce", math.inf),)))
    with pytest.raises(ValueError, match="to be all of mgce-lab reproduce or all of mgce-lab benchmark, but got both"):
        check_one_setting([spec(), comparison], KINDS)
    check_one_setting(
        [comparison, document(RateRun("iris", 0.0, (0,), (("ce", math.inf),), lr=0.5))], BENCHMARK.by_dataset
    )


MARKED = replace(SMALL, smoke="table3")
METHODS = (("mgce", 1.4), ("mgce", 2.0), ("mgce", 1.0))
GRID = TabularRun("wine", 0.2, (0, 1, 2), METHODS)


def all_networks(runs):
    return [name for run in runs for name in sorted(networks(document(run)))]


@pytest.mark.parametrize("seeds", [(), (0,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("members", [(), METHODS[:1], METHODS[1:], METHODS])
def test_what_remains_of_a_grid_is_all_of_it_once(seeds, members):
    done = all_networks([replace(GRID, seeds=seeds, members=members)]) if seeds and members else []
    rest = remaining(GRID, set(done))
    assert sorted(done + all_networks(rest)) == sorted(all_networks([GRID]))
    assert len(rest) <= 2


def test_remaining_runs_are_few():
    one = replace(GRID, seeds=(1,), members=(METHODS[1],))
    assert remaining(GRID, networks(document(one))) == [
        replace(GRID, seeds=(0, 2)),
        replace(GRID, seeds=(1,), members=(METHODS[0], METHODS[2])),
    ]
    assert remaining(GRID, networks(document(replace(GRID, noise_rate=0.4)))) == [GRID]
    assert remaining(GRID, networks(document(replace(GRID, smoke="table3")))) == [GRID]
