"""Define the paper's runs on tables, which train networks with the paper's methods or with other losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from mgce._files import plain
from mgce.metrics.evaluation import both_outputs, evaluate
from mgce_lab.engine.methods import MINIMAX_MAE, PAPER, Method, PublishedFor, row_name, stages
from mgce_lab.engine.place import Place
from mgce_lab.engine.records import short
from mgce_lab.engine.tables import TableRun
from mgce_lab.paper.published_mae import evaluate_published_mae


@dataclass(frozen=True)
class TabularRun(TableRun):
    """A run of the paper's experiments that trains networks on one table at one noise rate; defaults are the paper's.

    The fields are those of `TableRun`. `hyperparameters` contains the published hyperparameters of those losses that
    are not among the paper's methods.
    """

    kind: ClassVar[str] = "tabular"
    axes: ClassVar[tuple[str, ...]] = ("noise_rate", "seeds", "members")
    by_dataset: ClassVar[tuple[str, ...] | None] = ("rows", "scaling", "random_test")

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train all networks and return a record of each, measured at its epoch with the best validation accuracy.

        A record contains the method, beta, noise rate and seed; the epoch; validation and test accuracy; the Brier
        score of the minimax probabilities h on the validation rows; the calibration errors ECE and SCE of h and of the
        worst-case probabilities p; and by epoch the validation and test accuracy and the objective, rounded to five
        digits. MGCE at beta = 1 has a second record, `mae_published`, for the probabilities with which the paper's
        table agrees.
        """
        table = self.table(place)
        losses = [Method(*member).loss(self._published_for, *self._told(table)) for member in self.members]
        fit, validation, test = self.train(table, place, stages(losses))
        records = []
        for group, seed in enumerate(self.seeds):
            for member, ((method, beta), loss) in enumerate(zip(self.members, losses, strict=True)):
                record = {"method": method, "beta": plain(beta), "noise_rate": self.noise_rate, "seed": seed}
                record["best_epoch"] = int(fit.best_epoch[group, member])
                record["validation_accuracy"] = float(fit.curves["validation"][:, group, member].max())
                logits, target = test.logits[group, member], test.target[group]
                measures = evaluate(logits, target, beta, link=loss.link())
                if row_name(method, beta) == MINIMAX_MAE:
                    published = record | {"method": "mae_published"} | _numbers(evaluate_published_mae(logits, target))
                h = both_outputs(validation.logits[group, member].double(), beta, loss.link())["h"]
                record["validation_brier"] = brier_score(h, validation.target[group])
                curves = {"validation_accuracy": fit.curves["validation"], "test_accuracy": fit.curves["test"]}
                for name, curve in {**curves, "objective": fit.objective}.items():
                    record[f"{name}_by_epoch"] = short(curve[:, group, member].tolist())
                records.append(record | _numbers(measures))
                if row_name(method, beta) == MINIMAX_MAE:
                    records.append(published)
        return records

    def _hyperparameters(self) -> dict[str, Any]:
        published = [Method(name, beta) for name, beta in self.members if name not in PAPER]
        return {method.name: method.hyperparameters(*self._published_for) for method in published}

    @property
    def _published_for(self) -> PublishedFor:
        """The data set and the noise for which published hyperparameters are looked up."""
        return self.dataset, "symmetric", self.noise_rate


def brier_score(probs: Tensor, target: Tensor) -> float:
    r"""Return the Brier score of predicted probabilities h and labels y, the mean of :math:`\sum_z (h_z - [z = y])^2`.

    The Brier score is proper. Unlike the losses at several beta, it has the same scale for all networks. Unlike log
    loss, it is finite if h is 0.

    Example:
        >>> brier_score(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 1]))
        1.25

    Reference: Brier, "Verification of forecasts expressed in terms of probability", 1950.
    """
    squares = probs.square().sum(-1) + 1 - 2 * probs.gather(-1, target[:, None]).squeeze(-1)
    return float(squares.mean())


def _numbers(measures: dict[str, Any]) -> dict[str, float]:
    """Return the metrics that are single numbers, without the reliability curves."""
    return {name: value for name, value in measures.items() if isinstance(value, float)}
