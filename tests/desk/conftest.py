import pytest

from mgce.estimators import LabelCorrectionClassifier, MGCEForestClassifier, correction, forest

FEW = {LabelCorrectionClassifier: {"n_estimators": 30, "n_components": 100}, MGCEForestClassifier: {"n_estimators": 30}}
USUAL = {cls: {name: cls.__init__.__kwdefaults__[name] for name in few} for cls, few in FEW.items()}


@pytest.fixture(scope="module", autouse=True)
def small_forests():
    """Grow few trees, and choose forests among few: many tests fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest, "LEAVES", (1, 5))
        patch.setattr(forest, "SELECTION_TREES", 10)
        patch.setattr(correction, "SELECTION_TREES", 10)
        for cls, few in FEW.items():
            for name, value in few.items():
                patch.setitem(cls.__init__.__kwdefaults__, name, value)
        yield


@pytest.fixture
def all_trees(monkeypatch):
    """Grow as many trees as the commands of a user do."""
    for cls, usual in USUAL.items():
        for name, value in usual.items():
            monkeypatch.setitem(cls.__init__.__kwdefaults__, name, value)
