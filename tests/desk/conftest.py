import pytest

from mgce.desk.tables import candidates, learning
from mgce.estimators import forest

TREES = {name: getattr(candidates, name) for name in ("TREES", "JUDGES")}


@pytest.fixture(scope="module", autouse=True)
def small_forests():
    """Grow few trees, choose forests among few, and leave out the slower of the baselines: many tests fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "TREES", 30)
        patch.setattr(candidates, "JUDGES", 40)
        patch.setattr(forest, "LEAVES", (1, 5))
        patch.setattr(forest, "SELECTION_TREES", 10)
        patch.setattr(learning, "baselines", lambda seed, n_classes: candidates.baselines(seed, n_classes)[:1])
        yield


@pytest.fixture
def all_trees(monkeypatch):
    """Grow as many trees as the commands of a user do."""
    for name, trees in TREES.items():
        monkeypatch.setattr(candidates, name, trees)
