"""ModelKeeper against an average and a choice made by hand."""

import copy
import math
from xml.etree import ElementTree

import pytest
import torch
from scipy.stats import binomtest
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mgce import ELRLoss, ModelKeeper
from mgce.labels import noise_share
from mgce.loop.verdict import Decline, Epoch

N, D, K = 60, 5, 3


def rows(seed=0, n=N):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, D, generator=generator), torch.randint(K, (n,), generator=generator)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, K))


def validation():
    return DataLoader(TensorDataset(*rows(1)), batch_size=25)


class Loop:
    """A training loop of one's own, with a criterion that remembers rows."""

    def __init__(self):
        self.network, self.criterion = network(), ELRLoss(N, K)
        self.optimizer = torch.optim.Adam(self.network.parameters(), 0.05)
        self.keeper = ModelKeeper(self.network, self.criterion, others={"optimizer": self.optimizer})
        self.after_steps = []

    def run(self, epochs):
        x, y = rows()
        for _ in range(epochs):
            for index in torch.randperm(N).split(20):
                logits = self.network(x[index])
                self.criterion(logits, y[index], index).backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.keeper.step(logits, y[index])
                self.after_steps.append(copy.deepcopy(self.network.state_dict()))
            self.keeper.end_epoch(validation())
        return self


def accuracy(model):
    x, y = rows(1)
    return (model.eval()(x).argmax(1) == y).double().mean().item()


def test_the_average_is_that_of_weights_and_statistics_by_hand():
    loop = Loop().run(4)
    want = loop.after_steps[0]
    for step, state in enumerate(loop.after_steps[1:], 1):
        decay = (1 + step) / (10 + step)
        if step >= 3:  # three steps are an epoch
            decay = min(decay, 1 - 1 / 6)
        want = {
            name: decay * want[name] + (1 - decay) * value if value.is_floating_point() else value
            for name, value in state.items()
        }
    found = loop.keeper.average.state_dict()
    for name, value in want.items():
        torch.testing.assert_close(found[name], value, msg=name)
    state = loop.keeper.state_dict()["average"]
    assert found["1.num_batches_tracked"] == state["n_averaged"] == 12 and not state["left_out"]


def test_the_best_epoch_of_network_or_average_is_kept():
    loop = Loop()
    seen = []
    for _ in range(6):
        loop.run(1)
        models = copy.deepcopy(loop.network), copy.deepcopy(loop.keeper.average)
        seen.append([(accuracy(model), model) for model in models])
        last = loop.keeper.epochs[-1]
        assert (last.network, last.average) == pytest.approx([score for score, _ in seen[-1]])
    network, average = ([pair[place] for pair in seen] for place in (0, 1))
    best_network, best_average = (max(one, key=lambda pair: pair[0])[1] for one in (network, average))
    x, y = rows(1)
    right, others = ((model.eval()(x).argmax(1) == y) for model in (best_network, best_average))
    lost, gained = int((others & ~right).sum()), int((right & ~others).sum())
    shown = binomtest(gained, lost + gained, alternative="greater").pvalue < 0.05 if gained else False
    want = best_network if shown else best_average
    found = loop.keeper.best()
    assert not found.training
    assert loop.network.training  # as it was
    for name, value in found.state_dict().items():
        torch.testing.assert_close(value, want.state_dict()[name])
    assert f"{accuracy(want):.1%}" in str(loop.keeper)


def test_training_goes_on_from_a_file_with_equal_bits(tmp_path):
    whole = Loop().run(5)
    half = Loop().run(2)
    torch.save(half.keeper.state_dict(), tmp_path / "keeper.pt")
    torch.manual_seed(99)  # another process, in another state
    again = Loop()
    again.keeper.load_state_dict(torch.load(tmp_path / "keeper.pt", weights_only=True))
    again.run(3)
    assert again.keeper.epochs == whole.keeper.epochs
    assert str(again.keeper) == str(whole.keeper)
    for one, other in ((again.network, whole.network), (again.criterion, whole.criterion)):
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name
    for name, value in again.keeper.best().state_dict().items():
        assert torch.equal(value, whole.keeper.best().state_dict()[name])


