"""Define a Lightning callback that logs metrics of MGCE's probabilities and bounds the test error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torchmetrics import MeanMetric, Metric

from mgce._messages import expected
from mgce._validation import has_float64
from mgce.loop.keeper import ModelKeeper
from mgce.losses.modules import MGCELoss
from mgce.losses.protocol import both_probs, ignore_index_of, with_reduction
from mgce.metrics import ExpectedCalibrationError, StaticCalibrationError
from mgce.metrics.evaluation import rank_classes
from mgce.risk import RiskCertificate, certify

LOGITS, TARGET = "logits", "target"


class RobustMetrics(Callback):
    r"""Log the loss, the accuracy, and calibration errors of the probabilities h and p; after a test, bound the error.

    .. math:: \text{objective} = \frac{1}{N} \sum_i \ell_\beta(f_i, y_i)

    A module's `validation_step` and `test_step` return a mapping with `"logits"`, shape (N, k) for N rows and k
    classes, and `"target"`, shape (N,). Rows whose label the criterion ignores, such as -100, do not count. After
    each validation and test epoch, `val_` or `test_` and these names are logged: `objective`, `accuracy`, `ece_h`,
    `sce_h`, `ece_p`, `sce_p`; ECE and SCE are calibration errors. Testing also logs `test_argmax_error_bound` and
    `test_randomized_error_bound`, and stores the whole certificate in `certificate`. With `noise_rate` the names
    end in `_conditional_bound`, unless the labels refute the rate. Call `Trainer.test` with rows that no part of
    training has used, early stopping included.

    Args:
        num_classes: number k of classes.
        criterion: the loss that the model is trained with; :class:`mgce.MGCELoss` with the default `beta` unless given.
            It determines h, the output of its link, and p, the worst-case probabilities for its `beta`.
        delta: probability in (0, 1) with which the certificate may fail.
        noise_rate: share of wrong labels in the test rows, as for :func:`mgce.certify`.

    Attributes:
        certificate: the :class:`mgce.risk.RiskCertificate` of the last test, or None.

    Raises:
        ValueError: if a step returns no such mapping, or rows are tested on several devices, whose samplers repeat
            rows: a certificate needs each row once.

    Example:
        >>> callback = RobustMetrics(num_classes=3, criterion=MGCELoss(beta=1.4))
        >>> callback.certificate is None
        True

    Reference: paper, equations (14), (15) and (19); :func:`mgce.certify` for the bounds.
    """

    def __init__(
        self,
        num_classes: int,
        criterion: nn.Module | None = None,
        *,
        delta: float = 0.05,
        noise_rate: float = 0.0,
    ) -> None:
        self.criterion = MGCELoss() if criterion is None else criterion
        with_reduction(self.criterion, "mean", "criterion")  # raises if this is not a loss
        self.delta, self.noise_rate = delta, noise_rate
        self.certificate: RiskCertificate | None = None
        self._metrics: dict[str, Metric] = {"objective": MeanMetric(), "accuracy": MeanMetric()}
        for output in ("h", "p"):
            self._metrics[f"ece_{output}"] = ExpectedCalibrationError()
            self._metrics[f"sce_{output}"] = StaticCalibrationError(num_classes)
        self._tested: list[tuple[Tensor, Tensor]] = []

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Reset all metrics, and move them to the device of the module."""
        self._reset(pl_module)

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise an error unless one device is used; reset all metrics, and move them to the device of the module."""
        if trainer.world_size > 1:
            raise ValueError(expected("trainer", "on one device in `test`, for a certificate", trainer.world_size))
        self._reset(pl_module)
        self._tested = []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add a validation batch to all metrics."""
        self._update(*self._labelled(outputs, "validation_step"))

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add a test batch to all metrics, and keep its probabilities h for the certificate."""
        logits, target = self._labelled(outputs, "test_step")
        self._tested.append((self._update(logits, target).cpu(), target.cpu()))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log all metrics under names that begin with `val_`."""
        self._log(pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log all metrics under names that begin with `test_`; certify the test error and log its bounds."""
        self._log(pl_module, "test")
        probs, target = (torch.cat(parts) for parts in zip(*self._tested, strict=True))
        self.certificate = certify(target, probs, delta=self.delta, noise_rate=self.noise_rate)
        kind = "" if self.certificate.conditional is None else "_conditional"
        for name in ("argmax_error", "randomized_error"):
            pl_module.log(f"test_{name}{kind}_bound", getattr(self.certificate.assumed, name))

    def _reset(self, pl_module: LightningModule) -> None:
        for metric in self._metrics.values():
            metric.to(pl_module.device).reset()

    @torch.no_grad()
    def _update(self, logits: Tensor, target: Tensor) -> Tensor:
        """Add a batch to every metric; return the predicted probabilities h of the batch."""
        f = logits.double() if has_float64(logits.device) else logits.float()
        outputs = dict(zip(("h", "p"), both_probs(self.criterion, f), strict=True))
        order, place = rank_classes(f, target)
        objective = with_reduction(self.criterion, "mean").eval()  # copied anew, as the criterion may have moved
        self._metrics["objective"].update(objective(logits.float(), target), len(target))
        self._metrics["accuracy"].update((place == 0).float())
        for output, probs in outputs.items():
            self._metrics[f"ece_{output}"].update(probs.gather(-1, order), place)
            self._metrics[f"sce_{output}"].update(probs, target)
        return outputs["h"]

    def _log(self, pl_module: LightningModule, stage: str) -> None:
        # Computed here, over all devices, so that what is logged is plain numbers.
        pl_module.log_dict({f"{stage}_{name}": metric.compute().float() for name, metric in self._metrics.items()})

    def _labelled(self, outputs: Any, step: str) -> tuple[Tensor, Tensor]:
        """Return the logits and targets of a step's rows, without rows whose label the criterion ignores."""
        logits, target = _logits_and_target(outputs, step)
        rows = target != ignore_index_of(self.criterion)
        return logits[rows], target[rows]


def _logits_and_target(outputs: Any, step: str) -> tuple[Tensor, Tensor]:
    if not (isinstance(outputs, Mapping) and LOGITS in outputs and TARGET in outputs):
        what = f"a mapping with {LOGITS!r} and {TARGET!r}"
        raise ValueError(expected(f"what {step} returns", what, type(outputs).__name__))
    return outputs[LOGITS].detach(), outputs[TARGET]


class KeepBest(Callback):
    r"""Let a :class:`mgce.ModelKeeper` watch a training by Lightning, and save its state in Lightning's checkpoints.

    .. math:: \bar\theta \leftarrow d\, \bar\theta + (1 - d)\, \theta \quad \text{after each step}

    theta are the weights of the network, :math:`\bar\theta` is their average, and d is the decay of `ModelKeeper`.
    After each epoch the network and the average of its weights predict the rows of the trainer's validation loaders.
    `keeper.best()` is the network that was kept. The average is updated before the first epoch is measured.

    Args:
        keeper: a keeper of the network and the criterion inside the LightningModule. A `training_step` that returns
            `"logits"` and `"target"` beside `"loss"` lets the keeper count the training labels that are predicted.

    Raises:
        ValueError: if the trainer has no validation rows.

    Example:
        >>> keeper = ModelKeeper(nn.Linear(2, 2), nn.CrossEntropyLoss())
        >>> callback = KeepBest(keeper)  # Trainer(callbacks=[callback]).fit(module, train_loader, validation_loader)
        >>> print(callback.keeper)
        Nothing is kept before the first epoch has ended.

    Reference: :class:`mgce.ModelKeeper`.
    """

    def __init__(self, keeper: ModelKeeper) -> None:
        self.keeper = keeper

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Update the average of the weights."""
        told = outputs if isinstance(outputs, Mapping) else {}
        self.keeper.step(told.get(LOGITS), told.get(TARGET))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the network and the average of its weights on the validation rows."""
        loaders = trainer.val_dataloaders
        if not loaders:
            raise ValueError(expected("trainer", "fitted with a validation loader, by which a keeper chooses", loaders))
        several = loaders.values() if isinstance(loaders, Mapping) else loaders
        several = several if isinstance(loaders, Mapping | list | tuple) else [loaders]
        inputs = trainer.precision_plugin.convert_input  # in the dtype of the network
        epoch = self.keeper.end_epoch([inputs(batch) for loader in several for batch in loader])
        for name in ("network", "average"):
            pl_module.log(f"val_accuracy_{name}", getattr(epoch, name))

    def state_dict(self) -> dict[str, Any]:
        """Return the keeper's state, for a checkpoint of Lightning."""
        return self.keeper.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the keeper's state from a checkpoint of Lightning."""
        self.keeper.load_state_dict(state_dict)
