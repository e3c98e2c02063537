"""Define the settings for training: those of all networks, and those of ensembles of small networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mgce._messages import check_choice, check_count, check_fraction, check_number, expected

OPTIMIZERS = ("sgd", "adam")


@dataclass(frozen=True, kw_only=True)
class DescentSettings:
    r"""Settings for minimising the objective of a network; the defaults are those of the paper.

    The objective is the mean loss over the rows plus a penalty,
    :math:`\frac1n \sum_i \ell_\beta(f_i, y_i) + \lambda_0 \lVert \mu \rVert_1`, with mu the weights of the network. The
    objective has the form of the paper's minimax risk :math:`V_\beta`, with a constant lambda_0 instead of the vector
    lambda. But the objective is not a bound on the error, since the features are learnt and lambda_0 is not chosen for
    a bound.

    Attributes:
        epochs: number of passes over the rows.
        batch_size: number of rows in a step.
        lr: learning rate.
        momentum: momentum of SGD, in [0, 1).
        milestones: numbers of epochs after which the learning rate is multiplied by `gamma`.
        gamma: factor of the learning rate at the milestones.
        l1: weight lambda_0 of the penalty, at least 0.
        l1_on: weights to penalise: those of the `"last"` layer, or `"all"` weights and biases as in the experiments of
            the paper.
        max_norm: largest norm of the gradient of a network, penalty included; a larger gradient is scaled down. None
            means no limit.

    Raises:
        TypeError, ValueError: if a setting has a type or a value not allowed above.

    Reference: paper, section 5.1 and appendix.
    """

    epochs: int = 150
    batch_size: int = 128
    lr: float = 1e-3
    momentum: float = 0.9
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1
    l1: float = 1e-5
    l1_on: str = "all"
    max_norm: float | None = 5.0

    def __post_init__(self) -> None:
        check_choice("l1_on", self.l1_on, ("last", "all"))
        if not isinstance(self.milestones, Sequence):
            raise TypeError(expected("milestones", "a sequence of integers", self.milestones))
        for epoch in self.milestones:
            check_count("milestones", epoch)
        check_count("epochs", self.epochs)
        check_count("batch_size", self.batch_size)
        for name in ("lr", "gamma") if self.max_norm is None else ("lr", "gamma", "max_norm"):
            check_number(name, getattr(self, name), 0, above=True)
        check_fraction("momentum", self.momentum)
        if self.momentum == 1:
            raise ValueError(expected("momentum", "a float in [0, 1)", self.momentum))
        check_number("l1", self.l1, 0)

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0."""
        return self.lr * self.gamma ** sum(milestone <= epoch for milestone in self.milestones)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(DescentSettings):
    """Settings for training an ensemble of small networks; the defaults are those of the paper for tabular data.

    Attributes:
        hidden_layer_sizes: number of units of each hidden layer.
        optimizer: `"sgd"`, with `momentum`, or `"adam"`.
        ties: which epoch is selected if several have the best validation accuracy: the `"first"`, or the one with the
            least validation `"loss"`. The latter suits small validation splits, where accuracies are often equal.
        n_iter_no_change: after this many epochs without improvement the best epoch of a network is final. Training
            ends when this holds for all networks. None means that all epochs are run.

    The other settings are those of `DescentSettings`, except that by default the penalty is on the last layer. A batch
    has `batch_size` rows of each group; the last batch of an epoch may be smaller.

    Reference: paper, section 5.1 and appendix on tabular data.
    """

    hidden_layer_sizes: tuple[int, ...] = (1024,)
    optimizer: str = "sgd"
    l1_on: str = "last"
    ties: str = "first"
    n_iter_no_change: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("ties", self.ties, ("first", "loss"))
        for units in self.hidden_layer_sizes:
            check_count("hidden_layer_sizes", units)
        if self.n_iter_no_change is not None:
            check_count("n_iter_no_change", self.n_iter_no_change)
