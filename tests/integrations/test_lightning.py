import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lightning", reason="needs lightning")

from lightning.pytorch import LightningModule, Trainer

from mgce import MGCELoss, _validation, certify
from mgce.functional import minimax_probs, worst_case_probs
from mgce.integrations.lightning import RobustMetrics
from mgce.metrics.evaluation import measure

QUICK = True
BETA = 1.4
GENERATOR = torch.Generator().manual_seed(0)
FEATURES = torch.randn(230, 5, generator=GENERATOR)
TARGET = torch.where(torch.rand(230, generator=GENERATOR) < 0.8, FEATURES[:, :3].argmax(1), 0)
ROWS = TensorDataset(FEATURES, TARGET)


class Network(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.criterion = MGCELoss(beta=BETA)

    def training_step(self, batch, index):
        return self.criterion(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, index):
        return {"logits": self.layer(batch[0]), "target": batch[1]}

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.5)


class WithoutLogits(Network):
    def validation_step(self, batch, index):
        return self.criterion(self.layer(batch[0]), batch[1])


def trainer_of(callback, tmp_path):
    return Trainer(
        max_epochs=3,
        accelerator="cpu",
        callbacks=[callback],
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


# About workers of a loader of 230 rows in memory.
@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's, about PyTorch
def test_logs_what_the_functions_give_and_certifies(tmp_path):
    torch.manual_seed(0)
    module, callback = Network(), RobustMetrics(3, MGCELoss(beta=BETA), delta=0.1)
    trainer = trainer_of(callback, tmp_path)
    trainer.fit(module, DataLoader(ROWS, 50), DataLoader(ROWS, 60))
    assert callback.certificate is None
    with torch.no_grad():
        logits = module.layer(FEATURES)
    outputs = {"h": minimax_probs(logits.double(), beta=BETA), "p": worst_case_probs(logits.double(), beta=BETA)}
    want = {**measure(logits, TARGET, outputs), "objective": float(MGCELoss(beta=BETA)(logits, TARGET))}
    logged = trainer.callback_metrics
    assert {name for name in logged if name.startswith("val_")} == {f"val_{name}" for name in want}
    for name, value in want.items():
        assert logged[f"val_{name}"].item() == pytest.approx(value, abs=1e-6), name
    trainer.test(module, DataLoader(ROWS, 60), verbose=False)
    certificate = certify(TARGET, outputs["h"], delta=0.1)
    assert callback.certificate.argmax_error == pytest.approx(certificate.argmax_error, abs=1e-9)
    assert callback.certificate.delta == 0.1
    bound = trainer.callback_metrics["test_randomized_error_bound"].item()
    assert bound == pytest.approx(certificate.randomized_error, abs=1e-4)


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_cross_entropy_of_pytorch_is_measured_by_softmax(tmp_path):
    torch.manual_seed(0)
    module, callback = Network(), RobustMetrics(3, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0])))
    trainer = trainer_of(callback, tmp_path)
    trainer.fit(module, DataLoader(ROWS, 50), DataLoader(ROWS, 60))
    trainer.test(module, DataLoader(ROWS, 230), verbose=False)
    with torch.no_grad():
        logits = module.layer(FEATURES)
    softmax = logits.double().softmax(1)
    for name, value in measure(logits, TARGET, {"h": softmax, "p": softmax}).items():
        assert trainer.callback_metrics[f"test_{name}"].item() == pytest.approx(value, abs=1e-6), name
    objective = nn.functional.cross_entropy(logits, TARGET, torch.tensor([1.0, 2.0, 1.0])).item()
    assert trainer.callback_metrics["test_objective"].item() == pytest.approx(objective, abs=1e-5)
    assert callback.certificate.argmax_error == pytest.approx(certify(TARGET, softmax).argmax_error)


def test_where_there_is_no_float64_the_link_is_of_float32(monkeypatch):
    logits = 2 * torch.randn(60, 3)
    want = RobustMetrics(3)._update(logits, TARGET[:60])
    monkeypatch.setattr(_validation, "WITHOUT_FLOAT64", ("cpu",))
    h = RobustMetrics(3)._update(logits, TARGET[:60])
    assert (want.dtype, h.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(h, want.float())


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_a_step_that_returns_something_else_is_told(tmp_path):
    with pytest.raises(ValueError, match="Expected `what validation_step returns` to be a mapping with 'logits'"):
        trainer_of(RobustMetrics(3), tmp_path).fit(WithoutLogits(), DataLoader(ROWS, 50), DataLoader(ROWS, 60))


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's, about PyTorch
def test_rows_without_a_label_do_not_count(tmp_path):
    found = {}
    kept = torch.arange(len(TARGET)) % 3 > 0
    some = TensorDataset(FEATURES, torch.where(kept, TARGET, -100)), TensorDataset(FEATURES[kept], TARGET[kept])
    for name, rows in zip(("ignored", "dropped"), some, strict=True):
        torch.manual_seed(0)
        callback = RobustMetrics(3, MGCELoss(beta=BETA))
        (found[name],) = trainer_of(callback, tmp_path).test(Network(), DataLoader(rows, 40), verbose=False)
    assert found["ignored"] == pytest.approx(found["dropped"], rel=1e-5)