def test_the_gap_of_labels_learnt_by_heart_is_said():
    """Labels without any pattern, and a network large enough for all of them."""
    torch.manual_seed(0)
    x, y = rows(n=200)
    noisy = TensorDataset(*rows(3, 300))
    wide = nn.Sequential(nn.Linear(D, 512), nn.ReLU(), nn.Linear(512, K))
    keeper, optimizer = ModelKeeper(wide, nn.CrossEntropyLoss()), torch.optim.Adam(wide.parameters(), 0.02)
    for _ in range(60):
        logits = wide(x)
        nn.functional.cross_entropy(logits, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        keeper.step(logits, y)
        keeper.end_epoch(DataLoader(noisy, batch_size=300))
    assert keeper.epochs[-1].training > 0.8
    last, said = keeper.epochs[-1], str(keeper)
    assert keeper.verdict.gap == last.training - last.network > 0.3
    assert f"predicted {last.training:.1%} of the training labels, {100 * keeper.verdict.gap:.1f} points more" in said


@pytest.mark.parametrize(("lost", "gained", "shown"), [(80, 20, True), (21, 20, False), (20, 80, False), (0, 0, False)])
def test_a_decline_has_the_p_value_of_a_sign_test_and_is_called_overfitting_at_one_percent(lost, gained, shown):
    decline = Decline(lost, gained)
    n = lost + gained
    want = sum(math.comb(n, count) for count in range(lost, n + 1)) / 2**n
    assert decline.p_value == pytest.approx(want)
    assert decline.shown == shown == (want < 0.01)


@pytest.mark.parametrize("wrong", [0.0, 0.4])
def test_a_class_that_is_lost_in_part_or_whole_is_said_with_its_numbers(wrong):
    """A network that takes half of a class, or all of it, for another: with right labels and with wrong ones."""
    right = torch.arange(800) % 10
    generator = torch.Generator().manual_seed(0)
    replaced = torch.rand(800, generator=generator) < wrong
    given = torch.where(replaced, torch.randint(10, (800,), generator=generator), right)
    for part in (2, 1):  # every other row of the class, or every row
        taken = torch.where((right == 5) & (torch.arange(800) // 10 % part == 0), 9, right)
        keeper = ModelKeeper(Recalled(taken), nn.CrossEntropyLoss())
        keeper.step(keeper.network(torch.arange(800)), given)
        keeper.end_epoch([(torch.arange(800), given)])
        worst, rows = keeper.verdict.recalls[0], int((given == 5).sum())
        found = int(((given == 5) & (taken == 5)).sum())
        assert (worst.label, worst.rows, worst.predicted) == (5, rows, found)
        assert worst.recall == pytest.approx(found / rows)
        assert worst.named == (taken == 5).sum()
        never = f"No row is predicted as one of these classes, which are labels: 5 ({rows} rows)."
        least = f"Of all labels, class 5 is predicted least often: for {found} of its {rows} rows."
        assert (never if part == 1 else least) in str(keeper)


def test_no_word_is_printed_that_the_numbers_do_not_bear_out():
    """Neither a verdict on memorising nor one on other losses follows from noisy labels."""
    right = torch.arange(800) % 10
    keeper = ModelKeeper(Recalled(right), nn.CrossEntropyLoss())
    keeper.step(keeper.network(torch.arange(800)), right)
    keeper.end_epoch([(torch.arange(800), right)])
    said = str(keeper)
    assert not any(word in said for word in ("memoris", "other loss", "symmetric", "overfits"))
    assert f"{keeper.kept_accuracy:.1%}" in said
    assert keeper.kept_accuracy == keeper.kept_right.double().mean().item() == 1


class Recalled(nn.Module):
    """A network that predicts the right class of a row, with a confidence that rises with its number."""

    def __init__(self, right):
        super().__init__()
        self.right, self.scale = right, nn.Parameter(torch.ones(()))

    def forward(self, row):
        return nn.functional.one_hot(self.right[row], 10) * (1 + row[:, None]) * self.scale


def test_confused_classes_are_named():
    right = torch.arange(800) % 10
    confused = right.clone()
    generator = torch.Generator().manual_seed(0)
    confused[(right == 3) & (torch.rand(800, generator=generator) < 0.45)] = 5
    for given, classes, wanted in (
        (confused, [*"abcdefghij"], ": class d is often labelled f. Validation labels may choose"),
        (confused, None, "class 3 is often labelled 5."),
        (right, None, "these rows cannot tell."),
    ):
        keeper = ModelKeeper(Recalled(right), nn.CrossEntropyLoss(), classes=classes)
        logits = keeper.network(torch.arange(800))
        keeper.step(logits, given)
        keeper.end_epoch([(torch.arange(800), given)])
        assert wanted in str(keeper)
        doubt, kind = given is confused, keeper.verdict.noise_kind
        assert doubt == (f"(p = {kind.p_value:.2g})" in str(keeper)) == bool(kind.pairs)


def test_the_verdict_has_the_numbers_that_are_printed():
    loop = Loop().run(6)
    verdict, keeper = loop.keeper.verdict, loop.keeper
    shares = [epoch.network for epoch in keeper.epochs]
    assert verdict.best_accuracy == max(shares) and verdict.epochs == tuple(keeper.epochs)
    assert (verdict.kept_epoch, verdict.kept_accuracy) == (keeper.kept_epoch, keeper.kept_accuracy)
    assert verdict.kept_accuracy == getattr(keeper.epochs[verdict.kept_epoch - 1], verdict.kept)
    x, y = rows(1)
    with torch.inference_mode():
        logits = keeper.best()(x)
        last = loop.network.eval()(x).argmax(1) == y
    assert verdict.noise_share == noise_share(y, logits.softmax(1))
    assert verdict.noise_share.disagreement == pytest.approx(1 - verdict.kept_accuracy)
    assert sum(one.predicted for one in verdict.recalls) == round(verdict.kept_accuracy * N)
    assert last.double().mean().item() == pytest.approx(
        verdict.best_accuracy + (verdict.decline.gained - verdict.decline.lost) / N
    )
    assert str(keeper) == str(verdict)
    for share in (verdict.kept_accuracy, verdict.best_accuracy, keeper.epochs[-1].training):
        assert f"{share:.1%}" in str(verdict)
    with pytest.raises(RuntimeError, match="end_epoch"):
        str(ModelKeeper(nn.Linear(D, K), nn.CrossEntropyLoss()).verdict)


def test_mistakes_of_a_loop_are_one_sentence():
    model = nn.Linear(D, K)
    keeper = ModelKeeper(model, nn.CrossEntropyLoss())
    assert "Nothing is kept" in str(keeper)
    with pytest.raises(RuntimeError, match="end_epoch"):
        keeper.best()
    with pytest.raises(RuntimeError, match="step"):
        keeper.end_epoch(validation())
    keeper.step()
    with pytest.raises(ValueError, match="validation"):
        keeper.end_epoch([])
    with pytest.raises(TypeError, match="batch"):
        keeper.end_epoch([{"inputs": 1}])
    with pytest.raises(TypeError, match="network"):
        ModelKeeper(lambda x: x, nn.CrossEntropyLoss())
    with pytest.raises(TypeError, match="optimizer"):
        ModelKeeper(model, nn.CrossEntropyLoss(), others={"optimizer": 3})
    with pytest.raises(ValueError, match="optimizer"):
        others = {"optimizer": torch.optim.SGD(model.parameters())}
        keeper.load_state_dict(ModelKeeper(model, model, others=others).state_dict())
    found = keeper.end_epoch(validation())
    assert isinstance(found, Epoch)
    assert found.training != found.training  # no predictions were given


def test_the_picture_has_every_epoch_where_it_belongs():
    loop = Loop().run(5)
    drawn = ElementTree.fromstring(loop.keeper.to_svg())
    points = [one for one in drawn.iter("{http://www.w3.org/2000/svg}circle") if float(one.get("cy")) < 300]
    for name in ("training", "network", "average"):
        own = [one for one in points if one.get("class") == name]
        heights = [float(one.get("cy")) for one in own]
        shares = [getattr(epoch, name) for epoch in loop.keeper.epochs]
        # 0 and 100 % are drawn at heights 256 and 10.
        assert heights == pytest.approx([256 - 246 * share for share in shares], abs=0.1)
        # The first and the last epoch are drawn at 62 and 342 from the left.
        places = [float(one.get("cx")) for one in own]
        assert places == pytest.approx([62 + 280 * epoch / 4 for epoch in range(5)], abs=0.1)
    (large,) = [one for one in points if float(one.get("r")) > 2]
    kept = loop.keeper._require_kept()
    assert large.get("class") == kept["of"]
    assert f"kept: epoch {kept['epoch']}" in loop.keeper.to_svg()


def test_a_training_of_one_epoch_without_predictions_is_drawn():
    keeper = ModelKeeper(nn.Linear(D, K), nn.CrossEntropyLoss())
    assert keeper._repr_svg_() is None
    keeper.step()
    keeper.end_epoch(validation())
    drawn = keeper._repr_svg_()
    assert "training labels" not in drawn and drawn.count("<polyline") == 2
    ElementTree.fromstring(drawn)


def test_training_rows_of_soft_targets_without_a_label_are_not_counted():
    network = nn.Linear(2, 2)
    keeper = ModelKeeper(network, nn.CrossEntropyLoss())
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    keeper.step(logits, torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.0, 0.0], [0.8, 0.2]]))
    assert keeper.end_epoch([(torch.zeros(1, 2), torch.tensor([0]))]).training == pytest.approx(2 / 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_small_steps_of_a_network_of_any_dtype_are_averaged(dtype):
    """In bfloat16, an average that moves by a thousandth of the way stands still."""
    line, steps = nn.Linear(20, 5).to(dtype), 400
    weight, keeper, exact = line.weight.detach(), ModelKeeper(line, nn.CrossEntropyLoss()), None
    batch = torch.zeros(8, 20, dtype=dtype), torch.zeros(8, dtype=torch.long)
    for step in range(3 * steps):
        weight.add_(torch.randn(5, 20) * 0.01 + 1 / steps)
        decay = (1 + step) / (10 + step)
        decay = min(decay, 1 - 1 / (2 * steps)) if step >= steps else decay
        exact = weight.double() if exact is None else exact * decay + weight.double() * (1 - decay)
        keeper.step()
        if (step + 1) % steps == 0:
            keeper.end_epoch([batch])
    found = keeper.state_dict()["average"]["module.weight"]
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)
    assert keeper.average.weight.dtype == keeper.best().weight.dtype == dtype
    torch.testing.assert_close(keeper.average.weight, exact.to(dtype))
    again = ModelKeeper(nn.Linear(20, 5).to(dtype), nn.CrossEntropyLoss())
    again.load_state_dict(keeper.state_dict())
    assert torch.equal(again.state_dict()["average"]["module.weight"], found)


