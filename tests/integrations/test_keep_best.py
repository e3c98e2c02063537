"""Callbacks of three libraries keep the weights that a loop of one's own would have kept."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import mgce
from mgce import ModelKeeper
from mgce_lab.losses import SelfAdaptiveLoss

QUICK = True  # but where a test says otherwise

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(90, 4, generator=GENERATOR)
Y = torch.where(torch.rand(90, generator=GENERATOR) < 0.7, X[:, :3].argmax(1), 0)
TRAIN, VALID = TensorDataset(X[:60], Y[:60]), TensorDataset(X[60:], Y[60:])
EPOCHS, BATCH, LR = 4, 20, 0.3


def network():
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def by_hand():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), LR)
    keeper = ModelKeeper(model, nn.CrossEntropyLoss())
    for _ in range(EPOCHS):
        for x, y in DataLoader(TRAIN, BATCH):
            logits = model(x)
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, y).backward()
            optimizer.step()
            keeper.step(logits, y)
        keeper.end_epoch(DataLoader(VALID, BATCH))
    return keeper


def assert_like_by_hand(keeper, *, training=True):
    want = by_hand()
    for found, epoch in zip(keeper.epochs, want.epochs, strict=True):
        assert (found.network, found.average) == (epoch.network, epoch.average)
        assert not training or found.training == epoch.training
    for name, value in want.best().state_dict().items():
        torch.testing.assert_close(keeper.best().state_dict()[name], value)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore::FutureWarning")
def test_lightning_and_its_checkpoints(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning")
    from mgce.integrations.lightning import KeepBest

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network, self.criterion = network(), nn.CrossEntropyLoss()

        def training_step(self, batch, index):
            logits = self.network(batch[0])
            return {"loss": self.criterion(logits, batch[1]), "logits": logits, "target": batch[1]}

        def validation_step(self, batch, index):
            self.network(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), LR)

    def fit(epochs, path=None):
        module = Module()
        keeper = ModelKeeper(module.network, module.criterion)
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            callbacks=[KeepBest(keeper)],
            default_root_dir=tmp_path,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, DataLoader(TRAIN, BATCH), DataLoader(VALID, BATCH), ckpt_path=path)
        return keeper, trainer

    keeper, trainer = fit(EPOCHS)
    assert_like_by_hand(keeper)
    _, trainer = fit(2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    assert_like_by_hand(fit(EPOCHS, tmp_path / "half.ckpt")[0])


@pytest.mark.parametrize("outputs", [None, torch.tensor(1.0), {"loss": 1.0}, {"logits": X, "target": Y, "loss": 1.0}])
def test_lightning_tells_the_keeper_of_each_step_and_of_logits_where_there_are_any(outputs):
    pytest.importorskip("lightning", reason="needs lightning")
    from mgce.integrations.lightning import KeepBest

    steps = []
    callback = KeepBest(SimpleNamespace(step=lambda logits, target: steps.append((logits, target))))
    callback.on_train_batch_end(None, None, outputs, None, 0)
    ((logits, target),) = steps
    with_logits = isinstance(outputs, dict) and "logits" in outputs
    assert (logits is X and target is Y) if with_logits else (logits is None and target is None)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore::FutureWarning")
@pytest.mark.parametrize("precision", ["bf16-true", "64-true"])
@pytest.mark.parametrize(
    "loss", [mgce.ELRLoss, SelfAdaptiveLoss, mgce.SoftBootstrapLoss, mgce.LearnedForwardCorrection]
)
def test_lightning_in_another_dtype_remembers_and_averages_in_float32(tmp_path, precision, loss):
    lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning")
    from mgce.integrations.lightning import KeepBest

    indexed = loss is not mgce.LearnedForwardCorrection

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()
            self.criterion = loss(*((60, 3) if indexed else (3,)))

        def training_step(self, batch, number):
            x, y, index = batch
            logits = self.network(x)
            mean = self.criterion(logits, y, index) if indexed else self.criterion(logits, y)
            return {"loss": mean, "logits": logits, "target": y}

        def validation_step(self, batch, number):
            self.network(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), LR)

    module = Module()
    keeper = ModelKeeper(module.network, module.criterion)
    trainer = lightning.Trainer(
        max_epochs=7,
        accelerator="cpu",
        precision=precision,
        callbacks=[KeepBest(keeper)],
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(mgce.IndexedDataset(TRAIN), BATCH), DataLoader(VALID, BATCH))
    dtype = torch.bfloat16 if precision == "bf16-true" else torch.float64
    assert keeper.best().weight.dtype == keeper.average.weight.dtype == dtype
    assert keeper.state_dict()["average"]["module.weight"].dtype == torch.float32  # as the network was at first
    assert keeper.left_out == 0 and module.criterion.left_out == 0
    for buffer in module.criterion.buffers():
        assert buffer.dtype in (torch.float32, torch.int32, torch.int64)
    assert max(epoch.network for epoch in keeper.epochs) > 0.4  # of a third by chance


def test_skorch_ends_with_the_weights_that_were_kept():
    pytest.importorskip("skorch", reason="needs skorch")
    from skorch.helper import predefined_split

    from mgce.integrations.skorch import KeepBest, MGCENet

    net = MGCENet(
        network(),
        criterion=nn.CrossEntropyLoss(),
        predict_nonlinearity=None,
        optimizer=torch.optim.SGD,
        lr=LR,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        train_split=predefined_split(VALID),
        callbacks=[("keep", KeepBest())],
        verbose=0,
    ).fit(X[:60].numpy(), Y[:60].numpy())
    keeper = dict(net.callbacks_)["keep"].keeper_
    assert_like_by_hand(keeper)
    want = by_hand().best()(X[60:]).detach().numpy()
    np.testing.assert_allclose(net.predict_proba(X[60:].numpy()), want, rtol=1e-5)
    with pytest.raises(ValueError, match="Expected `train_split` to be one that sets validation rows aside"):
        net.set_params(train_split=None).fit(X[:60].numpy(), Y[:60].numpy())


@pytest.mark.integration
@pytest.mark.parametrize("outputs", ["model output", "dict", "tuple"])
def test_the_trainer_of_hugging_face(tmp_path, monkeypatch, outputs):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip("accelerate", reason="needs accelerate")
    # The folder tests/datasets is on the path here, and the Trainer takes it for the library of that name.
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    from transformers.modeling_outputs import SequenceClassifierOutput

    from mgce.integrations.transformers import KeepBest, TrainerLoss

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network()

        def forward(self, inputs, labels=None):
            logits = self.network(inputs)
            return {
                "model output": SequenceClassifierOutput(logits=logits),
                "dict": {"logits": logits},
                "tuple": (logits,),
            }[outputs]

    model = Model()
    keeper = ModelKeeper(model, nn.CrossEntropyLoss())
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        learning_rate=LR,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        remove_unused_columns=False,
        label_names=["labels"],
        logging_strategy="no",
        disable_tqdm=True,
        train_sampling_strategy="sequential",
    )
    rows = [[{"inputs": x, "labels": y} for x, y in part] for part in (TRAIN, VALID)]
    trainer = transformers.Trainer(
        model,
        arguments,
        train_dataset=rows[0],
        eval_dataset=rows[1],
        compute_loss_func=TrainerLoss(nn.CrossEntropyLoss()),
    )
    trainer.add_callback(KeepBest(keeper, trainer.get_eval_dataloader()))
    trainer.train()
    want, found = by_hand(), copy.deepcopy(keeper)
    assert [(epoch.network, epoch.average) for epoch in found.epochs] == [
        (epoch.network, epoch.average) for epoch in want.epochs
    ]
    for name, value in want.best().state_dict().items():
        torch.testing.assert_close(found.best().network.state_dict()[name], value)
