import pytest

from mgce.desk.tables import candidates, learning
from mgce.estimators import forest


@pytest.fixture(scope="module", autouse=True)
def small_forests():
    """Choose forests among few, and leave out the slower of the baselines: many tests fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest, "LEAVES", (1, 5))
        patch.setattr(forest, "SELECTION_TREES", 10)
        patch.setattr(learning, "baselines", lambda seed, n_classes: candidates.baselines(seed, n_classes)[:1])
        yield
