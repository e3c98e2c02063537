"""What a loss has to give inside each library, and the losses that are tried there."""

import functools
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from contracts.robust_loss_contract import told
from mgce import ForwardCorrection, GCELoss, LearnedForwardCorrection, MGCELoss, TrimmedLoss, robust_loss
from mgce.losses import LogitScale, RCELoss, SumLoss
from mgce.losses.protocol import both_probs, link_of
from mgce.losses.trimmed import RecentLosses
from mgce.noise import symmetric
from mgce_lab.losses import LOSSES, BiTemperedLoss, LogitClip

K, D, N = 3, 4, 12
GENERATOR = torch.Generator().manual_seed(0)
X, Y = 2 * torch.randn(N, D, generator=GENERATOR), torch.arange(N) % K
TRANSITION = symmetric(K, 0.2)
CE = nn.CrossEntropyLoss


def named(name, reduction="mean"):
    return robust_loss(name, reduction=reduction, **told(name, K, rate=0.2, trim=0.4))


# Each takes the reduction. A trimmed loss keeps that of the loss inside it.
MADE = {
    **{name: functools.partial(named, name) for name in LOSSES},
    "CrossEntropyLoss": lambda r="mean": CE(reduction=r),
    "SumLoss": lambda r="mean": SumLoss([CE(reduction=r), MGCELoss(reduction=r), RCELoss(reduction=r)], [1, 0.5, 0]),
    "LogitScale": lambda r="mean": LogitScale(LogitClip(CE(reduction=r)), 2.0),
    "LogitScale, tempered": lambda r="mean": LogitScale(BiTemperedLoss(reduction=r), 2.0),
    "LogitClip": lambda r="mean": LogitClip(TrimmedLoss(MGCELoss(reduction="none"), 0.4, K, reduction=r), 0.5),
    "LogitClip, forward": lambda r="mean": LogitClip(ForwardCorrection(MGCELoss(reduction=r), TRANSITION)),
    "ForwardCorrection": lambda r="mean": ForwardCorrection(
        SumLoss([CE(reduction=r), RCELoss(reduction=r)], [1, 2]), TRANSITION
    ),
    # With so large a window T stays as it is, however a batch is split; what it learns is tested elsewhere.
    "LearnedForwardCorrection": lambda r="mean": LearnedForwardCorrection(
        K, GCELoss(beta=3.0, reduction=r), window=10**9
    ),
    "TrimmedLoss": lambda r="mean": TrimmedLoss(
        LogitScale(ForwardCorrection(MGCELoss(reduction="none"), TRANSITION), 2.0), 0.4, K, reduction=r
    ),
}
HARDEST = "LogitClip"  # around a trimmed loss: reduction, mode and link are all inside


def network():
    torch.manual_seed(0)
    return nn.Linear(D, K)


def windows(criterion):
    return [part for part in criterion.modules() if isinstance(part, RecentLosses)]


def taken_up(criterion):
    return [int(window.count[:-1].sum()) for window in windows(criterion)]


def with_full_windows(criterion, level):
    """Fill windows with one loss, which stays the quantile whatever a few rows add, in any order."""
    for window in windows(criterion):
        window.losses[:-1, :-1] = level
        window.count[:-1] = window.window
    return criterion


def evaluated(make, logits):
    return make().eval()(logits.detach(), Y)


class Classifier(nn.Module):
    """A model as the Trainer of transformers takes it."""

    def __init__(self):
        super().__init__()
        self.layer = network()

    def forward(self, x, labels=None):
        return {"logits": self.layer(x)}


def trainer_of(criterion, folder, batch_size):
    from transformers import Trainer, TrainingArguments

    from mgce.integrations.transformers import TrainerLoss

    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=5,
        gradient_accumulation_steps=N // batch_size,
        max_steps=1,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
    )
    rows = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    loss = TrainerLoss(criterion)
    return Trainer(Classifier(), arguments, train_dataset=rows, eval_dataset=rows, compute_loss_func=loss)


def check_trainer(make, folder):
    """A step is that of the mean of all rows however they are split, and an evaluation is the mean, of all of them."""
    from mgce.integrations.transformers import TrainerLoss

    layer = network()
    level = evaluated(lambda: make("none"), layer(X)).median()
    by_hand = with_full_windows(make("none"), level)
    (by_hand(layer(X), Y).sum() / N).backward()
    assert layer.weight.grad.abs().max() > 1e-4
    if windows(by_hand):
        assert (by_hand(layer(X), Y) == 0).any() and (evaluated(lambda: make("none"), layer(X)) > 0).all()
    logits = layer(X).detach()
    check_splits(TrainerLoss(with_full_windows(make(), level)), logits, float(by_hand(logits, Y).sum() / N))
    for batch_size in (N, 3):
        criterion = with_full_windows(make(), level)
        before = taken_up(criterion)
        trainer = trainer_of(criterion, folder, batch_size)
        trainer.train()
        trained = trainer.model.layer
        torch.testing.assert_close(trained.weight.detach(), (layer.weight - layer.weight.grad).detach())
        assert taken_up(criterion) == [count + N for count in before]
        kept = {name: tensor.clone() for name, tensor in criterion.state_dict().items()}
        found = trainer.evaluate()["eval_loss"]
        assert found == pytest.approx(float(evaluated(make, trained(X))), rel=1e-5)
        torch.testing.assert_close(criterion.state_dict(), kept, rtol=0, atol=0)


