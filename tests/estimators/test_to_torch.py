"""A fitted estimator as a PyTorch module."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from mgce import MGCEClassifier, MGCEClassifierCV, MGCEMLPClassifier, MinimaxLink

X, Y = load_iris(return_X_y=True)
ESTIMATORS = {
    "linear": lambda: MGCEClassifier(),
    "cv": lambda: MGCEClassifierCV(betas=(1.4, 5.0), cv=2),
    "mlp": lambda: MGCEMLPClassifier((8, 4), max_iter=5, random_state=0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_gives_what_the_estimator_gives(name):
    clf = ESTIMATORS[name]().fit(X, Y)
    rows = torch.from_numpy(X)
    module = clf.to_torch()
    assert isinstance(module[-1], MinimaxLink) and module[-1].beta == clf.beta_
    np.testing.assert_allclose(module(rows).detach().numpy(), clf.predict_proba(X), rtol=0, atol=1e-9)
    np.testing.assert_allclose(module[:-1](rows).detach().numpy(), clf.decision_function(X), rtol=1e-9, atol=1e-9)
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


def test_bad_output():
    with pytest.raises(ValueError, match="Expected `output`"):
        MGCEClassifier().fit(X, Y).to_torch("softmax")
