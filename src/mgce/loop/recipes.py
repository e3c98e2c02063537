"""Choose among recipes, that is, losses with all their settings, by noisy validation labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

from torch import Tensor, nn

from mgce._messages import check_count, expected
from mgce.labels.choosing import most_predicted
from mgce.loop.average import random_states, set_random
from mgce.loop.keeper import ModelKeeper
from mgce.loop.verdict import Verdict
from mgce.losses.early_learning import ELRLoss, SoftBootstrapLoss
from mgce.losses.indexed import AcceptsIndex, IndexedLoss
from mgce.losses.learned_forward import LearnedForwardCorrection
from mgce.losses.modules import MGCELoss
from mgce.losses.presets import robust_loss

Recipe = Callable[[int, int], nn.Module]  # from the numbers of training rows and of classes to a loss
Train = Callable[[nn.Module], Iterable[ModelKeeper]]

RECIPES: dict[str, Recipe] = {
    "MGCE 1.05": lambda num_rows, num_classes: MGCELoss(beta=1.05),
    "cross-entropy": lambda num_rows, num_classes: nn.CrossEntropyLoss(),
    "learned correction": lambda num_rows, num_classes: LearnedForwardCorrection(num_classes),
    "SCE": lambda num_rows, num_classes: robust_loss("sce", "cifar10"),
    "ELR": lambda num_rows, num_classes: ELRLoss(num_rows, num_classes),
    "soft bootstrap": lambda num_rows, num_classes: SoftBootstrapLoss(num_rows, num_classes),
}
# A training stops when its best epoch lies this many epochs back, and it had as many epochs as any other training.
# With this patience alone, 4 of the 126 trainings of `results/loop/runs.jsonl` lost more than 1 point of the validation
# labels against 20 epochs, since some losses stand still before they learn. With as many epochs for all, none did.
PATIENCE = 5


@dataclass(frozen=True)
class Trial:
    """What one recipe reached.

    Attributes:
        right: whether the kept weights predict the given label of each validation row, shape (n,), bool.
        epochs: number of epochs that were trained.
        network: the network with the kept weights, in evaluation mode; None if only predictions are known.
        verdict: what the training did to the validation labels; None if only predictions are known.
    """

    right: Tensor
    epochs: int
    network: nn.Module | None = field(default=None, repr=False)
    verdict: Verdict | None = None

    @property
    def accuracy(self) -> float:
        """The share of the validation labels that is predicted."""
        return float(self.right.double().mean())


@dataclass(frozen=True)
class RecipeChoice:
    """The recipe that was chosen, and what the validation labels say of all of them.

    Attributes:
        name: the chosen recipe, which predicts most validation labels; the first of them, if several do.
        trials: a :class:`Trial` for each recipe, in the order of training.
        delta: probability that the interval of any recipe misses its difference.
    """

    name: str
    trials: dict[str, Trial]
    delta: float

    @property
    def network(self) -> nn.Module:
        """The network of the chosen recipe, with the weights that were kept, in evaluation mode."""
        network = self.trials[self.name].network
        assert network is not None
        return network

    def difference(self, name: str) -> tuple[float, float, float]:
        """Return the share of labels that a recipe predicts, minus that of the chosen recipe, and the interval's ends.

        The interval is for labels like the validation labels, and nominal. The intervals of all recipes hold together
        with a probability of about 1 - :attr:`delta`, if the chosen recipe was named beforehand. It was not, so the
        intervals favour the chosen recipe a little.
        """
        right, others = self.trials[name].right, self.trials[self.name].right
        return paired_interval(right, others, self.delta / max(len(self.trials) - 1, 1))

    def __str__(self) -> str:
        """Return :meth:`table`, and below it :meth:`sentence`."""
        return f"{self.table()}\n{self.sentence()}"

    def table(self) -> str:
        """Return a line for each recipe: its share of labels predicted, less that of the chosen one, and its epochs."""
        width = max(len(name) for name in ("recipe", *self.trials))
        lines = [f"{'recipe':{width}} {'predicted':>9} {'against ' + self.name:>26} {'epochs':>6}"]
        for name, trial in self.trials.items():
            against = "" if name == self.name else "{:+.1%} ({:+.1%} to {:+.1%})".format(*self.difference(name))
            lines.append(f"{name:{width}} {trial.accuracy:>9.1%} {against:>26} {trial.epochs:>6}")
        return "\n".join(lines)

    def sentence(self) -> str:
        """Say which recipe is chosen, whether the labels leave open if another is better, and how training went."""
        parts = [f"{self.name} is chosen: no other recipe predicts more validation labels."]
        unknown = [name for name in self.trials if name != self.name and self.difference(name)[2] > 0]
        if unknown:
            n = len(self.trials[self.name].right)
            parts.append(f"These {n} labels cannot tell whether other recipes are better: {', '.join(unknown)}.")
        verdict = self.trials[self.name].verdict
        return " ".join([*parts, *([] if verdict is None else [str(verdict)])])


def choose_recipe(
    train: Train,
    num_rows: int,
    num_classes: int,
    *,
    recipes: Mapping[str, Recipe] | None = None,
    patience: int = PATIENCE,
    delta: float = 0.05,
) -> RecipeChoice:
    r"""Train with each of a few losses, and choose one by noisy validation labels.

    The recipe that predicts most validation labels is chosen. A few hundred noisy labels rarely show that this recipe
    is better, but on seven data sets this choice was in the mean within half a point of the best single recipe.

    Every training pauses once. Then each goes on to at least as many epochs as the longest had, since some losses stand
    still before they learn. So all trainings with their optimizers need memory at the same time. Each training keeps
    its own state of PyTorch's random generators. Of a training that is over, only the network that was kept remains.

    An interval says what n labels can tell. With b rows whose label only the other recipe predicts, and c rows whose
    label only the chosen recipe predicts, the interval is

    .. math:: \frac{b - c}{n + 2} \pm z \sqrt{\frac{p + q - (p - q)^2}{n + 2}}, \qquad
        p = \frac{b + 1}{n + 2}, \quad q = \frac{c + 1}{n + 2}.

    Args:
        train: a function of a criterion. It trains a new network, and yields a :class:`mgce.ModelKeeper` after each
            call of `end_epoch`. The criterion is called with logits, targets and the indices of the rows in the
            training set: see :class:`mgce.IndexedDataset`. All keepers see the same validation rows.
        num_rows: number of training rows.
        num_classes: number of classes.
        recipes: functions of `num_rows` and `num_classes` that return a loss, by name, in the order of training;
            :data:`RECIPES` if None.
        patience: a training pauses when this many epochs have not changed what is kept. When all have paused, it goes
            on to as many epochs as the longest of them, and until as many epochs have again changed nothing.
        delta: probability that an interval misses its difference, for all recipes together.

    Returns:
        The choice, with the network.

    Raises:
        TypeError: if a training yields something else than a keeper.
        ValueError: if there is no recipe, if a training yields no epoch, or if the validation sets differ.

    Example:
        >>> import torch
        >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> def train(criterion):
        ...     network = nn.Linear(2, 2)
        ...     _ = nn.init.zeros_(network.weight), nn.init.zeros_(network.bias)
        ...     optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
        ...     keeper = ModelKeeper(network, criterion)
        ...     for epoch in range(20):
        ...         logits = network(x[:200])
        ...         criterion(logits, y[:200], torch.arange(200)).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         keeper.step(logits, y[:200])
        ...         _ = keeper.end_epoch([(x[200:], y[200:])])
        ...         yield keeper
        >>> choice = choose_recipe(train, num_rows=200, num_classes=2, patience=3)
        >>> choice.name, choice.network
        ('MGCE 1.05', Linear(in_features=2, out_features=2, bias=True))

    Reference: Bonett and Price, Adjusted Wald confidence interval for a difference of binomial proportions based on
    paired data, Journal of Educational and Behavioral Statistics 2012.
    """
    recipes = dict(RECIPES if recipes is None else recipes)
    if not recipes:
        raise ValueError(expected("recipes", "at least one recipe", "none"))
    check_count("patience", patience)
    running = {name: _Running(train(criterion_of(make, num_rows, num_classes))) for name, make in recipes.items()}
    for one in running.values():
        one.advance(patience, 1)
    longest = max(len(one.keeper.epochs) for one in running.values())
    trials = {}
    for name in recipes:
        one = running.pop(name)  # what a training needed to go on is given free before the next one does
        one.advance(patience, longest)
        trials[name] = one.trial()
    if len({len(trial.right) for trial in trials.values()}) > 1:
        what = "keepers that all see the same validation rows"
        raise ValueError(expected("train", f"a function that yields {what}", "validation sets of unequal size"))
    return chosen(trials, delta)


def chosen(trials: dict[str, Trial], delta: float = 0.05) -> RecipeChoice:
    """Choose among recipes that were tried: see :func:`choose_recipe`."""
    return RecipeChoice(most_predicted((one.accuracy, name) for name, one in trials.items()), trials, delta)


def criterion_of(recipe: Recipe, num_rows: int, num_classes: int) -> nn.Module:
    """Return the loss of a recipe, which accepts the indices of rows as its third argument."""
    criterion = recipe(num_rows, num_classes)
    return criterion if isinstance(criterion, IndexedLoss) else AcceptsIndex(criterion)


class _Running:
    """A training that can pause; to go on, it restores the states of PyTorch's random generators at the pause."""

    def __init__(self, epochs: Iterable[ModelKeeper]) -> None:
        self.epochs: Iterator[ModelKeeper] = iter(epochs)
        self.last: ModelKeeper | None = None
        self.random: list[Tensor] = []

    @property
    def keeper(self) -> ModelKeeper:
        """The keeper that the training yielded last."""
        if self.last is None:
            raise ValueError(expected("train", "a function that yields a ModelKeeper after each epoch", "none"))
        return self.last

    def advance(self, patience: int, least: int) -> None:
        """Train at least `least` epochs in all, and on until nothing better was kept for `patience` epochs."""
        if self.random:
            set_random(self.random)
        while self.last is None or not is_over(len(self.last.epochs), self.last.kept_epoch, patience, least):
            keeper = next(self.epochs, None)
            if keeper is None:
                break
            if not isinstance(keeper, ModelKeeper):
                raise TypeError(expected("train", "a function that yields a ModelKeeper after each epoch", keeper))
            self.last = keeper
        self.random = random_states()

    def trial(self) -> Trial:
        """Return the :class:`Trial` of this training."""
        return Trial(self.keeper.kept_right, len(self.keeper.epochs), self.keeper.best(), self.keeper.verdict)


def is_over(epochs: int, kept_epoch: int, patience: int, least: int) -> bool:
    """Return whether a training pauses after `epochs` epochs, of which epoch `kept_epoch` is kept."""
    return epochs >= least and epochs - kept_epoch >= patience


def paired_interval(first: Tensor, second: Tensor, delta: float) -> tuple[float, float, float]:
    """Return the difference of two shares of the same rows, and an interval that misses with probability delta.

    Args:
        first: whether each of n rows counts for the first share, shape (n,), bool.
        second: whether each row counts for the second share, shape (n,), bool.
        delta: nominal probability.
    """
    n = len(first) + 2
    p, q = (int((one & ~other).sum()) + 1 for one, other in ((first, second), (second, first)))
    difference, disagreeing = (p - q) / n, (p + q) / n
    half = NormalDist().inv_cdf(1 - delta / 2) * ((disagreeing - difference**2) / n) ** 0.5
    return difference, max(-1.0, difference - half), min(1.0, difference + half)
