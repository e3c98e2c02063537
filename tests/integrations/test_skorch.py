import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from torch import nn

pytest.importorskip("skorch", reason="needs skorch")

from skorch import NeuralNetClassifier

import transcripts
from mgce import GCELoss, MGCELoss
from mgce.functional import minimax_probs
from mgce.integrations.skorch import MGCENet

X, Y = load_iris(return_X_y=True)
X = ((X - X.mean(0)) / X.std(0)).astype(np.float32)


class Network(nn.Module):
    def __init__(self, units=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, units), nn.ReLU(), nn.Linear(units, 3))

    def forward(self, x):
        return self.layers(x)


def make(**keywords):
    torch.manual_seed(0)
    return MGCENet(Network, lr=0.3, max_epochs=8, verbose=0, **keywords)


def logits_of(net):
    return torch.cat(list(net.forward_iter(X)))


def assert_probs(net, beta):
    want = minimax_probs(logits_of(net), beta=beta).numpy()
    np.testing.assert_allclose(net.predict_proba(X), want, atol=1e-6)
    np.testing.assert_array_equal(net.predict(X), logits_of(net).argmax(1).numpy())


@pytest.mark.parametrize("beta", [1.0, 1.4, 5.0, math.inf])
def test_predict_proba_is_h_of_the_beta_of_the_loss(beta):
    assert_probs(make(criterion__beta=beta).fit(X, Y), beta)


def test_without_it_skorch_gives_raw_logits():
    """What this class is for; should skorch ever ask the criterion, the class can go."""
    torch.manual_seed(0)
    net = NeuralNetClassifier(Network, criterion=MGCELoss, max_epochs=1, verbose=0).fit(X, Y)
    assert np.abs(net.predict_proba(X).sum(1) - 1).max() > 0.01


def test_a_search_over_beta_ends_with_the_link_of_the_best():
    search = GridSearchCV(make(), {"criterion__beta": [1.2, 5.0], "module__units": [4]}, cv=2).fit(X, Y)
    best = search.best_estimator_
    assert best.criterion_.beta == search.best_params_["criterion__beta"]
    assert_probs(best, search.best_params_["criterion__beta"])
    assert search.best_score_ > 0.6


def test_clone_set_params_pickle_and_saved_parameters(tmp_path):
    net = make(criterion__beta=2.0).fit(X, Y)
    other = clone(net)
    assert not hasattr(other, "criterion_")
    assert_probs(other.fit(X, Y), 2.0)
    assert_probs(pickle.loads(pickle.dumps(net)), 2.0)
    net.save_params(f_params=tmp_path / "weights.pt")
    loaded = make(criterion__beta=2.0).initialize()
    loaded.load_params(f_params=tmp_path / "weights.pt")
    np.testing.assert_array_equal(loaded.predict_proba(X), net.predict_proba(X))
    net.set_params(criterion__beta=5.0)
    assert_probs(net, 5.0)


def test_a_learnt_beta_is_that_of_the_link():
    beta = nn.Parameter(torch.tensor(1.05))
    net = make(criterion=MGCELoss(beta=beta)).fit(X, Y)
    assert net.criterion_.beta != 1.05  # skorch's optimizer has the parameters of the criterion too
    assert_probs(net, net.criterion_.beta.detach())


def test_other_criteria_and_other_links():
    net = make(criterion=GCELoss).fit(X, Y)
    np.testing.assert_allclose(net.predict_proba(X), logits_of(net).softmax(1).numpy(), atol=1e-6)
    net = make(predict_nonlinearity=None).fit(X, Y)
    np.testing.assert_array_equal(net.predict_proba(X), logits_of(net).numpy())
    with pytest.raises(TypeError, match="Expected `criterion` to be a loss with a `link`"):
        make(criterion=nn.CrossEntropyLoss).fit(X, Y).predict_proba(X)


def test_the_snippet_of_the_page_reaches_the_accuracy_that_it_prints(tmp_path):
    page = (Path(__file__).parents[2] / "docs/integrations.md").read_text()
    (printed,) = transcripts.run(page[: page.index("## Hugging Face")], tmp_path)
    assert printed.is_true, printed.came
    assert float(printed.said.split("%")[0]) > 90