def test_a_step_with_a_weight_that_is_not_finite_is_left_out_and_said():
    line = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    whole, part = (ModelKeeper(line, nn.CrossEntropyLoss()) for _ in range(2))
    for bad in (torch.nan, None, torch.inf, None, -torch.inf, None):
        if bad is None:
            with torch.no_grad():
                line[0].weight.add_(torch.randn(2, 2))
            part._total = whole._total
            part.step()
            whole.step()
            continue
        kept = line[1].running_var.clone()  # a buffer, as good a place as a weight
        line[1].running_var[1] = bad
        whole.step()
        line[1].running_var.copy_(kept)
    for name, value in part.average.state_dict().items():
        torch.testing.assert_close(whole.average.state_dict()[name], value)
    whole.end_epoch([(torch.randn(9, 2), torch.arange(9) % 2)])
    assert whole.left_out == 3 and "leaves out 3 steps, after which a weight was not finite." in str(whole)
    again = ModelKeeper(line, nn.CrossEntropyLoss())
    again.load_state_dict(whole.state_dict())
    assert again.left_out == 3
    earlier = whole.state_dict()
    del earlier["average"]["left_out"]
    again.load_state_dict(earlier)
    assert again.left_out == 0 and "leaves out" not in str(again)


class HoldsTensors(nn.Module):
    """A network that holds tensors of its last call, as mixtures of experts hold an auxiliary loss."""

    def __init__(self):
        super().__init__()
        self.line, self.held = nn.Linear(D, K), {}

    def forward(self, x):
        logits = self.line(x)
        self.held = {"list": [logits.mean()], "training": self.training}
        return logits


