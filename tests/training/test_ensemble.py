import copy
import math

import pytest
import torch
from torch import nn

from mgce import GCELoss, MGCELoss
from mgce.training.ensemble import EnsembleMLP, MemberLoss, accuracy, fit_ensemble

LOSSES = [
    MemberLoss("mgce", 1.0),
    MemberLoss("gce", 2.0),
    MemberLoss("mgce", 1.4),
    MemberLoss("mgce", math.inf),
    MemberLoss("gce", 1.0),
]


def data(groups=2, n=40, d=3, k=3):
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(k, (groups, n), generator=generator)
    features = 2 * nn.functional.one_hot(target, k)[..., :d] + torch.randn(groups, n, d, generator=generator)
    return features, target


def networks(model):
    """Take the grid apart into `nn.Sequential`s, [group][member]."""
    grid = []
    for g in range(model.weight1.shape[0]):
        grid.append([])
        for m in range(model.weight1.shape[1]):
            one = nn.Sequential(nn.Linear(*model.weight1.shape[2:]), nn.ReLU(), nn.Linear(*model.weight2.shape[2:]))
            with torch.no_grad():
                one[0].weight.copy_(model.weight1[g, m].T)
                one[0].bias.copy_(model.bias1[g, m, 0])
                one[2].weight.copy_(model.weight2[g, m].T)
                one[2].bias.copy_(model.bias2[g, m, 0])
            grid[-1].append(one)
    return grid


def test_forward_is_that_of_the_single_networks():
    model = EnsembleMLP(2, 3, 4, 8, 5, torch.Generator().manual_seed(0))
    for weight in model.parameters():
        nn.init.normal_(weight)
    features = torch.randn(2, 7, 4)
    logits = model(features)
    for g, row in enumerate(networks(model)):
        for m, one in enumerate(row):
            torch.testing.assert_close(logits[g, m], one(features[g]), rtol=1e-5, atol=1e-5)


def test_training_all_at_once_is_training_one_at_a_time():
    features, target = data()
    validation = data(n=20)
    keywords = {"n_classes": 3, "validation": validation, "hidden": 6, "epochs": 3, "batch_size": 16, "lr": 0.01}
    fit = fit_ensemble(features, target, LOSSES, generator=torch.Generator().manual_seed(5), **keywords)

    generator = torch.Generator().manual_seed(5)
    start = networks(EnsembleMLP(2, len(LOSSES), 3, 6, 3, generator))
    orders = [[torch.randperm(40, generator=generator) for _ in range(2)] for _ in range(3)]
    for g in range(2):
        for m, member in enumerate(LOSSES):
            one, best = start[g][m], (-1.0, None)
            criterion = (MGCELoss if member.family == "mgce" else GCELoss)(beta=member.beta, reduction="sum")
            optimizer = torch.optim.Adam(one.parameters(), lr=0.01)
            for epoch in range(3):
                for rows in orders[epoch][g].split(16):
                    optimizer.zero_grad()
                    (criterion(one(features[g, rows]), target[g, rows]) / len(rows)).backward()
                    optimizer.step()
                score = (one(validation[0][g]).argmax(-1) == validation[1][g]).float().mean().item()
                assert fit.curves["validation"][epoch, g, m] == score
                if score > best[0]:
                    best = (score, copy.deepcopy(one), epoch)
            assert fit.best_epoch[g, m] == best[2]
            logits = fit.model(validation[0])[g, m]
            torch.testing.assert_close(logits, best[1](validation[0][g]), rtol=1e-3, atol=1e-4)


def test_members_of_a_group_start_alike_and_groups_do_not():
    model = EnsembleMLP(2, 3, 4, 8, 5, torch.Generator().manual_seed(0))
    assert torch.equal(model.weight1[0, 0], model.weight1[0, 2])
    assert not torch.equal(model.weight1[0, 0], model.weight1[1, 0])


def test_it_learns_and_reports_each_epoch():
    features, target = data(n=200)
    done = []
    fit = fit_ensemble(
        features,
        target,
        LOSSES,
        n_classes=3,
        validation=data(n=100),
        watch={"test": (features, target)},
        epochs=15,
        lr=0.01,
        generator=torch.Generator().manual_seed(0),
        on_epoch=done.append,
    )
    assert done == list(range(1, 16))
    assert fit.curves["test"].shape == (15, 2, 5)
    assert (accuracy(fit.model, features, target) > 0.75).all()


def test_same_generator_same_result():
    features, target = data()
    fits = [
        fit_ensemble(
            features,
            target,
            LOSSES,
            n_classes=3,
            validation=data(n=20),
            epochs=2,
            generator=torch.Generator().manual_seed(3),
        )
        for _ in range(2)
    ]
    torch.testing.assert_close(fits[0].model.weight1, fits[1].model.weight1, rtol=0, atol=0)


def test_a_wrong_member_is_refused():
    with pytest.raises(ValueError, match="Expected `family` to be one of 'mgce', 'gce'"):
        MemberLoss("ce", 1.0)
    with pytest.raises(ValueError, match="Expected `beta`"):
        MemberLoss("mgce", 0.5)
