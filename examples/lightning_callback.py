"""
Lightning
=========

A Lightning callback: both calibrations in each epoch, and a certificate from rows that training has not seen.

Runs in seconds: `pip install lightning torchmetrics && python examples/lightning_callback.py`.
"""

import logging
import warnings

import matplotlib.pyplot as plt
import torch
from lightning.pytorch import LightningModule, Trainer
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

from mgce import MGCELoss
from mgce.integrations.lightning import RobustMetrics
from mgce.metrics import reliability_curve
from mgce.noise import corrupt, symmetric

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message=".*does not have many workers")
warnings.filterwarnings("ignore", category=FutureWarning)

X, y = load_digits(return_X_y=True)
features, target = torch.from_numpy(X / 16).float(), torch.from_numpy(y)
generator = torch.Generator().manual_seed(0)
noisy = corrupt(target, symmetric(10, 0.3), generator).labels
train, validation, fresh = random_split(TensorDataset(features, noisy), [1000, 297, 500], generator)


class Digits(LightningModule):
    """A hidden layer, and steps that give what the callback measures."""

    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        self.criterion = MGCELoss(beta=1.4)

    def training_step(self, batch, batch_idx):
        """Return the loss."""
        return self.criterion(self.network(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        """Return logits and target."""
        return {"logits": self.network(batch[0]), "target": batch[1]}

    test_step = validation_step

    def configure_optimizers(self):
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), 0.003)


torch.manual_seed(0)
module = Digits()
measures = RobustMetrics(10, module.criterion, noise_rate=0.3)
trainer = Trainer(
    max_epochs=5,
    accelerator="cpu",
    callbacks=[measures],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, DataLoader(train, 64, shuffle=True), DataLoader(validation, 297))
print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})
trainer.test(module, DataLoader(fresh, 500), verbose=False)
print(measures.certificate)

# %%
# The probabilities h against the right labels of the fresh rows.

rows = fresh.indices
with torch.no_grad():
    h = module.criterion.link(module.network(features[rows]))
reliability_curve(h, target[rows]).plot(plt.gca())
plt.show()
