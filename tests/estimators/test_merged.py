"""Models of separate chunks become one; what is merged says what all of them say together."""

import numpy as np
import pytest

from mgce.estimators import LabelCorrectionClassifier, MGCEClassifier, MGCEEmbeddingClassifier, MGCEForestClassifier
from mgce.estimators.fourier_ridge import on_simplex
from mgce.estimators.merged import for_chunk, merged, share_of_trees

RNG = np.random.default_rng(0)
X = RNG.normal(size=(180, 3))
Y = np.array(["a", "b", "c"])[np.argmax(X + 0.3 * RNG.normal(size=X.shape), 1)]
CHUNKS = [slice(0, 60), slice(60, 120), slice(120, 180)]


def parts(model):
    first = model.fit(X, Y)
    return [for_chunk(type(model)(**model.get_params()), first, 3).fit(X[rows], Y[rows]) for rows in CHUNKS]


def test_forests_become_one_whose_trees_are_the_first_of_each():
    models = parts(MGCEForestClassifier(n_estimators=9, min_samples_leaf=2, splitter="best", random_state=0))
    assert share_of_trees(models[0], 3) == 3
    one = merged(models, 3)
    assert len(one.trees_.starts) == 9
    first = [merged([model], 3).tree_proba(X) for model in models]
    np.testing.assert_allclose(one.tree_proba(X), np.mean(first, 0), atol=1e-12)
    assert one.predict(X).tolist() != models[0].predict(X).tolist()
    np.testing.assert_allclose(merged(models, 99).tree_proba(X), np.mean([one.tree_proba(X) for one in models], 0))


def test_regressions_of_the_same_random_features_become_their_mean():
    models = parts(LabelCorrectionClassifier(n_estimators=3, n_components=20, random_state=0))
    one = merged(models, 1)
    for model in models:
        np.testing.assert_array_equal(model.ridge_.random_weights_, one.ridge_.random_weights_)
    mean = np.mean([model.ridge_.predict(X) for model in models], 0)
    np.testing.assert_allclose(one.ridge_.predict(X), mean, atol=1e-12)
    trees = np.mean([merged([model], 1).trees_.sums(X.astype(np.float32)) for model in models], 0)
    assert one.scale_ == np.mean([model.scale_ for model in models])
    expected = ((trees + on_simplex(mean)) / 2 + one.least_prob_) ** one.scale_
    np.testing.assert_allclose(one.predict_proba(X), expected / expected.sum(1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(one.transition_, np.mean([model.transition_ for model in models], 0))
    assert not hasattr(one, "left_out_proba_")


@pytest.mark.slow
def test_heads_of_the_same_directions_become_their_mean():
    models = parts(MGCEEmbeddingClassifier(random_state=0))
    one = merged(models)
    assert [*one.head_] == [name for name in models[0].head_ if name in one.head_]
    for place, name in enumerate(one.head_):
        each = [model.coefs_[[*model.head_].index(name)] for model in models if name in model.head_]
        np.testing.assert_allclose(one.coefs_[place], np.mean(each, 0), rtol=1e-5)
    assert len({model.center_.tobytes() for model in models}) == 1
    tried = [[*zip(model.cv_results_["head"], model.cv_results_["l2"], strict=True)] for model in models]
    assert [name for name, _ in tried[0]] == ["logistic", "robust", "forward"]  # the penalties that the first one chose
    assert tried[0] == tried[1] == tried[2]


def test_margins_of_linear_models_become_their_mean():
    models = parts(MGCEClassifier())
    mean = np.mean([one.decision_function(X) for one in models], 0)
    np.testing.assert_allclose(merged(models).decision_function(X), mean, atol=1e-12)