def test_the_best_of_a_network_that_holds_a_tensor_of_its_last_step():
    model, (x, y) = HoldsTensors(), rows()
    model(x)  # before the keeper too
    keeper = ModelKeeper(model, nn.CrossEntropyLoss())
    for _ in range(2):
        nn.functional.cross_entropy(model(x), y).backward()
        keeper.step()
        keeper.end_epoch(validation())
        model(x)
        best = keeper.best()
    assert model.held["list"][0].grad_fn is not None  # as it was
    assert best.held["list"][0] is not model.held["list"][0] and best.held["training"]
    assert torch.equal(best.line.weight, keeper.average.line.weight)


def test_a_state_held_in_memory_does_not_change_while_training_goes_on():
    """One goes back to it, or tries two ways from it. Nor does what a keeper goes on from change."""
    loop = Loop().run(2)
    state = loop.keeper.state_dict()
    want = copy.deepcopy(state)
    loop.run(3)
    found = []
    for _ in range(2):
        again = Loop()
        again.keeper.load_state_dict(state)
        found.append(again.run(3))
    assert repr(state) == repr(want)
    for one in found:
        assert one.keeper.epochs == loop.keeper.epochs and str(one.keeper) == str(loop.keeper)
        for name, value in one.network.state_dict().items():
            assert torch.equal(value, loop.network.state_dict()[name]), name


@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss(ignore_index=7), ELRLoss(N, K)])
def test_rows_without_a_label_count_neither_in_training_nor_in_validation(criterion):
    ignored = 7 if isinstance(criterion, nn.CrossEntropyLoss) else -100
    x, y = rows()
    model, kept = nn.Linear(D, K), torch.arange(N) % 3 > 0
    whole, part = (ModelKeeper(model, criterion) for _ in range(2))
    unlabelled = torch.where(kept, y, ignored)
    whole.step(model(x), unlabelled)
    part.step(model(x[kept]), y[kept])
    assert whole.end_epoch([(x[:30], unlabelled[:30]), (x[30:], unlabelled[30:])]) == part.end_epoch(
        [(x[kept], y[kept])]
    )
    assert str(whole) == str(part) and torch.equal(whole.kept_right, part.kept_right)
    whole.step()
    with pytest.raises(ValueError, match=f"Expected `validation` to be batches with labels other than {ignored}"):
        whole.end_epoch([(x, torch.full((N,), ignored))])
