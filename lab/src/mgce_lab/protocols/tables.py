"""Define the runs of the benchmark on tables: small networks with several losses, all trained in one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mgce._files import plain
from mgce._messages import check_choice, check_number
from mgce.losses.trimmed import check_trim
from mgce.metrics.evaluation import evaluate
from mgce_lab.engine.methods import TRIMMED, Method, PublishedFor, stages
from mgce_lab.engine.place import Place
from mgce_lab.engine.records import keep_logits, rounded, short
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import run_name
from mgce_lab.engine.tables import TableRun
from mgce_lab.training.settings import TrainingSettings

# The data set whose published hyperparameters the losses have: none were published for tables.
PUBLISHED_FOR = "cifar10"


@dataclass(frozen=True)
class RateRun(TableRun):
    """A run that trains networks on one table at one noise rate and learning rate, one for each seed and loss.

    Attributes:
        trim: for trimmed losses, the fraction of the rows of every label to leave out; None means the true fraction of
            wrong labels, which differs by label.
        penalty: weight of the L1 penalty, instead of `l1`; None uses `l1`.

    The other fields are those of `TableRun`.
    """

    kind: ClassVar[str] = "rates"
    axes: ClassVar[tuple[str, ...]] = ("noise_rate", "seeds", "members", "lr", "trim", "penalty")
    by_dataset: ClassVar[tuple[str, ...] | None] = None

    trim: float | None = None
    penalty: float | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None:
            check_number("penalty", self.penalty, 0)
        super().__post_init__()
        if self.trim is not None:
            check_trim("trim", self.trim)
            for name, _ in self.members:
                check_choice("members", name, TRIMMED)

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train all networks and return a record of each, measured at its epoch with the best validation accuracy.

        A record contains the method, beta, noise rate, seed and learning rate; the epoch; validation and test
        accuracy; the calibration errors ECE and SCE of the minimax probabilities h and the worst-case probabilities p,
        and the reliability curve of h; and the test accuracy by epoch. The logits of the n test rows for k classes,
        shape (seeds, members, n, k), are written to `place.logits` in float16.
        """
        table = self.table(place)
        told = self._told(table)
        losses = [Method(*member, self.trim).loss(self._published_for, *told) for member in self.members]
        fit, _, (logits, test) = self.train(table, place, stages(losses))
        keep_logits(place, run_name(document(self)), logits, test)
        given = {"trim": self.trim, "penalty": self.penalty}
        records = []
        for group, seed in enumerate(self.seeds):
            for member, ((name, beta), loss) in enumerate(zip(self.members, losses, strict=True)):
                measures = evaluate(logits[group, member], test[group], beta, link=loss.link())
                del measures["reliability_p"]
                records.append(
                    {
                        "method": name,
                        "beta": plain(beta),
                        "noise_rate": self.noise_rate,
                        "seed": seed,
                        "lr": self.lr,
                        "best_epoch": int(fit.best_epoch[group, member]),
                        "validation_accuracy": float(fit.curves["validation"][:, group, member].max()),
                        "test_accuracy_by_epoch": short(fit.curves["test"][:, group, member].tolist()),
                        **{name: value for name, value in given.items() if value is not None},
                        **rounded(measures),
                    }
                )
        return records

    def _hyperparameters(self) -> dict[str, Any]:
        return {name: Method(name, beta).hyperparameters(*self._published_for) for name, beta in self.members}

    @property
    def _published_for(self) -> PublishedFor:
        return PUBLISHED_FOR, None, None

    def _settings(self) -> TrainingSettings:
        settings = super()._settings()
        return settings if self.penalty is None else replace(settings, l1=self.penalty)
