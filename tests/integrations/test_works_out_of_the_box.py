"""Libraries that need nothing of ours: the loss in their training steps, the estimators in their wrappers."""

import math

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from mgce import MGCEClassifier, MGCELoss
from mgce.estimators import MGCEForestClassifier
from mgce.functional import mgce_loss
from mgce.sets import calibrate

X, Y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)

WRAPPERS = {
    "CalibratedClassifierCV": lambda clf: CalibratedClassifierCV(clf, cv=3),
    "BaggingClassifier": lambda clf: BaggingClassifier(clf, 3, random_state=0),
    "AdaBoostClassifier": lambda clf: AdaBoostClassifier(clf, n_estimators=3, random_state=0),
    "OneVsRestClassifier": OneVsRestClassifier,
    "StackingClassifier": lambda clf: StackingClassifier([("mgce", clf)], LogisticRegression(), cv=2),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_scikit_learn_wraps_the_estimator(name):
    scores = cross_val_score(WRAPPERS[name](MGCEClassifier(tol=1e-3)), X, Y, cv=3)
    assert scores.mean() > 0.85
    if name != "OneVsRestClassifier":  # where every class may have an h of 0, which scikit-learn leaves so
        probs = WRAPPERS[name](MGCEClassifier(tol=1e-3)).fit(X, Y).predict_proba(X)
        np.testing.assert_allclose(probs.sum(1), 1)


def rows(n=16):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 5, generator=generator), torch.randint(3, (n,), generator=generator)


def test_accelerate_takes_the_same_step(tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
    features, target = rows()
    models = [nn.Linear(5, 3) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    MGCELoss()(models[0](features), target).backward()
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(models[1], torch.optim.SGD(models[1].parameters(), 0.1))
    accelerator.backward(MGCELoss()(model(features), target))
    torch.testing.assert_close(models[1].weight.grad, models[0].weight.grad)
    optimizer.step()


# Of Opacus, about PyTorch: the step that is tested works.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_opacus_sees_the_gradient_of_each_row(mode):
    opacus = pytest.importorskip("opacus", reason="needs opacus")
    features, target = rows()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(features, target), batch_size=16)
    model, criterion = nn.Linear(5, 3), MGCELoss()
    parts = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), 0.1),
        criterion=criterion,
        data_loader=data,
        noise_multiplier=0.0,
        max_grad_norm=0.5,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    module, optimizer, data = parts[0], parts[1], parts[-1]
    criterion = parts[2] if mode == "ghost" else criterion
    weight = model.weight.detach().clone().requires_grad_()
    bias = model.bias.detach().clone()
    want = torch.zeros(3, 5)
    for x, y in zip(features, target, strict=True):  # each row's gradient in weight and bias, clipped to 0.5
        g = torch.autograd.functional.jacobian(lambda w, x=x, y=y: mgce_loss(w @ x + bias, y), weight)
        norm = math.hypot(g.norm().item(), g.norm().item() / x.norm().item())
        want += g * min(1, 0.5 / max(norm, 1e-9)) / 16  # a row may have none
    for x, y in data:
        optimizer.zero_grad()
        criterion(module(x), y).backward()
        before = model.weight.detach().clone()
        optimizer.step()
        torch.testing.assert_close((before - model.weight) / 0.1, want, rtol=1e-3, atol=1e-5)


def test_mapie_makes_conformal_sets_of_h():
    pytest.importorskip("mapie", reason="needs mapie")
    from mapie.classification import SplitConformalClassifier

    order = np.random.default_rng(0).permutation(150)
    fit, conform, test = order[:50], order[50:100], order[100:]
    clf = MGCEClassifier(tol=1e-3).fit(X[fit], Y[fit])
    sets = SplitConformalClassifier(clf, confidence_level=0.9, prefit=True).conformalize(X[conform], Y[conform])
    members = sets.predict_set(X[test])[1][:, :, 0]
    assert members[np.arange(50), Y[test]].mean() >= 0.8  # 0.9, with five deviations less of 50 rows would be 0.69


@pytest.mark.parametrize(("score", "theirs"), [("least_ambiguous", "lac"), ("adaptive", "aps")])
def test_our_sets_are_no_larger_than_those_of_mapie(score, theirs):
    pytest.importorskip("mapie", reason="needs mapie")
    from mapie.classification import SplitConformalClassifier

    features, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(1797)
    fit, conform, test = order[:500], order[500:1000], order[1000:]
    clf = MGCEForestClassifier(n_estimators=20, random_state=0).fit(features[fit], labels[fit])
    sets = SplitConformalClassifier(clf, confidence_level=0.95, prefit=True, conformity_score=theirs)
    members = sets.conformalize(features[conform], labels[conform]).predict_set(features[test])[1][:, :, 0]
    own = calibrate(labels[conform], clf.predict_proba(features[conform]), alpha=0.05, score=score)
    ours = own.predict(clf.predict_proba(features[test]))
    right = np.arange(len(test)), labels[test]
    assert ours[right].mean() >= 0.95 - 3 * math.sqrt(0.05 * 0.95 * (1 / 500 + 1 / 797))
    if score == "least_ambiguous":  # the same threshold; we fill sets that are empty
        np.testing.assert_array_equal(ours[members.any(1)], members[members.any(1)])
    else:
        assert ours.sum(1).mean() <= members.sum(1).mean()


@pytest.fixture
def timm():
    """Return timm, unless its torchvision is missing or built for another PyTorch, when its import fails."""
    try:
        import timm
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"needs timm and a torchvision of the same build as PyTorch: {error}")
    return timm


@pytest.mark.filterwarnings("ignore")
def test_a_train_step_of_timm_with_mixup(timm):
    from timm.data import Mixup

    model = timm.create_model("resnet10t", num_classes=4, in_chans=3)
    images, target = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 3])
    images, soft = Mixup(mixup_alpha=1.0, num_classes=4, label_smoothing=0.1)(images, target)
    loss = MGCELoss()(model(images), soft)
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters())