def check_splits(loss, logits, want):
    """The number of labels of all batches given, batches add up; not given, they average."""
    for size in (N, 6, 1):
        batches = list(zip(logits.split(size), Y.split(size), strict=True))
        given = [float(loss((f,), y, num_items_in_batch=N)) for f, y in batches]
        own = [float(loss({"logits": f}, y)) for f, y in batches]
        assert sum(given) == pytest.approx(want, rel=1e-5)
        assert sum(own) / len(own) == pytest.approx(want, rel=1e-5)


def check_lightning(make, folder):
    """Objective, calibration and certificate are those of the loss and of its two probabilities."""
    from lightning.pytorch import LightningModule, Trainer

    from mgce import certify
    from mgce.integrations.lightning import RobustMetrics
    from mgce.metrics.evaluation import measure

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.criterion = network(), make()

        def training_step(self, batch, index):
            return self.criterion(self.layer(batch[0]), batch[1])

        def validation_step(self, batch, index):
            return {"logits": self.layer(batch[0]), "target": batch[1]}

        test_step = validation_step

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    module, criterion = Module(), make()  # the second is never told to evaluate
    callback, rows = RobustMetrics(K, criterion), DataLoader(TensorDataset(X, Y), 4)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "num_sanity_val_steps": 0, "default_root_dir": folder}
    trainer = Trainer(max_epochs=1, accelerator="cpu", callbacks=[callback], **quiet)
    trainer.fit(module, rows, rows)
    logits = module.layer(X).detach()
    h, p = both_probs(make(), logits.double())
    want = {**measure(logits, Y, {"h": h, "p": p}), "objective": float(evaluated(make, logits))}
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert {name.removeprefix("val_"): logged[name] for name in logged} == pytest.approx(want, rel=1e-6, abs=1e-5)
    assert taken_up(module.criterion) == [N] * len(windows(module.criterion)) and not any(taken_up(criterion))
    trainer.test(module, rows, verbose=False)
    assert callback.certificate.argmax_error == pytest.approx(certify(Y, h).argmax_error)


def check_skorch(make):
    """Probabilities are those of the link, and a validation neither trims nor is taken up."""
    from skorch.dataset import Dataset
    from skorch.helper import predefined_split

    from mgce.integrations.skorch import MGCENet

    torch.manual_seed(0)
    x, y = X.numpy(), Y.numpy()
    held_out = predefined_split(Dataset(x, y))
    net = MGCENet(nn.Linear, module__in_features=D, module__out_features=K, criterion=make(), train_split=held_out)
    net.set_params(max_epochs=1, lr=0.1, verbose=0).fit(x, y)
    logits = net.forward(x)
    np.testing.assert_allclose(net.predict_proba(x), link_of(make())(logits).numpy(), atol=1e-6)
    assert net.history[-1, "valid_loss"] == pytest.approx(float(evaluated(make, logits)), rel=1e-5)
    assert taken_up(net.criterion_) == [N] * len(windows(net.criterion_))


def check_compile(make):
    """Compiled, loss and gradient are the same."""
    torch._dynamo.reset()
    plain, logits = make(), network()(X).detach()
    compiled = torch.compile(make(), fullgraph=True, backend="aot_eager")
    for criterion, _ in itertools.product((plain, compiled), range(2)):
        criterion.leaf = logits.clone().requires_grad_()
        criterion.value = criterion(criterion.leaf, Y)
        criterion.value.backward()
    torch.testing.assert_close(compiled.value, plain.value)
    torch.testing.assert_close(compiled.leaf.grad, plain.leaf.grad)
    for got, want in zip(both_probs(compiled, logits), both_probs(plain, logits), strict=True):
        torch.testing.assert_close(got, want)


def check_onnx(make):
    """The link of the loss behind a network, as a graph in onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    module = nn.Sequential(network(), link_of(make())).eval()
    rows = ({0: torch.export.Dim("n")},)
    program = torch.onnx.export(module, (X,), dynamo=True, dynamic_shapes=rows, opset_version=18, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (got,) = session.run(None, {session.get_inputs()[0].name: X[:7].numpy()})
    np.testing.assert_allclose(got, module(X[:7]).detach().numpy(), atol=1e-5)
