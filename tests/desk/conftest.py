import pytest

from mgce.desk.tables import candidates, learning
from mgce.estimators import LabelCorrectionClassifier, correction, forest

TREES = candidates.TREES
FEW = {"n_estimators": 30, "n_components": 100}
USUAL = {name: LabelCorrectionClassifier.__init__.__kwdefaults__[name] for name in FEW}


@pytest.fixture(scope="module", autouse=True)
def small_forests():
    """Grow few trees, choose forests among few, and leave out the slower of the baselines: many tests fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "TREES", 30)
        patch.setattr(forest, "LEAVES", (1, 5))
        patch.setattr(forest, "SELECTION_TREES", 10)
        patch.setattr(correction, "SELECTION_TREES", 10)
        for name, few in FEW.items():
            patch.setitem(LabelCorrectionClassifier.__init__.__kwdefaults__, name, few)
        patch.setattr(learning, "baselines", lambda seed, n_classes: candidates.baselines(seed, n_classes)[:1])
        yield


@pytest.fixture
def all_trees(monkeypatch):
    """Grow as many trees as the commands of a user do."""
    monkeypatch.setattr(candidates, "TREES", TREES)
    for name, usual in USUAL.items():
        monkeypatch.setitem(LabelCorrectionClassifier.__init__.__kwdefaults__, name, usual)
