"""A fitted estimator as a PyTorch module."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from grids import grid
from mgce import MGCEClassifier, MGCEEmbeddingClassifier
from mgce.estimators import LabelCorrectionClassifier, MGCEForestClassifier
from mgce.losses import MinimaxLink

X, Y = load_iris(return_X_y=True)
ESTIMATORS = {
    "linear": lambda: MGCEClassifier(),
    "embedding": lambda: MGCEEmbeddingClassifier(random_state=0),
    "forest": lambda: MGCEForestClassifier(n_estimators=7, splitter="best", min_samples_leaf=1, random_state=0),
    "random": lambda: MGCEForestClassifier(n_estimators=7, splitter="random", min_samples_leaf=2, random_state=0),
    "correction": lambda: LabelCorrectionClassifier(n_estimators=7, n_components=20, random_state=0),
}


@pytest.mark.parametrize("classes", [3, 2])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_gives_what_the_estimator_gives(name, classes):
    X, Y = (values[: 50 * classes] for values in load_iris(return_X_y=True))
    clf = ESTIMATORS[name]().fit(X, Y)
    rows = torch.from_numpy(X)
    module = clf.to_torch()
    assert isinstance(module[-1], MinimaxLink) and module[-1].beta == clf.beta_
    np.testing.assert_allclose(module(rows).detach().numpy(), clf.predict_proba(X), rtol=0, atol=1e-9)
    margins = module[:-1](rows).detach().numpy()
    margins = margins if classes > 2 else margins[:, 1] - margins[:, 0]  # scikit-learn has one for two classes
    np.testing.assert_allclose(margins, clf.decision_function(X), rtol=1e-9, atol=1e-9)
    p = clf.to_torch("worst_case")(rows).detach().numpy()
    np.testing.assert_allclose(p, clf.worst_case_proba(X), rtol=0, atol=1e-9)
    single = module.float()(rows.float())
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.detach().numpy(), clf.predict_proba(X), rtol=0, atol=1e-4)


def test_it_is_a_copy_that_can_be_trained_on():
    clf = MGCEClassifier().fit(X, Y)
    before = clf.coef_.copy()
    module = clf.to_torch()
    module(torch.from_numpy(X))[:, 0].sum().backward()
    with torch.no_grad():
        module[0].weight.add_(module[0].weight.grad)
    np.testing.assert_array_equal(clf.coef_, before)


def test_rows_in_several_dimensions_have_the_classes_last():
    module, rows = MGCEClassifier().fit(X, Y).to_torch(), torch.from_numpy(X)
    torch.testing.assert_close(module(rows.view(3, 50, 4)).view(150, 3), module(rows))


@pytest.mark.parametrize("name", ["forest", "random"])
def test_rows_next_to_a_threshold_go_where_the_estimator_sends_them(name):
    """In both types: float32 has neighbours of the threshold on both sides, and rounds many thresholds up."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)).astype(np.float32)
    clf = ESTIMATORS[name]().fit(X, (X.sum(1) > 0).astype(int))
    thresholds = clf.trees_.thresholds[clf.trees_.children[:, 0] >= 0]
    nearest = thresholds.astype(np.float32)
    around = np.concatenate([nearest, np.nextafter(nearest, np.float32(9)), np.nextafter(nearest, np.float32(-9))])
    rows = np.stack([around, rng.permutation(around)], 1)
    want = clf.predict_proba(rows)
    module = clf.to_torch()
    np.testing.assert_allclose(module(torch.from_numpy(rows.astype(np.float64))).numpy(), want, atol=1e-9)
    np.testing.assert_allclose(module.float()(torch.from_numpy(rows)).numpy(), want, atol=1e-5)


def test_bad_output():
    with pytest.raises(ValueError, match="Expected `output`"):
        MGCEClassifier().fit(X, Y).to_torch("softmax")


@pytest.mark.slow
@grid(
    "make, dtype",
    [MGCEForestClassifier, LabelCorrectionClassifier],
    [torch.float32, torch.float64],
    keep=lambda make, dtype: (make is MGCEForestClassifier) == (dtype == torch.float64),
)
def test_a_module_of_trees_shows_nan(make, dtype):
    """`predict_proba` refuses NaN; a module that cannot gives NaN, as those of linear models and networks do."""
    rows = torch.tensor(X[[0, 75, 149]], dtype=dtype)
    module = make(random_state=0).fit(X, Y).to_torch().to(dtype)
    expected = module(rows)
    rows[1, 2] = torch.nan
    assert module(rows)[1].isnan().all()
    torch.testing.assert_close(module(rows)[[0, 2]], expected[[0, 2]], rtol=0, atol=0)
