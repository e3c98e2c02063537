import numpy as np
import torch

from mgce.experiments.paper.specification import Place
from mgce.experiments.paper.tabular import TabularRun

SMALL = TabularRun("wine", 0.2, (0, 1), (("mgce", 1.4), ("mae", 1.0)), hidden=8, epochs=3)


def test_a_run_depends_on_its_specification_alone():
    records = SMALL.run(Place())
    torch.rand(3)
    assert SMALL.run(Place()) == records
    keys = [(r["seed"], r["method"]) for r in records]
    assert keys == [(seed, method) for seed in (0, 1) for method in ("mgce", "mae", "mae_published")]
    assert all(len(r["objective_by_epoch"]) == 3 for r in records if r["method"] != "mae_published")


def test_methods_share_split_noise_and_initial_weights():
    alone = TabularRun("wine", 0.2, (0,), (("mae", 1.0),), hidden=8, epochs=3).run(Place())
    beside = TabularRun("wine", 0.2, (0,), (("mgce", 1.4), ("mae", 1.0)), hidden=8, epochs=3).run(Place())
    np.testing.assert_allclose(alone[0]["objective_by_epoch"], beside[1]["objective_by_epoch"], rtol=1e-4)
