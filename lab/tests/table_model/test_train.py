"""Training: it can be stopped, its optimiser is Muon's, its files are whole."""

import json
import math

import pytest
import torch

from mgce_lab.table_model import train
from mgce_lab.table_model.model import Sizes, TableModel

SIZES = {"cell": 32, "cell_blocks": 1, "row": 32, "row_blocks": 1, "thinking": 2, "votes": 1}


def options(folder, **others):
    arguments = [
        "--plan",
        "tiny",
        "--steps",
        "12",
        "--out",
        str(folder),
        "--sizes",
        json.dumps(SIZES),
        "--device",
        "cpu",
    ]
    parsed = train.parsed(arguments)
    vars(parsed).update({"measure_every": 1e9, "keep_every": 0} | others)
    return parsed


class StoppedError(Exception):
    pass


def test_a_run_that_was_stopped_ends_in_the_same_bits(tmp_path, monkeypatch):
    whole = train.Training(options(tmp_path / "whole"))
    whole.run()
    stopped = train.Training(options(tmp_path / "stopped"))
    keep = stopped.keep

    def keep_and_stop():
        keep()
        raise StoppedError

    monkeypatch.setattr(stopped, "keep", keep_and_stop)
    with pytest.raises(StoppedError):
        stopped.run()
    resumed = train.Training(options(tmp_path / "stopped"))
    assert resumed.step == train.CHUNK
    resumed.run()
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("beta", [math.inf, 1.4])
def test_a_step_lowers_the_loss_of_its_batch(beta):
    torch.manual_seed(0)
    model = TableModel(Sizes(**SIZES, beta=beta))
    generator = torch.Generator().manual_seed(0)
    tables = train.draw_tables(8, train.Shape(40, 20, 4), generator)
    batch = train.batch_of(tables, generator, torch.float32)
    optimiser = train.Optimiser(model)
    optimiser.rate.fill_(1.0)
    step = train.Step(model, optimiser, batch, use_graph=False)
    first = step(batch).sum().item()
    for _ in range(15):
        last = step(batch).sum().item()
    assert last < first - 0.05


@pytest.mark.parametrize("beta", [math.inf, 1.4])
def test_probabilities_are_those_by_which_the_loss_has_its_gradient(beta):
    model = TableModel(Sizes(**SIZES, beta=beta))
    logits, right = torch.randn(1, 6, 10).double(), torch.randint(4, (1, 6))
    logits[..., 4:] = -torch.inf
    logits.requires_grad_()
    model.forward = lambda *others: (logits, logits)
    train.losses(model, train.Batch(None, None, right, right.repeat(1, 2), None)).sum().backward()
    wanted = 2 / 6 * (model.probabilities(logits.detach()) - torch.nn.functional.one_hot(right, 10))
    torch.testing.assert_close(logits.grad, wanted)


def test_every_parameter_has_one_optimiser():
    model = TableModel(Sizes(**SIZES))
    optimiser = train.Optimiser(model)
    assert len(optimiser.muon) + len(optimiser.adam) == len(list(model.parameters()))
    assert all(p.ndim == 3 for p in optimiser.muon)


@pytest.mark.parametrize("size", [(3, 16, 16), (2, 32, 16), (2, 16, 32)])
def test_updates_are_nearly_orthogonal(size):
    values = torch.linalg.svdvals(train._orthogonal(torch.randn(size)))
    assert values.min() > 0.3
    assert values.max() < 1.3


def test_weights_come_back_in_half_precision_and_only_whole(tmp_path):
    model = TableModel(Sizes(**SIZES, beta=1.4))
    path = tmp_path / "weights.npz"
    train.write_weights(model, path)
    for name, value in train.read_weights(path).state_dict().items():
        assert torch.equal(value, model.state_dict()[name].half().float())
    assert train.read_weights(path).sizes == model.sizes
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="checksum"):
        train.read_weights(path)


def test_the_learning_rate_rises_stays_and_ends_at_zero():
    rates = [train.rate_at(share / 100) for share in range(101)]
    assert rates[0] == rates[-1] == 0
    assert rates[30] == 1
    assert all(0 <= rate <= 1 for rate in rates)


def test_average_precision_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    score, wrong = torch.rand(4, 50), torch.rand(4, 50) < 0.3
    mine = train.average_precision(score, wrong)
    for i in range(4):
        theirs = metrics.average_precision_score(wrong[i].numpy(), score[i].numpy())
        assert mine[i].item() == pytest.approx(theirs, abs=1e-6)
