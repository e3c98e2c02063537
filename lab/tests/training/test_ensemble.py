import copy
import math

import pytest
import torch
from torch import nn

from grids import grid
from mgce import GCELoss, MGCELoss
from mgce.functional import gce_loss, mgce_loss
from mgce_lab.training import ensemble
from mgce_lab.training.ensemble import EnsembleMLP, accuracy, fit_ensemble
from mgce_lab.training.member_losses import MemberLoss
from mgce_lab.training.settings import TrainingSettings

LOSSES = [
    MemberLoss("mgce", 1.0),
    MemberLoss("gce", 2.0),
    MemberLoss("mgce", 1.4),
    MemberLoss("mgce", math.inf),
    MemberLoss("gce", 1.0),
    MemberLoss("gce", math.inf),
]
PAPER = TrainingSettings(hidden_layer_sizes=(6,), epochs=4, batch_size=16, lr=0.1, l1=1e-2, max_norm=0.5)


def data(groups=2, n=40, d=3, k=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(k, (groups, n), generator=generator)
    noise = torch.randn(groups, n, d, generator=generator, dtype=dtype)
    return 2 * nn.functional.one_hot(target, k)[..., :d] + noise, target


def networks(model):
    """Take the grid apart into `nn.Sequential`s, [group][member]."""
    grid = []
    for g in range(model.groups):
        grid.append([])
        for number in range(g, len(model.weights[0]), model.groups):
            layers = []
            for weight, bias in zip(model.weights, model.biases, strict=True):
                layers += [nn.Linear(*weight.shape[1:], dtype=weight.dtype), nn.ReLU()]
                with torch.no_grad():
                    layers[-2].weight.copy_(weight[number].T)
                    layers[-2].bias.copy_(bias[number, 0])
            grid[-1].append(nn.Sequential(*layers[:-1]))
    return grid


def alone(one, member, features, target, orders, settings, sample_weight=None):
    """Train one network as a program without this package would; give the accuracy and the objective by epoch."""
    if member.beta == math.inf:
        criterion = nn.CrossEntropyLoss(reduction="none")
    else:
        criterion = (MGCELoss if member.family == "mgce" else GCELoss)(beta=member.beta, reduction="none")
    parameters = list(one.parameters())
    if settings.optimizer == "sgd":
        optimizer = torch.optim.SGD(parameters, lr=settings.lr, momentum=settings.momentum)
    else:
        optimizer = torch.optim.Adam(parameters, lr=settings.lr)
    penalised = [one[-1].weight] if settings.l1_on == "last" else parameters
    states, objective = [], []
    for epoch, order in enumerate(orders):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * settings.gamma ** sum(m <= epoch for m in settings.milestones)
        total = 0.0
        for rows in order.split(settings.batch_size):
            loss = criterion(one(features[rows]), target[rows])
            loss = (loss if sample_weight is None else loss * sample_weight[rows]).mean()
            total += loss.item() * len(rows) / len(order)
            optimizer.zero_grad()
            (loss + settings.l1 * sum(p.abs().sum() for p in penalised)).backward()
            if settings.max_norm is not None:
                nn.utils.clip_grad_norm_(parameters, settings.max_norm)
            optimizer.step()
        objective.append(total + settings.l1 * sum(p.abs().sum().item() for p in penalised))
        states.append(copy.deepcopy(one))
    return states, objective


SETTINGS = {
    "paper": PAPER,
    "published code": TrainingSettings(
        hidden_layer_sizes=(6,), epochs=3, batch_size=16, lr=0.05, l1=1e-2, l1_on="all", max_norm=None
    ),
    "adam": TrainingSettings(hidden_layer_sizes=(6,), epochs=3, batch_size=16, optimizer="adam", lr=0.02, max_norm=0.1),
    "two hidden layers": TrainingSettings(
        hidden_layer_sizes=(5, 4), epochs=3, batch_size=40, lr=0.1, milestones=(1, 2), gamma=0.3
    ),
    "no hidden layer": TrainingSettings(hidden_layer_sizes=(), epochs=3, batch_size=7, lr=0.1, momentum=0.0, l1=0.0),
}


@pytest.mark.slow
@grid(
    "settings, weighted, at_once",
    list(SETTINGS),
    [False, True],
    [0, 1 << 30],  # one member after the other; all of them
    keep=lambda settings, weighted, at_once: weighted == (at_once > 0),
)
def test_training_all_at_once_is_training_one_at_a_time(settings, weighted, at_once, monkeypatch):
    settings = SETTINGS[settings]
    monkeypatch.setattr(ensemble, "CACHE_BYTES", at_once)
    (features, target), validation = data(), data(n=20)
    weight = torch.rand(2, 40, generator=torch.Generator().manual_seed(2), dtype=torch.float64) if weighted else None
    fit = fit_ensemble(
        features,
        target,
        LOSSES,
        settings,
        num_classes=3,
        validation=validation,
        watch={"train": (features, target)},
        sample_weight=weight,
        generators=[torch.Generator().manual_seed(5)] * 2,
    )

    generator = torch.Generator().manual_seed(5)
    sizes = (3, *settings.hidden_layer_sizes, 3)
    start = networks(EnsembleMLP.initial(len(LOSSES), sizes, [generator] * 2, features))
    orders = [[torch.randperm(40, generator=generator) for _ in range(2)] for _ in range(settings.epochs)]
    for g in range(2):
        for m, member in enumerate(LOSSES):
            mine = None if weight is None else weight[g]
            order = [epoch[g] for epoch in orders]
            states, objective = alone(start[g][m], member, features[g], target[g], order, settings, mine)
            torch.testing.assert_close(fit.objective[:, g, m].tolist(), objective, rtol=1e-9, atol=1e-12)
            for name, (x, y) in {"validation": validation, "train": (features, target)}.items():
                scores = [(one(x[g]).argmax(-1) == y[g]).float().mean().item() for one in states]
                assert fit.curves[name][:, g, m].tolist() == scores
            scores = fit.curves["validation"][:, g, m].tolist()
            best = scores.index(max(scores))
            assert fit.best_epoch[g, m] == best
            logits = fit.model(validation[0])[g, m]
            torch.testing.assert_close(logits, states[best](validation[0][g]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("at_once", [0, 1 << 30])  # one member after the other; all of them
def test_the_losses_of_an_epoch_are_those_given_from_it_on(at_once, monkeypatch):
    monkeypatch.setattr(ensemble, "CACHE_BYTES", at_once)
    features, target = data()

    def curve(losses, epochs=4):
        settings = TrainingSettings(hidden_layer_sizes=(6,), epochs=epochs, batch_size=16, lr=0.1)
        generators = [torch.Generator().manual_seed(5)] * 2
        return fit_ensemble(features, target, losses, settings, num_classes=3, generators=generators).objective

    first, second = list(LOSSES), list(reversed(LOSSES))
    changed = curve({0: first, 2: second})
    torch.testing.assert_close(changed[:2], curve(first)[:2], rtol=0, atol=0)
    torch.testing.assert_close(changed, curve({0: first, 2: second, 9: first}), rtol=0, atol=0)
    torch.testing.assert_close(curve({0: first, 1: first}), curve(first), rtol=0, atol=0)
    assert (changed[2:] != curve(first)[2:]).any()


def test_the_clipping_of_the_oracle_test_does_clip():
    (features, target), generator = data(), torch.Generator().manual_seed(5)
    one = networks(EnsembleMLP.initial(1, (3, 6, 3), [generator] * 2, features))[0][0]
    nn.functional.cross_entropy(one(features[0]), target[0]).backward()
    assert nn.utils.get_total_norm([p.grad for p in one.parameters()]) > PAPER.max_norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_comes_out_the_same_whatever_is_trained_beside_it(dtype):
    features, target = data(dtype=dtype)

    def fit(members):
        generator = torch.Generator().manual_seed(3)
        validation = data(n=20, dtype=dtype)
        model = fit_ensemble(
            features, target, members, PAPER, num_classes=3, validation=validation, generators=[generator] * 2
        ).model
        return model(features)

    together = fit(LOSSES)
    tolerance = 1e3 * torch.finfo(dtype).eps
    for m, member in enumerate(LOSSES):
        torch.testing.assert_close(together[:, [m]], fit([member]), rtol=tolerance, atol=tolerance)


def test_it_stops_each_network_when_its_validation_accuracy_no_longer_rises(monkeypatch):
    (features, target), validation = data(), data(n=20)
    settings = {"hidden_layer_sizes": (6,), "batch_size": 16, "lr": 0.1}

    def fit(**more):
        return fit_ensemble(
            features,
            target,
            LOSSES,
            TrainingSettings(**settings, **more),
            num_classes=3,
            validation=validation,
            generators=[torch.Generator().manual_seed(5)] * 2,
        )

    whole = fit(epochs=40).curves["validation"]
    for at_once in (0, 1 << 30):
        monkeypatch.setattr(ensemble, "CACHE_BYTES", at_once)
        stopped = fit(epochs=40, n_iter_no_change=4)
        ends = []
        for g in range(2):
            for m in range(len(LOSSES)):
                best, epoch = -1, 0
                for epoch, score in enumerate(whole[:, g, m].tolist()):
                    if score > best:
                        best, best_epoch = score, epoch
                    if epoch - best_epoch == 4:
                        break
                assert stopped.best_epoch[g, m] == best_epoch
                ends.append(epoch + 1)
        assert max(ends) == len(stopped.objective) < 40
        trained = ~stopped.objective.isnan()
        assert torch.equal(trained, ~stopped.curves["validation"].isnan())
        assert torch.equal(stopped.curves["validation"][trained], whole[: max(ends)][trained])


def test_ties_of_accuracy_go_to_the_epoch_of_least_loss():
    (features, target), (x, y) = data(), data(n=20)

    def fit(epochs, ties="first", validation=(x, y)):
        settings = TrainingSettings(hidden_layer_sizes=(6,), epochs=epochs, batch_size=16, lr=0.1, ties=ties)
        generator = torch.Generator().manual_seed(5)
        return fit_ensemble(
            features, target, LOSSES, settings, num_classes=3, validation=validation, generators=[generator] * 2
        )

    by_epoch = [fit(epochs, validation=None).model(x) for epochs in range(1, 21)]
    chosen = fit(20, "loss")
    for g in range(2):
        for m, member in enumerate(LOSSES):
            function = {"mgce": mgce_loss, "gce": gce_loss}[member.family]
            logits = [f[g, m] for f in by_epoch]
            order = [(-(f.argmax(-1) == y[g]).sum().item(), function(f, y[g], beta=member.beta).item()) for f in logits]
            assert chosen.best_epoch[g, m] == order.index(min(order))
    assert not torch.equal(chosen.best_epoch, fit(20).best_epoch)


def test_without_a_validation_split_the_last_epoch_counts():
    features, target = data()

    def fit(**more):
        return fit_ensemble(
            features, target, LOSSES, PAPER, num_classes=3, generators=[torch.Generator().manual_seed(5)] * 2, **more
        )

    last = fit(watch={"train": (features, target)})
    assert (last.best_epoch == 3).all() and set(last.curves) == {"train"}
    assert torch.equal(accuracy(last.model, features, target), last.curves["train"][-1])


def test_groups_that_share_rows_need_no_copies_of_them():
    features, target = data()
    same = features[:1].expand(2, -1, -1)
    fits = [
        fit_ensemble(x, target, LOSSES, PAPER, num_classes=3, generators=[torch.Generator().manual_seed(5)] * 2)
        for x in (same, same.contiguous())
    ]
    assert torch.equal(fits[0].objective, fits[1].objective)


def test_it_learns_and_reports_each_epoch():
    features, target = data(n=200, dtype=torch.float32)
    done = []
    fit = fit_ensemble(
        features,
        target,
        LOSSES,
        TrainingSettings(hidden_layer_sizes=(32,), epochs=15, optimizer="adam", lr=0.01),
        num_classes=3,
        validation=data(n=100, dtype=torch.float32),
        generators=[torch.Generator().manual_seed(0)] * 2,
        on_epoch=done.append,
    )
    assert done == list(range(1, 16))
    assert fit.curves["validation"].shape == fit.objective.shape == (15, 2, 6)
    assert (accuracy(fit.model, features, target) > 0.75).all()
    assert (fit.objective[-1] < fit.objective[0]).all()


def test_same_generator_same_result_and_no_other_randomness():
    features, target = data(dtype=torch.float32)
    before = torch.get_rng_state()
    fits = [
        fit_ensemble(features, target, LOSSES, PAPER, num_classes=3, generators=[torch.Generator().manual_seed(3)] * 2)
        for _ in range(2)
    ]
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(fits[0].model.parameters(), fits[1].model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_early_stopping_needs_a_validation_split():
    with pytest.raises(ValueError, match="Expected `validation` to be given where `n_iter_no_change` is"):
        fit_ensemble(
            *data(), LOSSES, TrainingSettings(n_iter_no_change=2), num_classes=3, generators=[torch.Generator()] * 2
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_an_accelerator_gives_what_the_cpu_gives():
    logits = []
    for device in ("cpu", "cuda"):
        features, target = (part.to(device) for part in data())
        generator = torch.Generator().manual_seed(3)
        fit = fit_ensemble(features, target, LOSSES, PAPER, num_classes=3, generators=[generator] * 2)
        logits.append(fit.model(features).cpu())
    torch.testing.assert_close(*logits, rtol=1e-8, atol=1e-8)


def test_a_group_does_not_depend_on_the_others():
    features, target = data()
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    both = fit_ensemble(features, target, LOSSES, PAPER, num_classes=3, generators=generators).model(features)
    for group, seed in enumerate((3, 4)):
        part = features[group : group + 1], target[group : group + 1]
        alone = fit_ensemble(*part, LOSSES, PAPER, num_classes=3, generators=[torch.Generator().manual_seed(seed)])
        torch.testing.assert_close(alone.model(part[0])[0], both[group], rtol=1e-9, atol=1e-12)


def test_every_group_has_a_generator():
    with pytest.raises(ValueError, match="Expected `generators` to be one for each of 2 groups, but got 1"):
        fit_ensemble(*data(), LOSSES, PAPER, num_classes=3, generators=[torch.Generator()])


def test_groups_of_fewer_columns_are_filled_with_zeros():
    groups = [(torch.ones(2, 3), torch.tensor([0, 1])), (torch.ones(2, 1), torch.tensor([1, 1]))]
    features, target = ensemble.stack_groups(groups, "cpu")
    assert features.tolist() == [[[1, 1, 1]] * 2, [[1, 0, 0]] * 2] and target.tolist() == [[0, 1], [1, 1]]
