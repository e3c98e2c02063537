"""Keep the best weights of a training loop, averaged or not: those that predict most noisy validation labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from mgce._messages import expected
from mgce._svg import Axis, Series, chart
from mgce.labels.choosing import shown_better
from mgce.labels.share import kind_of_predictions, share_of_predictions
from mgce.loop.average import Average, copied, random_states, set_random
from mgce.loop.verdict import CHOICE_LEVEL, Decline, Epoch, Predict, Verdict, of_batch, predictions, recalls
from mgce.losses.protocol import ignore_index_of

# Colours that people with any colour vision tell apart (Okabe and Ito).
COLOURS = {"training": "#8a8a8a", "network": "#0072b2", "average": "#d55e00"}
NAMES = {
    "training": "training labels, network",
    "network": "validation labels, network",
    "average": "validation labels, average of the weights",
}
STYLE = (
    "text{font:11px sans-serif;fill:#333}.grid{stroke:#ddd}polyline{fill:none;stroke-width:2}"
    + "".join(f".{name}{{stroke:{colour};fill:{colour}}}" for name, colour in COLOURS.items())
    + "polyline{fill:none!important}"
)


def picture(epochs: Sequence[Epoch], kept_epoch: int, kept: str) -> str:
    """Return the training as an SVG document: for each epoch, the shares of given labels that are predicted.

    Args:
        epochs: the epochs, at least one.
        kept_epoch: the epoch whose weights are kept, counted from 1.
        kept: which weights these are: `"network"` or `"average"`.
    """
    height, line, radius = 300, 16, 6.0  # of the chart, of a line of its legend, and of the point that is kept
    series = []
    for name in COLOURS:
        values = [(number, getattr(epoch, name)) for number, epoch in enumerate(epochs, 1)]
        points = [
            (float(number), 100 * value, radius if (number, name) == (kept_epoch, kept) else 2.0)
            for number, value in values
            if not math.isnan(value)
        ]
        if points:
            series.append(Series(points, name))
    last, step = len(epochs), math.ceil(len(epochs) / 6)  # more labels on the axis would touch
    x = Axis("epoch", 1 - 0.5 * (last == 1), max(last, 1.5), [(i, str(i)) for i in range(1, last + 1, step)])
    y = Axis("labels predicted, %", 0, 100, [(value, str(value)) for value in range(0, 101, 25)])
    drawn = chart(series, x, y, "Shares of given labels that are predicted, by epoch", height=height)
    legend = [(one.style, NAMES[one.style]) for one in series] + [(kept, f"kept: epoch {kept_epoch}")]
    parts = [drawn.removesuffix("</svg>").replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)]
    parts[0] = parts[0].replace(f"0 0 360 {height}", f"0 0 360 {height + line * (len(legend) + 1)}", 1)
    parts[0] = parts[0].replace(">", f"><style>{STYLE}</style>", 1)
    for row, (name, text) in enumerate(legend, 1):
        place = height + line * row
        parts.append(f'<circle class="{name}" cx="70" cy="{place - 4}" r="{radius if row == len(legend) else 3}"/>')
        parts.append(f'<text x="84" y="{place}">{text}</text>')
    return "".join(parts) + "</svg>"


# Weights are averaged over about this many epochs, so that the average does not depend on the size of a batch.
HORIZON = 2.0
NETWORK, AVERAGE = "network", "average"


class ModelKeeper:
    r"""Keep, in any training loop, the weights that predict most labels of a noisy validation set.

    Two candidates are measured after each epoch t: the network's weights :math:`\theta_t`, and their moving average

    .. math:: \bar\theta \leftarrow d\, \bar\theta + (1 - d)\, \theta, \qquad d = 1 - \frac{1}{2 m}

    after each step, with m steps in an epoch. The running statistics of batch normalisation are averaged too. The
    average has at least the digits of float32. Steps after which a weight is NaN or infinite are left out. The best
    epoch of the average is kept, unless the best epoch of the network is shown to predict more validation labels: the
    average is better more often than a few hundred rows can show.

    The validation labels may be as wrong as the training labels: a network that memorises wrong labels of training rows
    predicts fewer labels of other rows.

    Call :meth:`step` after each step of the optimizer, and :meth:`end_epoch` after each epoch. Then :meth:`best` is the
    network with the kept weights. :attr:`verdict` describes the training in numbers, and `print(keeper)` in sentences.

    Args:
        network: the network that is trained. It is neither moved nor changed.
        criterion: the loss, whose buffers belong to :meth:`state_dict`.
        others: other objects with a `state_dict`, by name, to be saved and restored with the rest: the optimizer, a
            scheduler.
        predict: function from a model and a batch of the validation set to logits (n, k) and labels (n,). By default a
            batch is a tuple that begins with inputs and labels, or a mapping with `labels` as Hugging Face has it.
        classes: the names of the classes, for sentences; their numbers if None.

    Rows with a label that the criterion ignores, such as -100, count neither in training nor in validation.

    Attributes:
        epochs: an :class:`Epoch` for each epoch so far.

    Raises:
        TypeError: if `network` or `criterion` is no module.

    Example:
        >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
        >>> rows = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
        >>> train, noisy = (torch.utils.data.Subset(rows, part) for part in (range(200), range(200, 400)))
        >>> network, criterion = nn.Linear(2, 2), nn.CrossEntropyLoss()
        >>> _ = nn.init.zeros_(network.weight), nn.init.zeros_(network.bias)
        >>> optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        >>> keeper = ModelKeeper(network, criterion, others={"optimizer": optimizer})
        >>> for epoch in range(5):
        ...     for inputs, target in torch.utils.data.DataLoader(train, batch_size=40):
        ...         logits = network(inputs)
        ...         criterion(logits, target).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         keeper.step(logits, target)
        ...     epoch = keeper.end_epoch(torch.utils.data.DataLoader(noisy, batch_size=50))
        >>> network = keeper.best()
        >>> print(keeper)  # doctest: +NORMALIZE_WHITESPACE
        The average of the weights after epoch 4 of 5 is kept: it predicts 96.0% of the validation labels. The network
        predicts 96.0% at its best, and 96.0% after the last epoch. In the last epoch it predicted 97.0% of the training
        labels, 1.0 points more than of the validation labels. Since its best epoch it has lost 0 of the validation
        labels and gained 0. Of all labels, class 0 is predicted least often: for 93 of its 98 rows. At most 7.2% of
        the validation labels are wrong, if on every row the right label is at least as likely as any one wrong label.
        Whether wrong labels depend on the class, these rows cannot tell.

    References: Izmailov et al., Averaging weights leads to wider optima and better generalization, 2018; Polyak and
    Juditsky, Acceleration of stochastic approximation by averaging, 1992.
    """

    def __init__(
        self,
        network: nn.Module,
        criterion: nn.Module,
        *,
        others: Mapping[str, Any] | None = None,
        predict: Predict | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        for name, module in (("network", network), ("criterion", criterion)):
            if not isinstance(module, nn.Module):
                raise TypeError(expected(name, "a module", module))
        self.others = dict(others or {})
        for name, other in self.others.items():
            if not (hasattr(other, "state_dict") and hasattr(other, "load_state_dict")):
                raise TypeError(expected(name, "an object with state_dict and load_state_dict", other))
        self.network, self.criterion, self.classes = network, criterion, classes
        self.predict = of_batch if predict is None else predict
        self.epochs: list[Epoch] = []
        self._average = Average(network)
        self._best: dict[str, dict[str, Any]] = {}  # of either candidate, its best epoch
        self._lost = [0, 0]  # of the validation rows: see `verdict.Decline`
        self._total, self._steps, self._steps_of_epoch = 0, 0, 0
        # Of each step: training labels predicted, and rows. They are read at the end of the epoch.
        self._trained: list[Tensor] = []

    def step(self, logits: Tensor | None = None, target: Tensor | None = None) -> None:
        """Update the average of the network's weights; call this method after each step of the optimizer.

        Args:
            logits: logits of the step's rows, shape (n, k), to count the training labels that are predicted.
            target: their given labels, shape (n,), or class probabilities, shape (n, k). Rows of zeros have no label.
        """
        self._average.update(self.network, self._decay())
        self._total += 1
        self._steps += 1
        if logits is not None and target is not None:
            soft = target.is_floating_point()
            rows = target.any(1) if soft else target != ignore_index_of(self.criterion)
            found = logits.detach().argmax(1) == (target.argmax(1) if soft else target)
            self._trained.append(torch.stack([(found & rows).sum(), rows.sum()]))

    def end_epoch(self, validation: Iterable[Any]) -> Epoch:
        """Measure network and average on the validation set; keep the weights of each if they are its best so far.

        Args:
            validation: batches of the validation set, in the same order each time; :attr:`predict` reads them.

        Returns:
            The shares of given labels that are predicted after this epoch.

        Raises:
            RuntimeError: if no step was taken since the last epoch.
            ValueError: if the validation set has no row with a label.
        """
        if self._steps == 0:
            raise RuntimeError("Expected `step` to be called after each step of the optimizer, but it never was.")
        trained = torch.stack(self._trained).sum(0).tolist() if self._trained else [0, 0]
        batches = validation, self.predict, ignore_index_of(self.criterion)
        found = {name: predictions(model, *batches) for name, model in self._models().items()}
        accuracy = {name: float(one.right.double().mean()) for name, one in found.items()}
        epoch = Epoch(**accuracy, training=trained[0] / trained[1] if trained[1] else float("nan"))
        self.epochs.append(epoch)
        for name, model in self._models().items():
            if name not in self._best or accuracy[name] > self._best[name]["accuracy"]:
                self._best[name] = {"epoch": len(self.epochs), "of": name, "accuracy": accuracy[name]}
                self._best[name] |= {"state": copied(model.state_dict()), **asdict(found[name])}
        before, now = _right(self._best[NETWORK]), found[NETWORK].right
        self._lost = [int((before & ~now).sum()), int((now & ~before).sum())]
        self._steps_of_epoch, self._steps, self._trained = self._steps, 0, []
        return epoch

    def best(self) -> nn.Module:
        """Return a copy of the network with the weights that were kept, in evaluation mode.

        Raises:
            RuntimeError: before the first epoch has ended.
        """
        kept = self._require_kept()
        model = copied(self.network)
        model.load_state_dict(kept["state"])
        return model.eval()

    @property
    def average(self) -> nn.Module:
        """The network with averaged weights, as of the last step."""
        return self._average.module

    @property
    def left_out(self) -> int:
        """Number of steps that the average leaves out: after each of them, a weight of the network was not finite."""
        return self._average.left_out

    @property
    def kept_epoch(self) -> int:
        """The epoch whose weights are kept, counted from 1.

        Raises:
            RuntimeError: before the first epoch has ended.
        """
        epoch: int = self._require_kept()["epoch"]
        return epoch

    @property
    def kept_right(self) -> Tensor:
        """Whether the kept weights predict the given label of each validation row that has one, shape (n,), bool.

        Raises:
            RuntimeError: before the first epoch has ended.
        """
        return _right(self._require_kept())

    @property
    def kept_accuracy(self) -> float:
        """The share of the validation labels that the kept weights predict.

        Raises:
            RuntimeError: before the first epoch has ended.
        """
        accuracy: float = self._require_kept()["accuracy"]
        return accuracy

    @property
    def verdict(self) -> Verdict:
        """How well the training predicts validation labels, in numbers; `print` says the numbers in sentences.

        Raises:
            RuntimeError: before the first epoch has ended.
        """
        kept = self._require_kept()
        target, predicted = kept["target"].numpy(), kept["predicted"].numpy()
        kind = kind_of_predictions(target, predicted, kept["margin"].numpy().astype(float), kept["num_classes"])
        return Verdict(
            kept=kept["of"],
            kept_epoch=kept["epoch"],
            kept_accuracy=kept["accuracy"],
            best_accuracy=self._best[NETWORK]["accuracy"],
            epochs=tuple(self.epochs),
            decline=Decline(*self._lost),
            recalls=recalls(kept["target"], kept["predicted"], kept["num_classes"]),
            noise_share=share_of_predictions(target, predicted),
            noise_kind=kind,
            left_out=self.left_out,
            classes=self.classes,
        )

    def to_svg(self) -> str:
        """Return a picture of the training as an SVG document: accuracies by epoch, and what is kept.

        A notebook shows this picture of a keeper. Elsewhere write it to a file, by :meth:`pathlib.Path.write_text`.

        Raises:
            RuntimeError: before the first epoch has ended.
        """
        kept = self._require_kept()
        return picture(self.epochs, kept["epoch"], kept["of"])

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if self._best else None

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which training goes on with equal bits: tensors, numbers and texts only.

        It holds the states of the network, the criterion, the average, the other objects and PyTorch's random
        generators, and what was kept. Save it after an epoch: `torch.save(keeper.state_dict(), path)`. The state is a
        copy, which does not change while training goes on.
        """
        state = {
            NETWORK: self.network.state_dict(),
            "criterion": self.criterion.state_dict(),
            AVERAGE: self._average.state_dict(),
            "others": {name: other.state_dict() for name, other in self.others.items()},
            "epochs": [asdict(epoch) for epoch in self.epochs],
            "best": self._best,
            "lost": self._lost,
            "steps": [self._total, self._steps_of_epoch],
            "random": random_states(),
        }
        return copied(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a copy of a :meth:`state_dict`, read by `torch.load(path, weights_only=True)`.

        Raises:
            ValueError: if the state has other objects than this keeper.
        """
        if sorted(state["others"]) != sorted(self.others):
            raise ValueError(expected("state", f"of a keeper with {sorted(self.others)}", sorted(state["others"])))
        state = copied(state)  # training on changes what it is given: one state may begin several trainings
        self.network.load_state_dict(state[NETWORK])
        self.criterion.load_state_dict(state["criterion"])
        self._average.load_state_dict(state[AVERAGE])
        for name, other in self.others.items():
            other.load_state_dict(state["others"][name])
        self.epochs = [Epoch(**epoch) for epoch in state["epochs"]]
        self._best, self._lost = state["best"], state["lost"]
        (self._total, self._steps_of_epoch), self._steps, self._trained = state["steps"], 0, []
        set_random(state["random"])

    def __str__(self) -> str:
        """Say the verdict in sentences, or that there is none yet."""
        return str(self.verdict) if self._best else "Nothing is kept before the first epoch has ended."

    def _models(self) -> dict[str, nn.Module]:
        """Return the two candidates by name."""
        return {NETWORK: self.network, AVERAGE: self.average}

    def _decay(self) -> float:
        """Return d, the weight of the running average in its next update; the network has the weight 1 - d."""
        # Fewer steps count at first, or the average would remember the initial weights for too long.
        decay = (1 + self._total) / (10 + self._total)
        if self._steps_of_epoch:
            decay = min(decay, 1 - 1 / (HORIZON * self._steps_of_epoch))
        return decay

    def _require_kept(self) -> dict[str, Any]:
        """Return the best epoch of the average, or that of the network if it is shown to be better."""
        if not self._best:
            raise RuntimeError("Expected `end_epoch` to be called before, but no epoch has ended.")
        network, average = self._best[NETWORK], self._best[AVERAGE]
        return network if shown_better(_right(network), _right(average), CHOICE_LEVEL) else average


def _right(best: dict[str, Any]) -> Tensor:
    """Return whether the best epoch of a candidate predicts the given label of each validation row, (n,)."""
    right: Tensor = best["predicted"] == best["target"]
    return right
